"""The index of cases has the same cases as pytest collects, and is rebuilt only after a change."""

import subprocess
from pathlib import Path

import pytest

from brokerproof.harness.cases import case_index
from brokerproof.harness.cases.case_index import IndexedCase
from brokerproof.harness.catalogue import requirements
from brokerproof.harness.catalogue.requirements import Catalogue

CASE = IndexedCase(
    "a.b[1.2]", "a.b", "a", "test_b", "1.2", ("X-1",), ("tls",), "", "s:1", ("MUST",)
)
OTHER = IndexedCase(
    "a.b[1.1]", "a.b", "a", "test_b", "1.1", ("X-2",), ("tls",), "", "s:1", ("MAY",)
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BROKERPROOF_CACHE", str(tmp_path))
    return tmp_path


def test_the_index_is_kept_until_a_source_changes(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    collected: list[int] = []

    def collect() -> list[IndexedCase]:
        collected.append(1)
        return [CASE]

    keys = ["one", "one", "two"]
    monkeypatch.setattr(case_index, "_collect", collect)
    monkeypatch.setattr(case_index, "_key", lambda: keys.pop(0))
    read: list[int] = []
    shipped = requirements.load()

    def catalogue() -> Catalogue:
        read.append(1)
        return shipped

    monkeypatch.setattr(requirements, "load", catalogue)
    indexes = [case_index.load() for _ in range(3)]
    assert [index.cases for index in indexes] == [[CASE]] * 3
    for index in indexes:
        assert index.catalogue.documents == shipped.documents
        assert list(index.catalogue.items()) == list(shipped.items())
    assert len(collected) == len(read) == 2
    assert {path.name for path in (cache / "cases").iterdir()} == {"one.json", "two.json"}


@pytest.mark.parametrize("text", ["", "[{}]", '{"a": 1}', "[1]", '{"cases": [], "catalogue": {}}'])
def test_a_damaged_index_is_made_again(
    monkeypatch: pytest.MonkeyPatch, cache: Path, text: str
) -> None:
    monkeypatch.setattr(case_index, "_collect", lambda: [CASE])
    monkeypatch.setattr(case_index, "_key", lambda: "one")
    (cache / "cases").mkdir()
    (cache / "cases" / "one.json").write_text(text)
    assert case_index.load().cases == [CASE]
    assert case_index._read(cache / "cases" / "one.json").cases == [CASE]


def test_without_a_cache_folder_it_still_answers(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setattr(case_index, "_collect", lambda: [CASE])
    (cache / "cases").write_text("no folder")
    assert case_index.load().cases == [CASE]


def test_a_change_of_a_source_changes_the_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for folder in ("suites/stomp", "harness", "fixtures/requirements"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "suites/stomp/test_a.py").write_text("a")
    monkeypatch.setattr(case_index, "suites_folder", lambda: tmp_path / "suites")
    keys = {case_index._key()}
    for changed in ("suites/stomp/test_b.py", "harness/x.py", "fixtures/requirements/x.toml"):
        (tmp_path / changed).write_text("more")
        keys.add(case_index._key())
    (tmp_path / "suites/units").mkdir()
    (tmp_path / "suites/units/test_c.py").write_text("no case")
    assert len(keys | {case_index._key()}) == 4


def test_suites_that_cannot_be_collected_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = subprocess.CompletedProcess([], 2, "1 error\nImportError: no module", "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(case_index.NoIndex, match="ImportError: no module"):
        case_index._collect()


def test_a_module_that_cannot_be_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_mine.py").write_text("raise TypeError('test_x: cites nothing')\n")
    whole = case_index.suites_folder() / "conversion"
    folders = {"conversion": whole, "mine": tmp_path}
    monkeypatch.setattr(case_index, "suite_folders", lambda: folders)
    with pytest.raises(
        case_index.NoIndex, match=r"test_mine\.py: TypeError: test_x: cites nothing"
    ):
        case_index._collect()


def test_a_package_in_the_current_folder_is_not_imported(tmp_path: Path) -> None:
    """The package is installed elsewhere, and the user's current folder is a checkout."""
    (tmp_path / "brokerproof").mkdir()
    (tmp_path / "brokerproof" / "__init__.py").write_text("raise ImportError('not this one')\n")
    suite = case_index.suites_folder() / "stomp" / "test_receipts.py"
    command = [*case_index.pytest_command(), "--collect-only", str(suite)]
    collected = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert collected.returncode == 0, collected.stdout + collected.stderr


def test_the_catalogue_sees_a_case_once() -> None:
    described = case_index.described([CASE, OTHER])
    assert list(described) == ["a.b"]
    assert described["a.b"].requirements == ("X-1", "X-2")
    assert described["a.b"].versions == ("1.2", "1.1")
