"""Messages as octets and back: every field of a message and its envelope, AMQP sections as they
came.

::

    kind (1) | number (8) | arrived (8) | envelope's length (4) | envelope | rest

The rest is the body of a plain message. Of an AMQP message it is::

    prefix's length (1) | has ttl (1) | ttl (8) | annotations' length (4) | prefix | annotations |
    bare message

Of a CORE message it is the octets of its body, behind their length (4), and those from its address
on. Of an OpenWire message it is what it looks like in the newest version of that protocol.

Of a large message (:mod:`brokerproof.reference_broker.kernel.large_body`) the body, of an AMQP one
its body sections, lie elsewhere. Between the envelope and what else there is stands::

    body's number (8) | its octets (8) | is text (1) | sections (4) | each: code, constructor (1
    each), begin, end (8 each)

An envelope is encoded once and travels with the envelope itself; equal envelopes become one object
again when they are read, so that what encoders keep with an envelope is made once for all of its
messages.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from brokerproof.harness.model.enums import RoutingType
from brokerproof.reference_broker.kernel.java_fields import Malformed
from brokerproof.reference_broker.kernel.large_body import Extract, LargeBody
from brokerproof.reference_broker.kernel.message import Envelope, LargeMessage, Message
from brokerproof.reference_broker.protocols.amqp10 import encoder
from brokerproof.reference_broker.protocols.amqp10.composite import InvalidField
from brokerproof.reference_broker.protocols.amqp10.decoder import DEPTH, DecodeError, decode
from brokerproof.reference_broker.protocols.amqp10.large import LargeAmqpMessage
from brokerproof.reference_broker.protocols.amqp10.message import AmqpMessage, Notes
from brokerproof.reference_broker.protocols.amqp10.performatives import Error
from brokerproof.reference_broker.protocols.amqp10.stomp_conversion import prefix
from brokerproof.reference_broker.protocols.core.message import CoreMessage
from brokerproof.reference_broker.protocols.openwire.message import OpenWireMessage

_HEAD = struct.Struct(">BQQI")
_AMQP = struct.Struct(">BBQI")
_LENGTH = struct.Struct(">I")
_PLAIN, _SECTIONS = 0, 1
_IS_LARGE = 2
"""Added to the kind of a large message."""
_CORE, _OPENWIRE = 4, 8
_LARGE = struct.Struct(">QQ?I")
_PART = struct.Struct(">BBQQ")
_WIRE = "stored"
_ROUTINGS = (None, RoutingType.ANYCAST, RoutingType.MULTICAST)
_MOST_ENVELOPES = 4096
_TEXT = ("utf-8", "surrogatepass")
_DURABLE = 0x41


class BadOctets(Exception):
    """Octets that are no message although their checksum is right; one sentence."""


def is_durable(message: Message) -> bool:
    """Whether a message is to survive a restart: header ``persistent``, or ``durable`` of AMQP."""
    if isinstance(message, AmqpMessage):
        return message.prefix[0] == _DURABLE
    if isinstance(message, OpenWireMessage):
        return message.said.persistent
    return prefix(message.envelope)[0] == _DURABLE


def encode(message: Message) -> bytes:
    """``message`` as octets."""
    envelope = message.route
    head = envelope.wire.get(_WIRE)
    if head is None:
        head = envelope.wire[_WIRE] = _envelope(envelope)
    if isinstance(message, CoreMessage | OpenWireMessage):
        kind = _CORE if isinstance(message, CoreMessage) else _OPENWIRE
        return b"".join(
            (_HEAD.pack(kind, message.number, message.arrived, len(head)), head, message.stored())
        )
    elsewhere, is_large = b"", 0
    if message.large is not None:
        elsewhere, is_large = _elsewhere(message, message.large), _IS_LARGE
    if not isinstance(message, AmqpMessage):
        body = elsewhere if is_large else message.body
        return b"".join(
            (_HEAD.pack(_PLAIN + is_large, message.number, message.arrived, len(head)), head, body)
        )
    ttl = message.ttl
    return b"".join(
        (
            _HEAD.pack(_SECTIONS + is_large, message.number, message.arrived, len(head)),
            head,
            elsewhere,
            _AMQP.pack(len(message.prefix), ttl is not None, ttl or 0, len(message.annotations)),
            message.prefix,
            message.annotations,
            message.bare,
        )
    )


def _elsewhere(message: Message, body: LargeBody) -> bytes:
    sections = message.sections if isinstance(message, LargeAmqpMessage) else ()
    parts = b"".join(_PART.pack(*each) for each in sections)
    return _LARGE.pack(body.id, body.octets, body.is_text, len(sections)) + parts


def number(octets: bytes, at: int) -> int:
    """The number of the message that begins ``at``. Raises ``struct.error``."""
    found: int = _HEAD.unpack_from(octets, at)[1]
    return found


def large(octets: bytes, at: int) -> tuple[int, int] | None:
    """Number and octets of the large body of the message that begins ``at``, None if it has none.
    Raises ``struct.error``."""
    kind, _, _, length = _HEAD.unpack_from(octets, at)
    if not kind & _IS_LARGE:
        return None
    id, size, _, _ = _LARGE.unpack_from(octets, at + _HEAD.size + length)
    return id, size


class Decoder:
    """Reads messages; remembers up to 4096 envelopes. ``body`` finds a large body by its number and
    octets."""

    def __init__(self, body: Callable[[int, int], LargeBody]) -> None:
        self._body = body
        self._envelopes: dict[bytes, Envelope] = {}

    def decode(self, octets: bytes, at: int) -> Message:
        """The message that begins ``at`` and ends with ``octets``. Raises :class:`BadOctets`."""
        try:
            kind, number, arrived, length = _HEAD.unpack_from(octets, at)
            begin = at + _HEAD.size
            rest = begin + length
            head = octets[begin:rest]
            envelope = self._envelopes.get(head)
            if envelope is None:
                envelope = self._remember(head)
            if kind == _PLAIN:
                return Message(number, envelope, octets[rest:], arrived)
            if kind == _CORE:
                return CoreMessage.read(number, envelope, arrived, octets[rest:])
            if kind == _OPENWIRE:
                return OpenWireMessage.read(number, envelope, arrived, octets[rest:])
            elsewhere: LargeBody | None = None
            if kind & _IS_LARGE:
                id, size, is_text, count = _LARGE.unpack_from(octets, rest)
                elsewhere = self._body(id, size)
                elsewhere.is_text = is_text
                rest += _LARGE.size
                sections = tuple(
                    _PART.unpack_from(octets, rest + _PART.size * each) for each in range(count)
                )
                rest += _PART.size * count
                if kind == _PLAIN + _IS_LARGE:
                    return LargeMessage(number, envelope, Extract(elsewhere), arrived)
            prefix_length, has_ttl, ttl, annotations_length = _AMQP.unpack_from(octets, rest)
        except (struct.error, ValueError, IndexError, Malformed) as problem:
            raise BadOctets(f"what is stored there is no message: {problem}") from None
        start = rest + _AMQP.size
        annotations = start + prefix_length
        bare = annotations + annotations_length
        message = AmqpMessage(
            number,
            envelope,
            arrived,
            octets[start:annotations],
            ttl if has_ttl else None,
            octets[annotations:bare],
            octets[bare:],
        )
        return message if elsewhere is None else LargeAmqpMessage(message, elsewhere, sections)

    def _remember(self, head: bytes) -> Envelope:
        envelope = _read_envelope(head)
        envelope.wire[_WIRE] = head
        if len(self._envelopes) >= _MOST_ENVELOPES:
            self._envelopes.clear()
        self._envelopes[head] = envelope
        return envelope


def _envelope(envelope: Envelope) -> bytes:
    parts = [b"%c%c" % (_ROUTINGS.index(envelope.routing), envelope.text)]
    for text in (
        envelope.address,
        envelope.destination,
        *(each for pair in envelope.headers for each in pair),
    ):
        octets = text.encode(*_TEXT)
        parts += (_LENGTH.pack(len(octets)), octets)
    return b"".join(parts)


def _read_envelope(octets: bytes) -> Envelope:
    texts: list[str] = []
    at = 2
    while at < len(octets):
        (length,) = _LENGTH.unpack_from(octets, at)
        at += _LENGTH.size
        texts.append(octets[at : at + length].decode(*_TEXT))
        at += length
    address, destination, *headers = texts
    pairs = tuple(zip(headers[::2], headers[1::2], strict=True))
    return Envelope(address, destination, _ROUTINGS[octets[0]], pairs, octets[1] == 1)


# --- notes ----------------------------------------------------------------------------------------


def encode_notes(notes: Notes | None) -> bytes:
    """What AMQP peers said about a message; empty for nothing."""
    if notes is None or (not notes.annotations and notes.rejected is None):
        return b""
    rejected = b"" if notes.rejected is None else encoder.encode(notes.rejected)
    return _LENGTH.pack(len(rejected)) + rejected + encoder.encode(notes.annotations)


def decode_notes(octets: bytes) -> Notes | None:
    """The reverse. Raises :class:`BadOctets`."""
    if not octets:
        return None
    notes = Notes()
    try:
        (length,) = _LENGTH.unpack_from(octets)
        annotations: Any = decode(octets, _LENGTH.size + length)[0]
        notes.annotations = dict(annotations)
        if length:
            notes.rejected = _read_error(octets[_LENGTH.size : _LENGTH.size + length])
    except (struct.error, IndexError, ValueError, DecodeError, InvalidField) as problem:
        raise BadOctets(f"what is stored there are no notes: {problem}") from None
    return notes


def _read_error(octets: bytes) -> Error:
    from brokerproof.reference_broker.protocols.amqp10.composite import descriptor

    _, at = descriptor(octets, 1)
    return Error.read(octets, at, DEPTH)[0]
