"""Monitors STOMP peers for inactivity as ActiveMQ does: one check per interval
(``AbstractInactivityMonitor``).

Let R be the interval that the client promised, multiplied by the grace factor, and F the smaller of
the two agreed intervals. If heartbeats are agreed at A, checks happen at A + F, A + F + R, A + F +
2 R … Each check asks these questions in order:

1. Have bytes arrived since the last check? Then all is well.
2. Has a frame arrived since a check last reached this step? Then the peer is spared once.
3. Otherwise the peer is considered dead.

Line ends between frames are bytes but not frames. So a silent peer is disconnected at the second
or third check after its last byte, that is, R to 3 R later, and at least 2 R later if its last
bytes belonged to a frame or it was never silent before."""

from brokerproof.harness.model.time import Duration, Instant
from brokerproof.reference_broker.kernel.liveness import NEVER, IntervalMonitor


class InactivityMonitor(IntervalMonitor):
    """Monitors the input of one connection; R is its ``ttl``."""

    _frame = True

    def agreed(self, now: Instant, ttl: Duration, first: Duration) -> None:
        super().agreed(now, ttl, first)
        self._frame = True

    def on_bytes_received(self, now: Instant, data: bytes) -> None:
        if self.ttl > 0 and self._look(self.last_heard) + self.ttl < now:
            self._frame = False  # a check has found nothing new since
        super().on_bytes_received(now, data)
        self._frame = self._frame or bool(data.strip(b"\r\n"))

    def deadline(self) -> Instant:
        if self.ttl <= 0:
            return NEVER
        return self._look(self.last_heard) + (2 if self._frame else 1) * self.ttl
