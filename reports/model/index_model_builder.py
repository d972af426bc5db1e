"""Builds the model of the index from limited parts of the tables."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from brokerproof.harness.results import impacts
from brokerproof.reports.model.index_model import (
    SHOWN,
    Again,
    Bar,
    CaseRow,
    Cell,
    Column,
    Group,
    MatrixRow,
    Model,
    Unjudged,
)
from brokerproof.reports.model.requirements import Requirements, Words
from brokerproof.reports.model.slugs import case_link
from brokerproof.reports.model.tables.history import changed
from brokerproof.reports.model.target_history import Past, facts_of, in_order, pasts
from brokerproof.reports.sources.runs import CaseFacts, Run

_RANK = {verdict: place for place, verdict in enumerate(SHOWN)}


@dataclass(frozen=True)
class Tables:
    """The tables of results, by content."""

    cases: pa.Table
    counts: pa.Table
    matrix: pa.Table
    coverage: pa.Table
    history: pa.Table
    behaviours: pa.Table
    kills: pa.Table


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the HTML for runs of any size. ``findings`` is the maximum number of cases that the
    page without JavaScript lists."""

    columns: int = 12
    findings: int = 1500
    requirements: int = 1500
    unjudged: int = 1500
    errors: int = 50
    changes: int = 300
    again: int = 100


def columns(runs: Sequence[Run], counts: Iterable[Mapping[str, Any]]) -> list[Column]:
    """Return a column for each run and target with a result or an entry in the header.

    With one run, the columns are in the order of its header; with several, the runs of each target
    are together, in order of start."""
    with_results = {(row["run"], row["target"]) for row in counts}
    by_target: dict[str, list[Column]] = {}
    for run in in_order(runs):
        named = [str(target["name"]) for target in run.targets]
        named += sorted(
            target for name, target in with_results if name == run.name and target not in named
        )
        for target in dict.fromkeys(named):
            label = target if len(runs) == 1 or run.name == target else f"{target} · {run.name}"
            by_target.setdefault(target, []).append(
                Column(run.name, target, label, facts_of(run, target))
            )
    return [
        replace(column, latest=column is of_target[-1])
        for of_target in by_target.values()
        for column in of_target
    ]


def shown_columns(every: Sequence[Column], runs: Sequence[Run], most: int) -> list[Column]:
    """Return at most ``most`` columns, those of the latest runs, in the order of ``every``."""
    age = {run.name: place for place, run in enumerate(reversed(in_order(runs)))}
    newest = sorted(every, key=lambda column: age[column.run])[:most]
    return [column for column in every if column in newest]


def bars(of: Sequence[Column], counts: Iterable[Mapping[str, Any]]) -> list[Bar]:
    rows = list(counts)
    drawn = []
    for column in of:
        own = [row for row in rows if (row["run"], row["target"]) == (column.run, column.target)]
        own.sort(key=lambda row: _RANK[row["verdict"]])
        seconds = sum(row["seconds"] for row in own)
        drawn.append(Bar(column, tuple((row["verdict"], row["cases"]) for row in own), seconds))
    return drawn


def case_rows(results: pa.Table, runs: Sequence[Run]) -> list[CaseRow]:
    """Return every case with its page, the worst verdicts and impacts first."""
    facts = {run.name: run.cases for run in runs}
    several = len(runs) > 1
    rows = [
        case_row(row, facts, case_link(row["run"], row["target"], row["case"], several=several))
        for row in results.to_pylist()
    ]
    return sorted(
        rows,
        key=lambda row: (
            _RANK[row.verdict],
            impacts.severity(row.impact),
            row.run,
            row.target,
            row.case,
        ),
    )


def case_row(
    row: Mapping[str, Any], facts: Mapping[str, Mapping[str, CaseFacts]], page: str | None = None
) -> CaseRow:
    """Return a row of the table of cases, with the facts about its run (``facts`` has the runs by
    name)."""
    described = facts[row["run"]].get(row["case"])
    return CaseRow(
        run=row["run"],
        target=row["target"],
        case=row["case"],
        verdict=row["verdict"],
        detail=row["detail"],
        requirements=tuple(row["requirements"]),
        attempts=row["attempts"],
        duration_s=row["duration_s"],
        measurements=row["measurements"],
        page=page,
        doc=described.doc if described else "",
        source=described.source if described else "",
        unrecorded_examples=row["unrecorded_examples"],
        drawn=described.drawn if described else (),
        impact=row["impact"],
    )


def groups(
    rows: Iterable[Mapping[str, Any]],
    of: Sequence[Column],
    requirements: Requirements,
    pages: Mapping[Any, str],
) -> list[Group]:
    """Return the matrix, grouped by source and section, in the catalogue's order with unknown
    requirements last."""
    places = {(column.run, column.target): place for place, column in enumerate(of)}
    cells: dict[str, list[Cell | None]] = defaultdict(lambda: [None] * len(of))
    for row in rows:
        place = places.get((row["run"], row["target"]))
        if place is not None:
            page = pages.get((row["run"], row["target"], row["case"]))
            cells[row["requirement"]][place] = Cell(row["verdict"], row["cases"], row["case"], page)
    in_order = sorted(cells, key=lambda requirement: (requirements.place(requirement), requirement))
    lines = [
        MatrixRow(requirements.find(requirement), tuple(cells[requirement]))
        for requirement in in_order
    ]
    return [
        Group(source, section, tuple(members))
        for (source, section), members in groupby(
            lines, key=lambda line: (line.words.source, line.words.section)
        )
    ]


def unjudged(
    coverage: Iterable[Mapping[str, Any]], requirements: Requirements, profiles: set[str], most: int
) -> tuple[list[Unjudged], int]:
    """Return at most ``most`` requirements, by source, that could have been judged on these targets
    but were not, and their total number."""
    judged = {row["requirement"] for row in coverage}
    by_source: dict[str, list[Words]] = defaultdict(list)
    totals: dict[str, int] = defaultdict(int)
    for words in requirements:
        if words.judgeable and (not words.profile or words.profile in profiles):
            totals[words.source] += 1
            if words.id not in judged:
                by_source[words.source].append(words)
    total = sum(len(words) for words in by_source.values())
    listed: list[Unjudged] = []
    left = most
    for source, missing in by_source.items():
        listed.append(Unjudged(source, tuple(missing[:left]), len(missing), totals[source]))
        left = max(0, left - len(missing))
    return listed, total


def model(
    tables: Tables,
    rows: Sequence[CaseRow],
    runs: Sequence[Run],
    requirements: Requirements,
    limits: Limits,
) -> Model:
    """Return the model of the index, with all parts limited, but without results from recordings.
    ``rows`` are the cases."""
    counted = tables.counts.to_pylist()
    all_columns = columns(runs, counted)
    shown = shown_columns(all_columns, runs, limits.columns)
    pages = {(row.run, row.target, row.case): row.page for row in rows if row.page is not None}
    places = {(column.run, column.target) for column in shown}
    matrix = [row for row in tables.matrix.to_pylist() if (row["run"], row["target"]) in places]
    coverage = tables.coverage.select(["requirement", "covered"]).to_pylist()
    judged = [row for row in coverage if row["covered"]]
    profiles = {str(target.get("profile", "")) for run in runs for target in run.targets}
    missing, missing_total = unjudged(judged, requirements, profiles, limits.unjudged)
    most_cells = limits.requirements * len(shown)
    matrix_groups = groups(matrix[:most_cells], shown, requirements, pages)
    all_bars = bars(all_columns, counted)
    return Model(
        runs=list(runs),
        columns=shown,
        bars=all_bars,
        groups=matrix_groups,
        cases=list(rows),
        cases_total=sum(row["cases"] for row in counted),
        requirements_total=len(tables.matrix.column("requirement").unique()),
        judged_total=len(judged),
        unjudged=missing,
        unjudged_total=missing_total,
        known_requirements=sum(1 for _ in requirements),
        warnings=_warnings(runs, all_columns, shown),
        pasts=_pasts(tables.history, runs, all_bars, pages, limits) if len(runs) > 1 else [],
    )


def with_recordings(
    shown: Model,
    irregular: Sequence[Mapping[str, Any]],
    errors: Sequence[Mapping[str, Any]],
    limits: Limits,
) -> Model:
    """Return the model with errors and with results from recordings, contradictions first."""
    contradictions = sum(bool(row["contradicts"]) for row in irregular)
    several = len(shown.runs) > 1
    rows = [
        {
            **row,
            "page": case_link(row["run"], row["target"], row["case"], several=several)
            if row["verdict"]
            else None,
        }
        for row in irregular[: limits.again]
    ]
    again = Again(rows, len(irregular), contradictions)
    return replace(shown, errors=list(errors[: limits.errors]), again=again)


def _pasts(
    table: pa.Table,
    runs: Sequence[Run],
    of: Sequence[Bar],
    pages: Mapping[tuple[str, str, str], str],
    limits: Limits,
) -> list[Past]:
    counts = {(bar.column.run, bar.column.target): dict(bar.counts) for bar in of}
    changes = changed(table.filter(pc.field("verdicts") > 1).to_pylist())
    ways = Counter((row["target"], row["course"]) for row in changes)
    return pasts(runs, counts, changes[: limits.changes], ways, pages)


def _warnings(runs: Sequence[Run], every: Sequence[Column], shown: Sequence[Column]) -> list[str]:
    sentences = []
    for run in runs:
        if run.footer is None:
            sentences.append(
                f"Run {run.name} was cut off before it ended: the report shows what it had written"
                " by then."
            )
        if run.torn:
            sentences.append(
                f"The last line of {run.name}/results.ndjson was incomplete and is left out."
            )
        if not run.segments():
            sentences.append(
                f"Run {run.name} has no recorded trace: its case pages show no frames."
            )
    if len(every) > len(shown):
        sentences.append(
            f"{len(every)} targets and runs were judged; the matrix shows {len(shown)}, the latest."
        )
    return sentences
