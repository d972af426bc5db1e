"""When we send KeepAliveInfo (release 6.3.1, AbstractInactivityMonitor.writeCheck).

Let R be the shorter maxInactivityDuration of both sides, D the shorter initial delay and T the
instant at which both were known. At T + D and every R/3 from then on, KeepAliveInfo is sent unless
something else was sent since the previous check. So our longest silence is two thirds of R. The
peer's silence is checked in :mod:`brokerproof.reference_broker.families.activemq.inactivity`.
"""

from brokerproof.harness.model.time import Duration, Instant

SHARE = 3
_SHORT: Duration = 3_000_000
"""Durations up to this are checked as often as the peer checks them."""


class Signs:
    """Decides when KeepAliveInfo is sent. ``duration`` is R (above 0), ``begin`` is T + D."""

    def __init__(self, duration: Duration, begin: Instant) -> None:
        self.duration = duration
        self.deadline = begin
        """The instant of the next check."""
        self._spoke = False

    @property
    def rhythm(self) -> Duration:
        return self.duration // SHARE if self.duration > _SHORT else self.duration

    def spoke(self) -> None:
        """Record that something else was sent."""
        self._spoke = True

    def is_due(self, now: Instant) -> bool:
        """Return True if KeepAliveInfo must be sent at ``now``, and advance the deadline."""
        self.deadline += self.rhythm
        if self.deadline <= now:
            self.deadline = now + self.rhythm
        silent = not self._spoke
        self._spoke = False
        return silent
