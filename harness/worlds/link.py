"""Simulated links with latency, fragmentation and stalls, all from one seed.

A link carries TCP, so it never reorders or loses bytes. It can delay bytes, split the stream
anywhere, and drop the connection."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from brokerproof.harness.model.time import Duration, Instant


@dataclass(frozen=True, slots=True)
class LinkFaults:
    """The faults of a link. By default it has none: no latency, no splitting.

    ``latency`` and ``jitter`` apply to each direction: each piece takes ``latency`` plus at most
    ``jitter``, and the order is kept. The sizes of pieces are drawn from 1 to ``fragment`` bytes
    (0: never split)."""

    latency: Duration = 0
    jitter: Duration = 0
    fragment: int = 0


PERFECT = LinkFaults()


class Direction:
    """One direction of a link: decides when each piece of the data written arrives."""

    def __init__(self, faults: LinkFaults, dice: random.Random) -> None:
        self._faults, self._dice = faults, dice
        self._last: Instant = 0

    def carry(self, now: Instant, data: bytes) -> Iterator[tuple[Instant, bytes]]:
        """Return the pieces of ``data`` with their instants of arrival, in order."""
        start = 0
        while start < len(data):
            size = len(data) - start
            if self._faults.fragment:
                size = min(size, self._dice.randint(1, self._faults.fragment))
            yield self.arrival(now), data[start : start + size]
            start += size

    def arrival(self, now: Instant) -> Instant:
        """Return the arrival time of data written now, never before that of earlier data."""
        late = self._faults.latency
        if self._faults.jitter:
            late += self._dice.randint(0, self._faults.jitter)
        self._last = max(self._last, now + late)
        return self._last
