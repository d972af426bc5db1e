"""When we give a sign of life (release 6.3.1, AbstractInactivityMonitor.writeCheck).

With R the lesser maxInactivityDuration of both sides, D the lesser initial delay and T the instant
at which both had said them: at T + D and every R/3 from then on KeepAliveInfo is sent, unless
something else was since the look before. So nobody waits for us longer than two thirds of R. How
silence of the peer is looked for is told in
:mod:`brokerproof.reference_broker.families.activemq.inactivity`.
"""

from __future__ import annotations

from brokerproof.harness.model.time import Duration, Instant

SHARE = 3
_SHORT: Duration = 3_000_000
"""A duration up to which we look as often as the peer does."""


class Signs:
    """``duration`` is R (above 0), ``begin`` is T + D."""

    def __init__(self, duration: Duration, begin: Instant) -> None:
        self.duration = duration
        self.deadline = begin
        """When the next look is."""
        self._spoke = False

    @property
    def rhythm(self) -> Duration:
        """Time between looks."""
        return self.duration // SHARE if self.duration > _SHORT else self.duration

    def spoke(self) -> None:
        """Something else was sent."""
        self._spoke = True

    def wanted(self, now: Instant) -> bool:
        """Looks; whether a sign of life has to be given."""
        self.deadline += self.rhythm
        if self.deadline <= now:
            self.deadline = now + self.rhythm
        silent = not self._spoke
        self._spoke = False
        return silent
