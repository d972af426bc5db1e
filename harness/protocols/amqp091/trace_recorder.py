"""Turns octets of an AMQP 0-9-1 connection, as they pass in either direction, into events of the
trace.

A method and the content frames that belong to it are one event: its command is the method's name,
its headers are channel, fields and properties, its body is the content's, its size counts all the
frames, and its instant is that of the last of them. A content that something else interrupts says
``complete`` = ``false``.
"""

from __future__ import annotations

from brokerproof.harness.model.time import Instant
from brokerproof.harness.protocols.amqp091 import codec
from brokerproof.harness.protocols.amqp091.codec import Contents, Method, Reader, Unreadable
from brokerproof.harness.protocols.conversation import Judge
from brokerproof.harness.trace.event_factory import Telling
from brokerproof.harness.trace.events import Event

PROTOCOL = "AMQP091"
UNREADABLE = "UNREADABLE"
"""The name of the method that stands for octets which could not be read; its field ``reason`` says
why."""


class Stream:
    """One direction of one connection. Heart-beats come out as methods too, under their own
    name."""

    def __init__(self) -> None:
        self._reader, self._contents = Reader(), Contents()

    def feed(self, data: bytes) -> list[Method]:
        """The methods that ``data`` completes, in order; what cannot be read has the name
        :data:`UNREADABLE`."""
        found: list[Method] = []
        for item in self._reader.feed(data):
            if isinstance(item, Unreadable):
                found.append(
                    Method(UNREADABLE, {"reason": item.reason}, body=item.data, size=len(item.data))
                )
            elif item.name == codec.HEART_BEAT:
                found.append(
                    Method(item.name, {}, item.channel, {}, item.payload, item.size, (item.size,))
                )
            else:
                found += self._contents.feed(item)
        return found


def told(telling: Telling, at: Instant, out: bool, method: Method) -> Event:
    """What was read, as an event."""
    if method.name == UNREADABLE:
        return telling.unreadable(at, out, method.body, method["reason"])
    if method.name == codec.HEART_BEAT:
        return telling.beat(at, out, PROTOCOL, method.size)
    return telling.frame(at, out, PROTOCOL, method.name, method.listed(), method.body, method.size)


class Tap:
    """Reads both directions of connection ``conn`` with the harness's own codec, and records
    them."""

    def __init__(self, judge: Judge, conn: int) -> None:
        self._judge, self._telling = judge, Telling(conn)
        self._from_broker, self._to_broker = Stream(), Stream()

    def received(self, at: Instant, data: bytes) -> list[Method]:
        """Notes what arrived; returns the methods it completed, without heart-beats."""
        found = self._from_broker.feed(data)
        for method in found:
            self._judge.record(told(self._telling, at, False, method))
        return [each for each in found if each.name != codec.HEART_BEAT]

    def sent(self, at: Instant, data: bytes) -> None:
        """Notes what a client wrote, however it cuts it."""
        for method in self._to_broker.feed(data):
            self._judge.record(told(self._telling, at, True, method))
