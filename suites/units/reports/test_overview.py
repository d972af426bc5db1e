"""The causes on a report's first screen say how certain they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from brokerproof.harness.model.finding import JudgedFinding
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.results.records import Result, append
from brokerproof.reports.index_model import Bar, Column
from brokerproof.reports.overview import CauseLine, overview
from brokerproof.reports.requirements import Requirements
from brokerproof.reports.runs import Run

CANARY = {"canary": {"t": {"p99_ns": 12_000_000, "worst_ns": 1_430_000_000}}}


def cause(folder: Path, verdict: Verdict, **header: Any) -> CauseLine:
    """The cause that the report of one result with ``verdict`` shows."""
    finding = JudgedFinding("R-1", Seen.VIOLATED, "closed late", verdict=verdict)
    append(folder, Result("suite.case", "t", ("R-1",), verdict, "closed late", (finding,)))
    run = Run(folder, "r", header)
    bar = Bar(Column("r", "t", "t"), ((verdict.value, 1),), 1.0)
    (line,) = overview([run], [bar], [], [], Requirements([])).causes
    return line


def test_a_failure_in_real_time_was_repeated_on_a_host_of_known_lateness(tmp_path: Path) -> None:
    line = cause(tmp_path, Verdict.FAIL, targets=[{"name": "t", "clock": "REAL"}], host=CANARY)
    assert line.certainty == (
        "seen again when the case was repeated; this host was late by up to 12 ms in 99 of 100"
        " measurements, 1.43 s at most"
    )


@pytest.mark.parametrize(
    ("verdict", "targets", "certainty"),
    [
        (Verdict.FAIL, [{"name": "t", "clock": "REAL"}], "seen again when the case was repeated"),
        (
            Verdict.FAIL,
            [{"name": "t", "clock": "VIRTUAL"}],
            "seen in virtual time, where every run with this seed is the same",
        ),
        (Verdict.FAIL, [{"name": "t"}], ""),
        (Verdict.ERROR, [{"name": "t", "clock": "REAL"}], ""),
    ],
    ids=["no canary", "virtual", "no clock", "an error of ours"],
)
def test_no_more_is_said_than_the_run_recorded(
    tmp_path: Path, verdict: Verdict, targets: list[dict[str, str]], certainty: str
) -> None:
    assert cause(tmp_path, verdict, targets=targets).certainty == certainty
