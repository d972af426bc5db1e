"""The canary: a timer in every real-time run that measures how late this host wakes its threads.

One thread per process asks to be woken every 10 ms and records its delay. If the broker is a
process on this host, it also records how long the broker's threads waited for a core, since the
host may wake us on time but the broker late. If this lateness can explain a measured delay, the
delay supports no verdict."""

import threading
import time
from collections import deque
from dataclasses import dataclass
from itertools import takewhile

from brokerproof.harness.model.time import NS_PER_MS, Duration, Instant
from brokerproof.harness.worlds.broker_core_waits import SchedulerDelay
from brokerproof.harness.worlds.host_clock import HOST_CLOCK, HostClock

PERIOD: Duration = 10 * NS_PER_MS
LOOK: Duration = 100 * NS_PER_MS
"""The least interval between two checks of the broker's threads …"""
LOOK_SHARE = 100
"""… unless this many times the duration of a check is longer. Checking a hundred threads takes
about 2 ms."""
CHAIN: Duration = 1_000 * NS_PER_MS
"""A broker's threads may wait for each other in turn, so the waits of the slowest threads within
this time are added up, but to no more than this time …"""
STARVED_SHARE = 2
"""… unless the host gives the broker no core for longer: the waits of all consecutive checks in
which a thread waited for at least the check's interval divided by this number are added up too."""
_KEEP = 200_000
"""The number of readings kept, enough for about half an hour."""


@dataclass(frozen=True, slots=True)
class _Look:
    """How long the broker's slowest thread waited for a core between two host instants."""

    since: Instant
    at: Instant
    waited: Duration


class Canary:
    """The lateness at each instant of ``host_clock``, with that of ``broker``. Start it once; read
    it from any thread."""

    def __init__(
        self, broker: SchedulerDelay | None = None, host_clock: HostClock = HOST_CLOCK
    ) -> None:
        self._readings: deque[tuple[Instant, Duration]] = deque(maxlen=_KEEP)
        self._looks: deque[_Look] = deque(maxlen=_KEEP)
        self._broker, self._looked, self._looking = broker, 0, threading.Lock()
        self._began = 0
        self._look_every = LOOK
        self._clock = host_clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="brokerproof-canary", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Stop measuring; the readings are kept."""
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
            if now - self._looked >= self._look_every:
                self._look()
            if now - due > PERIOD:
                due = now  # when one long pause misses several beats, count it only once

    def _look(self) -> None:
        if self._broker is None:
            return
        asked = time.monotonic_ns()
        with self._looking:
            if self._began > asked:  # another thread measured while we waited for the lock
                return
            self._began = began = time.monotonic_ns()
            waited = self._broker.worst()
            since, self._looked = self._looked, time.monotonic_ns()
            self._look_every = max(LOOK, LOOK_SHARE * (self._looked - began))
            self._looks.append(_Look(since, self._looked, waited))

    def worst(self, since: Instant, until: Instant | None = None) -> Duration:
        """Return the worst lateness, including the broker's, of all readings at or after ``since``;
        0 if there are none. With ``until``, only readings due or taken before that instant are
        used."""
        self._look()
        since = self._clock.on_host(since)
        # Start with the last reading.
        readings = list(takewhile(lambda entry: entry[0] >= since, reversed(self._readings.copy())))
        looks = list(takewhile(lambda look: look.at >= since, reversed(self._looks.copy())))
        if until is not None:
            until = self._clock.on_host(until)
            readings = [(at, late) for at, late in readings if at - late <= until]
            looks = [look for look in looks if look.since <= until]
        worst = max(max((late for _, late in readings), default=0), _worst_chain(looks))
        return self._clock.of_host(worst)

    def quantile(self, share: float) -> Duration:
        """Return this quantile of our own readings; 0 if there are none."""
        ordered = sorted(late for _, late in self._readings.copy())
        late = ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0
        return self._clock.of_host(late)


def _worst_chain(looks: list[_Look]) -> Duration:
    """Return the largest sum of checks within :data:`CHAIN` or while the broker was starved, or the
    largest check if that exceeds both. ``looks`` is in reverse order."""
    total = starved = ended = 0
    worst = max((look.waited for look in looks), default=0)
    chain: deque[_Look] = deque()
    for look in looks:
        chain.append(look)
        total += look.waited
        while chain[0].at - look.at >= CHAIN:
            total -= chain.popleft().waited
        worst = max(worst, min(total, CHAIN))
        if look.waited * STARVED_SHARE < look.at - look.since:
            starved = 0
            continue
        ended = ended if starved else look.at
        starved += look.waited
        worst = max(worst, min(starved, ended - look.since))
    return worst
