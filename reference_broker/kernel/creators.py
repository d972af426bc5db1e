"""Counts the existing things of one kind that each connection has created."""

from collections import Counter
from collections.abc import Hashable
from typing import Generic, TypeVar

Thing = TypeVar("Thing", bound=Hashable)


class Creators(Generic[Thing]):
    """The creator of each thing, kept as long as both exist."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._of: dict[Thing, int] = {}

    def count(self, conn: int) -> int:
        """Return how many existing things ``conn`` has created."""
        return self._counts[conn]

    def add(self, conn: int, thing: Thing) -> None:
        self._counts[conn] += 1
        self._of[thing] = conn

    def remove(self, thing: Thing) -> None:
        """Record that ``thing`` no longer exists."""
        conn = self._of.pop(thing, None)
        if conn is not None and conn in self._counts:
            self._counts[conn] -= 1

    def forget(self, conn: int) -> None:
        """Record the end of ``conn``: its things stay but no longer belong to a connection."""
        self._counts.pop(conn, None)
