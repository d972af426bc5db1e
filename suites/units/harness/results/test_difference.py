"""Differences between two runs: how a case changed, and when this is undecided."""

import itertools
from dataclasses import replace

import pytest

from brokerproof.harness.model.finding import JudgedFinding, ListedDeviation, Measurement
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.results import records
from brokerproof.harness.results.difference import Course, Kind, compare, course, exit_code, shifts
from brokerproof.harness.results.records import LatestResult, Result, last_of_each

V = Verdict
HELD = JudgedFinding("MUST-1", Seen.HELD, verdict=Verdict.PASS)
BROKEN = JudgedFinding("MUST-1", Seen.VIOLATED, verdict=Verdict.FAIL)


def told(
    case: str,
    verdict: Verdict,
    *,
    target: str = "t",
    attempts: int = 1,
    earlier: tuple[Verdict, ...] = (),
) -> LatestResult:
    return LatestResult(
        Result(case, target, (), verdict, f"{verdict} of {case}", attempts=attempts), earlier
    )


def judged(
    case: str, verdict: Verdict, *findings: JudgedFinding, target: str = "t"
) -> LatestResult:
    return LatestResult(
        Result(
            case, target, tuple(finding.requirement for finding in findings), verdict, "", findings
        )
    )


@pytest.mark.parametrize(
    ("a", "b", "went"),
    [
        (V.PASS, V.FAIL, Course.WORSE),
        (V.FAIL, V.PASS, Course.BETTER),
        (V.PASS, V.WARN, Course.WORSE),
        (V.KNOWN, V.FAIL, Course.WORSE),
        (V.FAIL, V.KNOWN, Course.BETTER),
        (V.PASS, V.ERROR, Course.WORSE),
        (V.FAIL, V.ERROR, Course.WORSE),
        (V.ERROR, V.PASS, Course.BETTER),
        (V.ERROR, V.FAIL, Course.UNDECIDED),
        (V.ERROR, V.SKIP, Course.UNDECIDED),
        (V.PASS, V.SKIP, Course.WORSE),
        (V.SKIP, V.PASS, Course.BETTER),
        (V.PASS, V.PASS, Course.SAME),
        (V.INCONCLUSIVE, V.INCONCLUSIVE, Course.SAME),
        (None, V.PASS, Course.SAME),
        (None, V.SKIP, Course.SAME),
        (None, V.FAIL, Course.UNDECIDED),
        (None, V.WARN, Course.UNDECIDED),
        (V.PASS, None, Course.UNDECIDED),
        (V.FAIL, None, Course.UNDECIDED),
        (V.SKIP, None, Course.SAME),
        (V.ERROR, None, Course.SAME),
    ],
)
def test_which_way_a_case_went(a: Verdict | None, b: Verdict | None, went: Course) -> None:
    assert course(a, b) is went


@pytest.mark.parametrize("other", [verdict for verdict in Verdict if verdict is not V.INCONCLUSIVE])
def test_to_or_from_inconclusive_is_undecided(other: Verdict) -> None:
    assert course(V.INCONCLUSIVE, other) is course(other, V.INCONCLUSIVE) is Course.UNDECIDED


def test_what_is_worse_one_way_is_never_worse_the_other_way() -> None:
    for a, b in itertools.product(Verdict, repeat=2):
        assert {course(a, b), course(b, a)} != {Course.WORSE}
        assert (course(a, b) is Course.SAME) is (a is b)


def test_between_two_brokers_a_missing_capability_is_not_worse() -> None:
    assert (
        course(V.PASS, V.SKIP, across=True)
        is course(V.SKIP, V.FAIL, across=True)
        is Course.UNDECIDED
    )
    assert course(V.PASS, V.FAIL, across=True) is Course.WORSE
    assert (
        course(V.SKIP, V.PASS, across=True) is course(V.SKIP, V.KNOWN, across=True) is Course.SAME
    )


@pytest.mark.parametrize(("sometimes", "went"), [(True, Course.SAME), (False, Course.WORSE)])
def test_a_listed_race_that_shows_on_one_side_is_no_change(sometimes: bool, went: Course) -> None:
    listed = ListedDeviation("c*", "MUST-1", "It does.", "", sometimes)
    shown = JudgedFinding("MUST-1", Seen.VIOLATED, verdict=V.KNOWN, deviation=listed)
    a, b = [judged("c", V.PASS, HELD)], [judged("c", V.KNOWN, shown)]
    assert [found.course for found in compare(a, b)] == [went]
    assert [found.course for found in shifts(compare(a, b))] == ([] if sometimes else [went])
    worse = judged("c", V.FAIL, shown, JudgedFinding("MUST-1", Seen.VIOLATED, verdict=V.FAIL))
    assert [found.course for found in compare(a, [worse])] == [Course.WORSE]
    assert [found.course for found in shifts(compare(a, [worse]))] == [Course.WORSE]


UNMET = JudgedFinding("MUST-1", Seen.UNMET, verdict=V.INCONCLUSIVE)
SKIPPED = JudgedFinding("MUST-1", Seen.NEVER_REACHED, verdict=V.SKIP)
EXCUSED = JudgedFinding("MUST-1", Seen.NEVER_REACHED, verdict=V.KNOWN)
OPEN = JudgedFinding("MUST-1", Seen.NEVER_REACHED, verdict=V.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("a", "b", "went"),
    [
        (HELD, UNMET, Course.WORSE),
        (BROKEN, UNMET, Course.WORSE),
        (SKIPPED, UNMET, Course.UNDECIDED),
        (EXCUSED, UNMET, Course.UNDECIDED),
        (OPEN, UNMET, Course.SAME),
        (UNMET, UNMET, Course.SAME),
        (HELD, OPEN, Course.UNDECIDED),
        (UNMET, HELD, Course.UNDECIDED),
    ],
)
def test_the_loss_of_a_precondition_that_was_met_is_worse(
    a: JudgedFinding, b: JudgedFinding, went: Course
) -> None:
    (found,) = compare([judged("c", a.verdict, a)], [judged("c", b.verdict, b)])
    assert found.course is went
    assert found.lost_service is (went is Course.WORSE)


def test_between_two_brokers_nothing_is_lost() -> None:
    kept, refused = [judged("c", V.PASS, HELD)], [judged("c", V.INCONCLUSIVE, UNMET)]
    (found,) = compare(kept, refused, across=True)
    assert (found.course, found.lost_service) == (Course.UNDECIDED, False)
    (found,) = compare(refused, kept, across=True)
    assert found.course is Course.SAME


@pytest.mark.parametrize("other", [V.PASS, V.KNOWN, V.WARN, V.FAIL, V.ERROR])
@pytest.mark.parametrize("late_ns", [records.LATE_HOST, records.LATE_HOST - 1])
def test_a_case_that_a_late_host_left_open_is_no_change(other: Verdict, late_ns: int) -> None:
    lateness = {records.HOST_LATENESS: Measurement(late_ns, "ns")}
    left = LatestResult(Result("c", "t", (), V.INCONCLUSIVE, "", (OPEN,), lateness))
    seen = judged("c", other, JudgedFinding("MUST-1", Seen.VIOLATED, verdict=other))
    late = late_ns == records.LATE_HOST and other in (V.PASS, V.KNOWN)
    for a, b in ((left, seen), (seen, left)):
        found = compare([a], [b])
        assert replace(found[0], strict=True).course is Course.UNDECIDED
        assert found[0].course is (Course.LATE if late else Course.UNDECIDED)
        assert exit_code(found) == (0 if late else 2)
        assert bool(shifts(compare([a], [b]))) is not late


def test_every_kind_of_difference_worse_first() -> None:
    a = [told("gone", V.PASS), told("same", V.FAIL), told("mended", V.FAIL), told("broken", V.PASS)]
    b = [told("same", V.FAIL), told("mended", V.PASS), told("broken", V.FAIL), told("new", V.PASS)]
    found = compare(a, b)
    assert [(shift.case, shift.kind, shift.course) for shift in found] == [
        ("broken", Kind.CHANGED, Course.WORSE),
        ("gone", Kind.REMOVED, Course.UNDECIDED),
        ("mended", Kind.CHANGED, Course.BETTER),
        ("new", Kind.ADDED, Course.SAME),
        ("same", Kind.UNCHANGED, Course.SAME),
    ]
    assert found[0].a is a[3]
    assert found[0].b is b[2]


def test_one_case_on_two_targets_is_two_cases() -> None:
    a = [told("c", V.PASS, target="x"), told("c", V.PASS, target="y")]
    b = [told("c", V.FAIL, target="x"), told("c", V.PASS, target="y")]
    assert [(shift.target, shift.kind) for shift in compare(a, b)] == [
        ("x", Kind.CHANGED),
        ("y", Kind.UNCHANGED),
    ]


def test_across_pairs_by_case_whatever_the_targets_are_called() -> None:
    a, b = [told("c", V.PASS, target="x")], [told("c", V.FAIL, target="y")]
    assert {shift.kind for shift in compare(a, b)} == {Kind.ADDED, Kind.REMOVED}
    (found,) = compare(a, b, across=True)
    assert (found.target, found.kind, found.course) == ("x / y", Kind.CHANGED, Course.WORSE)


def test_only_this_broker_is_a_violation_here_and_none_there() -> None:
    pairs = {
        "a": (V.FAIL, V.PASS),
        "a known": (V.KNOWN, V.NOTE),
        "b": (V.PASS, V.FAIL),
        "both": (V.FAIL, V.KNOWN),
        "skipped there": (V.FAIL, V.SKIP),
        "unclear there": (V.FAIL, V.INCONCLUSIVE),
        "our error": (V.ERROR, V.PASS),
    }
    found = compare(
        [told(case, a) for case, (a, _) in pairs.items()],
        [told(case, b) for case, (_, b) in pairs.items()],
        across=True,
    )
    expected = {"a": "A", "a known": "A", "b": "B"}
    assert {shift.case: shift.only for shift in found if shift.only} == expected


def test_a_change_that_took_several_attempts_is_unsteady() -> None:
    (found,) = compare([told("c", V.PASS, attempts=3)], [told("c", V.FAIL)])
    assert found.unsteady
    assert found.course is Course.WORSE
    (steady,) = compare([told("c", V.PASS)], [told("c", V.FAIL)])
    assert not steady.unsteady
    (unchanged,) = compare([told("c", V.PASS, attempts=3)], [told("c", V.PASS, attempts=2)])
    assert not unchanged.unsteady


def test_of_a_case_judged_again_the_last_verdict_counts_and_the_others_are_kept() -> None:
    lines = [Result("c", "t", (), verdict, "") for verdict in (V.FAIL, V.PASS)] + [
        Result("d", "t", (), V.PASS, "")
    ]
    first, second = last_of_each([lines[0], lines[2], lines[1]])
    assert (first.result, first.earlier, first.steady) == (lines[1], (V.FAIL,), False)
    assert second.steady
    (found,) = compare([first], [told("c", V.FAIL)])
    assert found.unsteady


def test_a_skipped_case_took_no_attempt_and_is_steady() -> None:
    assert told("c", V.SKIP, attempts=0).steady


def test_requirements_change_with_their_worst_case() -> None:
    should = JudgedFinding("SHOULD-1", Seen.VIOLATED, verdict=V.WARN)
    a = [judged("c1", V.PASS, HELD), judged("c2", V.PASS, HELD)]
    b = [judged("c1", V.PASS, HELD), judged("c2", V.FAIL, BROKEN, should)]
    found = shifts(compare(a, b))
    assert [
        (shift.requirement, *shift.verdicts, shift.course, shift.other_cases) for shift in found
    ] == [
        ("MUST-1", V.PASS, V.FAIL, Course.WORSE, False),
        ("SHOULD-1", None, V.WARN, Course.UNDECIDED, True),
    ]
    assert shifts(compare(a, a)) == []


def test_a_requirement_that_other_cases_speak_of_is_marked() -> None:
    a = [judged("c1", V.PASS, HELD, target="x")]
    b = [judged("c2", V.FAIL, BROKEN, target="y")]
    (found,) = shifts(compare(a, b, across=True), across=True)
    assert found.other_cases
    assert found.course is Course.WORSE


def test_the_exit_code_says_what_can_be_said() -> None:
    same, worse = (
        compare([told("c", V.PASS)], [told("c", V.PASS)]),
        compare([told("c", V.PASS)], [told("c", V.FAIL)]),
    )
    undecided, better = (
        compare([told("d", V.INCONCLUSIVE)], [told("d", V.PASS)]),
        compare([told("e", V.FAIL)], [told("e", V.PASS)]),
    )
    assert exit_code(same + better) == 0
    assert exit_code(same + undecided) == 2
    assert exit_code(worse + undecided) == 1
    assert exit_code(same, partial=True) == 2
    assert exit_code(worse, partial=True) == 1
