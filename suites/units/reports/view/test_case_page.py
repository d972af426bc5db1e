"""The data of a case's page: ordered findings, the baseline, the stored counterexample, and the
second judge's verdicts."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from brokerproof.harness.catalogue.requirements import load
from brokerproof.harness.counterexamples import case_file
from brokerproof.reports.model.index_model import Again, CaseRow
from brokerproof.reports.model.requirements import Requirements
from brokerproof.reports.sources.runs import Run
from brokerproof.reports.view.case_page import CasePages
from brokerproof.reports.view.templates import templates

ROW = CaseRow("r", "t", "s.c", "FAIL", "", ("R",), 1, 0.0, "{}", drawn=("plan: the order",))
COUNTS = {"worse": 1, "undecided": 0, "better": 0, "same": 1}


def finding(requirement: str, verdict: str, seen: str = "HELD") -> dict[str, Any]:
    unknown = dict.fromkeys(("detail", "uncertain", "deviation_reason", "deviation_link"))
    return {"requirement": requirement, "verdict": verdict, "seen": seen, **unknown}


def data(folder: Path, row: CaseRow = ROW, **header: Any) -> dict[str, Any]:
    pages = CasePages(Requirements(load().values()), [Run(folder, "r", header)], ())
    findings = [finding("A", "PASS"), finding("B", "WARN", "VIOLATED"), finding("C", "FAIL")]
    return pages.data(row, findings, [], 3, failing=2)


def baseline(*changes: dict[str, Any], counts: dict[str, int] = COUNTS) -> dict[str, Any]:
    return {
        "run": "before",
        "started": "2026-11-20T10:00:00+00:00",
        "counts": counts,
        "changes": list(changes),
    }


def changed(case: str, before: str | None) -> dict[str, Any]:
    return {"course": "WORSE", "target": "t", "case": case, "verdicts": [before, "FAIL"]}


def test_findings_are_listed_by_verdict(tmp_path: Path) -> None:
    found = data(tmp_path)
    assert [shown[0] for shown in found["findings"]] == ["C", "B", "A"]
    assert (found["failing"], found["arguments"]) == (2, ["plan: the order"])


@pytest.mark.parametrize(
    ("recorded", "before"),
    [
        (baseline(changed("s.c", "PASS")), "PASS"),
        (baseline(changed("s.c", None)), ""),
        (baseline(changed("s.other", "PASS")), "FAIL"),
        # The header keeps only the first changes, and this case may be one of the others.
        (baseline(changed("s.other", "PASS"), counts={**COUNTS, "worse": 9}), None),
        ({"run": "before"}, None),
    ],
)
def test_a_page_has_the_verdict_of_the_baseline(
    tmp_path: Path, recorded: dict[str, Any], before: str | None
) -> None:
    found = data(tmp_path, baseline=recorded).get("baseline")
    assert found == (None if before is None else ["before", "2026-11-20T10:00:00+00:00", before])


def test_a_case_that_passed_has_none_of_it(tmp_path: Path) -> None:
    found = data(tmp_path, replace(ROW, verdict="PASS"), baseline=baseline(changed("s.c", "FAIL")))
    assert not {"baseline", "arguments", "counterexample"} & found.keys()


def test_a_kept_counterexample_says_which_example_it_is(tmp_path: Path) -> None:
    path = case_file.path_of(tmp_path, "t", "s.c")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"drawn": "n=1", "detail": "too many"}) + "\n", "utf-8")
    assert data(tmp_path)["counterexample"] == ["n=1", "too many"]
    path.write_text("no JSON\n", "utf-8")
    assert data(tmp_path)["counterexample"] == []


def test_an_irregularity_that_contradicts_links_to_its_example_and_says_what_it_means() -> None:
    anomaly = {
        "run": "r",
        "target": "t",
        "case": "s.c",
        "verdict": "PASS",
        "page": "case.html#case=s.c&target=t",
        "example": 7,
        "kind": "shared",
        "requirement": "R",
        "uncertain": False,
        "what": "was delivered twice",
    }

    class Shown:
        runs = ("r",)
        again = Again([anomaly], 1, 1)

    text = (
        templates()
        .from_string(
            '{% from "macros.j2" import badge with context %}{% include "again.html.j2" %}'
        )
        .render(model=Shown)
    )
    assert 'href="case.html#case=s.c&amp;target=t"' in text
    assert "example 7" in text
    assert "found 1 irregularity" in text
    assert "doubt on brokerproof and is not a verdict on the broker" in text
