"""Decodes bytes to values (part 1 of the specification: a constructor byte, then the data that it
describes).

Every reader takes the bytes, the position after the constructor, and how many more levels of
nesting are allowed; it returns the value and the position after it. Reading past the end is
detected in one place, :func:`decode`: fixed widths by ``struct``, the rest by their own length
check.

Limits ensure that a few bytes cannot cost much: a list or map has no more elements than bytes; an
array of elements without bytes has at most :data:`MOST_EMPTY` of them; nesting is at most
:data:`DEPTH` levels deep.

:data:`PLAIN` is for fields whose type a table gives: numbers are read as plain ``int``, which is
faster.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from brokerproof.reference_broker.protocols.amqp10.types import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Pairs,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
    Uuid,
)

Reader: TypeAlias = Callable[[bytes, int, int], tuple[Any, int]]

DEPTH = 32
"""The deepest nesting of lists, maps, arrays and descriptions."""
MOST_EMPTY = 65536
"""The maximum number of elements of an array whose constructor needs no bytes for an element."""


class DecodeError(Exception):
    """Bytes that are not a value, and the reason; reported as ``amqp:decode-error``."""


def decode(data: bytes, at: int = 0) -> tuple[Any, int]:
    """Return the value that begins at ``at``, and the position after it. Raises
    :class:`DecodeError`."""
    try:
        return value(data, at, DEPTH)
    except (IndexError, struct.error):
        raise DecodeError(f"the bytes end within a value that begins at {at}") from None


def value(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    """Like :func:`decode`, but callers must handle the end of the bytes themselves (IndexError,
    ``struct.error``)."""
    reader = READERS.get(data[at])
    if reader is None:
        raise DecodeError(f"no type has the constructor 0x{data[at]:02x}")
    return reader(data, at + 1, depth)


def _fixed(form: str, wrap: Callable[[Any], Any] | None = None) -> Reader:
    layout = struct.Struct(">" + form)
    unpack, size = layout.unpack_from, layout.size

    if wrap is None:

        def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
            return unpack(data, at)[0], at + size
    else:

        def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
            return wrap(unpack(data, at)[0]), at + size

    return read


def _is(constant: Any) -> Reader:
    def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        return constant, at

    return read


def _small(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    return data[at], at + 1


def _binary(size: int, wrap: Callable[[bytes], Any]) -> Reader:
    def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        return wrap(_cut(data, at, size)), at + size

    return read


def _cut(data: bytes, at: int, size: int) -> bytes:
    cut = data[at : at + size]
    if len(cut) != size:
        raise DecodeError(f"a value of {size} bytes begins at {at}, but only {len(cut)} are left")
    return cut


def _variable(width: int, wrap: Callable[[bytes], Any] | None = None) -> Reader:
    if width == 1 and wrap is None:

        def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
            size = data[at]
            return _cut(data, at + 1, size), at + 1 + size
    else:

        def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
            size, start = _length(data, at, width)
            cut = _cut(data, start, size)
            return (cut if wrap is None else wrap(cut)), start + size

    return read


def _length(data: bytes, at: int, width: int) -> tuple[int, int]:
    if width == 1:
        return data[at], at + 1
    return _LONG.unpack_from(data, at)[0], at + 4


_LONG = struct.Struct(">I")


def _boolean(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if data[at] > 1:
        raise DecodeError(f"a boolean must be 0 or 1, not {data[at]}")
    return data[at] == 1, at + 1


def _char(number: int) -> Char:
    if number > 0x10FFFF or 0xD800 <= number < 0xE000:
        raise DecodeError(f"0x{number:x} is not a Unicode character")
    return Char(chr(number))


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise DecodeError("a string is not UTF-8") from None


def _symbol(data: bytes) -> Symbol:
    try:
        return Symbol(data.decode("ascii"))
    except UnicodeDecodeError:
        raise DecodeError("a symbol is not ASCII") from None


def _opened(data: bytes, at: int, width: int, depth: int) -> tuple[int, int, int]:
    """Return the count of a list, map or array, the position after it, and the end."""
    if depth <= 0:
        raise DecodeError(f"values are nested more than {DEPTH} levels deep")
    size, start = _length(data, at, width)
    end = start + size
    if end > len(data):
        raise DecodeError(
            f"a value of {size} bytes begins at {start}, but only {len(data) - start} are left"
        )
    if size < width:
        raise DecodeError(f"a size of {size} bytes leaves no room for the count")
    count, start = _length(data, start, width)
    return count, start, end


def _items(data: bytes, at: int, end: int, count: int, depth: int) -> list[Any]:
    if count > end - at:
        raise DecodeError(f"{count} elements do not fit into {end - at} bytes")
    items: list[Any] = []
    for _ in range(count):
        item, at = value(data, at, depth)
        items.append(item)
    _ended(at, end)
    return items


def _ended(at: int, end: int) -> None:
    if at != end:
        raise DecodeError(f"the elements end at {at}, but the size says {end}")


def _list(width: int) -> Reader:
    def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        count, at, end = _opened(data, at, width, depth)
        return _items(data, at, end, count, depth - 1), end

    return read


def _map(width: int) -> Reader:
    def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        count, at, end = _opened(data, at, width, depth)
        if count % 2:
            raise DecodeError(f"a map needs an even number of elements, not {count}")
        items = _items(data, at, end, count, depth - 1)
        return _mapping(items[::2], items[1::2]), end

    return read


def _mapping(keys: list[Any], values: list[Any]) -> dict[Any, Any] | Pairs:
    try:
        mapping = dict(zip(keys, values, strict=True))
    except TypeError:  # a key that is a list, a map or an array
        mapping = {}
    if len(mapping) == len(keys):
        return mapping
    seen: dict[str, list[Any]] = {}
    for key in keys:
        alike = seen.setdefault(type(key).__name__, [])
        if key in alike:
            raise DecodeError(f"a map has the key {str(key)[:40]!a} twice")
        alike.append(key)
        if len(alike) > 1000:
            raise DecodeError("a map has more than 1000 keys that cannot be compared quickly")
    return Pairs(zip(keys, values, strict=True))


def _array(width: int) -> Reader:
    def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        count, at, end = _opened(data, at, width, depth)
        described = data[at] == 0
        descriptor = None
        if described:
            descriptor, at = value(data, at + 1, depth - 1)
        code = data[at]
        reader, at = READERS.get(code), at + 1
        if reader is None or code == 0:
            raise DecodeError(f"no type has the constructor 0x{code:02x}")
        if count > (MOST_EMPTY if code in EMPTY else end - at):
            raise DecodeError(f"{count} elements do not fit into {end - at} bytes")
        items = []
        for _ in range(count):
            item, at = reader(data, at, depth - 1)
            items.append(item)
        _ended(at, end)
        return Array(KINDS[code], items, described=described, descriptor=descriptor), end

    return read


def _described(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if depth <= 0:
        raise DecodeError(f"values are nested more than {DEPTH} levels deep")
    descriptor, at = value(data, at, depth - 1)
    described, at = value(data, at, depth - 1)
    return Described(descriptor, described), at


_NONE = type(None)

_TYPES: dict[str, tuple[type, dict[int, Reader]]] = {
    "null": (_NONE, {0x40: _is(None)}),
    "boolean": (bool, {0x56: _boolean, 0x41: _is(True), 0x42: _is(False)}),
    "ubyte": (Ubyte, {0x50: _fixed("B", Ubyte)}),
    "ushort": (Ushort, {0x60: _fixed("H", Ushort)}),
    "uint": (Uint, {0x70: _fixed("I", Uint), 0x52: _fixed("B", Uint), 0x43: _is(Uint(0))}),
    "ulong": (Ulong, {0x80: _fixed("Q", Ulong), 0x53: _fixed("B", Ulong), 0x44: _is(Ulong(0))}),
    "byte": (Byte, {0x51: _fixed("b", Byte)}),
    "short": (Short, {0x61: _fixed("h", Short)}),
    "int": (Int, {0x71: _fixed("i", Int), 0x54: _fixed("b", Int)}),
    "long": (int, {0x81: _fixed("q"), 0x55: _fixed("b")}),
    "float": (Float, {0x72: _fixed("f", Float)}),
    "double": (float, {0x82: _fixed("d")}),
    "decimal32": (Decimal32, {0x74: _binary(4, Decimal32)}),
    "decimal64": (Decimal64, {0x84: _binary(8, Decimal64)}),
    "decimal128": (Decimal128, {0x94: _binary(16, Decimal128)}),
    "char": (Char, {0x73: _fixed("I", _char)}),
    "timestamp": (Timestamp, {0x83: _fixed("q", Timestamp)}),
    "uuid": (Uuid, {0x98: _binary(16, Uuid)}),
    "binary": (bytes, {0xA0: _variable(1), 0xB0: _variable(4)}),
    "string": (str, {0xA1: _variable(1, _text), 0xB1: _variable(4, _text)}),
    "symbol": (Symbol, {0xA3: _variable(1, _symbol), 0xB3: _variable(4, _symbol)}),
    "list": (list, {0x45: lambda data, at, depth: ([], at), 0xC0: _list(1), 0xD0: _list(4)}),
    "map": (dict, {0xC1: _map(1), 0xD1: _map(4)}),
    "array": (Array, {0xE0: _array(1), 0xF0: _array(4)}),
}

CODES: Mapping[str, Mapping[int, Reader]] = {name: readers for name, (_, readers) in _TYPES.items()}
"""Constructors and their readers, by the name of a primitive type."""
READERS: Mapping[int, Reader] = {0: _described} | {
    code: reader for readers in CODES.values() for code, reader in readers.items()
}
"""Readers by constructor."""
KINDS: Mapping[int, type] = {code: kind for kind, readers in _TYPES.values() for code in readers}
"""Python types by constructor."""
EMPTY = frozenset({0x40, 0x41, 0x42, 0x43, 0x44, 0x45})
"""Constructors without data."""

_PLAIN_NUMBERS: dict[str, dict[int, Reader]] = {
    "ubyte": {0x50: _small},
    "ushort": {0x60: _fixed("H")},
    "uint": {0x70: _fixed("I"), 0x52: _small, 0x43: _is(0)},
    "ulong": {0x80: _fixed("Q"), 0x53: _small, 0x44: _is(0)},
    "timestamp": {0x83: _fixed("q")},
}
PLAIN: Mapping[str, Mapping[int, Reader]] = {**CODES, **_PLAIN_NUMBERS}
""":data:`CODES` with unsigned numbers and timestamps as plain ``int``."""
