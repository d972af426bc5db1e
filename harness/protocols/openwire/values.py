"""Reads and writes values of OpenWire in its loose encoding (ActiveMQ's BaseDataStreamMarshaller
and MarshallingSupport).

Numbers are big-endian and signed. ``string`` and ``bytes`` are nullable: a byte shows whether there
is a value. A string's length has two bytes, and its UTF-8 is Java's: each code unit of UTF-16 is
encoded separately, and NUL takes two bytes. A ``structure`` begins with a byte that shows whether
there is one, followed by its type and its fields; ``structures`` begin with their number in two
bytes. Properties of messages and of WireFormatInfo are a *map* of typed values, stored in a field
of type ``bytes``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from brokerproof.harness.protocols import java_values
from brokerproof.harness.protocols.java_values import Malformed as Malformed
from brokerproof.harness.protocols.java_values import modified_utf8

DEEPEST = 32
"""The deepest nesting of lists and maps that is read; any deeper nesting is malformed."""


def java_utf8(text: str) -> bytes:
    """Encode text as Java's data streams do, without its length."""
    return modified_utf8(text).replace(b"\0", b"\xc0\x80")


def text_of(data: bytes) -> str:
    """Decode the bytes of :func:`java_utf8`. Raises :class:`Malformed`."""
    try:
        text = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as problem:
        raise Malformed(f"text that is not UTF-8 ({problem.reason})") from None
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def utf(text: str) -> bytes:
    """Encode text, preceded by its length in two bytes. Raises ``ValueError`` for over 65,535
    bytes."""
    data = java_utf8(text)
    if len(data) > 0xFFFF:
        raise ValueError(f"text of {len(data)} bytes; at most 65535 are allowed")
    return len(data).to_bytes(2) + data


def long_utf(text: str) -> bytes:
    """Encode the content of a text message, preceded by its length in four bytes."""
    data = java_utf8(text)
    return len(data).to_bytes(4) + data


def encode(kind: str, value: Any) -> bytes:
    """Encode a simple value of ``kind``. Raises ``ValueError`` for anything else."""
    if kind == "magic":
        return bytes(value)
    if kind not in ("string", "bytes"):
        return java_values.encode(kind, value)
    if value is None:
        return b"\0"
    return b"\1" + (utf(value) if kind == "string" else len(value).to_bytes(4) + bytes(value))


class Cursor(java_values.Cursor):
    """Reads values one by one. Methods raise :class:`Malformed` if the bytes end too early."""

    def value(self, kind: str) -> Any:
        if kind == "magic":
            return self.take(8)
        if kind not in ("string", "bytes"):
            return super().value(kind)
        if not self.value("boolean"):
            return None
        return self.utf() if kind == "string" else self.take(self.value("int"))

    def utf(self) -> str:
        """Return text that is preceded by its length in two bytes."""
        return text_of(self.take(int.from_bytes(self.take(2))))


# --- maps -----------------------------------------------------------------------------------------

KINDS = {
    0: "null",
    1: "boolean",
    2: "byte",
    3: "char",
    4: "short",
    5: "int",
    6: "long",
    7: "double",
    8: "float",
    9: "string",
    10: "bytes",
    11: "map",
    12: "list",
    13: "text",
}
"""The types of a map's values, by their bytes; ``text`` is a string with a length of four bytes."""
_NUMBERED = {kind: number for number, kind in KINDS.items()}


@dataclass(frozen=True, slots=True)
class Typed:
    """A value with its type, one of :data:`KINDS`."""

    kind: str
    value: Any


_PLAIN: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "long"),
    (float, "double"),
    (str, "string"),
    (bytes, "bytes"),
    (list, "list"),
    (dict, "map"),
    (type(None), "null"),
)


def typed(value: Any) -> Typed:
    """Give a Python value its usual type. Raises ``ValueError`` for a value that maps cannot
    hold."""
    if isinstance(value, Typed):
        return value
    for kind, name in _PLAIN:
        if isinstance(value, kind):
            return Typed(name, value)
    raise ValueError(f"{value!r} cannot be in an OpenWire map")


_WRITERS: dict[str, Callable[[Any], bytes]] = {
    "null": lambda value: b"",
    "string": utf,
    "text": long_utf,
    "bytes": lambda value: len(value).to_bytes(4) + value,
    "char": lambda value: value.encode("utf-16-be", "surrogatepass")[:2],
    "map": lambda value: encode_map(value),
    "list": lambda value: len(value).to_bytes(4) + b"".join(map(_encode_typed, value)),
}


def encode_map(values: Mapping[str, Any]) -> bytes:
    """Encode names and typed values; Python values get the type from :func:`typed`."""
    return len(values).to_bytes(4) + b"".join(
        utf(name) + _encode_typed(value) for name, value in values.items()
    )


def _encode_typed(value: Any) -> bytes:
    typed_value = typed(value)
    write = _WRITERS.get(typed_value.kind)
    data = (
        java_values.encode(typed_value.kind, typed_value.value)
        if write is None
        else write(typed_value.value)
    )
    return bytes((_NUMBERED[typed_value.kind],)) + data


def read_map(data: bytes) -> dict[str, Typed]:
    """Decode the bytes of :func:`encode_map`. Raises :class:`Malformed`."""
    cursor = Cursor(data)
    entries = _map(cursor, 0)
    if cursor.left:
        raise Malformed(f"{cursor.left} bytes left over after a map")
    return entries


def _map(cursor: Cursor, depth: int) -> dict[str, Typed]:
    return {cursor.utf(): _typed(cursor, depth) for _ in range(_count(cursor, depth))}


def _count(cursor: Cursor, depth: int) -> int:
    count = int(cursor.value("int"))
    if not -1 <= count <= cursor.left or depth > DEEPEST:
        raise Malformed(
            f"a map or list states {count} entries, with {cursor.left} bytes left, {depth} deep"
        )
    return max(0, count)


def _typed(cursor: Cursor, depth: int) -> Typed:
    number = cursor.take(1)[0]
    kind = KINDS.get(number)
    match kind:
        case None:
            raise Malformed(f"a value has the unknown type {number}")
        case "null":
            return Typed(kind, None)
        case "string":
            return Typed(kind, cursor.utf())
        case "text":
            return Typed(kind, text_of(cursor.take(cursor.value("int"))))
        case "bytes":
            return Typed(kind, cursor.take(cursor.value("int")))
        case "map":
            return Typed(kind, _map(cursor, depth + 1))
        case "list":
            return Typed(kind, [_typed(cursor, depth + 1) for _ in range(_count(cursor, depth))])
    return Typed(kind, cursor.value(kind))
