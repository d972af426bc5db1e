"""Writes commands of OpenWire, ActiveMQ's own protocol, with any given values, and reads the
commands of both sides. Nothing is judged here.

A command has four bytes for the size of the rest, one byte for the type, and the fields
(:mod:`brokerproof.harness.protocols.openwire.tables`) in the loose encoding. Both sides begin with
WireFormatInfo, which is always loose; the effects of its options (tight encoding, a cache of
structures, stack traces, no sizes) are not supported here: a peer must decline them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

from brokerproof.harness.protocols.length_prefixed import LengthPrefixedReader
from brokerproof.harness.protocols.length_prefixed import Unreadable as Unreadable
from brokerproof.harness.protocols.openwire.tables import BY_CODE, BY_NAME, MESSAGES, NEWEST, Table
from brokerproof.harness.protocols.openwire.values import (
    Cursor,
    Malformed,
    encode,
    encode_map,
    read_map,
    text_of,
)

MAGIC = b"ActiveMQ"
MOST_READ = 64 * 1024 * 1024
"""The longest command that the reader accepts."""
DEEPEST = 16
"""The deepest nesting of structures that is read; deeper structures are malformed."""
DEFAULTS: dict[str, Any] = {"boolean": False, "magic": MAGIC}
"""The value of a missing field: 0 for numbers, null for nullable values."""
NULLABLE = frozenset({"string", "bytes", "structure", "structures", "throwable"})
HEAD = 1024
"""Bytes that ActiveMQ adds to a message's content and properties (Message.getSize)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception: the name of its Java class and its message."""

    kind: str
    words: str | None = None

    @property
    def name(self) -> str:
        """Return the name of the class without its package."""
        return self.kind.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Structure:
    """A command or a part of one. ``size`` includes every byte of a received command. A structure
    of an unknown type is named ``type-CODE``."""

    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    size: int = field(default=0, compare=False)

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def get(self, name: str) -> Any:
        return self.fields.get(name)

    @property
    def message(self) -> Self | None:
        return self if self.name in MESSAGES else self.get("message")

    @property
    def cost(self) -> int:
        """The size that ActiveMQ calculates for this message and reports in its ProducerAck."""
        return HEAD + len(self.get("content") or b"") + len(self.get("marshalledProperties") or b"")

    def properties(self) -> dict[str, Any]:
        """The message's properties without their types. Raises :class:`Malformed`."""
        data = self.get("marshalledProperties")
        return {name: item.value for name, item in read_map(data).items()} if data else {}

    def text(self) -> str | None:
        """The content of a text message. Raises :class:`Malformed`."""
        content = self.get("content")
        if content is None:
            return None
        cursor = Cursor(content)
        return text_of(cursor.take(cursor.value("int")))

    def __str__(self) -> str:
        """Return the message's id as ActiveMQ writes it."""
        match self.name:
            case "ActiveMQQueue" | "ActiveMQTempQueue":
                return f"queue://{self['physicalName']}"
            case "ActiveMQTopic" | "ActiveMQTempTopic":
                return f"topic://{self['physicalName']}"
            case "ConnectionId" | "BrokerId":
                return str(self["value"])
            case "SessionId":
                return f"{self['connectionId']}:{self['value']}"
            case "ConsumerId" | "ProducerId":
                return f"{self['connectionId']}:{self['sessionId']}:{self['value']}"
            case "MessageId":
                return self.get("textView") or f"{self['producerId']}:{self['producerSequenceId']}"
            case "LocalTransactionId":
                return f"TX:{self['connectionId']}:{self['value']}"
        return self.name

    def listed(self) -> tuple[tuple[str, str], ...]:
        """Return the fields, including those of the message, as text for traces; passwords and null
        fields are left out."""
        listed: list[tuple[str, str]] = []
        for name, value in self.fields.items():
            if value is None or name in ("password", "content", "magic"):
                continue
            if isinstance(value, Structure) and value.name in MESSAGES:
                outside = {item for item, _ in listed}
                listed += [item for item in value.listed() if item[0] not in outside]
            elif name == "marshalledProperties":
                listed += _listed_properties(self)
            else:
                listed.append((name, _words(value)))
        if self.name in MESSAGES:
            listed.append(("cost", str(self.cost)))
        return tuple(listed)

    def brief(self) -> str:
        dull = ("", "0", "false")
        inside = " ".join(f"{name}={value}" for name, value in self.listed() if value not in dull)
        message = self.message
        content = None if message is None else message.get("content")
        shown = "" if content is None else f" {len(content)} bytes {content[:40]!r}"
        return f"{self.name} [{inside}]{shown}"[:2000]


def _words(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.hex()
        case list() | tuple():
            return " ".join(map(_words, value))
        case Failure():
            return f"{value.kind}: {value.words}"
    return str(value)


def _listed_properties(structure: Structure) -> Iterator[tuple[str, str]]:
    try:
        yield from ((name, _words(value)) for name, value in structure.properties().items())
    except Malformed as problem:
        yield "marshalledProperties", str(problem)


# --- writing --------------------------------------------------------------------------------------


def encode_command(
    name: str,
    fields: Mapping[str, Any] | None = None,
    *,
    version: int = NEWEST,
    size: int | None = None,
) -> bytes:
    """Return a command's bytes, with the fields of ``version``. ``size`` is correct unless given.

    A map may be given instead of its bytes. Raises ``ValueError`` for a field that the command
    lacks or a value that its type cannot hold.
    """
    table = BY_NAME[name]
    return frame(table.code, _encode_fields(table, fields or {}, version), size=size)


def frame(code: int, data: bytes = b"", *, size: int | None = None) -> bytes:
    total = 1 + len(data) if size is None else size
    return total.to_bytes(4, signed=True) + bytes((code,)) + data


def _encode_fields(table: Table, given: Mapping[str, Any], version: int) -> bytes:
    unknown = given.keys() - {name for name, _, _ in table.fields}
    if unknown:
        raise ValueError(f"{table.name} has no field {', '.join(sorted(unknown))}")
    return b"".join(
        _encode(kind, given.get(name, DEFAULTS.get(kind, None if kind in NULLABLE else 0)), version)
        for name, kind, since in table.fields
        if since <= version
    )


def _encode(kind: str, value: Any, version: int) -> bytes:
    if kind == "bytes" and isinstance(value, dict):
        value = encode_map(value)
    if value is None or kind not in ("structure", "structures", "throwable"):
        return b"\0" if value is None and kind in NULLABLE else encode(kind, value)
    if kind == "throwable":
        return b"\1" + encode("string", value.kind) + encode("string", value.words)
    if kind == "structures":
        return (
            b"\1"
            + encode("short", len(value))
            + b"".join(_encode("structure", item, version) for item in value)
        )
    table = BY_NAME[value.name]
    return b"\1" + bytes((table.code,)) + _encode_fields(table, value.fields, version)


# --- reading --------------------------------------------------------------------------------------

Read: TypeAlias = Structure | Unreadable


class Reader(LengthPrefixedReader[Structure]):
    """Splits the bytes from one side into commands. ``version`` is the agreed one; it may
    change."""

    unit = "command"

    def __init__(self, version: int = NEWEST) -> None:
        super().__init__()
        self.version = version

    def _next(self) -> Read | None:
        pending = self._pending
        if len(pending) < 4:
            return None
        size = int.from_bytes(pending[:4], signed=True)
        if not 1 <= size <= MOST_READ:
            return Unreadable(bytes(pending), f"a command says that {size} bytes follow", lost=True)
        if len(pending) < size + 4:
            return None
        data = bytes(pending[: size + 4])
        del pending[: size + 4]
        return read_command(data, self.version)


def read_command(data: bytes, version: int = NEWEST) -> Read:
    code = data[4]
    table = BY_CODE.get(code)
    if table is None or not table.command:
        return Structure(f"type-{code}", {}, len(data))
    cursor = Cursor(data, 5)
    try:
        fields = _read_fields(table, cursor, version, 0)
        if cursor.left:
            raise Malformed(f"{cursor.left} bytes too many")
    except Malformed as problem:
        return Unreadable(data, f"{table.name}: {problem}")
    return Structure(table.name, fields, len(data))


def _read_fields(table: Table, cursor: Cursor, version: int, depth: int) -> dict[str, Any]:
    return {
        name: _read(kind, cursor, version, depth)
        for name, kind, since in table.fields
        if since <= version
    }


def _read(kind: str, cursor: Cursor, version: int, depth: int) -> Any:
    if kind not in ("structure", "structures", "throwable"):
        return cursor.value(kind)
    if not cursor.value("boolean"):
        return None
    if kind == "throwable":
        return Failure(cursor.value("string") or "", cursor.value("string"))
    if depth >= DEEPEST:
        raise Malformed(f"structures are nested {depth} deep")
    if kind == "structures":
        return [
            _read("structure", cursor, version, depth + 1) for _ in range(cursor.value("short"))
        ]
    code = cursor.take(1)[0]
    table = BY_CODE.get(code)
    if table is None:
        raise Malformed(f"a structure has the unknown type {code}")
    return Structure(table.name, _read_fields(table, cursor, version, depth + 1))
