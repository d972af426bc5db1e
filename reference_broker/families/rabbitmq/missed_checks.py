"""How RabbitMQ detects silent STOMP peers (rabbit_heartbeat; observed on 3.10.8 and 4.0.5)."""

from brokerproof.harness.model.time import Duration, Instant
from brokerproof.reference_broker.kernel.liveness import NEVER, IntervalMonitor


class TwoMissedChecks(IntervalMonitor):
    """Closes the connection after two successive checks without a new byte. If R is the interval,
    agreed at A, checks are at A + R, A + 2 R …, so the close is more than 2 R and at most 3 R after
    the last byte."""

    def agreed(self, now: Instant, ttl: Duration, first: Duration) -> None:
        super().agreed(now, ttl, first)
        self.last_heard = now

    def deadline(self) -> Instant:
        return NEVER if self.ttl <= 0 else self._look(self.last_heard) + 2 * self.ttl
