"""Turns octets of a CORE connection, as they pass in either direction, into events of the trace.

Each packet is one event: its command is the packet's name, its headers are channel and fields (those of a message among
them, with its ``cost``), its body is the message's, its size counts all its octets. Pings are signs of life.
"""

from __future__ import annotations

from harness.trace.events import (
    Event,
    FrameReceived,
    FrameSent,
    HeartBeatReceived,
    HeartBeatSent,
    OctetsRefused,
    OctetsSent,
)
from harness.wire import core
from harness.wire.conversation import RECORDED_OCTETS, Judge
from harness.wire.core import Packet, Unreadable
from harness.wire.core_messages import Message
from harness.words import Instant

PROTOCOL = "CORE"
UNREADABLE = "UNREADABLE"
"""The name of the packet that stands for octets which could not be read; its field ``reason`` says why."""
PING = "ping"


def _body(packet: Packet) -> bytes:
    message = packet.get("message")
    return message.body if isinstance(message, Message) else b""


class Tap:
    """Reads both directions of connection ``conn`` with the harness's own codec, and records them."""

    def __init__(self, judge: Judge, conn: int) -> None:
        self._judge, self._conn = judge, conn
        self._from_broker, self._to_broker = core.Reader(), core.Reader(magic=True)

    def received(self, at: Instant, data: bytes) -> list[Packet]:
        """Notes what arrived; returns the packets it completed, with :data:`UNREADABLE` for what is none."""
        found: list[Packet] = []
        for item in self._from_broker.feed(data):
            if isinstance(item, Unreadable):
                self._note(
                    OctetsRefused(at_ns=at, conn=self._conn, data=item.data[:RECORDED_OCTETS], detail=item.reason)
                )
                found.append(Packet(UNREADABLE, {"reason": item.reason}, size=len(item.data)))
                continue
            self._note(
                HeartBeatReceived(at_ns=at, conn=self._conn, protocol=PROTOCOL, size=item.size)
                if item.name == PING
                else FrameReceived(
                    at_ns=at,
                    conn=self._conn,
                    protocol=PROTOCOL,
                    command=item.name,
                    headers=item.listed(),
                    body=_body(item)[:RECORDED_OCTETS],
                    body_size=len(_body(item)),
                    size=item.size,
                )
            )
            found.append(item)
        return found

    def sent(self, at: Instant, data: bytes) -> None:
        """Notes what a client wrote, however it cuts it."""
        for item in self._to_broker.feed(data):
            if isinstance(item, Unreadable):
                event: Event = OctetsSent(
                    at_ns=at, conn=self._conn, data=item.data[:RECORDED_OCTETS], size=len(item.data)
                )
            elif item.name == PING:
                event = HeartBeatSent(at_ns=at, conn=self._conn, protocol=PROTOCOL, size=item.size)
            else:
                event = FrameSent(
                    at_ns=at,
                    conn=self._conn,
                    protocol=PROTOCOL,
                    command=item.name,
                    headers=item.listed(),
                    body=_body(item)[:RECORDED_OCTETS],
                    body_size=len(_body(item)),
                    size=item.size,
                )
            self._note(event)

    def _note(self, event: Event) -> None:
        self._judge.record(event)
