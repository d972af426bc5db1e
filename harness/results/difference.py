"""Compares two runs, by case and target and by requirement.

The order of verdicts decides whether one got worse or better. If one side shows nothing about the
broker, the change is UNDECIDED, or LATE if the host was late. A precondition that is no longer met
is WORSE, because in A the broker provided what the case relies on."""

import enum
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from brokerproof.harness.model.enums import StrEnum
from brokerproof.harness.model.finding import JudgedFinding
from brokerproof.harness.model.verdicts import Impact, Verdict
from brokerproof.harness.results import impacts
from brokerproof.harness.results.records import LatestResult
from brokerproof.harness.results.verdict import WORST_FIRST, is_met, is_race, is_unmet, merge


class Kind(StrEnum):
    """Whether a case is in both runs, and whether its verdict changed."""

    ADDED = enum.auto()
    REMOVED = enum.auto()
    CHANGED = enum.auto()
    UNCHANGED = enum.auto()


class Course(StrEnum):
    """The direction of a case's change from A to B, in the order of listing."""

    WORSE = enum.auto()
    UNDECIDED = enum.auto()
    """One of the two runs has no verdict on the broker, so nothing can be compared."""
    BETTER = enum.auto()
    LATE = enum.auto()
    """The host's lateness left the case open on one side, and the other side has no unlisted
    violation."""
    SAME = enum.auto()


_SILENT = frozenset({Verdict.INCONCLUSIVE})
_VIOLATED = frozenset({Verdict.FAIL, Verdict.KNOWN})
_KEPT = frozenset({Verdict.PASS, Verdict.NOTE})
_UNHARMED = _KEPT | _SILENT | {Verdict.KNOWN, Verdict.SKIP}


def course(a: Verdict | None, b: Verdict | None, *, across: bool = False) -> Course:
    """Return the direction of the change from ``a`` to ``b`` (None if the case is missing). A
    change to or from INCONCLUSIVE is UNDECIDED. So is a change from ERROR to anything but PASS and
    NOTE: if the broker fails now, we do not know how it behaved before. A new case with PASS, NOTE
    or SKIP changes nothing; nor does the removal of a case without a verdict on the broker (SKIP,
    ERROR, INCONCLUSIVE). Any other case that is on one side only is UNDECIDED. Between two targets
    (``across``), SKIP means that one lacks a capability, so a change to or from SKIP is UNDECIDED.
    It is SAME if only B has the capability, and B keeps the requirement or is known not to keep it.
    A precondition that A does not meet counts as SKIP. A PASS or NOTE for a behaviour that only one
    target has is SAME. On a single target the order of verdicts decides, because a lost capability
    is a loss."""
    if a is b or (across and {a, b} <= _KEPT):
        return Course.SAME
    if across and a is Verdict.SKIP and b in {*_KEPT, Verdict.KNOWN}:
        return Course.SAME
    if a is None:
        return Course.SAME if b in _KEPT or b is Verdict.SKIP else Course.UNDECIDED
    if b is None:
        return (
            Course.SAME
            if a in (Verdict.SKIP, Verdict.ERROR, Verdict.INCONCLUSIVE)
            else Course.UNDECIDED
        )
    silent = _SILENT | {Verdict.SKIP} if across else _SILENT
    if a in silent or b in silent or (a is Verdict.ERROR and b not in _KEPT):
        return Course.UNDECIDED
    return Course.WORSE if WORST_FIRST.index(b) < WORST_FIRST.index(a) else Course.BETTER


@dataclass(frozen=True, slots=True)
class Difference:
    """One case on one target (with ``across``: on two), in A and in B; None if it is missing. With
    ``strict``, a case that a late host left open is UNDECIDED, not LATE."""

    case: str
    target: str
    a: LatestResult | None
    b: LatestResult | None
    across: bool = False
    strict: bool = False

    @property
    def verdicts(self) -> tuple[Verdict | None, Verdict | None]:
        return _verdict(self.a), _verdict(self.b)

    @property
    def kind(self) -> Kind:
        """Added, removed, changed or unchanged. Only the verdict is compared, not the wording."""
        a, b = self.verdicts
        if a is None:
            return Kind.ADDED
        if b is None:
            return Kind.REMOVED
        return Kind.UNCHANGED if a is b else Kind.CHANGED

    @property
    def judged_in_both(self) -> bool:
        """True if the case reached a verdict on the broker in A and in B."""
        return all(side and is_met(side.result.findings) for side in (self.a, self.b))

    @property
    def lost_service(self) -> bool:
        """True if A provided what the case relies on and B does not. Never true across two
        brokers."""
        return (
            not self.across
            and self.a is not None
            and self.b is not None
            and is_met(self.a.result.findings)
            and is_unmet(self.b.result.findings)
        )

    @property
    def course(self) -> Course:
        """The direction of the change. A listed race that occurs on one side only is not a
        change."""
        if self.lost_service:
            return Course.WORSE
        sides = [side.result for side in (self.a, self.b) if side is not None]
        may_be_late = not self.strict and self.kind is Kind.CHANGED
        if may_be_late and any(side.left_open_by_host for side in sides):
            return Course.LATE if {*self.verdicts} <= _UNHARMED else Course.UNDECIDED
        if {*self.verdicts} & _KEPT and any(is_race(side.findings) for side in sides):
            return Course.SAME
        a, b = self.verdicts
        if self.across and self.a is not None and is_unmet(self.a.result.findings):
            a = Verdict.SKIP
        return course(a, b, across=self.across)

    @property
    def impact(self) -> Impact | None:
        """The worst impact of the violations in B or, if there are none, in A."""
        shown = [impacts.of_result(side.result) for side in (self.b, self.a) if side is not None]
        return next((impact for impact in shown if impact is not None), None)

    @property
    def unsteady(self) -> bool:
        """True if the verdict changed and one side needed several attempts or had another verdict
        earlier.

        Such a change may be due to chance: compare more runs before you report a regression."""
        return self.kind is Kind.CHANGED and any(
            side is not None and not side.steady for side in (self.a, self.b)
        )

    @property
    def only(self) -> str | None:
        """``"A"`` or ``"B"`` if only that side has a violation (FAIL, KNOWN) and the other has none
        (PASS, NOTE)."""
        a, b = self.verdicts
        if a in _VIOLATED and b in _KEPT:
            return "A"
        return "B" if b in _VIOLATED and a in _KEPT else None


@dataclass(frozen=True, slots=True)
class Shift:
    """One requirement on one target (or two) whose worst verdict differs. ``other_cases`` is true
    if A and B judged it with different cases: these may have changed rather than the broker."""

    requirement: str
    target: str
    a: Verdict | None
    b: Verdict | None
    other_cases: bool
    across: bool = False

    @property
    def impact(self) -> Impact | None:
        return impacts.of_requirement(self.requirement)

    @property
    def verdicts(self) -> tuple[Verdict | None, Verdict | None]:
        return self.a, self.b

    @property
    def course(self) -> Course:
        return course(self.a, self.b, across=self.across)


def compare(
    a: Iterable[LatestResult], b: Iterable[LatestResult], *, across: bool = False
) -> list[Difference]:
    """Return every case of either run: worse, undecided, better, then unchanged ones, each group by
    impact (worst first), target and case. ``across`` pairs cases by id alone: the caller ensures
    that each run has exactly one target."""
    name = _pairing(across)
    left = {name(latest): latest for latest in a}
    right = {name(latest): latest for latest in b}
    differences = []
    for key in left.keys() | right.keys():
        sides = left.get(key), right.get(key)
        targets = dict.fromkeys(side.result.target for side in sides if side is not None)
        differences.append(Difference(key[1], " / ".join(targets), *sides, across=across))
    order = list(Course)
    return sorted(
        differences,
        key=lambda case: (
            order.index(case.course),
            case.kind.value,
            impacts.severity(case.impact),
            case.target,
            case.case,
        ),
    )


def shifts(differences: Iterable[Difference], *, across: bool = False) -> list[Shift]:
    """Return the requirements whose worst verdict over all cases differs, in the order of
    :func:`compare`. Cases that a late host left open do not count."""
    counted = [case for case in differences if case.course is not Course.LATE]
    a = [case.a for case in counted if case.a is not None]
    b = [case.b for case in counted if case.b is not None]
    left, right, races = _worst(a, across), _worst(b, across), _races([*a, *b], across)
    shifted = []
    for key in left.keys() | right.keys():
        one, other = left.get(key, {}), right.get(key, {})
        was, now = (merge(verdicts.values()) if verdicts else None for verdicts in (one, other))
        if was is not now and not ({was, now} & _KEPT and key in races):
            shifted.append(Shift(key[1], key[0], was, now, one.keys() != other.keys(), across))
    order = list(Course)
    return sorted(
        shifted,
        key=lambda shift: (
            order.index(shift.course),
            impacts.severity(shift.impact),
            shift.target,
            shift.requirement,
        ),
    )


def exit_code(differences: Iterable[Difference], *, partial: bool = False) -> int:
    """Return 1 if a case got worse; 2 if this is unknown (a case is undecided, or a run was
    interrupted: ``partial``); otherwise 0."""
    courses = {difference.course for difference in differences}
    if Course.WORSE in courses:
        return 1
    return 2 if partial or Course.UNDECIDED in courses else 0


def _verdict(latest: LatestResult | None) -> Verdict | None:
    return None if latest is None else latest.result.verdict


def _races(results: Iterable[LatestResult], across: bool) -> set[tuple[str, str]]:
    """Return the pairs of target and requirement whose known deviations are all races."""
    known: dict[tuple[str, str], list[JudgedFinding]] = defaultdict(list)
    for latest in results:
        for finding in latest.result.findings:
            known["" if across else latest.result.target, finding.requirement].append(finding)
    return {key for key, findings in known.items() if is_race(findings)}


def _pairing(across: bool) -> Callable[[LatestResult], tuple[str, str]]:
    def name(latest: LatestResult) -> tuple[str, str]:
        return "" if across else latest.result.target, latest.result.case

    return name


def _worst(
    results: Iterable[LatestResult], across: bool
) -> Mapping[tuple[str, str], dict[str, Verdict]]:
    """Return each case's verdict on a requirement, by target and requirement."""
    by_requirement: dict[tuple[str, str], dict[str, Verdict]] = defaultdict(dict)
    for latest in results:
        result = latest.result
        for finding in result.findings:
            cases = by_requirement["" if across else result.target, finding.requirement]
            cases[result.case] = merge([finding.verdict, cases.get(result.case, Verdict.PASS)])
    return by_requirement
