"""Converts the bytes of an AMQP 1.0 connection, in both directions, to trace events."""

from brokerproof.harness.model.time import Instant
from brokerproof.harness.protocols.amqp10 import codec, types
from brokerproof.harness.protocols.amqp10.codec import FieldList, Frame
from brokerproof.harness.protocols.conversation import Judge
from brokerproof.harness.trace.event_factory import EventFactory
from brokerproof.harness.trace.events import Event

PROTOCOL = "AMQP"
UNREADABLE = "UNREADABLE"
"""The frame name that stands for unreadable bytes; the field ``reason`` is a sentence."""


def event_of(factory: EventFactory, at: Instant, out: bool, item: codec.Read) -> Event:
    match item:
        case Frame():
            return factory.frame(
                at, out, PROTOCOL, item.name, item.listed(), item.payload, item.size
            )
        case codec.Empty(size):
            return factory.heartbeat(at, out, PROTOCOL, size)
        case codec.Unreadable(data, reason):
            return factory.unreadable(at, out, data, reason)


class AmqpTraceRecorder:
    """Records both directions of connection ``conn``, read with the harness's own codec."""

    def __init__(self, judge: Judge, conn: int) -> None:
        self._judge = judge
        self._factory = EventFactory(conn)
        self._from_broker = codec.Reader()
        self._to_broker = codec.Reader()

    def on_bytes_received(self, at: Instant, data: bytes) -> list[Frame]:
        """Record bytes from the broker; return the frames that they complete."""
        frames = []
        for item in self._from_broker.feed(data):
            self._judge.record(event_of(self._factory, at, False, item))
            match item:
                case Frame():
                    frames.append(item)
                case codec.Unreadable(raw, reason):
                    fields = {"reason": types.string(reason)}
                    frames.append(Frame(UNREADABLE, fields, raw, size=len(raw)))
        return frames

    def on_bytes_sent(self, at: Instant, data: bytes) -> None:
        """Record bytes from the client, in whatever pieces they are written."""
        for item in self._to_broker.feed(data):
            self._judge.record(event_of(self._factory, at, True, item))

    def record_frame_sent(
        self, at: Instant, name: str, fields: FieldList, payload: bytes, size: int
    ) -> None:
        self._judge.record(self._factory.frame(at, True, PROTOCOL, name, fields, payload, size))

    def record_bytes_sent(self, at: Instant, data: bytes) -> None:
        """Record bytes that are not a frame, or a frame with contradictory fields."""
        self._judge.record(self._factory.unreadable(at, True, data, ""))
