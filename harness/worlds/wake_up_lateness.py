"""The canary: a timer that runs through every real-time run and measures how late this host wakes
its threads.

One thread a process asks to be woken every 10 ms and notes by how much it was late. Where the
broker is a process on this host, it also notes how long that one's threads waited for a core: a
host may wake us in time and the broker late. A measurement during which the canary was late cannot
carry a verdict by more than that lateness.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from itertools import takewhile

from brokerproof.harness.model.time import NS_PER_MS, Duration, Instant
from brokerproof.harness.worlds.broker_core_waits import SchedulerDelay
from brokerproof.harness.worlds.host_clock import HOST_CLOCK, HostClock

PERIOD: Duration = 10 * NS_PER_MS
LOOK: Duration = 250 * NS_PER_MS
"""Interval at which the broker's threads are looked at; a look at a hundred of them takes about 2
ms."""
CHAIN: Duration = 1_000 * NS_PER_MS
"""A broker's threads wait one after the other for each other: what the slowest of them waited
within this time adds up."""
_KEEP = 200_000
"""Readings kept: about half an hour."""


class Canary:
    """Measured lateness by instant of ``host_clock``. Start once; read from any thread. ``broker``
    is looked at too."""

    def __init__(
        self, broker: SchedulerDelay | None = None, host_clock: HostClock = HOST_CLOCK
    ) -> None:
        self._readings: deque[tuple[Instant, Duration]] = deque(maxlen=_KEEP)
        self._waited: deque[tuple[Instant, Duration]] = deque(maxlen=_KEEP)
        self._broker, self._looked, self._looking = broker, 0, threading.Lock()
        self._clock = host_clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="brokerproof-canary", daemon=True)

    def start(self) -> None:
        """Begin to measure."""
        self._thread.start()

    @property
    def running(self) -> bool:
        """True if it measures."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Stop measuring; the readings stay."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        due = time.monotonic_ns()
        while not self._stop.is_set():
            due += PERIOD
            pause = due - time.monotonic_ns()
            if pause > 0:
                time.sleep(pause / 1e9)
            now = time.monotonic_ns()
            self._readings.append((now, max(0, now - due)))
            if now - self._looked >= LOOK:
                self._look()
            if now - due > PERIOD:
                due = now  # do not count one long pause again for every beat it swallowed

    def _look(self) -> None:
        if self._broker is None:
            return
        with self._looking:
            waited = self._broker.worst()
            self._looked = time.monotonic_ns()
            self._waited.append((self._looked, waited))

    def worst(self, since: Instant, until: Instant | None = None) -> Duration:
        """The worst lateness of any reading taken at or after ``since``, the broker's included; 0
        when there is none. With ``until`` only of what was due, or looked at, before it."""
        self._look()
        since = self._clock.on_host(since)
        readings, waited = _since(self._readings, since), _since(self._waited, since)
        if until is not None:
            until = self._clock.on_host(until)
            readings = [(at, late) for at, late in readings if at - late <= until]
            waited = [(at, late) for at, late in waited if at - LOOK <= until]
        worst = max(max((late for _, late in readings), default=0), _worst_chain(waited))
        return self._clock.of_host(worst)

    def quantile(self, share: float) -> Duration:
        """The lateness that this share of our own readings did not exceed; 0 without readings."""
        ordered = sorted(late for _, late in self._readings.copy())
        late = ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0
        return self._clock.of_host(late)


def _since(
    readings: deque[tuple[Instant, Duration]], since: Instant
) -> list[tuple[Instant, Duration]]:
    """The readings taken at or after ``since``, the last first."""
    return list(takewhile(lambda reading: reading[0] >= since, reversed(readings.copy())))


def _worst_chain(looks: list[tuple[Instant, Duration]]) -> Duration:
    """The largest sum of readings that were taken within :data:`CHAIN`; ``looks`` has the last
    first."""
    worst = total = 0
    chain: deque[tuple[Instant, Duration]] = deque()
    for at, late in looks:
        chain.append((at, late))
        total += late
        while chain[0][0] - at >= CHAIN:
            total -= chain.popleft()[1]
        worst = max(worst, total)
    return worst
