"""Turns octets of an OpenWire connection, as they pass in either direction, into events of the
trace.

Each command is one event: its command is the command's name, its headers are its fields (those of a
message that it carries among them, with its ``cost``), its body is the message's content, its size
counts all its octets. A KeepAliveInfo is a sign of life.
"""

from __future__ import annotations

from brokerproof.harness.model.time import Instant
from brokerproof.harness.protocols.conversation import Judge
from brokerproof.harness.protocols.openwire import codec
from brokerproof.harness.protocols.openwire.codec import Structure, Unreadable
from brokerproof.harness.trace.event_factory import Telling

PROTOCOL = "OPENWIRE"
UNREADABLE = "UNREADABLE"
"""The name of the command that stands for octets which could not be read; its field ``reason`` says
why."""
KEEP_ALIVE, WIRE_FORMAT = "KeepAliveInfo", "WireFormatInfo"


class Tap:
    """Reads both directions of connection ``conn`` with the harness's own codec, and records them.

    Once both sides have said a version, both directions are read by the smaller one.
    """

    def __init__(self, judge: Judge, conn: int) -> None:
        self._judge, self._telling = judge, Telling(conn)
        self._readers = {False: codec.Reader(), True: codec.Reader()}
        self._said: dict[bool, int] = {}

    def received(self, at: Instant, data: bytes) -> list[Structure]:
        """Notes what arrived; returns the commands it completed, with :data:`UNREADABLE` for what
        is none."""
        return self._passed(at, False, data)

    def sent(self, at: Instant, data: bytes) -> None:
        """Notes what a client wrote, however it cuts it."""
        self._passed(at, True, data)

    def _passed(self, at: Instant, out: bool, data: bytes) -> list[Structure]:
        found: list[Structure] = []
        for item in self._readers[out].feed(data):
            if isinstance(item, Unreadable):
                self._judge.record(self._telling.unreadable(at, out, item.data, item.reason))
                item = Structure(UNREADABLE, {"reason": item.reason}, len(item.data))
            elif item.name == KEEP_ALIVE:
                self._judge.record(self._telling.beat(at, out, PROTOCOL, item.size))
            else:
                message = item.message
                body = b"" if message is None else message.get("content") or b""
                event = self._telling.frame(
                    at, out, PROTOCOL, item.name, item.listed(), body, item.size
                )
                self._judge.record(event)
                self._negotiate(out, item)
            found.append(item)
        return found

    def _negotiate(self, out: bool, item: Structure) -> None:
        if item.name == WIRE_FORMAT and item["version"] > 0:
            self._said[out] = item["version"]
            if len(self._said) == 2:
                for reader in self._readers.values():
                    reader.version = min(self._said.values())
