"""Writes AMQP 1.0 frames, performatives and protocol headers with any given values, and reads those
that a broker sends.

Nothing here decides whether a broker is right. The reader keeps everything that it could read
(channel, size, extended header, fields of any type) and names what it could not read; :func:`flaws`
lists where a frame differs from the table.

Layout (part 2, 2.3): size in four bytes; data offset in one byte, counted in words of four bytes;
type in one byte (0 AMQP, 1 SASL); channel in two bytes; an extended header up to the data offset; a
performative; a payload.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from brokerproof.harness.protocols.amqp10 import types
from brokerproof.harness.protocols.amqp10.tables import (
    BY_CODE,
    BY_SYMBOL,
    COMPOSITES,
    PERFORMATIVES,
    SASL,
    Composite,
)
from brokerproof.harness.protocols.amqp10.types import (
    NULL,
    Array,
    Described,
    Item,
    Malformed,
    Raw,
    Value,
)
from brokerproof.harness.protocols.length_prefixed import LengthPrefixedReader
from brokerproof.harness.protocols.length_prefixed import Unreadable as Unreadable

SENDER, RECEIVER = False, True
"""Values of the fields named role."""

AMQP_FRAME, SASL_FRAME = 0, 1
PREFIX = b"AMQP"
NO_SASL = "none"
"""In place of a SASL mechanism: the broker has no SASL layer, so clients begin with the plain AMQP
header."""
HEADER_SIZE = 8
MOST_READ = 64 * 1024 * 1024
"""The longest frame that the reader accepts."""

FieldList: TypeAlias = tuple[tuple[str, str], ...]


# --- composites -----------------------------------------------------------------------------------


def composite(name: str, fields: Mapping[str, Any] | None = None, /, **more: Any) -> Described:
    """Make a composite by name. A field may be a plain Python value if its type is known; otherwise
    it must be a typed value.

    Fields are named as in the specification or with underscores. None omits a field; trailing None
    fields are not written at all, so use ``NULL`` to write a null there. Raises ``ValueError`` for
    a field that is not in the table.
    """
    composite_type = COMPOSITES[name]
    given = {key.replace("_", "-"): value for key, value in {**(fields or {}), **more}.items()}
    unknown = given.keys() - {field.name for field in composite_type.fields}
    if unknown:
        raise ValueError(f"{name} has no field {', '.join(sorted(unknown))}")
    values = [typed(given.get(field.name), field.type) for field in composite_type.fields]
    last = max(
        (
            at + 1
            for at, field in enumerate(composite_type.fields)
            if given.get(field.name) is not None
        ),
        default=0,
    )
    return Described(types.ulong(composite_type.code), Value("list", tuple(values[:last])))


def typed(value: Any, kind: str) -> Item:
    """Return ``value`` as a field of type ``kind``
    (:mod:`brokerproof.harness.protocols.amqp10.tables`); a typed value keeps its type."""
    if isinstance(value, (Value, Described, Array, Raw)):
        return value
    if value is None:
        return NULL
    match kind:
        case "symbol*":
            return types.symbol(value) if isinstance(value, str) else types.symbols(value)
        case "fields":
            return Value(
                "map", tuple((_symbolic(key), types.item(item)) for key, item in value.items())
            )
        case "error":
            return error(value) if isinstance(value, str) else error(*value)
        case "role":
            return Value("boolean", value)
        case "*" | "map":
            return types.item(value)
    return Value(kind, value)


def _symbolic(key: Any) -> Item:
    return types.symbol(key) if isinstance(key, str) else types.item(key)


def error(condition: str, description: str | None = None) -> Described:
    """Make an error for a detach, end, close or rejected."""
    return composite("error", {"condition": condition, "description": description})


def name_of(what: Item | None) -> str | None:
    """Return the name of a composite in the table; None for any other value."""
    composite_type = _about(what)
    return None if composite_type is None else composite_type.name


def _about(what: Item | None) -> Composite | None:
    if not isinstance(what, Described) or not isinstance(what.descriptor, Value):
        return None
    if what.descriptor.type == "ulong":
        return BY_CODE.get(what.descriptor.value)
    return BY_SYMBOL.get(what.descriptor.value) if what.descriptor.type == "symbol" else None


def is_symbolic(what: Item | None) -> bool:
    """Return True if ``what`` is described by a symbol instead of a number."""
    descriptor = what.descriptor if isinstance(what, Described) else None
    return isinstance(descriptor, Value) and descriptor.type == "symbol"


def fields_of(what: Item | None) -> dict[str, Item]:
    """Return the non-null fields of a composite by name; fields beyond the table are named
    ``field-N``."""
    composite_type = _about(what)
    if composite_type is None or not isinstance(what, Described):
        return {}
    if not isinstance(what.value, Value) or what.value.type != "list":
        return {}
    names = [field.name for field in composite_type.fields]
    return {
        names[at] if at < len(names) else f"field-{at}": item
        for at, item in enumerate(what.value.value)
        if item != NULL
    }


def words(what: Item) -> str:
    name = name_of(what)
    if name is None:
        return types.text(what)
    return f"{name}({', '.join(f'{key}={words(item)}' for key, item in fields_of(what).items())})"


# --- frames ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as read, or a protocol header (``name`` is then ``protocol-header``).

    ``fields`` are the non-null fields. ``size`` includes every byte of the frame. ``symbolic`` is
    true if its descriptor is a symbol.
    """

    name: str
    fields: Mapping[str, Item] = field(default_factory=dict)
    payload: bytes = b""
    channel: int = 0
    type: int = AMQP_FRAME
    size: int = 0
    extended: bytes = b""
    symbolic: bool = False

    def get(self, name: str, default: Any = None) -> Any:
        value = self.fields.get(name.replace("_", "-"))
        return default if value is None else types.plain(value)

    def __getitem__(self, name: str) -> Any:
        value = self.fields.get(name.replace("_", "-"))
        if value is None:
            raise KeyError(f"{self.name} has no field {name!r}")
        return types.plain(value)

    def part(self, name: str) -> dict[str, Any]:
        """Return the fields of a composite field (source, error, state …) as plain Python; empty
        for any other field."""
        return {key: types.plain(item) for key, item in fields_of(self.fields.get(name)).items()}

    def kind(self, name: str) -> str | None:
        """Return the name of the composite in a field: ``accepted`` for a state, ``coordinator``
        for a target …"""
        return name_of(self.fields.get(name))

    @property
    def condition(self) -> str | None:
        """The condition of the frame's error, if any."""
        condition = self.part("error").get("condition")
        return None if condition is None else str(condition)

    def listed(self) -> FieldList:
        return field_list(self.fields, self.channel)

    def brief(self) -> str:
        inside = " ".join(
            f"{name}={value}" for name, value in field_list(self.fields, self.channel)[1:]
        )
        payload = f" {len(self.payload)} bytes {self.payload[:40]!r}" if self.payload else ""
        return f"{self.name}({self.channel}) [{inside}]{payload}"[:2000]


def field_list(fields: Mapping[str, Item], channel: int) -> FieldList:
    """Return channel and fields as text, for traces. A role becomes ``sender`` or ``receiver``."""
    return (
        ("channel", str(channel)),
        *((name, _field_text(name, item)) for name, item in fields.items()),
    )


def _field_text(name: str, what: Item) -> str:
    if name == "role" and isinstance(what, Value) and what.type == "boolean":
        return "receiver" if what.value else "sender"
    return words(what)


@dataclass(frozen=True, slots=True)
class Empty:
    """A frame without a body: a heartbeat."""

    size: int
    channel: int = 0


Read: TypeAlias = Frame | Empty | Unreadable


def protocol_header(id: int = 0, major: int = 1, minor: int = 0, revision: int = 0) -> bytes:
    """Return the eight bytes that begin a connection; ``id`` is 0 (AMQP), 2 (TLS) or 3 (SASL)."""
    return PREFIX + bytes((id, major, minor, revision))


def encode_frame(
    body: bytes,
    *,
    channel: int = 0,
    type: int = AMQP_FRAME,
    doff: int | None = None,
    size: int | None = None,
    extended: bytes = b"",
) -> bytes:
    """Return a frame's bytes. ``doff`` (words) and ``size`` (bytes) are correct unless given.

    ``extended`` is padded with zeros to a whole number of words.
    """
    padded = extended + bytes(-len(extended) % 4)
    total = HEADER_SIZE + len(padded) + len(body) if size is None else size
    offset = (HEADER_SIZE + len(padded)) // 4 if doff is None else doff
    return total.to_bytes(4) + bytes((offset, type)) + channel.to_bytes(2) + padded + body


def flaws(frame: Frame) -> list[str]:
    """Return where a frame differs from the table: missing mandatory fields and wrong types."""
    composite_type = COMPOSITES.get(frame.name)
    return [] if composite_type is None else _flaws(composite_type, frame.fields)


def _flaws(composite_type: Composite, fields: Mapping[str, Item]) -> list[str]:
    problems = [
        f"{composite_type.name} has no {field.name}"
        for field in composite_type.fields
        if field.mandatory and field.name not in fields
    ]
    known = {field.name: field.type for field in composite_type.fields}
    for name, value in fields.items():
        if name not in known:
            problems.append(f"{composite_type.name} has a field too many ({name})")
        elif not _fits(value, known[name]):
            problems.append(
                f"{composite_type.name}.{name} is {words(value)},"
                f" which is not a valid {known[name]}"
            )
        inner = _about(value)
        if inner is not None:
            problems += _flaws(inner, fields_of(value))
    return problems


def _fits(value: Item, kind: str) -> bool:
    match kind:
        case "*":
            return True
        case "error":
            return name_of(value) == "error"
        case "symbol*":
            return (isinstance(value, Value) and value.type == "symbol") or (
                isinstance(value, Array) and value.element in (0xA3, 0xB3) and not value.descriptors
            )
        case "fields":
            return (
                isinstance(value, Value)
                and value.type == "map"
                and all(isinstance(key, Value) and key.type == "symbol" for key, _ in value.value)
            )
        case "role":
            kind = "boolean"
    return isinstance(value, Value) and value.type == kind


class Reader(LengthPrefixedReader[Frame | Empty]):
    """Splits incoming bytes into protocol headers and frames. A size that spells AMQP is the
    beginning of a header, since no frame is that long."""

    def __init__(self, most: int = MOST_READ) -> None:
        super().__init__()
        self.most = most

    def skip(self, size: int) -> int:
        """Record that ``size`` bytes will never arrive. The missing payload of a transfer is
        replaced by zeros; return its size. If more bytes are missing, this reader is unusable from
        then on."""
        pending = bytes(self._pending)
        if self._broken or len(pending) < HEADER_SIZE:
            return 0
        try:
            what, _ = types.decode(pending, pending[4] * 4)
        except Malformed:
            return 0
        taken = (
            min(size, int.from_bytes(pending[:4]) - len(pending))
            if name_of(what) == "transfer"
            else 0
        )
        self._pending += bytes(taken)
        return taken

    def _next(self) -> Read | None:
        head = bytes(self._pending[:HEADER_SIZE])
        if len(head) < HEADER_SIZE:
            return None
        if head[:4] == PREFIX:
            del self._pending[:HEADER_SIZE]
            names = ("id", "major", "minor", "revision")
            fields = {name: types.ubyte(value) for name, value in zip(names, head[4:], strict=True)}
            return Frame("protocol-header", fields, size=HEADER_SIZE)
        size, doff, type = int.from_bytes(head[:4]), head[4], head[5]
        channel = int.from_bytes(head[6:])
        if size < HEADER_SIZE or size > self.most:
            why = "shorter than its own header" if size < HEADER_SIZE else f"more than {self.most}"
            return Unreadable(
                bytes(self._pending), f"a frame says it has {size} bytes, {why}", lost=True
            )
        if len(self._pending) < size:
            return None
        data = bytes(self._pending[:size])
        del self._pending[:size]
        start = doff * 4
        if start < HEADER_SIZE or start > size:
            return Unreadable(data, f"a frame of {size} bytes has the data offset {doff}")
        if type not in (AMQP_FRAME, SASL_FRAME):
            return Unreadable(data, f"a frame has the type {type}, neither AMQP (0) nor SASL (1)")
        if start == size:
            return Empty(size, channel)
        try:
            what, end = types.decode(data, start)
        except Malformed as problem:
            return Unreadable(data, str(problem))
        name = name_of(what)
        if name not in (SASL if type == SASL_FRAME else PERFORMATIVES) or name is None:
            return Unreadable(
                data,
                f"a frame of type {type} carries {words(what)[:200]}, which is not a performative"
                " of it",
            )
        if isinstance(what, Described) and not (
            isinstance(what.value, Value) and what.value.type == "list"
        ):
            return Unreadable(
                data, f"{name} is described, but no list: {types.text(what.value)[:200]}"
            )
        extended = data[HEADER_SIZE:start]
        return Frame(
            name, fields_of(what), data[end:], channel, type, size, extended, is_symbolic(what)
        )
