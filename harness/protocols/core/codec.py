"""Writes packets of Artemis's CORE protocol with any given values, and reads the packets of both
sides. Nothing is judged here.

A connection begins with the client's seven letters of :data:`MAGIC`. A packet has four bytes for
the size of the rest, one byte for the type, eight bytes for the channel, and the fields
(:mod:`brokerproof.harness.protocols.core.tables`). Channel 0 is for pings and cluster news, channel
1 creates sessions, and each session has its own channel, from 10.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from brokerproof.harness.protocols.core.messages import PACKET_HEADER, Message
from brokerproof.harness.protocols.core.tables import BY_CODE, BY_NAME, NEWEST, PacketTable
from brokerproof.harness.protocols.core.values import Cursor, Malformed, encode
from brokerproof.harness.protocols.length_prefixed import LengthPrefixedReader
from brokerproof.harness.protocols.length_prefixed import Unreadable as Unreadable

MAGIC = b"ARTEMIS"
LIVENESS, SESSIONS, FIRST = 0, 1, 10
"""Channels."""
MOST_READ = 64 * 1024 * 1024
"""The longest packet that the reader accepts."""
DEFAULTS: dict[str, Any] = {"boolean": False, "simple": "", "string": "", "rest": b""}
"""The value of a missing field: 0 for numbers, null for nullable values."""


# --- writing --------------------------------------------------------------------------------------


def encode_packet(
    name: str,
    fields: Mapping[str, Any] | None = None,
    *,
    channel: int = FIRST,
    version: int = NEWEST,
    size: int | None = None,
) -> bytes:
    """Return a packet's bytes, with the fields of ``version``. ``size`` is correct unless given.

    Fields are named as in the tables or with underscores. Raises ``ValueError`` for a field that
    the packet lacks or a value that its type cannot hold.
    """
    table = BY_NAME[name]
    given = {key.replace("_", "-"): value for key, value in (fields or {}).items()}
    unknown = given.keys() - {field for field, _, _ in table.fields}
    if unknown:
        raise ValueError(f"{name} has no field {', '.join(sorted(unknown))}")
    data = b"".join(
        _written(kind, given.get(field, DEFAULTS.get(kind, None if kind.endswith("?") else 0)))
        for field, kind, since in table.fields
        if since <= version
    )
    return frame(table.code, channel, data, size=size)


def frame(code: int, channel: int, data: bytes = b"", *, size: int | None = None) -> bytes:
    total = PACKET_HEADER - 4 + len(data) if size is None else size
    return total.to_bytes(4, signed=True) + bytes((code,)) + channel.to_bytes(8, signed=True) + data


def _written(kind: str, value: Any) -> bytes:
    if kind == "message":
        return value if isinstance(value, bytes) else bytes(value.encode())
    return bytes(value) if kind == "rest" else encode(kind, value)


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet as read. ``size`` includes every byte. A packet of an unknown type is named
    ``packet-CODE``."""

    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    channel: int = FIRST
    size: int = 0

    def __getitem__(self, name: str) -> Any:
        return self.fields[name.replace("_", "-")]

    def get(self, name: str) -> Any:
        return self.fields.get(name.replace("_", "-"))

    @property
    def message(self) -> Message:
        """Return the packet's message. Raises ``KeyError`` if there is none."""
        message = self.fields["message"]
        if not isinstance(message, Message):
            raise KeyError("message")
        return message

    def listed(self) -> tuple[tuple[str, str], ...]:
        """Return the channel, the fields and the message's fields as text, for traces."""
        listed = [("channel", str(self.channel))]
        for name, value in self.fields.items():
            if isinstance(value, Message):
                listed += _listed_message(value)
            elif value is not None and name != "password":
                listed.append((name, _words(value)))
        return tuple(listed)

    def brief(self) -> str:
        inside = " ".join(
            f"{name}={value}" for name, value in self.listed()[1:] if value not in ("", "false")
        )
        body = self.fields.get("message")
        content = f" {len(body.body)} bytes {body.body[:40]!r}" if isinstance(body, Message) else ""
        return f"{self.name}({self.channel}) [{inside}]{content}"[:2000]


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.hex() if isinstance(value, bytes) else str(value)


def _listed_message(message: Message) -> Iterator[tuple[str, str]]:
    yield "message", str(message.id)
    yield "address", message.address or ""
    yield "cost", str(message.cost)
    yield "durable", _words(message.durable)
    for name, value in message.properties.items():
        yield name, _words(getattr(value, "value", value))


Read: TypeAlias = Packet | Unreadable


class Reader(LengthPrefixedReader[Packet]):
    """Splits the bytes from one side into packets. A client's bytes begin with ``magic``, which is
    treated as a packet."""

    unit = "packet"

    def __init__(self, *, magic: bool = False) -> None:
        super().__init__()
        self._magic = magic

    def _next(self) -> Read | None:
        pending = self._pending
        if self._magic:
            begun = bytes(pending[: len(MAGIC)])
            if not MAGIC.startswith(begun):
                return Unreadable(
                    bytes(pending),
                    f"a connection begins with {begun!r} and not with {MAGIC!r}",
                    True,
                )
            if len(begun) < len(MAGIC):
                return None
            del pending[: len(MAGIC)]
            self._magic = False
            return Packet("magic", {}, LIVENESS, len(MAGIC))
        if len(pending) < 4:
            return None
        size = int.from_bytes(pending[:4], signed=True)
        if not PACKET_HEADER - 4 <= size <= MOST_READ:
            return Unreadable(bytes(pending), f"a packet says that {size} bytes follow", lost=True)
        if len(pending) < size + 4:
            return None
        data = bytes(pending[: size + 4])
        del pending[: size + 4]
        return read_packet(data)


def read_packet(data: bytes) -> Read:
    """Return the complete packet ``data``, with any fields of later versions."""
    code, channel = data[4], int.from_bytes(data[5:PACKET_HEADER], signed=True)
    table = BY_CODE.get(code)
    if table is None:
        return Packet(f"packet-{code}", {"rest": data[PACKET_HEADER:]}, channel, len(data))
    try:
        return Packet(
            table.name, _read_fields(table, Cursor(data, PACKET_HEADER)), channel, len(data)
        )
    except Malformed as problem:
        return Unreadable(data, f"{table.name}: {problem}")


def _read_fields(table: PacketTable, cursor: Cursor) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, kind, since in table.fields:
        if since and not cursor.left:
            continue
        if kind == "message":
            fields[name] = Message.read(cursor)
        else:
            fields[name] = cursor.take(cursor.left) if kind == "rest" else cursor.value(kind)
    if cursor.left:
        raise Malformed(f"{cursor.left} bytes too many")
    return fields
