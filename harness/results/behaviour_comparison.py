"""Compares the behaviours of several brokers or releases."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from brokerproof.harness.catalogue import behaviours
from brokerproof.harness.model.verdicts import Impact
from brokerproof.harness.results import impacts
from brokerproof.harness.results.records import Result

Seen = Mapping[str, Iterable[str]]
"""The values observed for each behaviour, by the behaviour's name."""


@dataclass(frozen=True, slots=True)
class Row:
    """One behaviour, and the values observed in each column (empty if no case observed any)."""

    name: str
    question: str
    impact: Impact | None
    values: tuple[tuple[str, ...], ...]

    @property
    def differs(self) -> bool:
        return len({seen for seen in self.values if seen}) > 1

    def words(self, column: int) -> str:
        return ", ".join(self.values[column]) or "not seen"


def by_target(results: Iterable[Result]) -> dict[str, dict[str, set[str]]]:
    """Return the values observed for each target: several if cases or versions differ."""
    targets: dict[str, dict[str, set[str]]] = {}
    for result in results:
        seen = targets.setdefault(result.target, {})
        for name, values in result.behaviours.items():
            seen.setdefault(name, set()).update(values)
    return targets


def side_by_side(columns: Sequence[Seen]) -> list[Row]:
    """Return a row for each observed behaviour: first those that differ, each part with the worst
    impact first."""
    listed = behaviours.listed()
    named = {name for seen in columns for name in seen}
    rows = []
    for name in (*listed, *sorted(named - listed.keys())):
        if name in named:
            known = listed.get(name)
            values = tuple(tuple(sorted(seen.get(name, ()))) for seen in columns)
            question = known.question if known else "not in the list of this brokerproof"
            rows.append(Row(name, question, known.impact if known else None, values))
    return sorted(
        rows, key=lambda row: (not row.differs, row.differs and impacts.severity(row.impact))
    )
