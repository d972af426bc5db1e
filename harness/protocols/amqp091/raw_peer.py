"""A raw AMQP 0-9-1 peer, which can speak correctly or send arbitrary bytes.

Every verb fills in the values of a correct peer; :meth:`Amqp091Peer.send`,
:meth:`Amqp091Peer.send_frame` and :meth:`Amqp091Peer.write` send anything else. Sent bytes are
recorded as the harness's own codec reads them; bytes that are not a frame are recorded as bytes.
"""

from collections.abc import Callable, Mapping
from typing import Any

from brokerproof.harness.model.time import Duration, Instant
from brokerproof.harness.protocols.amqp091 import codec, extensions
from brokerproof.harness.protocols.amqp091.codec import Method
from brokerproof.harness.protocols.amqp091.trace_recorder import (
    PROTOCOL,
    UNREADABLE,
    Amqp091TraceRecorder,
)
from brokerproof.harness.protocols.conversation import (
    PATIENCE,
    ControlFailed,
    Conversation,
    Judge,
    Match,
    Requirements,
    Symptom,
    either,
)

CAPABILITIES: dict[str, bool] = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}
"""The capabilities that clients usually have."""
BARRIER = "amq.direct"
"""An exchange that always exists (3.1.3). A check for it is harmless, and its answer follows all
earlier answers."""


def method(name: str, /, *, channel: int | None = None, **fields: Any) -> Match[Method]:
    """Match a method by name, channel, and plain values of fields and properties (None: must be
    absent)."""
    expected = codec.hyphened(fields)
    words = " ".join([name, *(f"{key}={value}" for key, value in expected.items())])

    def accepts(candidate: Method) -> bool:
        if candidate.name != name or (channel is not None and candidate.channel != channel):
            return False
        return all(candidate.get(key) == value for key, value in expected.items())

    return Match(words if channel is None else f"{words} on channel {channel}", accepts)


def require_channels(peer: "Amqp091Peer", count: int) -> None:
    """Raise :class:`ControlFailed` if the broker does not offer that many channels."""
    require_below(0 if peer.tuned is None else int(peer.tuned["channel-max"]), count)


def require_below(most: int, count: int) -> None:
    """Raise :class:`ControlFailed` if ``most`` channels, where 0 means any, are fewer than
    ``count``."""
    if 0 < most < count:
        words = f"the broker offers {most} channels on a connection, and this needs {count}"
        raise ControlFailed(words, Symptom.ABSENT)


class Amqp091Peer(Conversation[Method]):
    """One AMQP 0-9-1 connection of the harness."""

    protocol = PROTOCOL

    def __init__(self, judge: Judge, conn: int, acceptor: str) -> None:
        super().__init__(judge, conn, acceptor)
        self.virtual_host = "/"
        self.require: Callable[[str], None] = lambda capability: None
        """Raises :class:`ControlFailed` for an extension that the broker does not offer."""
        self.started: Method | None = None
        """The broker's connection.start, once it has arrived."""
        self.tuned: Method | None = None
        """The broker's connection.tune."""
        self.frame_max = 0
        """The largest frames that :meth:`publish` splits contents into, as in tune-ok; 0: no
        limit."""
        self.properties: Mapping[str, Any] = {}
        """Properties of every message that :meth:`publish` sends, if it does not give them."""
        self._recorder = Amqp091TraceRecorder(judge, conn)

    # Conversation

    def decode(self, at: Instant, data: bytes) -> None:
        for frame in self._recorder.on_bytes_received(at, data):
            self.inbox.append(frame)
            if frame.name == "connection.start":
                self.started = frame
            elif frame.name == "connection.tune":
                self.tuned = frame

    def fatal(self, frame: Method) -> bool:
        return frame.name in ("connection.close", "channel.close", UNREADABLE)

    def words(self, frame: Method) -> str:
        return frame.brief()

    # sending

    def write(self, data: bytes, *, as_event: bool = True) -> None:
        """Write bytes; record them as frames if they are frames, and otherwise as raw bytes."""
        if as_event:
            self._recorder.on_bytes_sent(self.world.now(), data)
        super().write(data, as_event=False)

    def beat(self, data: bytes = codec.encode_frame(codec.HEARTBEAT, 0)) -> None:
        self.write(data)

    def header(self, id: int = 0, major: int = 0, minor: int = 9, revision: int = 1) -> None:
        self.write(codec.protocol_header(id, major, minor, revision))

    def send_frame(self, type: int, channel: int, payload: bytes = b"", **lies: int) -> None:
        """Send one frame; ``size`` and ``end`` may be wrong."""
        self.write(codec.encode_frame(type, channel, payload, **lies))

    def send(
        self,
        name: str,
        fields: Mapping[str, Any] | None = None,
        *,
        channel: int = 0,
        also: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """Send one method frame with exactly these fields; ``also`` may change its bytes."""
        if capability := extensions.needed(name, fields or {}):
            self.require(capability)
        data = codec.encode_frame(codec.METHOD, channel, codec.encode_method(name, fields))
        self.write(data if also is None else also(data))

    def call(
        self,
        name: str,
        fields: Mapping[str, Any] | None = None,
        *,
        channel: int = 1,
        proves: Requirements | None = None,
        within: Duration = PATIENCE,
    ) -> Method:
        """Send a synchronous method; return its answer, the same method with ``-ok``."""
        self.send(name, fields, channel=channel)
        return self.expect(method(f"{name}-ok", channel=channel), within=within, proves=proves)

    # connections

    def start(self, *, proves: Requirements | None = None) -> Method:
        """Send the protocol header; return the broker's start."""
        self.header()
        return self.expect(method("connection.start", channel=0), proves=proves)

    def authenticate(
        self,
        login: str | None,
        passcode: str | None,
        *,
        capabilities: Mapping[str, Any] | None = None,
        proves: Requirements | None = None,
    ) -> Method:
        """Log in (as guest if there is no login); return the broker's tune."""
        offered = "" if self.started is None else str(self.started["mechanisms"])
        fields = codec.start_ok(offered.encode(), login, passcode)
        properties = {
            "product": "brokerproof",
            "capabilities": dict(CAPABILITIES if capabilities is None else capabilities),
        }
        self.start_ok(fields["mechanism"], fields["response"], properties)
        return self.expect(method("connection.tune", channel=0), proves=proves)

    def start_ok(
        self, mechanism: str, response: bytes, properties: Mapping[str, Any] | None = None
    ) -> None:
        fields = {
            "mechanism": mechanism,
            "response": response,
            "locale": "en_US",
            "client-properties": properties or {},
        }
        self.send("connection.start-ok", fields)

    def tune_ok(
        self,
        *,
        channel_max: int | None = None,
        frame_max: int | None = None,
        heartbeat: int | None = 0,
    ) -> None:
        """Answer tune with the broker's values, except heartbeats (seconds), by default none."""
        tuned = self.tuned
        assert tuned is not None, "the broker's tune must arrive first"
        arguments = {"channel-max": channel_max, "frame-max": frame_max, "heartbeat": heartbeat}
        fields = {
            name: tuned[name] if value is None else value for name, value in arguments.items()
        }
        self.frame_max = fields["frame-max"]
        self.send("connection.tune-ok", fields)

    def open(self, vhost: str | None = None, *, proves: Requirements | None = None) -> Method:
        """Open a virtual host, by default the one that the target's clients use."""
        fields = {"virtual-host": self.virtual_host if vhost is None else vhost}
        return self.call("connection.open", fields, channel=0, proves=proves)

    def close(self, *, proves: Requirements | None = None) -> Method:
        fields = {"reply-code": 200, "reply-text": "done"}
        return self.call("connection.close", fields, channel=0, proves=proves)

    def refused(
        self,
        scope: str,
        *codes: int,
        channel: int | None = None,
        within: Duration = PATIENCE,
        proves: Requirements | None = None,
    ) -> Method:
        """Wait for a close of ``scope`` (``connection``, ``channel``, or ``exception`` for either)
        with one of ``codes``, and answer it."""
        closes = ("channel", "connection") if scope == "exception" else (scope,)
        words = " or ".join(f"{name}.close" for name in closes)
        words += f" with {' or '.join(map(str, codes)) or 'any reply code'}"
        reply = self.expect(
            Match(
                words,
                lambda method: (
                    method.name in [f"{name}.close" for name in closes]
                    and (channel is None or method.channel in (0, channel))
                    and (not codes or method["reply-code"] in codes)
                ),
            ),
            within=within,
            proves=proves,
        )
        self.send(f"{reply.name}-ok", channel=reply.channel)
        return reply

    # channels

    def open_channel(self, channel: int = 1, *, proves: Requirements | None = None) -> Method:
        require_channels(self, channel)
        return self.call("channel.open", channel=channel, proves=proves)

    def close_channel(self, channel: int = 1, *, proves: Requirements | None = None) -> Method:
        return self.call(
            "channel.close",
            {"reply-code": 200, "reply-text": "done"},
            channel=channel,
            proves=proves,
        )

    def settle(self, channel: int = 1) -> None:
        """Wait until the broker has processed everything sent earlier on ``channel`` and its
        answers have arrived (a barrier)."""
        self.call(
            "exchange.declare",
            {"exchange": BARRIER, "type": "direct", "passive": True},
            channel=channel,
        )

    # queues and messages

    def declare(
        self,
        queue: str = "",
        *,
        channel: int = 1,
        proves: Requirements | None = None,
        **fields: Any,
    ) -> Method:
        """Declare a queue, by default not durable; the answer has its name, message-count and
        consumer-count."""
        return self.call(
            "queue.declare", {"queue": queue, **fields}, channel=channel, proves=proves
        )

    def count(self, queue: str, *, channel: int = 1) -> int:
        """Return how many messages wait in ``queue``."""
        return int(self.declare(queue, channel=channel, passive=True)["message-count"])

    def publish(self, body: bytes, routing_key: str, **properties: Any) -> None:
        """Send one message: a method and its content; ``properties`` as for :meth:`publication`."""
        self.write(self.publication(body, routing_key, **properties))

    def publication(
        self,
        body: bytes,
        routing_key: str,
        *,
        exchange: str = "",
        channel: int = 1,
        mandatory: bool = False,
        immediate: bool = False,
        properties: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Return the bytes of one message, so that several messages can be written together."""
        fields = {
            "exchange": exchange,
            "routing-key": routing_key,
            "mandatory": mandatory,
            "immediate": immediate,
        }
        properties = {**self.properties, **(properties or {})}
        if capability := extensions.needed("basic.publish", {**fields, **properties}):
            self.require(capability)
        begin = codec.encode_frame(
            codec.METHOD, channel, codec.encode_method("basic.publish", fields)
        )
        return begin + codec.encode_content(channel, body, properties, frame_max=self.frame_max)

    def consume(
        self,
        queue: str,
        tag: str = "",
        *,
        channel: int = 1,
        proves: Requirements | None = None,
        **fields: Any,
    ) -> str:
        answer = self.call(
            "basic.consume",
            {"queue": queue, "consumer-tag": tag, **fields},
            channel=channel,
            proves=proves,
        )
        return str(answer["consumer-tag"])

    def delivery(
        self,
        *,
        channel: int = 1,
        tag: str | None = None,
        within: Duration = PATIENCE,
        proves: Requirements | None = None,
    ) -> Method:
        """Return the next delivery on ``channel`` to the consumer ``tag``, or to any consumer."""
        expected = {} if tag is None else {"consumer_tag": tag}
        return self.expect(
            method("basic.deliver", channel=channel, **expected), within=within, proves=proves
        )

    def deliveries(self, channel: int = 1) -> list[Method]:
        """Return and remove the deliveries received on ``channel``, oldest first."""
        return self.taken("basic.deliver", channel)

    def taken(self, name: str, channel: int = 1) -> list[Method]:
        """Return and remove the methods ``name`` received on ``channel``, oldest first."""
        expected = method(name, channel=channel)
        methods = []
        while (one := self.take(expected)) is not None:
            methods.append(one)
        return methods

    def get(
        self,
        queue: str,
        *,
        channel: int = 1,
        no_ack: bool = False,
        proves: Requirements | None = None,
    ) -> Method:
        """Send basic.get; return ``basic.get-ok`` or ``basic.get-empty``."""
        self.send("basic.get", {"queue": queue, "no-ack": no_ack}, channel=channel)
        answers = either(
            method("basic.get-ok", channel=channel), method("basic.get-empty", channel=channel)
        )
        return self.expect(answers, proves=proves)

    def ack(self, tag: int, *, multiple: bool = False, channel: int = 1) -> None:
        """Acknowledge the delivery ``tag``; ``multiple`` also acknowledges all before it."""
        self.send("basic.ack", {"delivery-tag": tag, "multiple": multiple}, channel=channel)
