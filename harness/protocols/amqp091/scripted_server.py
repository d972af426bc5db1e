"""The server end of an AMQP 0-9-1 connection, for judging clients. It answers every request that a
case does not answer itself."""

from collections import Counter
from typing import Any

from brokerproof.harness.model.time import Instant
from brokerproof.harness.protocols.amqp091 import codec
from brokerproof.harness.protocols.amqp091.codec import Method
from brokerproof.harness.protocols.amqp091.raw_peer import CAPABILITIES, Amqp091Peer, method
from brokerproof.harness.protocols.amqp091.trace_recorder import UNREADABLE
from brokerproof.harness.protocols.conversation import Judge, Requirements
from brokerproof.harness.protocols.scripted import Scripted

ANSWERED = frozenset(
    {
        "connection.open",
        "connection.close",
        "channel.open",
        "channel.close",
        "basic.qos",
        "basic.consume",
        "basic.cancel",
        "confirm.select",
    }
)
MECHANISMS, LOCALES = "PLAIN AMQPLAIN", "en_US"
HEADER = method(codec.PROTOCOL_HEADER)


class Amqp091Server(Scripted[Method], Amqp091Peer):
    """One connection that a client opened. As with any raw peer, what it sends is not checked."""

    protocol = "AMQP091.CLIENT"

    def __init__(self, judge: Judge, conn: int) -> None:
        super().__init__(judge, conn, "client")
        self.methods: list[Method] = []
        """Every received method, in order, whether consumed or not."""
        self.withheld: set[str] = set()
        """Methods that the case itself answers or leaves unanswered."""
        self._tags: Counter[int] = Counter()

    def decode(self, at: Instant, data: bytes) -> None:
        for asked in self._recorder.on_bytes_received(at, data):
            self.inbox.append(asked)
            self.methods.append(asked)
            if asked.name in ANSWERED - self.withheld and not asked.get("no-wait"):
                self.answer(asked)

    def fatal(self, frame: Method) -> bool:
        return frame.name == UNREADABLE

    def answer(self, asked: Method) -> None:
        fields: dict[str, Any] = {}
        if asked.name in ("basic.consume", "basic.cancel"):
            fields["consumer-tag"] = self.tag_of(asked)
        self.send(f"{asked.name}-ok", fields, channel=asked.channel)

    def tag_of(self, consume: Method) -> str:
        """Return the tag of a consumer: the client's, or a generated one."""
        return consume["consumer-tag"] or f"tag-{self.methods.index(consume)}"

    def propose(self) -> None:
        properties = {"product": "brokerproof", "version": "1", "capabilities": dict(CAPABILITIES)}
        fields = {"version-major": 0, "version-minor": 9, "server-properties": properties}
        texts = {"mechanisms": MECHANISMS.encode(), "locales": LOCALES.encode()}
        self.send("connection.start", {**fields, **texts})

    def tune(self, heartbeat: int = 0, channel_max: int = 2047, frame_max: int = 131072) -> Method:
        """Let the client log in, propose these limits, and return the client's tune-ok."""
        self.propose()
        self.expect(method("connection.start-ok"))
        limits = {"channel-max": channel_max, "frame-max": frame_max, "heartbeat": heartbeat}
        self.send("connection.tune", limits)
        agreed = self.expect(method("connection.tune-ok"))
        self.frame_max = agreed["frame-max"]
        return agreed

    def received(self, name: str, *, proves: Requirements | None = None, **fields: Any) -> Method:
        """Return the next method of that name; it may have been answered already."""
        return self.expect(method(name, **fields), proves=proves)

    def delivery_of(self, consume: Method, body: bytes, frame_max: int | None = None) -> bytes:
        """Return the frames of the next message for the consumer of ``consume``."""
        channel = consume.channel
        self._tags[channel] += 1
        fields = {
            "consumer-tag": self.tag_of(consume),
            "delivery-tag": self._tags[channel],
            "routing-key": consume["queue"],
        }
        begin = codec.encode_frame(
            codec.METHOD, channel, codec.encode_method("basic.deliver", fields)
        )
        most = self.frame_max if frame_max is None else frame_max
        return begin + codec.encode_content(channel, body, {"priority": 1}, frame_max=most)

    def deliver(self, consume: Method, body: bytes) -> int:
        """Send a message to the consumer of ``consume``; return its delivery tag."""
        self.write(self.delivery_of(consume, body))
        return self._tags[consume.channel]
