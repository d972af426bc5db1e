"""The first screen of a report: the state of each area of the mission on each target, and the
causes of failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import area_summary, causes
from brokerproof.harness.results.area_summary import AreaState, State
from brokerproof.harness.results.causes import Cause
from brokerproof.harness.results.difference import Course
from brokerproof.harness.results.records import Result, last_of_each, read
from brokerproof.reports.html.times import duration
from brokerproof.reports.index_model import Bar, CaseRow, Column, Group
from brokerproof.reports.measured_charts import Chart, charts
from brokerproof.reports.requirements import Requirements, Words
from brokerproof.reports.runs import Run
from brokerproof.reports.slugs import case_link

MOST_CAUSES = 40
MOST_REASONS = 60
MOST_OBSERVED = 3
MOST_CASES = 6
"""Cases of a cause that the index names; the list of cases has all."""


@dataclass(frozen=True, slots=True)
class AreaLine:
    """An area on a target in its last run. ``since`` is the run from which on it is broken, empty
    where it is not, or where there is one run only."""

    label: str
    state: str
    style: str
    """The verdict whose colour it has."""
    why: str
    since: str = ""


@dataclass(frozen=True, slots=True)
class CauseLine:
    """Cases that fail for one reason: ``cases`` are names with their variants and a page."""

    target: str
    verdict: str
    area: str
    words: Words | None
    observed: tuple[str, ...]
    cases: tuple[tuple[str, tuple[str, ...], str], ...]
    more: int
    certainty: str = ""
    """Why a failure is the broker's and not the host's; empty where the run does not record it."""


@dataclass(frozen=True, slots=True)
class ChangedCase:
    """A case whose verdict differs from the baseline's; None is a case that is not there."""

    course: str
    target: str
    case: str
    before: str | None
    now: str | None
    page: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run compared with its baseline: cases by course, and the first of those that changed."""

    run: str
    baseline: str
    counts: Mapping[str, int]
    changes: tuple[ChangedCase, ...]

    @property
    def total(self) -> int:
        """The number of cases that changed."""
        return sum(self.counts.values())


@dataclass(frozen=True)
class Overview:
    """Lines of areas by run and target, and the causes over all targets."""

    areas: Mapping[tuple[str, str], Sequence[AreaLine]]
    causes: Sequence[CauseLine]
    more: int
    charts: Mapping[tuple[str, str], Sequence[Chart]]
    order_breaks: Mapping[tuple[str, str], int]
    """Messages that the recordings of a target certainly show behind a later one."""
    skipped: Sequence[tuple[str, str, int]]
    """Targets, reasons for skips and their cases, the most frequent first."""
    comparisons: Sequence[Comparison] = ()
    """Of the last run of each target that was compared with a baseline."""


_CHANGED = (Course.WORSE, Course.UNDECIDED, Course.BETTER)
_STYLES = {
    State.BROKEN: "FAIL",
    State.UNDECIDED: "INCONCLUSIVE",
    State.DEVIATES: "KNOWN",
    State.KEPT: "PASS",
    State.NOT_JUDGED: "SKIP",
}


def overview(
    runs: Sequence[Run],
    latest: Iterable[Bar],
    groups: Sequence[Group],
    columns: Sequence[Column],
    requirements: Requirements,
    cases: Sequence[CaseRow] = (),
    irregular: Iterable[Mapping[str, Any]] = (),
) -> Overview:
    """Return the first screen of the last run of each target; ``groups`` and ``columns`` are those
    of the matrix, which knows earlier runs. ``irregular`` is what recordings show again."""
    by_name = {run.name: run for run in runs}
    wanted: dict[str, set[str]] = {}
    for bar in latest:
        wanted.setdefault(bar.column.run, set()).add(bar.column.target)
    areas: dict[tuple[str, str], Sequence[AreaLine]] = {}
    lines: list[CauseLine] = []
    for name, targets in wanted.items():
        results = [
            kept.result
            for kept in last_of_each(read(by_name[name].folder))
            if kept.result.target in targets
        ]
        for target, states in area_summary.summarise(results).items():
            own = [column for column in columns if column.target == target]
            areas[name, target] = [_area(state, own, groups, columns) for state in states]
        lines += _causes(by_name[name], results, requirements, several=len(runs) > 1)
    lines.sort(key=lambda line: line.verdict != Verdict.FAIL)
    of_targets: dict[tuple[str, str], list[CaseRow]] = {place: [] for place in areas}
    for case in cases:
        if (case.run, case.target) in of_targets:
            of_targets[case.run, case.target].append(case)
    breaks = Counter(
        (anomaly["run"], anomaly["target"])
        for anomaly in irregular
        if anomaly["kind"] == "disordered" and not anomaly["uncertain"]
    )
    return Overview(
        areas,
        lines[:MOST_CAUSES],
        max(0, len(lines) - MOST_CAUSES),
        {place: charts(of_target) for place, of_target in of_targets.items()},
        {place: breaks[place] for place in areas if by_name[place[0]].segments()},
        _skipped(case for of_target in of_targets.values() for case in of_target),
        [
            comparison
            for name in wanted
            if (comparison := _comparison(by_name[name], several=len(runs) > 1)) is not None
        ],
    )


def _comparison(run: Run, *, several: bool) -> Comparison | None:
    """Return the comparison that the header of a run has; None without one that can be read."""
    try:
        recorded = run.header["baseline"]
        counts = {way.value: int(recorded["counts"][way.value.lower()]) for way in _CHANGED}
        changes = tuple(
            _changed_case(run.name, change, several=several) for change in recorded["changes"]
        )
        return Comparison(run.name, str(recorded["run"]), counts, changes)
    except (KeyError, TypeError, ValueError):
        return None


def _changed_case(run: str, change: Mapping[str, Any], *, several: bool) -> ChangedCase:
    target, case = str(change["target"]), str(change["case"])
    before, now = (None if verdict is None else Verdict(verdict) for verdict in change["verdicts"])
    page = "" if now is None else case_link(run, target, case, several=several)
    return ChangedCase(Course(change["course"]).value, target, case, before, now, page)


def _skipped(cases: Iterable[CaseRow]) -> list[tuple[str, str, int]]:
    counted = Counter((case.target, case.detail) for case in cases if case.verdict == Verdict.SKIP)
    return [(*reason, count) for reason, count in counted.most_common(MOST_REASONS)]


def _area(
    state: AreaState, own: Sequence[Column], groups: Sequence[Group], columns: Sequence[Column]
) -> AreaLine:
    since = ""
    if state.state is State.BROKEN and len(own) > 1:
        places = [list(columns).index(column) for column in own]
        broken = set(state.requirements(Verdict.FAIL))
        rows = [row for group in groups for row in group.rows if row.words.id in broken]
        first = min((_first_failure(row.cells, places) for row in rows), default=len(own) - 1)
        since = f"since {own[first].run}" + (", the first run" if first == 0 else "")
    label, style = state.area.label, _STYLES[state.state]
    return AreaLine(label, state.state.value, style, state.why, since)


def _first_failure(cells: Sequence[object], places: Sequence[int]) -> int:
    """The first of the runs at the end that all failed."""
    first = len(places) - 1
    while first > 0 and getattr(cells[places[first - 1]], "verdict", "") == Verdict.FAIL:
        first -= 1
    return first


def _causes(
    run: Run, results: Sequence[Result], requirements: Requirements, *, several: bool
) -> list[CauseLine]:
    return [
        _cause(run, cause, requirements, several=several)
        for verdict in (Verdict.FAIL, Verdict.ERROR)
        for cause in causes.group(results, verdict)
    ]


def _cause(run: Run, cause: Cause, requirements: Requirements, *, several: bool) -> CauseLine:
    named = list(cause.names.items())
    shown = [
        (
            name,
            tuple(variant for variant in variants if variant),
            case_link(
                run.name,
                cause.target,
                f"{name}[{variants[0]}]" if variants[0] else name,
                several=several,
            ),
        )
        for name, variants in named[:MOST_CASES]
    ]
    finding = cause.finding
    return CauseLine(
        target=cause.target,
        verdict=cause.verdict.value,
        area=cause.area.label,
        words=None if finding is None else requirements.find(finding.requirement),
        observed=tuple(cause.observed[:MOST_OBSERVED]),
        cases=tuple(shown),
        more=len(named) - len(shown),
        certainty=_certainty(run, cause.target) if cause.verdict is Verdict.FAIL else "",
    )


def _certainty(run: Run, target: str) -> str:
    clock = next((facts.get("clock") for facts in run.targets if facts["name"] == target), None)
    match clock:
        case Clock.VIRTUAL:
            return "seen in virtual time, where every run with this seed is the same"
        case Clock.REAL:
            # Otherwise its verdict is INCONCLUSIVE (harness/cases/execution.py).
            return f"seen again when the case was repeated{_lateness(run, target)}"
        case _:
            return ""


def _lateness(run: Run, target: str) -> str:
    try:
        canary = run.header["host"]["canary"][target]
        usual, worst = duration(int(canary["p99_ns"])), duration(int(canary["worst_ns"]))
    except (KeyError, TypeError, ValueError):
        return ""
    return f"; this host was late by up to {usual} in 99 of 100 measurements, {worst} at most"
