"""ctrf.json: which run a test is of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from brokerproof.reports.exports import ctrf
from brokerproof.reports.model.index_model import CaseRow
from brokerproof.reports.sources.runs import Run


def written(folder: Path, *names: str) -> Any:
    """Return the results of a report on runs of these names, each with one case."""
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
