"""A family's listed deviations hide no other violations."""

from dataclasses import replace

from hypothesis import strategies as st

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import Over
from brokerproof.harness.cases.execution import execute
from brokerproof.harness.catalogue.deviations import Deviation
from brokerproof.harness.model.finding import ListedDeviation
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.targets.target import Target
from brokerproof.suites.units.drivers.executed_case import (
    MUST,
    OTHER_MUST,
    SHOULD,
    RealTimeTwin,
    made,
    run_of,
    verdicts,
)


def listed(requirement: str, expected: str) -> Deviation:
    return Deviation(
        "units.*",
        requirement,
        "",
        expected,
        expected,
        "on purpose",
        "https://example.invalid",
        "here:1",
    )


def test_a_known_deviation_may_explain_a_failed_control_and_nothing_else(reference: Target) -> None:
    def lost(target: Bench) -> None:
        target.control(False, "the message never arrived")

    def half(target: Bench) -> None:
        target.record_finding(MUST, True, "so far")
        lost(target)

    def judged(target: Bench) -> None:
        target.record_finding(MUST, False, "the message never arrived")
        target.control(False, "the message never arrived")

    known = Deviation(
        "units.*",
        "",
        "",
        "control failed: the message never arrived",
        "control failed: the message never arrived",
        "it is lost",
        "https://here",
        "x:1",
        control=True,
    )
    found = execute(run_of(reference, deviations=(known,)), made(lost, MUST))
    assert (found.verdict, found.attempts) == (Verdict.KNOWN, 1)
    assert found.detail == "control failed: the message never arrived (known: it is lost)"
    found = execute(run_of(reference, deviations=(known,)), made(half, MUST))
    (finding,) = found.findings
    assert finding.seen is Seen.NEVER_REACHED  # otherwise the list would seem out of date
    assert finding.verdict is Verdict.KNOWN
    assert finding.deviation == known.listed
    assert (
        execute(run_of(reference, deviations=(known,)), made(judged, MUST)).verdict is Verdict.FAIL
    )
    for other in (
        replace(known, control=False),
        replace(known, expected="another"),
        replace(known, case="else.*"),
    ):
        assert (
            execute(run_of(reference, deviations=(other,)), made(lost, MUST)).verdict
            is Verdict.INCONCLUSIVE
        )


def test_an_expected_deviation_is_known_and_another_is_not(reference: Target) -> None:
    def bad(target: Bench) -> None:
        target.record_finding(MUST, False, "no receipt arrived")

    call = made(bad, MUST)
    for expected, verdict in (
        ("no receipt arrived", Verdict.KNOWN),
        ("no receipt", Verdict.FAIL),
        ("two receipts arrived", Verdict.FAIL),
    ):
        deviations = (listed(MUST, expected),)
        assert execute(run_of(reference, deviations=deviations), call).verdict is verdict


def test_what_a_case_that_ended_at_a_known_deviation_never_reached_is_a_skip(
    reference: Target,
) -> None:
    def function(target: Bench) -> None:
        target.require(MUST, False, "gone")

    case = made(function, MUST, OTHER_MUST)
    found = execute(run_of(reference, deviations=(listed(MUST, "gone"),)), case)
    assert found.verdict is Verdict.KNOWN
    assert verdicts(found) == {MUST: "KNOWN", OTHER_MUST: "SKIP"}
    found = execute(run_of(reference), case)
    assert verdicts(found) == {MUST: "FAIL", OTHER_MUST: "INCONCLUSIVE"}


def test_a_listed_deviation_beside_a_new_violation_is_known_and_the_new_one_fails(
    reference: Target,
) -> None:
    def bad(target: Bench) -> None:
        target.record_finding(MUST, False, "no receipt arrived")
        target.record_finding(OTHER_MUST, False, "the header is missing")

    run = run_of(reference, deviations=(listed(MUST, "no receipt arrived"),))
    found = execute(run, made(bad, MUST, OTHER_MUST))
    assert verdicts(found) == {MUST: "KNOWN", OTHER_MUST: "FAIL"}
    assert (found.verdict, found.detail) == (Verdict.FAIL, f"{OTHER_MUST}: the header is missing")
    assert [finding.deviation for finding in found.findings] == [
        ListedDeviation("units.*", MUST, "on purpose", "https://example.invalid"),
        None,
    ]


def test_a_listed_violation_hides_no_other_of_its_requirement(reference: Target) -> None:
    def bad(target: Bench) -> None:
        target.record_finding(MUST, False, "no receipt arrived")
        target.record_finding(MUST, False, "two receipts arrived")
        target.record_finding(MUST, False, "three receipts arrived")

    run = run_of(reference, deviations=(listed(MUST, "no receipt arrived"),))
    found = execute(run, made(bad, MUST))
    assert (found.verdict, found.detail) == (Verdict.FAIL, f"{MUST}: two receipts arrived")
    both = (*run.deviations, listed(MUST, "(two|three) receipts arrived"))
    assert execute(replace(run, deviations=both), made(bad, MUST)).verdict is Verdict.KNOWN


def test_a_listed_example_hides_no_other_and_confirms_none(reference: Target) -> None:
    """In real time the examples run concurrently; only the failed one is run again."""
    runs: list[int] = []

    def bad(target: Bench, number: int) -> None:
        runs.append(number)
        target.record_finding(MUST, number == 0, f"{number} receipts arrived")

    corners = Over(
        {"number": st.just(0)}, 1, always=lambda target: [{"number": n} for n in (3, 1, 2)]
    )
    run = run_of(RealTimeTwin(reference), deviations=(listed(MUST, "[13] receipts arrived"),))
    found = execute(run, made(bad, MUST, over=corners))
    assert (found.verdict, found.detail) == (Verdict.FAIL, f"{MUST}: 2 receipts arrived")
    assert runs[-1] == 2


def test_an_unlisted_should_beside_a_listed_must_stays_a_warning(reference: Target) -> None:
    def bad(target: Bench) -> None:
        target.record_finding(MUST, False, "no receipt arrived")
        target.record_finding(SHOULD, False, "no message header")

    run = run_of(reference, deviations=(listed(MUST, "no receipt arrived"),))
    found = execute(run, made(bad, MUST, SHOULD))
    assert verdicts(found) == {MUST: "KNOWN", SHOULD: "WARN"}
    assert found.verdict == Verdict.KNOWN
    assert found.detail == f"{MUST}: no receipt arrived (known: on purpose)"
