"""Reads and writes simple values of Artemis's CORE protocol (release 2.56.0, packages core.buffers
and utils).

Numbers are big-endian and signed. Text has two forms, for no apparent reason. A *simple string*
consists of its length in bytes, then UTF-16 with the low byte first. A *string* consists of its
length in characters, then one of three encodings: below :data:`SHORT` characters, UTF-16 with the
high byte first; below :data:`LONG`, a length of two bytes and Java's modified UTF-8
(:func:`modified_utf8`); otherwise a simple string. A *nullable* value begins with a byte that shows
whether a value follows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from brokerproof.harness.protocols import java_values
from brokerproof.harness.protocols.java_values import Malformed as Malformed
from brokerproof.harness.protocols.java_values import modified_utf8 as modified_utf8

SHORT, LONG = 9, 0xFFF
"""Lengths, in characters, from which a string is encoded differently."""


def simple(text: str) -> bytes:
    data = text.encode("utf-16-le", "surrogatepass")
    return len(data).to_bytes(4) + data


def string(text: str) -> bytes:
    """Encode a string in the form that its length requires."""
    units = text.encode("utf-16-be", "surrogatepass")
    count = len(units) // 2
    if count < SHORT:
        return count.to_bytes(4) + units
    if count < LONG:
        data = modified_utf8(text)
        return count.to_bytes(4) + len(data).to_bytes(2) + data
    return count.to_bytes(4) + simple(text)


_WRITERS: dict[str, Callable[[Any], bytes]] = {"simple": simple, "string": string, "uuid": bytes}


def encode(kind: str, value: Any) -> bytes:
    """Encode a value of ``kind``; a ``?`` at the end of ``kind`` makes the value nullable.

    Raises ``ValueError`` for a number out of range.
    """
    if kind.endswith("?"):
        return b"\0" if value is None else b"\1" + encode(kind[:-1], value)
    return _WRITERS[kind](value) if kind in _WRITERS else java_values.encode(kind, value)


class Cursor(java_values.Cursor):
    """Reads CORE values one by one."""

    def value(self, kind: str) -> Any:
        match kind:
            case "simple":
                return self.utf16(self.value("int"), "utf-16-le")
            case "string":
                return self._string()
            case "uuid":
                return self.take(16)
        return super().value(kind)

    def _string(self) -> str:
        count = self.value("int")
        if count < SHORT:
            return self.utf16(2 * count, "utf-16-be")
        if count >= LONG:
            return str(self.value("simple"))
        data = self.take(self.value("short") & 0xFFFF)
        try:
            text = data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as problem:
            raise Malformed(f"text that is not UTF-8 ({problem.reason})") from None
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


# --- properties of messages -----------------------------------------------------------------------

KINDS = {
    0: "null",
    2: "boolean",
    3: "byte",
    4: "bytes",
    5: "short",
    6: "int",
    7: "long",
    8: "float",
    9: "double",
    10: "simple",
    11: "char",
}
"""The types of properties by their bytes."""
_NUMBERED = {kind: number for number, kind in KINDS.items()}
_PLAIN: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "long"),
    (float, "double"),
    (str, "simple"),
    (bytes, "bytes"),
    (type(None), "null"),
)


@dataclass(frozen=True, slots=True)
class Property:
    """A value with its type, one of :data:`KINDS`."""

    kind: str
    value: Any


def property_of(value: Any) -> Property:
    """Return a Python value with its usual type. Raises ``ValueError`` for a value that cannot be a
    property."""
    if isinstance(value, Property):
        return value
    for kind, name in _PLAIN:
        if isinstance(value, kind):
            return Property(name, value)
    raise ValueError(f"{value!r} cannot be a property of a CORE message")


def encode_properties(properties: dict[str, Any]) -> bytes:
    """Encode names and typed values; if there are none, one byte."""
    if not properties:
        return b"\0"
    data = b"\1" + len(properties).to_bytes(4)
    for name, value in properties.items():
        encoded = property_of(value)
        data += simple(name) + bytes((_NUMBERED[encoded.kind],))
        if encoded.kind != "null":
            data += encode(encoded.kind, encoded.value)
    return data


def read_properties(cursor: Cursor) -> dict[str, Property]:
    """Decode the bytes of :func:`encode_properties`. Raises :class:`Malformed`."""
    properties: dict[str, Property] = {}
    if not cursor.take(1)[0]:
        return properties
    count = cursor.value("int")
    if not 0 <= count <= cursor.left:
        raise Malformed(f"{count} properties in {cursor.left} bytes")
    for _ in range(count):
        name, number = cursor.value("simple"), cursor.value("byte")
        kind = KINDS.get(number)
        if kind is None:
            raise Malformed(f"the property {name!r} has the unknown type {number}")
        properties[name] = Property(kind, None if kind == "null" else cursor.value(kind))
    return properties
