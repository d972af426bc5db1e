"""Encodes values to bytes, each with its shortest constructor.

A value's Python type determines its AMQP type (see
:mod:`brokerproof.reference_broker.protocols.amqp10.types`); the elements of an array share the
shortest constructor that fits them all. Raises ``TypeError`` for a Python type without an AMQP
type, and ``ValueError`` or ``struct.error`` for a number outside the range of its type; each of
these is a bug in this program.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

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

_UINT = struct.Struct(">BI").pack
_ULONG = struct.Struct(">BQ").pack
_INT = struct.Struct(">Bi").pack
_LONG = struct.Struct(">Bq").pack
_SIZE = struct.Struct(">I").pack
_TWO_SIZES = struct.Struct(">II").pack


def encode(value: Any) -> bytes:
    encoder = ENCODERS.get(type(value))
    if encoder is None:
        raise TypeError(f"{type(value).__name__} has no AMQP type")
    return encoder(value)


def boolean(value: Any) -> bytes:
    return b"\x41" if value else b"\x42"


def ubyte(value: Any) -> bytes:
    return b"\x50" + value.to_bytes(1)  # type: ignore[no-any-return]


def ushort(value: Any) -> bytes:
    return b"\x60" + value.to_bytes(2)  # type: ignore[no-any-return]


def uint(value: Any) -> bytes:
    if value == 0:
        return b"\x43"
    return b"\x52" + value.to_bytes(1) if value < 256 else _UINT(0x70, value)


def ulong(value: Any) -> bytes:
    if value == 0:
        return b"\x44"
    return b"\x53" + value.to_bytes(1) if value < 256 else _ULONG(0x80, value)


def _int(value: Any) -> bytes:
    return b"\x54" + value.to_bytes(1, signed=True) if -128 <= value < 128 else _INT(0x71, value)


def _long(value: Any) -> bytes:
    return b"\x55" + value.to_bytes(1, signed=True) if -128 <= value < 128 else _LONG(0x81, value)


def timestamp(value: Any) -> bytes:
    return _LONG(0x83, value)


def variable(short: int, data: bytes) -> bytes:
    """Return a value as its constructor and data. ``short`` is the constructor with a one-byte
    length; the long constructor is 16 more."""
    size = len(data)
    return bytes((short, size)) + data if size < 256 else bytes((short + 16,)) + _SIZE(size) + data


def binary(value: Any) -> bytes:
    return variable(0xA0, value)


def string(value: Any) -> bytes:
    return variable(0xA1, value.encode())


def symbol(value: Any) -> bytes:
    return variable(0xA3, value.encode("ascii"))


def compound(short: int, parts: Iterable[bytes], count: int) -> bytes:
    """Return a list (``short`` is 0xc0) or a map (0xc1) of encoded elements."""
    body = b"".join(parts)
    size = len(body)
    if size < 255 and count < 256:
        return bytes((short, size + 1, count)) + body
    return bytes((short + 16,)) + _TWO_SIZES(size + 4, count) + body


def sequence(value: Any) -> bytes:
    return compound(0xC0, map(encode, value), len(value)) if value else b"\x45"


def mapping(value: Any) -> bytes:
    pairs = value if isinstance(value, Pairs) else value.items()
    return compound(0xC1, (encode(item) for pair in pairs for item in pair), 2 * len(value))


def _described(value: Any) -> bytes:
    return b"\0" + encode(value.descriptor) + encode(value.value)


def _fixed(code: int, form: str) -> Callable[[Any], bytes]:
    pack = struct.Struct(">B" + form).pack
    return lambda value: pack(code, value)


def _binary(code: int, size: int) -> Callable[[Any], bytes]:
    def write(value: Any) -> bytes:
        if len(value) != size:
            raise ValueError(f"{type(value).__name__} has {size} bytes, not {len(value)}")
        return bytes((code,)) + value  # type: ignore[no-any-return]

    return write


def array(value: Any) -> bytes:
    """Return an array. Its constructor is the longest one of the elements' type."""
    try:
        code, write = _ELEMENTS[value.kind]
    except KeyError:
        raise TypeError(f"{value.kind.__name__} has no AMQP type") from None
    start = b"\0" + encode(value.descriptor) if value.described else b""
    if code in (0xA0, 0xA1, 0xA3):
        data = [item if code == 0xA0 else item.encode() for item in value]
        short = all(len(item) < 256 for item in data)
        parts = [(bytes((len(item),)) if short else _SIZE(len(item))) + item for item in data]
        code += 0 if short else 16
    else:
        parts = [write(item) for item in value]
    body = b"".join((start, bytes((code,)), *parts))
    if len(body) < 255 and len(value) < 256:
        return bytes((0xE0, len(body) + 1, len(value))) + body
    return b"\xf0" + _TWO_SIZES(len(body) + 4, len(value)) + body


def _long_compound(pairs: bool) -> Callable[[Any], bytes]:
    def write(value: Any) -> bytes:
        if pairs:
            items = value if isinstance(value, Pairs) else value.items()
            parts = [encode(item) for pair in items for item in pair]
        else:
            parts = [encode(item) for item in value]
        body = b"".join(parts)
        return _TWO_SIZES(len(body) + 4, len(parts)) + body

    return write


def _long_array(value: Any) -> bytes:
    data = array(value)
    return data[1:] if data[0] == 0xF0 else _TWO_SIZES(data[1] + 3, data[2]) + data[3:]


def _packed(form: str) -> Callable[[Any], bytes]:
    return struct.Struct(">" + form).pack


_ELEMENTS: dict[type, tuple[int, Callable[[Any], bytes]]] = {
    type(None): (0x40, lambda value: b""),
    bool: (0x56, lambda value: b"\1" if value else b"\0"),
    Ubyte: (0x50, _packed("B")),
    Ushort: (0x60, _packed("H")),
    Uint: (0x70, _packed("I")),
    Ulong: (0x80, _packed("Q")),
    Byte: (0x51, _packed("b")),
    Short: (0x61, _packed("h")),
    Int: (0x71, _packed("i")),
    int: (0x81, _packed("q")),
    Float: (0x72, _packed("f")),
    float: (0x82, _packed("d")),
    Decimal32: (0x74, bytes),
    Decimal64: (0x84, bytes),
    Decimal128: (0x94, bytes),
    Char: (0x73, lambda value: _SIZE(ord(value))),
    Timestamp: (0x83, _packed("q")),
    Uuid: (0x98, bytes),
    bytes: (0xA0, bytes),
    str: (0xA1, str.encode),
    Symbol: (0xA3, str.encode),
    list: (0xD0, _long_compound(False)),
    dict: (0xD1, _long_compound(True)),
    Array: (0xF0, _long_array),
}
"""The constructor and the writer of an array's elements, by Python type."""

ENCODERS: Mapping[type, Callable[[Any], bytes]] = {
    type(None): lambda value: b"\x40",
    bool: boolean,
    Ubyte: ubyte,
    Ushort: ushort,
    Uint: uint,
    Ulong: ulong,
    Byte: _fixed(0x51, "b"),
    Short: _fixed(0x61, "h"),
    Int: _int,
    int: _long,
    Float: _fixed(0x72, "f"),
    float: _fixed(0x82, "d"),
    Decimal32: _binary(0x74, 4),
    Decimal64: _binary(0x84, 8),
    Decimal128: _binary(0x94, 16),
    Char: lambda value: _UINT(0x73, ord(value)),
    Timestamp: timestamp,
    Uuid: _binary(0x98, 16),
    bytes: binary,
    str: string,
    Symbol: symbol,
    list: sequence,
    dict: mapping,
    Pairs: mapping,
    Array: array,
    Described: _described,
}
"""Encoders by Python type."""
