"""Combinations of a frame's fields that cover every pair of values.

A :class:`Table` lists the fields of a step, each with its values. :meth:`Table.rows` is a covering
array: each compatible pair of values of two fields is in one of its rows. So a few rows find the
faults that need two options together.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

from hypothesis import strategies as st

Row: TypeAlias = Mapping[str, str | None]
"""A value for each field; None leaves the field out."""
Choice: TypeAlias = tuple[str, str | None]
Pair: TypeAlias = frozenset[Choice]


def pairs_of(row: Row) -> set[Pair]:
    return {frozenset(pair) for pair in combinations(row.items(), 2)}


@dataclass(frozen=True)
class Table:
    """The fields of a step. The ``excluded`` pairs are incompatible: a broker may refuse them, or
    the specification does not define them."""

    frames: str
    fields: Mapping[str, tuple[str | None, ...]]
    excluded: frozenset[Pair] = frozenset()

    def is_legal(self, row: Row) -> bool:
        return not pairs_of(row) & self.excluded

    def pairs(self) -> set[Pair]:
        """Return all compatible pairs of values of two fields."""
        values = [[(name, value) for value in values] for name, values in self.fields.items()]
        return {
            frozenset((one, other))
            for first, second in combinations(values, 2)
            for one in first
            for other in second
        } - self.excluded

    def rows(self) -> list[dict[str, str | None]]:
        left = self.pairs()
        order = sorted(left, key=lambda pair: sorted(map(str, pair)))
        rows = []
        for pair in order:
            if pair in left:
                row = self._completed(dict(pair), left)
                rows.append({name: row[name] for name in self.fields})
                left -= pairs_of(row)
        return rows

    def covered(self, rows: Iterable[Row]) -> int:
        return len(self.pairs() & {pair for row in rows for pair in pairs_of(row)})

    def drawn(self) -> st.SearchStrategy[dict[str, str | None]]:
        fields = {name: st.sampled_from(values) for name, values in self.fields.items()}
        # Hypothesis draws the order of the fields too; verdicts list them in the table's order.
        rows = st.fixed_dictionaries(fields).map(lambda row: {name: row[name] for name in fields})
        return rows.filter(self.is_legal)

    def _completed(self, row: dict[str, str | None], wanted: set[Pair]) -> dict[str, str | None]:
        """Complete ``row`` with the values that cover the most pairs of ``wanted``."""
        for name, values in self.fields.items():
            if name not in row:
                able = [value for value in values if self.is_legal({**row, name: value})]
                row[name] = max(able, key=lambda value: self._gain(row, (name, value), wanted))
        return row

    @staticmethod
    def _gain(row: Row, choice: Choice, wanted: set[Pair]) -> int:
        return sum(frozenset((choice, other)) in wanted for other in row.items())


def excluding(*pairs: tuple[Choice, Choice]) -> frozenset[Pair]:
    return frozenset(frozenset(pair) for pair in pairs)
