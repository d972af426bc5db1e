"""A heap of deadlines with cheap replacement: each key has at most one, and a replaced one is
skipped when it surfaces."""

from __future__ import annotations

import heapq
from typing import TypeAlias

from brokerproof.harness.model.time import Instant

Key: TypeAlias = tuple[int, str]
"""Connection and what is due there."""


class Deadlines:
    """What is due when. Equal instants come due in the order in which they were set."""

    def __init__(self) -> None:
        self._heap: list[tuple[Instant, int, Key]] = []
        self._current: dict[Key, tuple[Instant, int]] = {}
        self._ticket = 0

    def set(self, key: Key, at: Instant) -> None:
        """Makes ``key`` due at ``at``, instead of at whatever instant it was due before."""
        self._ticket += 1
        self._current[key] = (at, self._ticket)
        heapq.heappush(self._heap, (at, self._ticket, key))
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._current):
            self._heap = [(at, ticket, key) for key, (at, ticket) in self._current.items()]
            heapq.heapify(self._heap)

    def cancel(self, key: Key) -> None:
        """``key`` is due no more; nothing happens if it was not."""
        self._current.pop(key, None)

    def next(self) -> Instant | None:
        """The earliest instant at which something is due, or None."""
        heap = self._heap
        while heap:
            at, ticket, key = heap[0]
            if self._current.get(key) == (at, ticket):
                return at
            heapq.heappop(heap)
        return None

    def pop_due(self, now: Instant) -> Key | None:
        """Removes and returns the key that has been due longest at ``now``, or None when nothing is
        due."""
        at = self.next()
        if at is None or at > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._current[key]
        return key
