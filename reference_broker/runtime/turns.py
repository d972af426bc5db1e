"""Limits how long each connection may keep the loop busy, so that no other connection waits long.

A turn is one pass of the loop over everything ready. Its time is processor time. Time that other
processes use is not included, since smaller shares for connections would not win it back."""

import time
from collections import deque
from collections.abc import Callable

from brokerproof.harness.model.time import NS_PER_MS, Duration

TURN_NS = 20 * NS_PER_MS
"""The time of one turn, which connections that send continuously share equally."""
LEAST_NS, MOST_NS = NS_PER_MS // 4, 5 * NS_PER_MS
"""The bounds of one connection's share. All departing connections together get the upper bound."""


class Turns:
    """The turns of one loop; ``in_next_turn`` schedules a call in the next turn."""

    def __init__(self, in_next_turn: Callable[[Callable[[], None]], object]) -> None:
        self._in_next_turn = in_next_turn
        self._busy = self._busy_before = 0
        self._departures: deque[Callable[[], None]] = deque()
        self._departing_until: int | None = None

    def share(self, busy: bool) -> Duration:
        """Return how long one connection may take. ``busy``: the caller had more to read."""
        if busy:
            if not self._busy:
                self._in_next_turn(self._end_turn)
            self._busy += 1
        share = TURN_NS // max(1, self._busy, self._busy_before)
        return min(MOST_NS, max(LEAST_NS, share))

    def _end_turn(self) -> None:
        self._busy_before, self._busy = self._busy, 0

    def depart(self, action: Callable[[], None]) -> None:
        """Carry out ``action``, the end of a connection, in this turn or, if the share is used up,
        in a later one, because thousands of peers may leave together."""
        self._departures.append(action)
        self._let_depart()

    def _let_depart(self) -> None:
        if self._departing_until is None:
            self._departing_until = time.thread_time_ns() + MOST_NS
            self._in_next_turn(self._end_departures)
        while self._departures and time.thread_time_ns() < self._departing_until:
            self._departures.popleft()()

    def _end_departures(self) -> None:
        self._departing_until = None
        if self._departures:
            self._let_depart()
