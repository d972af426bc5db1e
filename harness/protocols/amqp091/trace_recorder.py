"""Converts the bytes of an AMQP 0-9-1 connection, in both directions, to trace events.

A method and its content frames are one event. The command is the method's name; the headers are the
channel, fields and properties; the body is the content's body; the size includes all the frames;
the instant is that of the last frame. Interrupted content has ``complete`` = ``false``.
"""

from brokerproof.harness.model.time import Instant
from brokerproof.harness.protocols.amqp091 import codec
from brokerproof.harness.protocols.amqp091.codec import Contents, Method, Reader, Unreadable
from brokerproof.harness.protocols.conversation import Judge
from brokerproof.harness.trace.event_factory import EventFactory
from brokerproof.harness.trace.events import Event

PROTOCOL = "AMQP091"
UNREADABLE = "UNREADABLE"
"""The method name that stands for unreadable bytes; the field ``reason`` is a sentence."""


class Stream:
    """One direction of one connection. A heartbeat is treated as a method."""

    def __init__(self) -> None:
        self._reader = Reader()
        self._contents = Contents()

    def feed(self, data: bytes) -> list[Method]:
        """Return the methods that ``data`` completes; unreadable bytes are :data:`UNREADABLE`."""
        methods: list[Method] = []
        for item in self._reader.feed(data):
            if isinstance(item, Unreadable):
                methods.append(
                    Method(UNREADABLE, {"reason": item.reason}, body=item.data, size=len(item.data))
                )
            elif item.name == codec.HEART_BEAT:
                methods.append(
                    Method(item.name, {}, item.channel, {}, item.payload, item.size, (item.size,))
                )
            else:
                methods += self._contents.feed(item)
        return methods


def event_of(factory: EventFactory, at: Instant, out: bool, method: Method) -> Event:
    if method.name == UNREADABLE:
        return factory.unreadable(at, out, method.body, method["reason"])
    if method.name == codec.HEART_BEAT:
        return factory.heartbeat(at, out, PROTOCOL, method.size)
    return factory.frame(at, out, PROTOCOL, method.name, method.listed(), method.body, method.size)


class Amqp091TraceRecorder:
    """Records both directions of connection ``conn``, read with the harness's own codec."""

    def __init__(self, judge: Judge, conn: int) -> None:
        self._judge = judge
        self._factory = EventFactory(conn)
        self._from_broker = Stream()
        self._to_broker = Stream()

    def on_bytes_received(self, at: Instant, data: bytes) -> list[Method]:
        """Record bytes from the broker; return the methods that they complete, without
        heartbeats."""
        methods = self._from_broker.feed(data)
        for method in methods:
            self._judge.record(event_of(self._factory, at, False, method))
        return [method for method in methods if method.name != codec.HEART_BEAT]

    def on_bytes_sent(self, at: Instant, data: bytes) -> None:
        """Record bytes from the client, in whatever pieces they are written."""
        for method in self._to_broker.feed(data):
            self._judge.record(event_of(self._factory, at, True, method))
