"""Maps of typed values: the properties of messages, and the options of WireFormatInfo (release
6.3.1, MarshallingSupport)."""

from collections.abc import Mapping
from typing import Any

from brokerproof.reference_broker.kernel.java_fields import Malformed, int32, int64
from brokerproof.reference_broker.protocols.openwire.encoding import Fields, decoded, encoded, name

_NUMBERS = {2: ">b", 4: ">h", 5: ">i", 6: ">q", 7: ">d", 8: ">f"}
_DEEPEST = 32
_LONGEST = 8192
"""Texts of this many characters or more have a length field of four bytes."""


def read(data: bytes | None) -> dict[str, Any]:
    """Return the map in ``data``; empty if there is none. Raises :class:`Malformed`."""
    return _map(Fields(data), 0) if data else {}


def _map(fields: Fields, depth: int) -> dict[str, Any]:
    return {fields.name(): _value(fields, depth) for _ in range(_count(fields, depth))}


def _count(fields: Fields, depth: int) -> int:
    count = fields.int32()
    if not -1 <= count <= fields.left or depth > _DEEPEST:
        raise Malformed(f"a map or list states {count} values, with {fields.left} bytes left")
    return max(count, 0)


def _value(fields: Fields, depth: int) -> Any:
    kind = fields.take(1)[0]
    if kind in _NUMBERS:
        return fields.number(_NUMBERS[kind])
    match kind:
        case 0:
            return None
        case 1:
            return fields.flag()
        case 3:
            return fields.take(2).decode("utf-16-be", "surrogatepass")
        case 9:
            return fields.name()
        case 10:
            return fields.take(fields.int32())
        case 11:
            return _map(fields, depth + 1)
        case 12:
            return [_value(fields, depth + 1) for _ in range(_count(fields, depth + 1))]
        case 13:
            return decoded(fields.take(fields.int32()))
    raise Malformed(f"a value has the unknown type {kind}")


def write(values: Mapping[str, str | bool | int]) -> bytes:
    """Return a map of strings, booleans and 64-bit numbers."""
    return int32(len(values)) + b"".join(
        name(key) + _written(value) for key, value in values.items()
    )


def _written(value: str | bool | int) -> bytes:
    if isinstance(value, bool):
        return b"\1\1" if value else b"\1\0"
    if isinstance(value, int):
        return b"\6" + int64(value)
    if len(value) < _LONGEST:
        return b"\x09" + name(value)
    data = encoded(value)
    return b"\x0d" + int32(len(data)) + data
