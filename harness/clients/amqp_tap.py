"""Turns octets of an AMQP connection, as they pass in either direction, into events of the trace."""

from __future__ import annotations

from harness.trace.events import (
    FrameReceived,
    FrameSent,
    HeartBeatReceived,
    HeartBeatSent,
    OctetsRefused,
    OctetsSent,
)
from harness.wire import amqp, amqp_types
from harness.wire.amqp import FieldList, Frame
from harness.wire.conversation import RECORDED_OCTETS, Judge
from harness.words import Instant

PROTOCOL = "AMQP"
UNREADABLE = "UNREADABLE"
"""The name of the frame that stands for octets which could not be read; its field ``reason`` says why."""


class Tap:
    """Reads both directions of connection ``conn`` with the harness's own codec."""

    def __init__(self, judge: Judge, conn: int) -> None:
        self._judge, self._conn = judge, conn
        self._from_broker, self._to_broker = amqp.Reader(), amqp.Reader()

    def received(self, at: Instant, data: bytes) -> list[Frame]:
        """Notes what arrived; returns the frames it completed."""
        frames = []
        for item in self._from_broker.feed(data):
            match item:
                case Frame():
                    self._judge.record(
                        FrameReceived(
                            at_ns=at,
                            conn=self._conn,
                            protocol=PROTOCOL,
                            command=item.name,
                            headers=item.listed(),
                            body=item.payload[:RECORDED_OCTETS],
                            body_size=len(item.payload),
                            size=item.size,
                        )
                    )
                    frames.append(item)
                case amqp.Empty(size):
                    self._judge.record(HeartBeatReceived(at_ns=at, conn=self._conn, protocol=PROTOCOL, size=size))
                case amqp.Unreadable(octets, reason):
                    self._judge.record(
                        OctetsRefused(at_ns=at, conn=self._conn, data=octets[:RECORDED_OCTETS], detail=reason)
                    )
                    frames.append(Frame(UNREADABLE, {"reason": amqp_types.string(reason)}, octets, size=len(octets)))
        return frames

    def sent(self, at: Instant, data: bytes) -> None:
        """Notes what a client wrote, however it cuts it."""
        for item in self._to_broker.feed(data):
            match item:
                case Frame():
                    self.frame_sent(at, item.name, item.listed(), item.payload, item.size)
                case amqp.Empty(size):
                    self._judge.record(HeartBeatSent(at_ns=at, conn=self._conn, protocol=PROTOCOL, size=size))
                case amqp.Unreadable(octets):
                    self.octets_sent(at, octets)

    def frame_sent(self, at: Instant, name: str, fields: FieldList, payload: bytes, size: int) -> None:
        """Notes a frame that was written."""
        self._judge.record(
            FrameSent(
                at_ns=at,
                conn=self._conn,
                protocol=PROTOCOL,
                command=name,
                headers=fields,
                body=payload[:RECORDED_OCTETS],
                body_size=len(payload),
                size=size,
            )
        )

    def octets_sent(self, at: Instant, data: bytes) -> None:
        """Notes octets that are no frame, or one that lies about itself."""
        self._judge.record(OctetsSent(at_ns=at, conn=self._conn, data=data[:RECORDED_OCTETS], size=len(data)))
