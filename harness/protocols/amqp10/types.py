"""AMQP 1.0 values, each with the constructor that it was read with or will be written with.

The codec is deliberately simple (part 1 of the specification): :func:`encode` writes what it is
given, with the shortest constructor unless one is forced; :func:`decode` keeps the constructor that
it read. :class:`Raw` writes any bytes in place of a value. This module knows nothing of
performatives.

Where possible, values have a plain Python form: ``plain`` turns a uint into an int, a symbol into a
str, and a map into a dict. Conversely, :func:`item` rejects an int, because AMQP has many integer
types.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import UUID

DESCRIBED = 0x00
MOST_NESTED = 60
"""The deepest nesting of values that is read."""
MOST_EMPTY = 100_000
"""The most elements that an array may have if they take no bytes, whatever count it states."""


class Malformed(Exception):
    """Bytes that are not a value. The message says what is wrong and where."""


@dataclass(frozen=True, slots=True)
class Constructor:
    """The layout of the bytes after a constructor code.

    ``kind`` is fixed, variable, compound or array; ``width`` is the number of bytes of the value
    (if fixed) or of its size.
    """

    code: int
    type: str
    name: str
    kind: str
    width: int
    form: str = ""


_ALL = (
    Constructor(0x40, "null", "null", "fixed", 0),
    Constructor(0x56, "boolean", "boolean", "fixed", 1),
    Constructor(0x41, "boolean", "true", "fixed", 0),
    Constructor(0x42, "boolean", "false", "fixed", 0),
    Constructor(0x50, "ubyte", "ubyte", "fixed", 1, ">B"),
    Constructor(0x60, "ushort", "ushort", "fixed", 2, ">H"),
    Constructor(0x70, "uint", "uint", "fixed", 4, ">I"),
    Constructor(0x52, "uint", "smalluint", "fixed", 1, ">B"),
    Constructor(0x43, "uint", "uint0", "fixed", 0),
    Constructor(0x80, "ulong", "ulong", "fixed", 8, ">Q"),
    Constructor(0x53, "ulong", "smallulong", "fixed", 1, ">B"),
    Constructor(0x44, "ulong", "ulong0", "fixed", 0),
    Constructor(0x51, "byte", "byte", "fixed", 1, ">b"),
    Constructor(0x61, "short", "short", "fixed", 2, ">h"),
    Constructor(0x71, "int", "int", "fixed", 4, ">i"),
    Constructor(0x54, "int", "smallint", "fixed", 1, ">b"),
    Constructor(0x81, "long", "long", "fixed", 8, ">q"),
    Constructor(0x55, "long", "smalllong", "fixed", 1, ">b"),
    Constructor(0x72, "float", "ieee-754", "fixed", 4, ">f"),
    Constructor(0x82, "double", "ieee-754", "fixed", 8, ">d"),
    Constructor(0x74, "decimal32", "ieee-754", "fixed", 4),
    Constructor(0x84, "decimal64", "ieee-754", "fixed", 8),
    Constructor(0x94, "decimal128", "ieee-754", "fixed", 16),
    Constructor(0x73, "char", "utf32", "fixed", 4, ">I"),
    Constructor(0x83, "timestamp", "ms64", "fixed", 8, ">q"),
    Constructor(0x98, "uuid", "uuid", "fixed", 16),
    Constructor(0xA0, "binary", "vbin8", "variable", 1),
    Constructor(0xB0, "binary", "vbin32", "variable", 4),
    Constructor(0xA1, "string", "str8-utf8", "variable", 1),
    Constructor(0xB1, "string", "str32-utf8", "variable", 4),
    Constructor(0xA3, "symbol", "sym8", "variable", 1),
    Constructor(0xB3, "symbol", "sym32", "variable", 4),
    Constructor(0x45, "list", "list0", "fixed", 0),
    Constructor(0xC0, "list", "list8", "compound", 1),
    Constructor(0xD0, "list", "list32", "compound", 4),
    Constructor(0xC1, "map", "map8", "compound", 1),
    Constructor(0xD1, "map", "map32", "compound", 4),
    Constructor(0xE0, "array", "array8", "array", 1),
    Constructor(0xF0, "array", "array32", "array", 4),
)

CONSTRUCTORS: Mapping[int, Constructor] = {primitive.code: primitive for primitive in _ALL}
"""Every constructor of part 1, by its code."""

_LARGE = {"list": 0xD0, "map": 0xD1, "array": 0xF0, "binary": 0xB0, "string": 0xB1, "symbol": 0xB3}
_SMALL = {"list": 0xC0, "map": 0xC1, "array": 0xE0, "binary": 0xA0, "string": 0xA1, "symbol": 0xA3}
_WHOLE = {"uint": 0x70, "ulong": 0x80, "int": 0x71, "long": 0x81, "boolean": 0x56} | _LARGE
_SIGNED_SMALL = {"int": 0x54, "long": 0x55}
_ONLY = {
    primitive.type: primitive.code
    for primitive in _ALL
    if sum(other.type == primitive.type for other in _ALL) == 1
}


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a primitive type. ``code`` is the constructor that was forced or read;
    comparisons ignore it.

    ``value`` is None, bool, int, float, bytes (binary and decimals), str (string, symbol), UUID, a
    tuple of items (list), or a tuple of pairs of items (map: order and repeated keys are kept).
    """

    type: str
    value: Any
    code: int | None = field(default=None, compare=False)


_WITHOUT_BYTES = {
    code: Value(CONSTRUCTORS[code].type, value, code)
    for code, value in ((0x40, None), (0x41, True), (0x42, False), (0x43, 0), (0x44, 0), (0x45, ()))
}
"""Values written as their constructor alone."""


@dataclass(frozen=True, slots=True)
class Described:
    descriptor: Item
    value: Item


@dataclass(frozen=True, slots=True)
class Array:
    """Values that share the constructor ``element``; ``descriptors`` apply to every element,
    outermost first."""

    element: int
    items: tuple[Item, ...] = ()
    descriptors: tuple[Item, ...] = ()
    code: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Raw:
    """Any bytes to write in place of a value; never the result of reading."""

    data: bytes


Item: TypeAlias = Value | Described | Array | Raw

NULL = Value("null", None)


# --- making values --------------------------------------------------------------------------------


def uint(value: int, code: int | None = None) -> Value:
    """Make a uint from 0 to 2**32 - 1."""
    return Value("uint", value, code)


def ulong(value: int, code: int | None = None) -> Value:
    """Make a ulong from 0 to 2**64 - 1."""
    return Value("ulong", value, code)


def ubyte(value: int) -> Value:
    """Make a ubyte from 0 to 255."""
    return Value("ubyte", value)


def symbol(value: str, code: int | None = None) -> Value:
    """Make a symbol, which is ASCII."""
    return Value("symbol", value, code)


def string(value: str, code: int | None = None) -> Value:
    return Value("string", value, code)


def binary(value: bytes, code: int | None = None) -> Value:
    return Value("binary", value, code)


def symbols(values: Iterable[str]) -> Array:
    """Make an array of symbols, with the shorter constructor if all of them fit."""
    items = tuple(symbol(value) for value in values)
    return Array(0xA3 if all(len(item.value) < 256 for item in items) else 0xB3, items)


def item(value: Any) -> Item:
    """Make a value of plain Python: None, bool, str (a string), bytes, float (a double), UUID,
    sequences, mappings.

    Raises ``TypeError`` for an int, which could be of any integer type, and for types without an
    AMQP value.
    """
    match value:
        case Value() | Described() | Array() | Raw():
            return value
        case None:
            return NULL
        case bool():
            return Value("boolean", value)
        case str():
            return string(value)
        case bytes():
            return binary(value)
        case float():
            return Value("double", value)
        case UUID():
            return Value("uuid", value)
        case list() | tuple():
            return Value("list", tuple(item(element) for element in value))
        case Mapping():
            return Value("map", tuple((item(key), item(element)) for key, element in value.items()))
    raise TypeError(f"{value!r} has no AMQP type; write for example uint({value!r})")


def plain(what: Item) -> Any:
    """Return the value as plain Python, without descriptors and types; a list stays a list, and a
    map becomes a dict."""
    match what:
        case Value("list", items):
            return [plain(item) for item in items]
        case Value("map", pairs):
            return {_key(plain(key)): plain(item) for key, item in pairs}
        case Value(_, value):
            return value
        case Described(_, inner):
            return plain(inner)
        case Array(items=items):
            return [plain(item) for item in items]
        case Raw(data):
            return data
    raise TypeError(f"{what!r} is not an AMQP value")  # pragma: no cover - the union is closed


def _key(value: Any) -> Any:
    return value if value.__hash__ is not None else repr(value)


def text(what: Item) -> str:
    """Return the value as text, for traces and sentences: numbers and names as they are, bytes in
    hexadecimal."""
    if isinstance(what, Value) and isinstance(what.value, (int, str)) and what.type != "boolean":
        return str(what.value)  # most values in frames
    match what:
        case Value("null"):
            return "null"
        case Value("boolean", value):
            return "true" if value else "false"
        case Value("list", items):
            return f"[{', '.join(map(text, items))}]"
        case Value("map", pairs):
            return "{" + ", ".join(f"{text(key)}: {text(item)}" for key, item in pairs) + "}"
        case Value(_, bytes() as data):
            return f"0x{data.hex()}"
        case Value(_, value):
            return str(value)
        case Described(descriptor, inner):
            return f"{text(descriptor)}({text(inner)})"
        case Array(items=items):
            return f"[{', '.join(map(text, items))}]"
        case Raw(data):
            return f"bytes 0x{data.hex()}"
    raise TypeError(f"{what!r} is not an AMQP value")  # pragma: no cover - the union is closed


# --- writing --------------------------------------------------------------------------------------


def encode(what: Item) -> bytes:
    """Return the bytes of a value. Raises ``ValueError`` if the forced constructor cannot hold it;
    use :class:`Raw` for that."""
    match what:
        case Raw(data):
            return data
        case Described(descriptor, inner):
            return b"\x00" + encode(descriptor) + encode(inner)
    body = _body_of(what) if what.code is None else None
    code = _code(what, body)
    return bytes((code,)) + _layout(code, what, body)


def _body_of(what: Value | Array) -> bytes:
    """Return the encoded items of a list, map or array, which determine its constructor; None for
    other values."""
    if isinstance(what, Array):
        return _array_body(what)
    return _compound_body(what) if what.type in ("list", "map") else b""


def _code(what: Value | Array, body: bytes | None) -> int:
    """Return the constructor for a value: the forced one, or else the shortest that holds it and
    its ``body``."""
    if what.code is not None or body is None:
        assert what.code is not None
        return what.code
    if isinstance(what, Array):
        return 0xE0 if len(body) + 1 < 256 and len(what.items) < 256 else 0xF0
    value = what.value
    match what.type:
        case "boolean":
            return 0x41 if value else 0x42
        case "uint":
            return 0x43 if value == 0 else 0x52 if 0 < value < 256 else 0x70
        case "ulong":
            return 0x44 if value == 0 else 0x53 if 0 < value < 256 else 0x80
        case "int" | "long":
            return _SIGNED_SMALL[what.type] if -128 <= value < 128 else _WHOLE[what.type]
        case "binary" | "string" | "symbol":
            return _SMALL[what.type] if len(_bytes_of(what)) < 256 else _LARGE[what.type]
        case "list" if not value:
            return 0x45
        case "list" | "map":
            # the size includes one byte for the count
            small = len(body) + 1 < 256 and _count(what) < 256
            return (_SMALL if small else _LARGE)[what.type]
    return _ONLY[what.type]


def _layout(code: int, what: Item, body: bytes | None = None) -> bytes:
    """Encode the bytes after the constructor ``code``. ``body`` is the encoded items of a list, map
    or array, if known."""
    shape = CONSTRUCTORS.get(code)
    if shape is None or isinstance(what, (Described, Raw)):
        raise ValueError(f"{what!r} cannot be written with the constructor 0x{code:02x}; use Raw")
    try:
        if isinstance(what, Array):
            body, count = _array_body(what) if body is None else body, len(what.items)
        elif shape.kind == "compound":
            body, count = _compound_body(what) if body is None else body, _count(what)
        elif shape.kind == "variable":
            data = _bytes_of(what)
            return len(data).to_bytes(shape.width) + data
        elif shape.form:
            return struct.pack(shape.form, what.value)
        else:
            return _fixed(shape, what)
        return (len(body) + shape.width).to_bytes(shape.width) + count.to_bytes(shape.width) + body
    except (struct.error, OverflowError):
        raise ValueError(
            f"{what!r} does not fit the constructor {shape.name} (0x{code:02x}); use Raw"
        ) from None


def _fixed(shape: Constructor, what: Value) -> bytes:
    match shape.type:
        case "boolean" if shape.width:
            return b"\x01" if what.value else b"\x00"
        case "decimal32" | "decimal64" | "decimal128" if len(what.value) == shape.width:
            return bytes(what.value)
        case "uuid":
            return bytes(what.value.bytes)
    empty: Mapping[int, Any] = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0, 0x45: ()}
    if shape.code not in empty or what.value != empty[shape.code]:
        raise OverflowError
    return b""


def _bytes_of(what: Value) -> bytes:
    match what.type:
        case "string":
            return bytes(what.value.encode())
        case "symbol":
            return bytes(what.value.encode("ascii"))
    return bytes(what.value)


def _count(what: Value) -> int:
    return len(what.value) * (2 if what.type == "map" else 1)


def _compound_body(what: Value) -> bytes:
    if what.type == "map":
        return b"".join(encode(item) for pair in what.value for item in pair)
    return b"".join(map(encode, what.value))


def _array_body(what: Array) -> bytes:
    constructor = b"".join(b"\x00" + encode(descriptor) for descriptor in what.descriptors) + bytes(
        (what.element,)
    )
    return constructor + b"".join(_layout(what.element, item) for item in what.items)


# --- reading --------------------------------------------------------------------------------------


def decode(data: bytes, start: int = 0) -> tuple[Item, int]:
    """Return the value that begins at ``start``, and the position after it. Raises
    :class:`Malformed`."""
    return _decode(data, start, len(data), 0)


def _decode(data: bytes, at: int, end: int, depth: int) -> tuple[Item, int]:
    if depth > MOST_NESTED:
        raise Malformed(f"values are nested deeper than {MOST_NESTED} at byte {at}")
    code = _take(data, at, end, 1, "a", "constructor")[0]
    if code == DESCRIBED:
        descriptor, at = _decode(data, at + 1, end, depth + 1)
        inner, at = _decode(data, at, end, depth + 1)
        return Described(descriptor, inner), at
    return _body(code, data, at + 1, end, depth)


def _body(code: int, data: bytes, at: int, end: int, depth: int) -> tuple[Item, int]:
    """Read the bytes after the constructor ``code``."""
    shape = CONSTRUCTORS.get(code)
    if shape is None:
        raise Malformed(f"no constructor has the code 0x{code:02x}, before byte {at}")
    if code in _WITHOUT_BYTES:
        return _WITHOUT_BYTES[code], at
    if shape.kind == "fixed":
        raw = _take(data, at, end, shape.width, "a", shape.type)
        return Value(shape.type, _fixed_value(shape, raw, at), code), at + shape.width
    size = int.from_bytes(_take(data, at, end, shape.width, "the size of a", shape.type))
    at += shape.width
    raw = _take(data, at, end, size, "a", shape.type)
    if shape.kind == "variable":
        return Value(shape.type, _variable_value(shape, raw, at), code), at + size
    inside = at + size
    count = int.from_bytes(_take(data, at, inside, shape.width, "the count of a", shape.type))
    at += shape.width
    if shape.kind == "array":
        return _array(code, count, data, at, inside, depth), inside
    items: list[Item] = []
    while at < inside and len(items) < count:
        value, at = _decode(data, at, inside, depth + 1)
        items.append(value)
    if at != inside or len(items) != count:
        raise Malformed(
            f"a {shape.type} of {count} items and {size} bytes holds {len(items)} and"
            f" {inside - at} more bytes"
        )
    if shape.type == "list":
        return Value("list", tuple(items), code), inside
    if count % 2:
        raise Malformed(f"a map before byte {at} has a key without a value: {count} items")
    return Value("map", tuple(zip(items[::2], items[1::2], strict=True)), code), inside


def _array(code: int, count: int, data: bytes, at: int, end: int, depth: int) -> Array:
    descriptors: list[Item] = []
    while (element := _take(data, at, end, 1, "the constructor of an", "array")[0]) == DESCRIBED:
        if len(descriptors) > MOST_NESTED:
            raise Malformed(
                f"an array's elements have more than {MOST_NESTED} descriptors at byte {at}"
            )
        descriptor, at = _decode(data, at + 1, end, depth + 1)
        descriptors.append(descriptor)
    at += 1
    if depth >= MOST_NESTED:
        raise Malformed(f"values are nested deeper than {MOST_NESTED} at byte {at}")
    shape = CONSTRUCTORS.get(element)
    if shape is None:
        raise Malformed(
            f"no constructor has the code 0x{element:02x}, that of an array before byte {at}"
        )
    if count > (MOST_EMPTY if shape.kind == "fixed" and shape.width == 0 else end - at):
        raise Malformed(
            f"an array before byte {at} announces {count} elements, more than its bytes can hold"
        )
    items: list[Item] = []
    for _ in range(count):
        value, at = _body(element, data, at, end, depth + 1)
        items.append(value)
    if at != end:
        raise Malformed(f"an array of {count} elements leaves {end - at} bytes unread at byte {at}")
    return Array(element, tuple(items), tuple(descriptors), code)


def _fixed_value(shape: Constructor, data: bytes, at: int) -> Any:
    if shape.form:
        value = struct.unpack(shape.form, data)[0]
        if shape.type == "char" and (value > 0x10FFFF or 0xD800 <= value < 0xE000):
            raise Malformed(f"a char at byte {at} is not a Unicode scalar: 0x{value:x}")
        return value
    match shape.name:
        case "boolean":
            if data[0] > 1:
                raise Malformed(f"a boolean at byte {at} is 0x{data[0]:02x}, neither 0x00 nor 0x01")
            return data[0] == 1
        case "uuid":
            return UUID(bytes=bytes(data))
        case "ieee-754":
            return bytes(data)
    raise KeyError(shape.name)  # pragma: no cover - the others have no bytes


def _variable_value(shape: Constructor, data: bytes, at: int) -> Any:
    if shape.type == "binary":
        return bytes(data)
    try:
        return data.decode("ascii" if shape.type == "symbol" else "utf-8")
    except UnicodeDecodeError as problem:
        raise Malformed(
            f"a {shape.type} at byte {at} is not {problem.encoding}: {problem.reason}"
        ) from None


def _take(data: bytes, at: int, end: int, size: int, part: str, of: str) -> bytes:
    # Error messages are composed only for an error. Composing them for every value would take a
    # third of the time of reading.
    if end - at < size:
        raise Malformed(
            f"{part} {of} at byte {at} should have {size} bytes, but {max(0, end - at)} are left"
        )
    return data[at : at + size]
