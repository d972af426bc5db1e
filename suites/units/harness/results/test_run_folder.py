"""The run folder: header and footer, resuming, and messages about other folders."""

import json
from pathlib import Path

import pytest

from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import run_folder
from brokerproof.harness.results.records import Result
from brokerproof.harness.results.run_folder import BadRunFolder


def begun(folder: Path) -> Path:
    run_folder.create(folder, command=["brokerproof", "run"], seed=5, effort="smoke")
    return folder


def test_a_run_has_a_footer_only_when_it_has_finished(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    assert "footer" not in run_folder.read(folder)
    results = [
        Result("c", "t", ("R",), Verdict.PASS, ""),
        Result("d", "t", ("R",), Verdict.FAIL, ""),
    ]
    run_folder.finish(folder, results, 1, ["a note"])
    header = run_folder.read(folder)
    assert (header["run"], header["seed"], header["effort"]) == ("run", 5, "smoke")
    assert header["footer"]["verdicts"] == {"FAIL": 1, "PASS": 1}
    assert header["footer"]["exit_code"] == 1


def test_a_finished_run_can_be_gone_on_with(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    run_folder.finish(folder, [], 2, [])
    assert run_folder.reopen(folder)["seed"] == 5
    assert "footer" not in run_folder.read(folder)


def test_a_folder_with_a_run_is_not_used_again(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    with pytest.raises(BadRunFolder, match="already holds a run; name another folder with --out"):
        begun(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"run": "x"}'])
def test_a_header_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(BadRunFolder, match=r"run.json: is not the header of a run"):
        run_folder.read(tmp_path)


def test_a_run_of_another_event_table_is_refused(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    header = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(header | {"fingerprint": "other"}))
    with pytest.raises(BadRunFolder, match="another trace format"):
        run_folder.read(folder)


def test_no_folder_and_a_file_in_its_place_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadRunFolder, match="should be a run folder"):
        run_folder.read(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(BadRunFolder, match="cannot be written"):
        begun(tmp_path / "file")


def test_cases_add_up_over_targets(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    run_folder.add_cases(folder, {"a": {"doc": "A"}})
    run_folder.add_cases(folder, {"b": {"doc": "B"}})
    assert run_folder.cases_of(folder) == {"a": {"doc": "A"}, "b": {"doc": "B"}}
    run_folder.add_cases(folder, {"b": {"doc": "B"}, "c": {"doc": "C"}}, "pika")
    run_folder.add_cases(folder, {"b": {"doc": "B"}}, "rhea")
    assert run_folder.cases_for(folder, "pika") == {"a", "b", "c"}
    assert run_folder.cases_for(folder, "rhea") == {"a", "b"}
