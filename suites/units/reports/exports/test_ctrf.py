"""ctrf.json: the run to which a test belongs."""

import json
from pathlib import Path
from typing import Any

from brokerproof.reports.exports import ctrf, junit
from brokerproof.reports.model.index_model import Bar, CaseRow, Column
from brokerproof.reports.sources.runs import Run


def written(folder: Path, *names: str) -> Any:
    runs = [Run(folder, name, {}) for name in names]
    rows = [CaseRow(name, "t", "a.case", "PASS", "", ("R-1",), 1, 0.25, "") for name in names]
    ctrf.write(folder / "ctrf.json", runs, [], rows)
    return json.loads((folder / "ctrf.json").read_text())["results"]


def test_a_test_names_its_run_where_there_are_several(tmp_path: Path) -> None:
    results = written(tmp_path, "old", "new")
    assert results["summary"]["extra"]["runs"] == ["old", "new"]
    assert [test["extra"] for test in results["tests"]] == [{"run": "old"}, {"run": "new"}]


def test_of_one_run_the_summary_says_it_once(tmp_path: Path) -> None:
    results = written(tmp_path, "only")
    assert results["summary"]["extra"]["runs"] == ["only"]
    assert [test.get("extra") for test in results["tests"]] == [None]


def test_a_test_is_named_by_title_and_id(tmp_path: Path) -> None:
    row = CaseRow("r", "t", "a.case", "FAIL", "", ("R-1",), 1, 0.25, "", doc="One\nwaits. Two go.")
    bar = Bar(Column("r", "t", "t"), (("FAIL", 1),), 0.25)
    ctrf.write(tmp_path / "ctrf.json", [], [bar], [row])
    assert '"name":"One waits · a.case"' in (tmp_path / "ctrf.json").read_text("utf-8")
    junit.write(tmp_path / "junit.xml", [bar], [row], {})
    assert '<testcase name="One waits · a.case"' in (tmp_path / "junit.xml").read_text("utf-8")
