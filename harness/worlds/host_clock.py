"""The clock of a real-time target: the host's clock, or a faster one.

A broker with an accelerated clock (``harness/targets/accelerated_clock.py``) completes a time-out
of a minute within seconds. The harness uses the same clock, so cases do not notice the
acceleration."""

import time
from dataclasses import dataclass

from brokerproof.harness.model.time import NS_PER_S, Duration, Instant


@dataclass(frozen=True, slots=True)
class HostClock:
    """The host's monotonic clock, ``rate`` times as fast. ``rate`` is at least 1."""

    rate: int = 1

    def now(self) -> Instant:
        return time.monotonic_ns() * self.rate

    def waiting_s(self, duration: Duration) -> float:
        """Return the host seconds during which ``duration`` passes on this clock."""
        return duration / self.rate / NS_PER_S

    def on_host(self, instant: Instant) -> Instant:
        """Return the host's monotonic clock at ``instant`` of this clock."""
        return instant // self.rate

    def of_host(self, duration: Duration) -> Duration:
        """Return the time that passes on this clock while ``duration`` passes on the host's."""
        return duration * self.rate


HOST_CLOCK = HostClock()
