"""Contents of method frames and content headers; pamqp defines the fields.

A received method becomes an object made without pamqp's own checks: the handlers decide what is
allowed, and answer with reply codes.
"""

import struct
from typing import Any, TypeVar

from pamqp import base, commands, decode, encode

from brokerproof.reference_broker.protocols.amqp091.errors import (
    COMMAND_INVALID,
    SYNTAX_ERROR,
    UNEXPECTED_FRAME,
    Refusal,
)
from brokerproof.reference_broker.protocols.amqp091.framing import METHOD, frame

_Method = TypeVar("_Method", bound=base.Frame)

BASIC = 60
_NUMBERS = struct.Struct(">HH")
_CONTENT = struct.Struct(">HHQH")
PROPERTIES: tuple[tuple[str, str], ...] = tuple(
    (name, commands.Basic.Properties.amqp_type(name))
    for name, _ in sorted(commands.Basic.Properties.flags.items(), key=lambda item: -item[1])
)
"""Names and types of the properties in the order of their flags."""


def read(payload: bytes) -> base.Frame:
    """Return the method in a frame. Raises :class:`Refusal`."""
    if len(payload) < _NUMBERS.size:
        raise Refusal(SYNTAX_ERROR, f"a method frame of {len(payload)} bytes is too short")
    class_id, method_id = _NUMBERS.unpack_from(payload)
    kind = _KINDS.get(class_id << 16 | method_id)
    if kind is None:
        raise Refusal(COMMAND_INVALID, f"class {class_id} has no method {method_id}")
    method: base.Frame = object.__new__(kind)
    try:
        method.unmarshal(payload[4:])
    except (
        ValueError,
        LookupError,
        struct.error,
        RecursionError,
        OverflowError,
        TypeError,
        OSError,
    ) as problem:
        raise Refusal(SYNTAX_ERROR, f"{name_of(method)} cannot be read: {problem}") from None
    if len(payload) - 4 != _length(method, payload):
        raise Refusal(SYNTAX_ERROR, f"{name_of(method)} does not fill its frame exactly")
    return method


def name_of(method: base.Frame) -> str:
    """Return the name of the method, such as ``basic.publish``."""
    whole = type(method).__qualname__
    group, _, name = whole.partition(".")
    return (
        group.lower()
        + "."
        + "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip(
            "-"
        )
    )


def numbers_of(method: base.Frame | None) -> tuple[int, int]:
    return (0, 0) if method is None else (method.index >> 16, method.index & 0xFFFF)


_KINDS: dict[int, type[base.Frame]] = dict(commands.INDEX_MAPPING)  # pamqp's type is less precise
_FIELDS: dict[int, tuple[str, ...]] = {
    index: tuple(kind.amqp_type(slot) for slot in kind.__slots__) for index, kind in _KINDS.items()
}
"""The types of the fields, by the method's number."""


_FIXED = {"octet": 1, "short": 2, "long": 4, "longlong": 8, "timestamp": 8}


def _length(method: base.Frame, payload: bytes) -> int:
    """Return the length of the fields as stated in their bytes; -1 if there are too few bytes."""
    at, bits = 4, 0
    for kind in _FIELDS[method.index]:
        if kind == "bit":
            at += bits % 8 == 0
            bits += 1
            continue
        bits = 0
        if kind in _FIXED:
            at += _FIXED[kind]
        elif at >= len(payload):
            return -1
        elif kind == "shortstr":
            at += 1 + payload[at]
        else:
            at += 4 + int.from_bytes(payload[at : at + 4])
    return at - 4


def make(kind: type[_Method], *fields: Any) -> _Method:
    """Return a method with a peer's own names, given in the order of its slots. pamqp's
    constructors check names against a pattern and raise ValueError, but here, names were already
    accepted.
    """
    method = object.__new__(kind)
    for name, value in zip(kind.__slots__, fields, strict=True):
        setattr(method, name, value)
    return method


def write(channel: int, method: base.Frame) -> bytes:
    """Return a method frame. Like :func:`read`, omit pamqp's checks of names and reserved
    fields."""
    data = [method.index.to_bytes(4)]
    bits, count = 0, 0
    for name, kind in zip(method.__slots__, _FIELDS[method.index], strict=True):
        value = getattr(method, name)
        if kind == "bit":
            bits |= bool(value) << count
            count += 1
            continue
        if count:
            data.append(bytes((bits,)))
            bits, count = 0, 0
        data.append(_short(value) if kind == "shortstr" else encode.by_type(value, kind))
    if count:
        data.append(bytes((bits,)))
    return frame(METHOD, channel, b"".join(data))


def _short(text: str) -> bytes:
    """Return a name of at most 255 bytes. Longer names from other protocols are cut, as in
    :attr:`Refusal.text`."""
    data = text.encode("utf-8", "replace")
    if len(data) > 255:
        data = data[:255].decode("utf-8", "ignore").encode()
    return bytes((len(data),)) + data


def content_header(payload: bytes, class_id: int) -> tuple[int, bytes]:
    """Return the announced length of the body and the properties as they arrived, from the flags
    on. Raises :class:`Refusal` (4.2.6)."""
    if len(payload) < _CONTENT.size:
        raise Refusal(SYNTAX_ERROR, f"a content header of {len(payload)} bytes is too short")
    theirs, weight, size, _ = _CONTENT.unpack_from(payload)
    if theirs != class_id or weight:
        detail = (
            f"expected a content header of class {class_id} and weight 0, got class {theirs} and"
            f" weight {weight}"
        )
        raise Refusal(UNEXPECTED_FRAME, detail)
    return size, payload[12:]


def properties(data: bytes) -> dict[str, Any]:
    """Return a content's properties by name, read from the flags on. Raises :class:`Refusal` if
    they cannot be read."""
    flags, at = int.from_bytes(data[:2]), 2
    values: dict[str, Any] = {}
    if flags & 3:
        raise Refusal(
            SYNTAX_ERROR, "a content header has properties that class basic does not have"
        )
    try:
        for bit, (name, kind) in enumerate(PROPERTIES):
            if flags >> (15 - bit) & 1:
                if kind == "timestamp":  # as a number: datetime cannot represent every instant
                    taken, value = 8, struct.unpack_from(">Q", data, at)[0]
                else:
                    taken, value = decode.by_type(data[at:], kind)
                if at + taken > len(data):
                    raise ValueError(f"{name} extends beyond the header")
                values[name], at = value, at + taken
    except (
        ValueError,
        LookupError,
        struct.error,
        RecursionError,
        OverflowError,
        TypeError,
        OSError,
    ) as problem:
        raise Refusal(SYNTAX_ERROR, f"the properties cannot be read: {problem}") from None
    if at != len(data):
        raise Refusal(SYNTAX_ERROR, "extra bytes follow the properties")
    return values


def header_payload(size: int, data: bytes) -> bytes:
    return _CONTENT.pack(BASIC, 0, size, 0)[:12] + data
