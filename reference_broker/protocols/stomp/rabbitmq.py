"""STOMP heartbeats as RabbitMQ has them (deps/rabbitmq_stomp, rabbit_heartbeat; seen on 3.10.8 and
4.0.5)."""

from __future__ import annotations

from brokerproof.harness.model.time import Duration, Instant
from brokerproof.reference_broker.families.activemq.inactivity import InactivityMonitor
from brokerproof.reference_broker.kernel.liveness import NEVER
from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.heartbeat import Agreement, HeartBeatNegotiator

SECOND_MS = 1000


class RabbitHeartBeats(HeartBeatNegotiator):
    """Negotiates whole seconds: 0 is none, a fraction below one second counts as one, any other
    fraction is dropped.

    With f that rule and cx,cy from the client the answer is f(cy),f(cx), and 0,0 without the
    header. We send every half of f(cy), and check for silence every f(cx).
    """

    def initial_ttl_ms(self) -> int:
        return 0

    def negotiate(self, header: str | None, version: Version) -> Agreement:
        cx, cy = (0, 0) if header is None else self.parse(header, version)
        ours, theirs = self.whole(cy), self.whole(cx)
        return Agreement(
            f"{ours},{theirs}", ours // 2, theirs, client_beats=cx != 0, first_look_ms=theirs
        )

    @staticmethod
    def whole(promised_ms: int) -> int:
        """Return f, in milliseconds."""
        return max(SECOND_MS, promised_ms // SECOND_MS * SECOND_MS) if promised_ms else 0


class TwoMissedChecks(InactivityMonitor):
    """Closes after two checks in a row without a new byte. With R the interval, checks are at A +
    R, A + 2 R … after the agreement at A, so the close is more than 2 R and at most 3 R after the
    last byte."""

    def on_bytes_received(self, now: Instant, data: bytes) -> None:
        self.last_heard = now

    def agreed(self, now: Instant, ttl: Duration, first: Duration) -> None:
        super().agreed(now, ttl, first)
        self.last_heard = now

    def deadline(self) -> Instant:
        return NEVER if self.ttl <= 0 else self._look(self.last_heard) + 2 * self.ttl
