"""The documents name files that exist."""

import pkgutil
import re
from pathlib import PurePosixPath

import pytest

from brokerproof.suites.repo.sources import PACKAGES, ROOT, texts

DOCUMENTS = sorted(
    path for path in texts() if path.endswith(".md") and path not in ("CHANGELOG.md",)
)
NAMED = re.compile(rf"(?<![\w/.])(?:{'|'.join((*PACKAGES, 'benchmarks', 'docs'))})/[\w./-]*[\w/]")


def named(text: str) -> list[str]:
    """Return the paths below our folders that ``text`` names, except patterns."""
    return [
        match.group()
        for match in NAMED.finditer(text)
        if text[match.end() : match.end() + 1] not in ("*", "<", "{", "N", "…")
    ]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_names_files_that_exist(document: str) -> None:
    missing = sorted({path for path in named(texts()[document]) if not (ROOT / path).exists()})
    assert not missing, f"{document} names {', '.join(missing)}: no such file"


def test_a_stale_path_is_seen() -> None:
    assert named("see `harness/words.py` and `fixtures/brokers/*/x.toml`") == ["harness/words.py"]


TEMPLATES = ("fixtures/suite_template/README.md",)
"""Documents about files that users write."""
FILE = re.compile(r"`([\w/*-]*[\w*]\.py)`")


def unknown_files(text: str) -> list[str]:
    """Return the Python files in backquotes that are not the end of any path in the repository.
    This includes patterns with a folder and names without one."""
    paths = [PurePosixPath("/", path) for path in texts()]
    return [
        name
        for name in sorted(set(FILE.findall(text)))
        if ("/" in name or "*" not in name) and not any(path.match(name) for path in paths)
    ]


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if name not in TEMPLATES])
def test_a_document_names_modules_that_exist(document: str) -> None:
    unknown = unknown_files(texts()[document])
    assert not unknown, f"{document} names {', '.join(unknown)}: no such file"


def test_a_module_that_was_renamed_is_seen() -> None:
    text = "`extent.py`, `codec.py`, `persistence/codec.py`, `harness/wire/core*.py`, `stomp/*.py`"
    assert unknown_files(text) == ["extent.py", "harness/wire/core*.py"]


ROLE = re.compile(r":(?:class|mod|func|meth|data|attr):`~?(brokerproof(?:\.\w+)+)`")
MODULES = sorted(path for path in texts() if path.endswith(".py"))


def unknown_objects(text: str) -> list[str]:
    """Return this project's objects that docstrings in ``text`` refer to but that do not exist."""
    unknown = []
    for name in sorted(set(ROLE.findall(text))):
        owner, _, attribute = name.rpartition(".")
        try:
            found = pkgutil.resolve_name(owner)
            known = hasattr(found, attribute) or attribute in found.__annotations__
            if not known:
                pkgutil.resolve_name(name)  # a module that is not imported yet
        except (ImportError, AttributeError):
            unknown.append(name)
    return unknown


def test_docstrings_refer_to_objects_that_exist() -> None:
    referring = ((path, unknown_objects(texts()[path])) for path in MODULES)
    wrong = [f"{path}: {', '.join(unknown)}" for path, unknown in referring if unknown]
    assert not wrong, "; ".join(wrong)


def test_an_object_that_was_renamed_is_seen() -> None:
    role = ":class:`brokerproof.harness.model."
    expected = ["brokerproof.harness.model.Write"]
    assert unknown_objects(f"{role}enums.Outcome` and {role}Write`") == expected


TESTS = re.compile(r"(suites/[\w/]+\.py)::(test_\w+)")


def missing_tests(text: str) -> list[str]:
    """Return the tests that ``text`` names but that do not exist."""
    return [
        f"{path}::{name}"
        for path, name in TESTS.findall(text)
        if f"\ndef {name}(" not in (ROOT / path).read_text("utf-8")
    ]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_names_tests_that_exist(document: str) -> None:
    missing = missing_tests(texts()[document])
    assert not missing, f"{document} names {', '.join(missing)}: no such test"


def test_a_test_that_was_renamed_is_seen() -> None:
    names = ("test_a_stale_path_is_seen", "test_of_former_days")
    text = " ".join(f"suites/repo/test_docs.py::{name}" for name in names)
    assert missing_tests(text) == ["suites/repo/test_docs.py::test_of_former_days"]


UNNAMED_FACTS = {
    "docs/explanation/activemq.md": 0,
    "docs/explanation/artemis.md": 1,
    "docs/explanation/brokers.md": 3,
    "docs/explanation/rabbitmq.md": 0,
}
"""The number of bold facts about real brokers that name no case and no requirement yet: a wait that
broker.xml shortens, and four about Proton's example brokers. It may only shrink."""
CASE = re.compile(r"^def test_(\w+)\(", re.MULTILINE)
REQUIREMENT = re.compile(r"[A-Z0-9]+(-[A-Za-z0-9]+)*-[0-9]+")


def unnamed_facts(text: str, cases: set[str]) -> list[str]:
    """Return the list items and table rows of ``text`` that state a fact in bold but name neither a
    case nor a requirement."""
    items = re.split(r"\n(?=[*|-] |\| |\n|#)", text)
    return [
        item.strip()
        for item in items
        if "**" in item
        and not any(
            REQUIREMENT.fullmatch(name) or name.rpartition(".")[2] in cases
            for name in re.findall(r"`([^`\n]+)`", item)
        )
    ]


def _cases() -> set[str]:
    return {
        name
        for path in (ROOT / "suites").glob("*/test_*.py")
        for name in CASE.findall(path.read_text())
    }


@pytest.mark.parametrize("document", UNNAMED_FACTS)
def test_a_surprising_fact_names_its_case(document: str) -> None:
    unnamed = unnamed_facts((ROOT / document).read_text(), _cases())
    count = UNNAMED_FACTS[document]
    assert len(unnamed) <= count, (
        f"{document}: {unnamed[-1]!r} is a surprising fact; name the case or requirement that"
        " judges it, in backquotes"
    )
    assert len(unnamed) == count, f"{document}: lower its number in UNNAMED_FACTS to {len(unnamed)}"


def test_a_fact_without_a_case_is_noticed() -> None:
    text = "* **Lost** (`a_case`).\n* **Kept**.\n| **doubled** | `STOMP12-SUB-02` |\n* plain\n"
    assert unnamed_facts(text, {"a_case"}) == ["* **Kept**."]
