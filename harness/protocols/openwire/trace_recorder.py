"""Converts the bytes of an OpenWire connection, in both directions, to trace events.

Each command is one event with the command's name; the headers are the fields, including a message's
fields and ``cost``; the body is the message's content; the size includes all bytes of the command.
A KeepAliveInfo is a heartbeat.
"""

from brokerproof.harness.model.time import Instant
from brokerproof.harness.protocols.conversation import Judge
from brokerproof.harness.protocols.openwire import codec
from brokerproof.harness.protocols.openwire.codec import Structure, Unreadable
from brokerproof.harness.trace.event_factory import EventFactory
from brokerproof.harness.trace.events import Event

PROTOCOL = "OPENWIRE"
UNREADABLE = "UNREADABLE"
"""The command name that stands for unreadable bytes; the field ``reason`` is a sentence."""
KEEP_ALIVE, WIRE_FORMAT = "KeepAliveInfo", "WireFormatInfo"


def event_of(factory: EventFactory, at: Instant, out: bool, item: Structure | Unreadable) -> Event:
    if isinstance(item, Unreadable):
        return factory.unreadable(at, out, item.data, item.reason)
    if item.name == KEEP_ALIVE:
        return factory.heartbeat(at, out, PROTOCOL, item.size)
    message = item.message
    body = b"" if message is None else message.get("content") or b""
    return factory.frame(at, out, PROTOCOL, item.name, item.listed(), body, item.size)


class OpenWireTraceRecorder:
    """Records both directions of connection ``conn``, read with the harness's own codec.

    Once both sides have sent their versions, both directions are read in the lower version.
    """

    def __init__(self, judge: Judge, conn: int) -> None:
        self._judge = judge
        self._factory = EventFactory(conn)
        self._readers = {False: codec.Reader(), True: codec.Reader()}
        self._versions: dict[bool, int] = {}

    def on_bytes_received(self, at: Instant, data: bytes) -> list[Structure]:
        """Record bytes from the broker; return the commands that they complete.

        Unreadable bytes become :data:`UNREADABLE`.
        """
        return self._on_bytes(at, False, data)

    def on_bytes_sent(self, at: Instant, data: bytes) -> None:
        """Record bytes from the client, in whatever pieces they are written."""
        self._on_bytes(at, True, data)

    def _on_bytes(self, at: Instant, out: bool, data: bytes) -> list[Structure]:
        commands: list[Structure] = []
        for item in self._readers[out].feed(data):
            self._judge.record(event_of(self._factory, at, out, item))
            if isinstance(item, Unreadable):
                item = Structure(UNREADABLE, {"reason": item.reason}, len(item.data))
            elif item.name == WIRE_FORMAT and item["version"] > 0:
                self._negotiate(out, item["version"])
            commands.append(item)
        return commands

    def _negotiate(self, out: bool, version: int) -> None:
        self._versions[out] = version
        if len(self._versions) == 2:
            for reader in self._readers.values():
                reader.version = min(self._versions.values())
