"""A message as it is sent: a header for this delivery, annotations, and the bare message, which was
received or is made once (3.2)."""

from brokerproof.harness.model.time import NS_PER_MS, Instant
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.protocols.amqp10 import encoder, stomp_conversion
from brokerproof.reference_broker.protocols.amqp10.decoder import decode
from brokerproof.reference_broker.protocols.amqp10.message import AmqpMessage, Notes
from brokerproof.reference_broker.protocols.amqp10.messaging import (
    DELIVERY_ANNOTATIONS,
    MESSAGE_ANNOTATIONS,
)
from brokerproof.reference_broker.protocols.amqp10.types import Described, Symbol, Ulong


def encoded(entry: Entry, now: Instant) -> bytes:
    """Return the message of ``entry`` as sent ``now`` (ns since 1970). For a large message, return
    everything before the file."""
    message = entry.message
    if isinstance(message, AmqpMessage):
        left = message.ttl
        if left is not None:
            left = max(0, left - (now - message.arrived) // NS_PER_MS)
        prefix, annotations, bare = message.prefix, message.annotations, message.bare
    else:
        left = stomp_conversion.ttl_ms(message.envelope, now)
        prefix, annotations, bare = (
            stomp_conversion.prefix(message.envelope),
            b"",
            stomp_conversion.to_amqp(message),
        )
    ttl = b"\x40" if left is None else encoder.uint(left)  # the remaining time (AMQP10-MSG-08)
    failures = entry.failures + entry.earlier
    first = b"\x41" if entry.deliveries == 1 else b"\x42"
    fields = b"".join(
        (prefix, ttl, first, encoder.uint(failures)) if failures else (prefix, ttl, first)
    )
    count = 5 if failures else 4
    header = b"\0\x53\x70\xc0%c%c%b" % (len(fields) + 1, count, fields)
    if entry.notes is None:
        return header + annotations + bare if annotations else header + bare
    return b"".join((header, *_noted(entry.notes, annotations), bare))


def _noted(notes: Notes, annotations: bytes) -> tuple[bytes, bytes]:
    """Return delivery-annotations with a rejection's error (AMQP10-OUT-06), and message-annotations
    into which those of modified outcomes are merged (AMQP10-OUT-13)."""
    delivery = b""
    if notes.rejected is not None:
        delivery = encoder.encode(
            Described(Ulong(DELIVERY_ANNOTATIONS), {Symbol("rejected"): notes.rejected})
        )
    if notes.annotations:
        own = decode(annotations)[0].value if annotations else {}
        merged = dict(own) | notes.annotations
        annotations = encoder.encode(Described(Ulong(MESSAGE_ANNOTATIONS), merged))
    return delivery, annotations
