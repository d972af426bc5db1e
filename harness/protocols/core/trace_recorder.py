"""Turns octets of a CORE connection, as they pass in either direction, into events of the trace.

Each packet is one event: its command is the packet's name, its headers are channel and fields
(those of a message among them, with its ``cost``), its body is the message's, its size counts all
its octets. Pings are signs of life.
"""

from __future__ import annotations

from brokerproof.harness.model.time import Instant
from brokerproof.harness.protocols.conversation import Judge
from brokerproof.harness.protocols.core import codec
from brokerproof.harness.protocols.core.codec import Packet, Unreadable
from brokerproof.harness.protocols.core.messages import Message
from brokerproof.harness.trace.event_factory import Telling
from brokerproof.harness.trace.events import Event

PROTOCOL = "CORE"
UNREADABLE = "UNREADABLE"
"""The name of the packet that stands for octets which could not be read; its field ``reason`` says
why."""
PING = "ping"


def _body(packet: Packet) -> bytes:
    message = packet.get("message")
    return message.body if isinstance(message, Message) else b""


def told(telling: Telling, at: Instant, out: bool, item: codec.Read) -> Event:
    """What was read, as an event."""
    if isinstance(item, Unreadable):
        return telling.unreadable(at, out, item.data, item.reason)
    if item.name == PING:
        return telling.beat(at, out, PROTOCOL, item.size)
    return telling.frame(at, out, PROTOCOL, item.name, item.listed(), _body(item), item.size)


class Tap:
    """Reads both directions of connection ``conn`` with the harness's own codec, and records
    them."""

    def __init__(self, judge: Judge, conn: int) -> None:
        self._judge, self._telling = judge, Telling(conn)
        self._from_broker, self._to_broker = codec.Reader(), codec.Reader(magic=True)

    def received(self, at: Instant, data: bytes) -> list[Packet]:
        """Notes what arrived; returns the packets it completed, with :data:`UNREADABLE` for what is
        none."""
        found: list[Packet] = []
        for item in self._from_broker.feed(data):
            self._note(at, False, item)
            if isinstance(item, Unreadable):
                item = Packet(UNREADABLE, {"reason": item.reason}, size=len(item.data))
            found.append(item)
        return found

    def sent(self, at: Instant, data: bytes) -> None:
        """Notes what a client wrote, however it cuts it."""
        for item in self._to_broker.feed(data):
            self._note(at, True, item)

    def _note(self, at: Instant, out: bool, item: codec.Read) -> None:
        self._judge.record(told(self._telling, at, out, item))
