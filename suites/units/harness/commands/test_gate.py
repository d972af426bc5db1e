"""A run compared with a baseline: what counts as worse, and the exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerproof.harness.commands import errors, gate
from brokerproof.harness.commands.diff_inputs import open_side
from brokerproof.harness.model.finding import JudgedFinding
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.results import records, run_folder
from brokerproof.harness.results.records import Result


def result(case: str, target: str, verdict: Verdict) -> Result:
    seen = Seen.HELD if verdict is Verdict.PASS else Seen.VIOLATED
    finding = JudgedFinding("STOMP12-HB-07", seen, "seen", verdict=verdict)
    return Result(case, target, ("STOMP12-HB-07",), verdict, "seen", (finding,))


def run(folder: Path, *results: Result) -> Path:
    """A finished run with these results."""
    run_folder.create(folder, command=[], seed=1, effort="smoke")
    run_folder.add_cases(folder, {result.case: {} for result in results})
    for result in results:
        records.append(folder, result)
    run_folder.finish(folder, results, 0, [])
    return folder


@pytest.mark.parametrize(
    ("before", "now", "code"),
    [
        (Verdict.PASS, Verdict.PASS, 0),
        (Verdict.FAIL, Verdict.FAIL, 0),
        (Verdict.FAIL, Verdict.PASS, 0),
        (Verdict.PASS, Verdict.FAIL, 1),
        (Verdict.PASS, Verdict.KNOWN, 1),
        (Verdict.WARN, Verdict.KNOWN, 0),
        (Verdict.KNOWN, Verdict.FAIL, 0),
        (Verdict.PASS, Verdict.INCONCLUSIVE, 2),
    ],
)
def test_what_got_worse_decides(tmp_path: Path, before: Verdict, now: Verdict, code: int) -> None:
    baseline = run(tmp_path / "a", result("s.a", "artemis", before))
    later = run(tmp_path / "b", result("s.a", "artemis", now))
    gated = gate.compare_with(open_side("A", baseline), later)
    assert gate.decide(1, gated, "worse") == gate.decide(1, gated, None) == code
    assert gate.decide(1, gated, "fail") == 1
    assert gate.decide(1, gated, "never") == 0


def test_cases_that_this_run_was_not_asked_for_are_no_loss(tmp_path: Path) -> None:
    baseline = run(
        tmp_path / "a",
        result("s.a", "artemis", Verdict.PASS),
        result("s.b", "artemis", Verdict.PASS),
        result("s.a", "rabbitmq", Verdict.PASS),
    )
    later = run(tmp_path / "b", result("s.a", "artemis", Verdict.PASS))
    assert gate.compare_with(open_side("A", baseline), later).exit_code == 0


@pytest.mark.parametrize(
    ("before", "now"), [("artemis@2.50.0", "artemis"), ("old", "new"), ("h:1", "h:2")]
)
def test_another_release_is_the_same_target(tmp_path: Path, before: str, now: str) -> None:
    baseline = run(tmp_path / "a", result("s.a", before, Verdict.PASS))
    later = run(tmp_path / "b", result("s.a", now, Verdict.FAIL))
    gated = gate.compare_with(open_side("A", baseline), later)
    assert gated.renamed == {before: now}
    assert [change.case for change in gated.worse] == ["s.a"]


def test_two_targets_are_not_confused(tmp_path: Path) -> None:
    baseline = run(
        tmp_path / "a",
        result("s.a", "artemis", Verdict.PASS),
        result("s.a", "rabbitmq", Verdict.FAIL),
    )
    later = run(
        tmp_path / "b",
        result("s.a", "artemis@2.50.0", Verdict.FAIL),
        result("s.a", "rabbitmq", Verdict.FAIL),
    )
    gated = gate.compare_with(open_side("A", baseline), later)
    assert gated.renamed == {"artemis": "artemis@2.50.0"}
    assert len(gated.worse) == 1


def test_the_header_of_a_run_keeps_what_changed_the_worse_first(tmp_path: Path) -> None:
    baseline = run(
        tmp_path / "a",
        result("s.better", "artemis", Verdict.FAIL),
        result("s.same", "artemis", Verdict.PASS),
        result("s.worse", "artemis", Verdict.PASS),
    )
    later = run(
        tmp_path / "b",
        result("s.better", "artemis", Verdict.PASS),
        result("s.new", "artemis", Verdict.FAIL),
        result("s.same", "artemis", Verdict.PASS),
        result("s.worse", "artemis", Verdict.FAIL),
    )
    recorded = gate.compare_with(open_side("A", baseline), later).recorded()
    header = open_side("A", baseline).header
    assert (recorded["run"], recorded["started"]) == (header["run"], header["started"])
    assert recorded["counts"] == {"worse": 1, "undecided": 1, "better": 1, "same": 1}
    assert [(row["course"], row["case"], row["verdicts"]) for row in recorded["changes"]] == [
        ("WORSE", "s.worse", ["PASS", "FAIL"]),
        ("UNDECIDED", "s.new", [None, "FAIL"]),
        ("BETTER", "s.better", ["FAIL", "PASS"]),
    ]


def test_worse_needs_something_to_compare_with() -> None:
    with pytest.raises(errors.Usage, match="--fail-on worse needs --baseline"):
        gate.open_baseline(None, "worse")
    assert gate.open_baseline(None, "fail") is None
