"""Inactivity monitoring of STOMP peers as in ActiveMQ: one check per interval
(``AbstractInactivityMonitor``).

With R the interval, the client's own promise times the grace, and F the smaller of the two
intervals agreed upon, looks come at A + F, A + F + R, A + F + 2 R … after the agreement at A. Each
look asks in this order:

1. Did bytes arrive since the look before? Then all is well.
2. Did a frame arrive since a look came this far? Then it is remembered that none has now.
3. Otherwise the peer is gone.

Ends of line between frames are bytes, but no frame. So a peer that falls silent is given up at the
second or the third look after its last byte; that is R to 3 R later, and 2 R at least if its last
bytes were a frame's or it never fell silent before.
"""

from __future__ import annotations

from brokerproof.harness.model.time import Duration, Instant
from brokerproof.reference_broker.kernel.liveness import NEVER, IntervalMonitor


class InactivityMonitor(IntervalMonitor):
    """Watches what one connection receives; R is its ``ttl``."""

    _frame = True

    def agreed(self, now: Instant, ttl: Duration, first: Duration) -> None:
        super().agreed(now, ttl, first)
        self._frame = True

    def on_bytes_received(self, now: Instant, data: bytes) -> None:
        if self.ttl > 0 and self._look(self.last_heard) + self.ttl < now:
            self._frame = False  # a look has found nothing new meanwhile
        super().on_bytes_received(now, data)
        self._frame = self._frame or bool(data.strip(b"\r\n"))

    def deadline(self) -> Instant:
        if self.ttl <= 0:
            return NEVER
        return self._look(self.last_heard) + (2 if self._frame else 1) * self.ttl
