"""Converts the bytes of a CORE connection, in both directions, to trace events.

Each packet is one event: the command is the packet's name; the headers are the channel and the
fields, including a message's fields and ``cost``; the body is the message's body; the size includes
all bytes of the packet. Pings are heartbeats.
"""

from brokerproof.harness.model.time import Instant
from brokerproof.harness.protocols.conversation import Judge
from brokerproof.harness.protocols.core import codec
from brokerproof.harness.protocols.core.codec import Packet, Unreadable
from brokerproof.harness.protocols.core.messages import Message
from brokerproof.harness.trace.event_factory import EventFactory
from brokerproof.harness.trace.events import Event

PROTOCOL = "CORE"
UNREADABLE = "UNREADABLE"
"""The packet name that stands for unreadable bytes; the field ``reason`` is a sentence."""
PING = "ping"


def event_of(factory: EventFactory, at: Instant, out: bool, item: codec.Read) -> Event:
    if isinstance(item, Unreadable):
        return factory.unreadable(at, out, item.data, item.reason)
    if item.name == PING:
        return factory.heartbeat(at, out, PROTOCOL, item.size)
    message = item.get("message")
    body = message.body if isinstance(message, Message) else b""
    return factory.frame(at, out, PROTOCOL, item.name, item.listed(), body, item.size)


class CoreTraceRecorder:
    """Records both directions of connection ``conn``, read with the harness's own codec."""

    def __init__(self, judge: Judge, conn: int) -> None:
        self._judge = judge
        self._factory = EventFactory(conn)
        self._from_broker = codec.Reader()
        self._to_broker = codec.Reader(magic=True)

    def on_bytes_received(self, at: Instant, data: bytes) -> list[Packet]:
        """Record bytes from the broker; return the packets that they complete.

        Unreadable bytes become :data:`UNREADABLE`.
        """
        packets: list[Packet] = []
        for item in self._from_broker.feed(data):
            self._judge.record(event_of(self._factory, at, False, item))
            if isinstance(item, Unreadable):
                item = Packet(UNREADABLE, {"reason": item.reason}, size=len(item.data))
            packets.append(item)
        return packets

    def on_bytes_sent(self, at: Instant, data: bytes) -> None:
        """Record bytes from the client, in whatever pieces they are written."""
        for item in self._to_broker.feed(data):
            self._judge.record(event_of(self._factory, at, True, item))
