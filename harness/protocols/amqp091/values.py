"""Reads and writes values of AMQP 0-9-1: fields of methods and of tables.

The type on the wire decides the Python type: byte to longlong and timestamp are ``int``, bit is
``bool``, shortstr ``str``, longstr ``bytes``, table ``dict``. For values in tables, the
specification (4.2.5.5) and the brokers use different type letters; this module uses those of
RabbitMQ and its clients. In strings that are not UTF-8, invalid bytes become escapes.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DEEPEST = 64
"""The deepest nesting of tables that is read. Deeper tables are malformed."""

_NUMBERS = {"octet": ">B", "short": ">H", "long": ">I", "longlong": ">Q", "timestamp": ">Q"}
_LETTERS = {
    **{
        "b": ">b",
        "B": ">B",
        "s": ">h",
        "u": ">H",
        "I": ">i",
        "i": ">I",
        "l": ">q",
        "T": ">Q",
        "f": ">f",
        "d": ">d",
    },
    "t": ">?",
}


class Malformed(Exception):
    """Bytes that are not a value of the expected type."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A table value with its type letter. For an unknown letter, ``value`` is the bytes."""

    letter: str
    value: Any


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes to write in place of a field of any type."""

    data: bytes


def encode(value: Any, kind: str) -> bytes:
    """Encode ``value`` as a field of type ``kind`` (except bit, because bits are packed). Raises
    ``ValueError`` if the value does not fit."""
    if isinstance(value, Raw):
        return value.data
    if kind in _NUMBERS:
        try:
            return struct.pack(_NUMBERS[kind], value)
        except struct.error:
            raise ValueError(f"{value!r} is not a valid {kind}") from None
    if kind == "table":
        return _sized(b"".join(_name(name) + _field(item) for name, item in value.items()))
    data = value.encode() if isinstance(value, str) else bytes(value)
    if kind == "longstr":
        return _sized(data)
    if len(data) > 255:
        raise ValueError(f"a shortstr has at most 255 bytes, not {len(data)}")
    return bytes((len(data),)) + data


def _name(name: str) -> bytes:
    return encode(name, "shortstr")


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(4) + data


def _field(value: Any) -> bytes:
    given = value if isinstance(value, Typed) else typed(value)
    letter, inside = given.letter, given.value
    head = letter.encode("latin-1")
    if letter in _LETTERS:
        return head + struct.pack(_LETTERS[letter], inside)
    match letter:
        case "S" | "x" if not isinstance(inside, Raw):
            return head + encode(inside, "longstr")
        case "F" if not isinstance(inside, Raw):
            return head + encode(inside, "table")
        case "A" if not isinstance(inside, Raw):
            return head + _sized(b"".join(map(_field, inside)))
        case "D":
            return head + struct.pack(">BI", *inside)
        case "V":
            return head
    return head + (inside.data if isinstance(inside, Raw) else bytes(inside))


def typed(value: Any) -> Typed:
    """Return a plain value with the type letter that clients use for it. Raises ``ValueError`` for
    a Python type without a letter."""
    match value:
        case None:
            return Typed("V", None)
        case bool():
            return Typed("t", value)
        case int():
            return Typed("I" if -(2**31) <= value < 2**31 else "l", value)
        case float():
            return Typed("d", value)
        case str() | bytes():
            return Typed("S", value)
        case dict():
            return Typed("F", value)
        case list() | tuple():
            return Typed("A", value)
    raise ValueError(f"a table has no {type(value).__name__}")


def decode(data: bytes, at: int, kind: str) -> tuple[Any, int]:
    """Return the field of type ``kind`` (except bit) at ``at``, and where the field ends. Raises
    :class:`Malformed`."""
    if kind in _NUMBERS:
        return _number(data, at, _NUMBERS[kind], kind)
    if kind == "shortstr":
        size, at = _number(data, at, ">B", kind)
        return text(_taken(data, at, size, kind)), at + size
    if kind == "longstr":
        size, at = _number(data, at, ">I", kind)
        return _taken(data, at, size, kind), at + size
    return _table(data, at, 0)


def text(data: bytes) -> str:
    """Decode UTF-8, with escapes for invalid bytes."""
    return data.decode("utf-8", "backslashreplace")


def plain(value: Any) -> Any:
    """Return a table value without type letters, and with long strings as text."""
    if isinstance(value, Typed):
        return plain(text(value.value) if value.letter == "S" else value.value)
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def words(value: Any) -> str:
    """Return a field's value as text, for traces."""
    if isinstance(value, bytes):
        return text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(plain(value))


def _number(data: bytes, at: int, form: str, kind: str) -> tuple[Any, int]:
    try:
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
    except struct.error:
        raise Malformed(f"{kind}: the bytes end within it") from None


def _taken(data: bytes, at: int, size: int, kind: str) -> bytes:
    if at + size > len(data):
        raise Malformed(f"{kind}: says it has {size} bytes, but {len(data) - at} are left")
    return data[at : at + size]


def _table(data: bytes, at: int, depth: int) -> tuple[dict[str, Typed], int]:
    size, at = _number(data, at, ">I", "table")
    end = at + len(_taken(data, at, size, "table"))
    entries: dict[str, Typed] = {}
    while at < end:
        name, at = decode(data[:end], at, "shortstr")
        entries[name], at = _value(data[:end], at, depth)
    return entries, end


def _value(data: bytes, at: int, depth: int) -> tuple[Typed, int]:
    if depth > DEEPEST:
        raise Malformed(f"table: more than {DEEPEST} in each other")
    letter = chr(_number(data, at, ">B", "table")[0])
    at += 1
    if letter in _LETTERS:
        value, at = _number(data, at, _LETTERS[letter], letter)
        return Typed(letter, value), at
    match letter:
        case "S" | "x":
            value, at = decode(data, at, "longstr")
        case "F":
            value, at = _table(data, at, depth + 1)
        case "V":
            value = None
        case "D":
            scale, at = _number(data, at, ">B", "decimal")
            digits, at = _number(data, at, ">I", "decimal")
            value = scale, digits
        case "A":
            size, at = _number(data, at, ">I", "array")
            end = at + len(_taken(data, at, size, "array"))
            value = []
            while at < end:
                item, at = _value(data[:end], at, depth + 1)
                value.append(item)
        case _:
            raise Malformed(f"table: a value has the unknown type {letter!r}")
    return Typed(letter, value), at
