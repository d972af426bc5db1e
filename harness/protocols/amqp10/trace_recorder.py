"""Turns octets of an AMQP connection, as they pass in either direction, into events of the
trace."""

from __future__ import annotations

from brokerproof.harness.model.time import Instant
from brokerproof.harness.protocols.amqp10 import codec, types
from brokerproof.harness.protocols.amqp10.codec import FieldList, Frame
from brokerproof.harness.protocols.conversation import Judge
from brokerproof.harness.trace.event_factory import Telling
from brokerproof.harness.trace.events import Event

PROTOCOL = "AMQP"
UNREADABLE = "UNREADABLE"
"""The name of the frame that stands for octets which could not be read; its field ``reason`` says
why."""


class Tap:
    """Reads both directions of connection ``conn`` with the harness's own codec."""

    def __init__(self, judge: Judge, conn: int) -> None:
        self._judge, self._telling = judge, Telling(conn)
        self._from_broker, self._to_broker = codec.Reader(), codec.Reader()

    def received(self, at: Instant, data: bytes) -> list[Frame]:
        """Notes what arrived; returns the frames it completed."""
        frames = []
        for item in self._from_broker.feed(data):
            self._note(at, False, item)
            match item:
                case Frame():
                    frames.append(item)
                case codec.Unreadable(octets, reason):
                    frames.append(
                        Frame(
                            UNREADABLE, {"reason": types.string(reason)}, octets, size=len(octets)
                        )
                    )
        return frames

    def sent(self, at: Instant, data: bytes) -> None:
        """Notes what a client wrote, however it cuts it."""
        for item in self._to_broker.feed(data):
            self._note(at, True, item)

    def frame_sent(
        self, at: Instant, name: str, fields: FieldList, payload: bytes, size: int
    ) -> None:
        """Notes a frame that was written."""
        self._judge.record(self._telling.frame(at, True, PROTOCOL, name, fields, payload, size))

    def octets_sent(self, at: Instant, data: bytes) -> None:
        """Notes octets that are no frame, or one that lies about itself."""
        self._judge.record(self._telling.unreadable(at, True, data, ""))

    def _note(self, at: Instant, out: bool, item: codec.Read) -> None:
        self._judge.record(told(self._telling, at, out, item))


def told(telling: Telling, at: Instant, out: bool, item: codec.Read) -> Event:
    """What was read, as an event."""
    match item:
        case Frame():
            return telling.frame(
                at, out, PROTOCOL, item.name, item.listed(), item.payload, item.size
            )
        case codec.Empty(size):
            return telling.beat(at, out, PROTOCOL, size)
        case codec.Unreadable(octets, reason):
            return telling.unreadable(at, out, octets, reason)
