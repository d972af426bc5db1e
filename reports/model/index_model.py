"""The model of the index: plain data of limited size, outside Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Self

from brokerproof.harness.catalogue.cases import title
from brokerproof.harness.results.verdict import LISTED, WORST_FIRST
from brokerproof.reports.model.requirements import Words
from brokerproof.reports.model.target_history import Past
from brokerproof.reports.sources.runs import Run

LETTERS: Mapping[str, str] = {
    "ERROR": "E",
    "FAIL": "F",
    "INCONCLUSIVE": "I",
    "KNOWN": "K",
    "WARN": "W",
    "SKIP": "S",
    "NOTE": "N",
    "PASS": "P",
}
"""One letter per verdict, so that readers can distinguish verdicts without colour."""

MEANINGS: Mapping[str, str] = {
    "ERROR": "an error in brokerproof; says nothing about the broker",
    "FAIL": "the target violated a MUST or the vendor's own documentation",
    "INCONCLUSIVE": "the situation never arose, or the measurement was too uncertain",
    "KNOWN": "a listed deviation, with its reason",
    "WARN": "the target did not follow a SHOULD",
    "SKIP": "the target lacks a capability that the case needs",
    "NOTE": "the specification leaves a choice: recorded, not judged",
    "PASS": "every requirement was kept",
}

VERDICTS: tuple[str, ...] = tuple(verdict.value for verdict in WORST_FIRST)
"""The verdicts, the worst first."""

SHOWN: tuple[str, ...] = tuple(verdict.value for verdict in LISTED)
"""The order in which verdicts are listed."""

MOST_NAMED = 3
"""The maximum number of targets in the title of a window."""
_BAD = ("FAIL", "ERROR", "INCONCLUSIVE")


@dataclass(frozen=True, slots=True)
class Column:
    """One target of one run: a column of the matrix. ``label`` is its name, with its run if there
    are several. ``facts`` are the broker's version and profile; ``latest`` is true if no later run
    judged the same target."""

    run: str
    target: str
    label: str
    facts: str = ""
    latest: bool = True


@dataclass(frozen=True)
class Bar:
    """The verdict counts of one column: the verdicts that occur, worst first."""

    column: Column
    counts: tuple[tuple[str, int], ...]
    seconds: float

    @property
    def cases(self) -> int:
        return sum(count for _, count in self.counts)


@dataclass(frozen=True, slots=True)
class CaseRow:
    """One case on one target. ``page`` is the address of the case's page, relative to the report's
    folder; None if there is none."""

    run: str
    target: str
    case: str
    verdict: str
    detail: str
    requirements: tuple[str, ...]
    attempts: int
    duration_s: float
    measurements: str
    page: str | None = None
    doc: str = ""
    source: str = ""
    unrecorded_examples: int = 0
    drawn: tuple[str, ...] = ()
    impact: str = ""
    """The worst impact of the violated requirements."""

    @property
    def title(self) -> str:
        return title(self.doc) or self.case

    @property
    def named(self) -> str:
        return self.case if self.title == self.case else f"{self.title} · {self.case}"


@dataclass(frozen=True, slots=True)
class Cell:
    """The worst verdict on a requirement in a column, the number of cases, and the page of the
    worst case."""

    verdict: str
    cases: int
    case: str
    page: str | None


@dataclass(frozen=True)
class MatrixRow:
    """One requirement. In a column without a cell, no case judged it."""

    words: Words
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class Group:
    """The requirements in one section of one source (and version)."""

    source: str
    section: str
    rows: tuple[MatrixRow, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """Successive groups that belong to one source."""

    source: str
    groups: tuple[Group, ...]

    @property
    def rows(self) -> int:
        """The approximate number of lines, requirements and headings included."""
        return sum(len(group.rows) + 1 for group in self.groups)


@dataclass(frozen=True)
class Unjudged:
    """Requirements of one source on which no case made a finding: ``missing`` of ``of``; ``words``
    lists some."""

    source: str
    words: tuple[Words, ...]
    missing: int
    of: int


@dataclass(frozen=True)
class Again:
    """The results of judging the recordings again: the first rows, the total number, and the number
    in cases that reported no violation."""

    rows: Sequence[Mapping[str, Any]] = ()
    total: int = 0
    contradicting: int = 0


@dataclass
class Model:
    """The model of the index. If a list was cut, a count has its full length."""

    runs: list[Run]
    columns: list[Column]
    bars: list[Bar]
    groups: list[Group]
    cases: list[CaseRow]
    cases_total: int
    requirements_total: int
    judged_total: int
    unjudged: list[Unjudged]
    unjudged_total: int
    known_requirements: int
    errors: list[Mapping[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    pasts: list[Past] = field(default_factory=list)
    again: Again = field(default_factory=Again)

    @property
    def targets(self) -> int:
        return len({bar.column.target for bar in self.bars})

    @property
    def latest(self) -> list[Bar]:
        return [bar for bar in self.bars if bar.column.latest]

    @property
    def documents(self) -> list[Document]:
        """The matrix by source, in the order of :attr:`groups`."""
        return [
            Document(source, tuple(some))
            for source, some in groupby(self.groups, key=lambda group: group.source)
        ]

    @property
    def headline(self) -> str:
        """The targets and their worst results, for the title of the window."""
        worst = [f"{count} {verdict}" for verdict, count in self.now.items() if verdict in _BAD]
        passed = f"{self.now.get('PASS', 0)} PASS"
        targets = list(dict.fromkeys(bar.column.target for bar in self.latest))
        named = ", ".join(targets[:MOST_NAMED])
        if len(targets) > MOST_NAMED:
            named += f" and {len(targets) - MOST_NAMED} more"
        return f"{named}: {', '.join(worst) or passed}" if targets else "no results"

    @property
    def listed(self) -> int:
        return sum(len(group.rows) for group in self.groups)

    def halved(self) -> Self:
        """Return a copy of the model with lists half as long but the same counts."""
        groups = _first(self.groups, self.listed // 2)
        unjudged = [
            replace(source, words=source.words[: len(source.words) // 2])
            for source in self.unjudged
        ]
        cases = self.cases[: len(self.cases) // 2]
        pasts = [
            replace(past, changed=past.changed[: len(past.changed) // 2]) for past in self.pasts
        ]
        errors = self.errors[: len(self.errors) // 2]
        again = replace(self.again, rows=self.again.rows[: len(self.again.rows) // 2])
        return replace(
            self,
            cases=cases,
            groups=groups,
            unjudged=unjudged,
            errors=errors,
            pasts=pasts,
            again=again,
        )

    @property
    def totals(self) -> dict[str, int]:
        """The number of cases by verdict over all columns: the verdicts that occur, worst first."""
        return _total(self.bars)

    @property
    def now(self) -> dict[str, int]:
        """The counts over the last run of each target. Violations that have since been fixed do not
        count."""
        return _total(self.latest)

    @property
    def begun(self) -> list[str]:
        """The start times of the first and the last run, as far as recorded."""
        return sorted(str(run.header["started"]) for run in self.runs if run.header.get("started"))


def _total(bars: list[Bar]) -> dict[str, int]:
    counts = dict.fromkeys(SHOWN, 0)
    for bar in bars:
        for verdict, count in bar.counts:
            counts[verdict] += count
    return {verdict: count for verdict, count in counts.items() if count}


def _first(groups: list[Group], rows: int) -> list[Group]:
    kept = []
    for group in groups:
        if rows <= 0:
            break
        kept.append(replace(group, rows=group.rows[:rows]))
        rows -= len(group.rows)
    return kept
