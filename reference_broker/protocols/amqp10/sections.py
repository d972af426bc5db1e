"""Where the sections of a message begin and end (3.2). Their content is not parsed."""

import struct

from brokerproof.reference_broker.protocols.amqp10 import messaging
from brokerproof.reference_broker.protocols.amqp10.composite import descriptor
from brokerproof.reference_broker.protocols.amqp10.decoder import (
    READERS,
    DecodeError,
    decode,
    value,
)
from brokerproof.reference_broker.protocols.amqp10.messaging import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    MESSAGE_ANNOTATIONS,
    Header,
    Properties,
)
from brokerproof.reference_broker.protocols.amqp10.types import Symbol

HEADER, PROPERTIES = Header.CODE, Properties.CODE

_LIST, _MAP = frozenset({0x45, 0xC0, 0xD0}), frozenset({0xC1, 0xD1})
_CONSTRUCTORS = {
    HEADER: _LIST,
    PROPERTIES: _LIST,
    AMQP_SEQUENCE: _LIST,
    DATA: frozenset({0xA0, 0xB0}),
}
_CONSTRUCTORS |= dict.fromkeys(
    (DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, APPLICATION_PROPERTIES, FOOTER), _MAP
)
"""Constructors permitted for the value of a section; a value section may have any."""
_SYMBOLIC = {f"amqp:{name}": code for name, (code, _) in messaging.SECTIONS.items()}


class BadMessage(Exception):
    """Bytes that are not an AMQP message."""


def sections(data: bytes) -> list[tuple[int, int, int, int]]:
    """Return the code, the begin, the begin of the value, and the end of each section. Raises
    :class:`BadMessage`.

    The sections must be in the specification's order. There must be a body of one kind: data
    sections, sequence sections, or one value.
    """
    sections_found: list[tuple[int, int, int, int]] = []
    at, size, last = 0, len(data), 0
    body = False
    try:
        while at < size:
            start = at
            if data[at] != 0:
                raise BadMessage(
                    f"a section must begin with a descriptor, not with 0x{data[at]:02x}"
                )
            if data[at + 1] == 0x53:
                code, at = data[at + 2], at + 3
            else:
                code, at = _descriptor(data, at + 1)
            if not HEADER <= code <= FOOTER:
                raise BadMessage(f"descriptor 0x{code:02x} is not a section's")
            if (code <= last and (code < last or code not in (DATA, AMQP_SEQUENCE))) or (
                last >= DATA and last != code < FOOTER
            ):
                raise BadMessage(f"section 0x{code:02x} comes after section 0x{last:02x}")
            if data[at] not in _CONSTRUCTORS.get(code, READERS):
                raise BadMessage(
                    f"section 0x{code:02x} has a value of the wrong type, 0x{data[at]:02x}"
                )
            body = body or DATA <= code <= AMQP_VALUE
            last, inside = code, at
            at = skip(data, at)
            sections_found.append((code, start, inside, at))
    except (IndexError, struct.error):
        raise BadMessage("the message ends within a section") from None
    except DecodeError as problem:
        raise BadMessage(str(problem)) from None
    if at != size:
        raise BadMessage("the message ends within a section")
    if not body:
        raise BadMessage("the message has no body")
    return sections_found


def _descriptor(data: bytes, at: int) -> tuple[int, int]:
    code, after = descriptor(data, at)
    if code is None:
        name, after = value(data, at, 4)
        code = _SYMBOLIC.get(name, 0) if isinstance(name, Symbol) else 0
    return code, after


_WIDTHS = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}


def section_code(data: bytes, at: int) -> tuple[int, int]:
    """Return the code of the section at ``at``, and where the section's value begins. Raises
    :class:`BadMessage`, ``IndexError``."""
    if data[at] != 0:
        raise BadMessage(f"a section must begin with a descriptor, not with 0x{data[at]:02x}")
    code, at = _descriptor(data, at + 1)
    if not HEADER <= code <= FOOTER:
        raise BadMessage(f"descriptor 0x{code:02x} is not a section's")
    return code, at


def skip(data: bytes, at: int) -> int:
    """Return the end of the value whose constructor is at ``at``. The upper half of a constructor
    gives the length of the data."""
    code = data[at]
    if code not in READERS:
        raise DecodeError(f"no type has the constructor 0x{code:02x}")
    if code == 0:
        return decode(data, at)[1]
    group = code >> 4
    if group in _WIDTHS:
        return at + 1 + _WIDTHS[group]
    if group in (0xA, 0xC, 0xE):
        return at + 2 + data[at + 1]
    return at + 5 + int.from_bytes(data[at + 1 : at + 5])
