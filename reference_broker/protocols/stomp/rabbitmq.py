"""STOMP heartbeats as RabbitMQ negotiates them (rabbitmq_stomp; observed on 3.10.8 and 4.0.5)."""

from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.heartbeat import Agreement, HeartBeatNegotiator

SECOND_MS = 1000


class RabbitHeartBeats(HeartBeatNegotiator):
    """Negotiates whole seconds: 0 means none, less than one second is rounded up to one, and any
    other fraction is dropped.

    If f is this rule and the client sends cx,cy, the answer is f(cy),f(cx); without the header, the
    answer is 0,0. We send every f(cy) / 2, and check for silence every f(cx).
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
        """Return the value of f in milliseconds."""
        return max(SECOND_MS, promised_ms // SECOND_MS * SECOND_MS) if promised_ms else 0
