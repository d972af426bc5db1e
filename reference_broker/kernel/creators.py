"""Number of things of one kind that each connection has created and that still exist."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Generic, TypeVar

Thing = TypeVar("Thing", bound=Hashable)


class Creators(Generic[Thing]):
    """The creator of each thing, as long as both exist."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._of: dict[Thing, int] = {}

    def count(self, conn: int) -> int:
        """Return how many things of ``conn`` exist."""
        return self._counts[conn]

    def add(self, conn: int, thing: Thing) -> None:
        self._counts[conn] += 1
        self._of[thing] = conn

    def remove(self, thing: Thing) -> None:
        """Note that ``thing`` exists no more."""
        conn = self._of.pop(thing, None)
        if conn is not None and conn in self._counts:
            self._counts[conn] -= 1

    def forget(self, conn: int) -> None:
        """``conn`` is over: its things stay, and count for nobody."""
        self._counts.pop(conn, None)
