"""AMQP messages and their notes in files.

::

    prefix's length (1) | has ttl (1) | ttl (8) | annotations' length (4) | prefix | annotations |
    bare message

The bare message of a large message lacks the body's sections. Notes are::

    length of rejected (4) | rejected, an AMQP error | annotations, an AMQP map
"""

import struct

from brokerproof.reference_broker.persistence.codec import RECORDS, RecordHead
from brokerproof.reference_broker.protocols.amqp10 import encoder
from brokerproof.reference_broker.protocols.amqp10.composite import InvalidField, descriptor
from brokerproof.reference_broker.protocols.amqp10.decoder import DEPTH, DecodeError, decode
from brokerproof.reference_broker.protocols.amqp10.large_messages import LargeAmqpMessage
from brokerproof.reference_broker.protocols.amqp10.message import AmqpMessage, Notes
from brokerproof.reference_broker.protocols.amqp10.performatives import Error

_FIELDS = struct.Struct(">BBQI")
_LENGTH = struct.Struct(">I")


class AmqpRecords:
    """AMQP messages, with their sections kept as they arrived."""

    def encode(self, message: AmqpMessage) -> bytes:
        ttl = message.ttl
        prefix, annotations = message.prefix, message.annotations
        fields = _FIELDS.pack(len(prefix), ttl is not None, ttl or 0, len(annotations))
        return b"".join((fields, prefix, annotations, message.bare))

    def decode(self, head: RecordHead, data: bytes) -> AmqpMessage:
        prefix_length, has_ttl, ttl, annotations_length = _FIELDS.unpack_from(data)
        annotations = _FIELDS.size + prefix_length
        bare = annotations + annotations_length
        message = AmqpMessage(
            head.number,
            head.route,
            head.arrived,
            data[_FIELDS.size : annotations],
            ttl if has_ttl else None,
            data[annotations:bare],
            data[bare:],
        )
        if head.large is None:
            return message
        return LargeAmqpMessage(message, head.large, head.sections)


class AmqpNotes:
    """Notes of AMQP peers about messages that they returned."""

    def encode(self, notes: Notes) -> bytes:
        if not notes.annotations and notes.rejected is None:
            return b""
        rejected = b"" if notes.rejected is None else encoder.encode(notes.rejected)
        return _LENGTH.pack(len(rejected)) + rejected + encoder.encode(notes.annotations)

    def decode(self, data: bytes) -> Notes:
        notes = Notes()
        (length,) = _LENGTH.unpack_from(data)
        try:
            notes.annotations = dict(decode(data, _LENGTH.size + length)[0])
            if length:
                rejected = data[_LENGTH.size : _LENGTH.size + length]
                _, start = descriptor(rejected, 1)
                notes.rejected = Error.read(rejected, start, DEPTH)[0]
        except (DecodeError, InvalidField, TypeError) as problem:
            raise ValueError(str(problem)) from None
        return notes


def register() -> None:
    """Have the store write AMQP messages and notes."""
    RECORDS.register(AmqpMessage.record_kind, AmqpRecords())
    RECORDS.notes = AmqpNotes()
