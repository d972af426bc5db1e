"""The first screen of a report: the state of each mission area on each target, and the causes of
failures."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import shorten
from typing import Any
from urllib.parse import urlencode

from brokerproof.harness.catalogue import capabilities
from brokerproof.harness.catalogue.areas import area_of
from brokerproof.harness.catalogue.cases import title
from brokerproof.harness.model.target_names import family, release
from brokerproof.harness.model.verdicts import Impact, Verdict
from brokerproof.harness.results import area_summary, causes, impacts
from brokerproof.harness.results.area_summary import AreaState, State
from brokerproof.harness.results.causes import Cause
from brokerproof.harness.results.records import Result, last_of_each, read
from brokerproof.reports.model.baseline_comparison import Comparison, comparison_of
from brokerproof.reports.model.certainty import Certainty, Sighting, certainty
from brokerproof.reports.model.counterexamples import repeat_command
from brokerproof.reports.model.index_model import Bar, CaseRow, Cell, Column, Group
from brokerproof.reports.model.measured_charts import Chart, charts
from brokerproof.reports.model.quantities import counted
from brokerproof.reports.model.requirements import Requirements, Words
from brokerproof.reports.model.slugs import case_link
from brokerproof.reports.sources.runs import Run

MOST_CAUSES = 40
MOST_REASONS = 60
MOST_MAIN_REASONS = 2
"""The maximum number of reasons for skips in the box of a target."""
MOST_OBSERVED = 3
MOST_CASES = 6
"""The maximum number of cases of a cause that the index shows. The list of cases has them all."""


@dataclass(frozen=True, slots=True)
class CauseLine:
    """Cases that fail for one reason. ``cases`` has their names and variants, each with a page and
    a title."""

    run: str
    target: str
    verdict: str
    area: str
    words: Words | None
    observed: tuple[str, ...]
    cases: tuple[tuple[str, tuple[str, ...], str, str], ...]
    more: int
    repeat: str
    """The command that judges the first of these cases again."""
    areas: frozenset[str] = frozenset()
    """The areas of all requirements that these cases violated. Cases with the same observation
    share a cause, whichever requirements report it."""
    certainty: Certainty = field(default_factory=Certainty)
    since: tuple[str, ...] = ()
    """Sentences about the cause from the baseline and earlier runs; empty if there are none."""
    anchor: str = ""
    """The anchor of the cause on the index; empty if it is not listed there."""

    def sentence(self, most: int) -> str:
        """Return the requirement's decisive words in quotation marks or, if it has none, our own
        words, cut to ``most`` characters."""
        if self.words is None:
            return ""
        if not self.words.quotation:
            return shorten(self.words.statement, most, placeholder="…")
        return f"“{shorten(self.words.quotation, most - 2, placeholder='…')}”"

    @property
    def impact(self) -> Impact | None:
        return Impact(self.words.impact) if self.words and self.words.impact else None

    @property
    def brief(self) -> str:
        """When the cause first appeared and how certain it is, on one line."""
        return "; ".join(text for text in (*self.since, self.certainty.brief) if text)


@dataclass(frozen=True, slots=True)
class AreaLine:
    """An area on a target in the target's last run. ``link`` is the address of the first cause or
    of the cases."""

    label: str
    state: str
    style: str
    """The verdict that gives the line its colour."""
    why: str
    link: str
    cases: str
    """The address of the area's cases."""
    causes: tuple[CauseLine, ...] = ()
    """The causes that break the area, worst first."""


@dataclass(frozen=True, slots=True)
class Skips:
    """Cases skipped on a target: the most frequent reasons, each with its number of cases, and the
    number of cases with other reasons (``others``)."""

    reasons: tuple[tuple[str, int], ...]
    others: int


@dataclass(frozen=True)
class Overview:
    """The lines of areas by run and target, and the causes over all targets."""

    areas: Mapping[tuple[str, str], Sequence[AreaLine]]
    causes: Sequence[CauseLine]
    more: int
    charts: Mapping[tuple[str, str], Sequence[Chart]]
    order_breaks: Mapping[tuple[str, str], int]
    """The number of messages that, according to the recordings of a target, certainly arrived after
    a later message."""
    skipped: Sequence[tuple[str, str, int]]
    """By target, the reasons for skips with their numbers of cases, the most frequent first."""
    skips: Mapping[tuple[str, str], Skips]
    judged: int
    """The number of requirements judged or left open on a target in its last run."""
    open: int
    """The number of requirements left open on some target."""
    comparisons: Sequence[Comparison] = ()
    """The comparisons of each target's last run with a baseline."""
    has_past: bool = False
    """True if it is known when some cause first appeared."""


_STYLES = {
    State.BROKEN: "FAIL",
    State.UNDECIDED: "INCONCLUSIVE",
    State.DEVIATES: "KNOWN",
    State.KEPT: "PASS",
    State.PARTLY: "NOTE",
    State.NOT_JUDGED: "SKIP",
}


_OPEN = (Verdict.ERROR, Verdict.INCONCLUSIVE)
_VERDICTS = {
    State.BROKEN: "FAIL",
    State.UNDECIDED: "ERROR,INCONCLUSIVE",
    State.DEVIATES: "KNOWN,WARN",
}
"""The verdicts of the cases that determine a state."""


def overview(
    runs: Sequence[Run],
    latest: Iterable[Bar],
    groups: Sequence[Group],
    columns: Sequence[Column],
    requirements: Requirements,
    cases: Sequence[CaseRow] = (),
    irregular: Iterable[Mapping[str, Any]] = (),
    sightings: Mapping[tuple[str, str, str], Sighting] | None = None,
) -> Overview:
    """Return the first screen of the last run of each target; ``groups`` and ``columns`` are those
    of the matrix, which includes earlier runs. ``irregular`` has the irregularities in recordings,
    and ``sightings`` the failures, by run, target and case."""
    by_name = {run.name: run for run in runs}
    wanted: dict[str, set[str]] = {}
    for bar in latest:
        wanted.setdefault(bar.column.run, set()).add(bar.column.target)
    states: dict[tuple[str, str], Sequence[AreaState]] = {}
    lines: list[CauseLine] = []
    comparisons: list[Comparison] = []
    for name, targets in wanted.items():
        results = [
            kept.result
            for kept in last_of_each(read(by_name[name].folder))
            if kept.result.target in targets
        ]
        summarised = area_summary.summarise(results)
        states |= {(name, target): of_target for target, of_target in summarised.items()}
        comparison = comparison_of(by_name[name], several=len(runs) > 1)
        comparisons += [] if comparison is None else [comparison]
        past = _Past(runs, groups, columns, comparison)
        lines += _causes(by_name[name], results, requirements, past, sightings or {})
    lines.sort(key=lambda line: (line.verdict != Verdict.FAIL, impacts.severity(line.impact)))
    lines[:MOST_CAUSES] = [
        replace(line, anchor=f"cause-{number}")
        for number, line in enumerate(lines[:MOST_CAUSES], 1)
    ]
    of_targets: dict[tuple[str, str], list[CaseRow]] = {place: [] for place in states}
    for case in cases:
        if (case.run, case.target) in of_targets:
            of_targets[case.run, case.target].append(case)
    breaks = Counter(
        (anomaly["run"], anomaly["target"])
        for anomaly in irregular
        if anomaly["kind"] == "disordered" and not anomaly["uncertain"]
    )
    all_states = [state for of_target in states.values() for state in of_target]
    return Overview(
        {place: [_area(*place, state, lines) for state in states[place]] for place in states},
        lines[:MOST_CAUSES],
        max(0, len(lines) - MOST_CAUSES),
        {place: _charts(states[place], of_target) for place, of_target in of_targets.items()},
        {place: breaks[place] for place in states if by_name[place[0]].segments()},
        _skipped(case for of_target in of_targets.values() for case in of_target),
        {place: _skips(of_target) for place, of_target in of_targets.items()},
        len({name for area in all_states for name in area.judged}),
        len({name for area in all_states for name in area.requirements(*_OPEN)}),
        comparisons,
        any(line.since for line in lines),
    )


def _charts(states: Iterable[AreaState], cases: Iterable[CaseRow]) -> list[Chart]:
    """Return the charts of a target. If an area is broken but its charts show no violation, the
    charts say so."""
    drawn = charts(cases)
    broken = {state.area.label for state in states if state.state is State.BROKEN}
    shown = {chart.area for chart in drawn if chart.outside}
    return [replace(chart, hides_break=chart.area in broken - shown) for chart in drawn]


def _skipped(cases: Iterable[CaseRow]) -> list[tuple[str, str, int]]:
    reasons = Counter((case.target, case.detail) for case in cases if case.verdict == Verdict.SKIP)
    return [(*reason, count) for reason, count in reasons.most_common(MOST_REASONS)]


def _skips(cases: Iterable[CaseRow]) -> Skips:
    skipped = (case.detail for case in cases if case.verdict == Verdict.SKIP)
    reasons, others = capabilities.main_reasons(skipped, MOST_MAIN_REASONS)
    return Skips(tuple(reasons), others)


def _area(run: str, target: str, state: AreaState, lines: Iterable[CauseLine]) -> AreaLine:
    label = state.area.label
    chosen = {"target": target, "area": label}
    cases = f"#{urlencode(chosen, errors='replace')}"
    own = [
        line for line in lines if (line.run, line.target) == (run, target) and label in line.areas
    ]
    own.sort(key=lambda line: line.area != label)
    link = cases
    if own and own[0].anchor:
        link = f"#{own[0].anchor}"
    elif verdicts := _VERDICTS.get(state.state):
        link = f"{cases}&verdict={verdicts}"
    why = state.why
    if state.state not in (State.NOT_JUDGED, State.PARTLY) and len(state.skipped) > len(
        state.cases
    ):
        why += f"; {counted(len(state.skipped), 'case')} skipped"
    return AreaLine(label, state.state.value, _STYLES[state.state], why, link, cases, tuple(own))


@dataclass(frozen=True)
class _Past:
    """Facts from before a run: its baseline and the earlier runs."""

    runs: Sequence[Run]
    groups: Sequence[Group]
    columns: Sequence[Column]
    comparison: Comparison | None

    def since(self, cause: Cause) -> tuple[str, ...]:
        said = []
        if self.comparison is not None and cause.verdict is Verdict.FAIL:
            said.append(self.comparison.since(cause.target, cause.cases))
        places = self._places(cause.target)
        if cause.finding is not None and len(places) > 1:
            named = cause.finding.requirement
            rows = [row for group in self.groups for row in group.rows if row.words.id == named]
            said += [self._first_failure(row.cells, places) for row in rows]
        return tuple(said)

    def _places(self, target: str) -> list[int]:
        """Return the columns up to and including the last one of ``target``, the oldest first: its
        runs or, for NAME@RELEASE, the releases of NAME."""
        own = [at for at, column in enumerate(self.columns) if column.target == target]
        judged = release(target)
        if len(own) != 1 or judged is None:
            return own
        releases = {
            version: at
            for at, column in enumerate(self.columns)
            if family(column.target) == family(target)
            and (version := release(column.target)) is not None
            and version <= judged
        }
        return [releases[version] for version in sorted(releases)]

    def _first_failure(self, cells: Sequence[Cell | None], places: Sequence[int]) -> str:
        """Return the first of the latest runs or releases that all failed, and the one before
        it."""
        first = len(places) - 1
        while first > 0 and _verdict(cells[places[first - 1]]) == Verdict.FAIL:
            first -= 1
        words = f"broken since {self._release(self.columns[places[first]])}"
        if first == 0:
            targets = {self.columns[place].target for place in places}
            return f"{words}, the first {'release' if len(targets) > 1 else 'run'}"
        before = self.columns[places[first - 1]]
        verdict = _verdict(cells[places[first - 1]]) or "not judged"
        return f"{words}; {verdict} in {self._release(before)}"

    def _release(self, column: Column) -> str:
        if release(column.target) is not None:
            return column.target
        versions = [
            str(target.get("version") or "")
            for run in self.runs
            if run.name == column.run
            for target in run.targets
            if target["name"] == column.target
        ]
        return f"{column.run} ({versions[0]})" if versions and versions[0] else column.run


def _verdict(cell: Cell | None) -> str:
    return "" if cell is None else cell.verdict


def _causes(
    run: Run,
    results: Sequence[Result],
    requirements: Requirements,
    past: _Past,
    sightings: Mapping[tuple[str, str, str], Sighting],
) -> list[CauseLine]:
    by_case = {(result.target, result.case): result for result in results}
    lines = []
    for verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.INCONCLUSIVE):
        for cause in causes.group(results, verdict):
            if verdict is Verdict.INCONCLUSIVE and not cause.is_unmet:
                continue  # the list of cases contains it
            line = _cause(run, cause, requirements, past)
            if verdict is Verdict.FAIL:
                failed = [by_case[cause.target, case] for case in cause.cases]
                places = [(run.name, cause.target, case) for case in cause.cases]
                seen = [sightings[place] for place in places if place in sightings]
                line = replace(
                    line,
                    areas=frozenset(
                        area_of(finding.requirement).label
                        for result in failed
                        for finding in result.findings
                        if finding.verdict is Verdict.FAIL
                    ),
                    certainty=certainty(run, cause.target, failed, seen),
                )
            lines.append(line)
    return lines


def _cause(run: Run, cause: Cause, requirements: Requirements, past: _Past) -> CauseLine:
    several = len(past.runs) > 1
    named = list(cause.names.items())
    shown = [
        (
            name,
            tuple(variant for variant in variants if variant),
            case_link(
                run.name,
                cause.target,
                case := f"{name}[{variants[0]}]" if variants[0] else name,
                several=several,
            ),
            title(run.cases[case].doc) if case in run.cases else "",
        )
        for name, variants in named[:MOST_CASES]
    ]
    finding = cause.finding
    return CauseLine(
        run=run.name,
        target=cause.target,
        verdict=cause.verdict.value,
        area=cause.area.label,
        words=None if finding is None or cause.is_unmet else requirements.find(finding.requirement),
        observed=tuple(cause.observed[:MOST_OBSERVED]),
        cases=tuple(shown),
        more=len(named) - len(shown),
        repeat=repeat_command(run, cause.target, cause.cases[0]),
        since=past.since(cause),
    )
