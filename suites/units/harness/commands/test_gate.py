"""A run compared with a baseline: what counts as worse, and the exit code."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from brokerproof.harness.commands import errors, gate, summary
from brokerproof.harness.commands.diff_inputs import open_side
from brokerproof.harness.commands.run import run as run_command
from brokerproof.harness.model.finding import JudgedFinding
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.results import records, run_folder
from brokerproof.harness.results.records import Result


def result(case: str, target: str, verdict: Verdict) -> Result:
    seen = Seen.HELD if verdict is Verdict.PASS else Seen.VIOLATED
    finding = JudgedFinding("STOMP12-HB-07", seen, "seen", verdict=verdict)
    return Result(case, target, ("STOMP12-HB-07",), verdict, "seen", (finding,))


def run(folder: Path, *results: Result) -> Path:
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


@pytest.mark.parametrize(
    ("rule", "verdict", "requirement", "code"),
    [
        ("impact=loss,disconnect", Verdict.FAIL, "STOMP12-HB-07", 1),
        ("impact=loss,stall", Verdict.FAIL, "STOMP12-HB-07", 0),
        ("impact=loss,stall", Verdict.FAIL, "ACME-1", 1),  # its impact is unknown
        ("impact=disconnect", Verdict.KNOWN, "STOMP12-HB-07", 0),
        ("impact=loss", Verdict.INCONCLUSIVE, "STOMP12-HB-07", 2),
        ("impact=loss", Verdict.ERROR, "STOMP12-HB-07", 5),
    ],
)
def test_only_chosen_impacts_fail_a_run(
    rule: str, verdict: Verdict, requirement: str, code: int
) -> None:
    finding = JudgedFinding(requirement, Seen.VIOLATED, verdict=verdict)
    results = [Result("s.a", "artemis", (), verdict, "", (finding,))]
    assert gate.decide(1, None, rule, results) == code


@pytest.mark.parametrize("rule", ["impact=los", "impact", "impact=", "sometimes"])
def test_an_unknown_rule_is_refused(rule: str) -> None:
    refused = CliRunner().invoke(run_command, ["--fail-on", rule])
    assert "loss,security,duplicate" in refused.output


def unmet(case: str, requirement: str, observed: str) -> Result:
    finding = JudgedFinding(requirement, Seen.UNMET, observed, verdict=Verdict.INCONCLUSIVE)
    return Result(case, "artemis", (requirement,), Verdict.INCONCLUSIVE, observed, (finding,))


def test_a_lost_service_fails_the_gate_and_is_named_once(tmp_path: Path) -> None:
    cases = ["s.a", "s.b", "s.c", "s.kept"]
    baseline = run(tmp_path / "a", *(result(case, "artemis", Verdict.PASS) for case in cases))
    lost = "precondition not met: expected RECEIPT within {} s, got ERROR"
    later = run(
        tmp_path / "b",
        unmet("s.a", "STOMP12-HB-07", lost.format(1)),
        unmet("s.b", "STOMP12-ACK-01", lost.format(5)),
        unmet("s.c", "STOMP12-SEND-01", "precondition not met: no topic"),
        result("s.kept", "artemis", Verdict.PASS),
    )
    gated = gate.compare_with(open_side("A", baseline), later)
    assert gated.exit_code == 1
    assert gated.recorded()["lost"] == [
        {"target": "artemis", "observed": lost.format(1), "cases": 2},
        {"target": "artemis", "observed": "precondition not met: no topic", "cases": 1},
    ]
    printed = [line.plain for line in summary.compared(gated, 200)]
    assert printed[1:3] == [
        f"  artemis no longer offers a service that 2 cases rely on: {lost.format(1)}",
        "  artemis no longer offers a service that 1 case relies on: precondition not met:"
        " no topic",
    ]


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
    assert recorded["run"] == open_side("A", baseline).header["run"]
    assert {key: recorded[key] for key in ("started", "seed", "brokerproof")} == {
        key: open_side("A", baseline).header[key] for key in ("started", "seed", "brokerproof")
    }
    assert recorded["counts"] == {"worse": 1, "undecided": 1, "better": 1, "late": 0, "same": 1}
    assert [(row["course"], row["case"], row["verdicts"]) for row in recorded["changes"]] == [
        ("WORSE", "s.worse", ["PASS", "FAIL"]),
        ("UNDECIDED", "s.new", [None, "FAIL"]),
        ("BETTER", "s.better", ["FAIL", "PASS"]),
    ]


def test_the_header_of_a_run_keeps_the_brokers_of_its_baseline(tmp_path: Path) -> None:
    target = {"name": "artemis@2.40.0", "broker": "Artemis", "version": "2.40.0", "kind": "remote"}
    baseline = run(tmp_path / "a", result("s.a", "artemis@2.40.0", Verdict.PASS))
    run_folder.write_header_field(baseline, "targets", [target])
    later = run(tmp_path / "b", result("s.a", "artemis", Verdict.PASS))
    recorded = gate.compare_with(open_side("A", baseline), later).recorded()
    assert recorded["targets"] == [{"name": "artemis", "broker": "Artemis", "version": "2.40.0"}]


def test_worse_needs_something_to_compare_with() -> None:
    with pytest.raises(errors.Usage, match="--fail-on worse needs --baseline"):
        gate.open_baseline(None, "worse")
    assert gate.open_baseline(None, "fail") is None
