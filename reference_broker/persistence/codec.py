"""Messages as bytes and back: every field of a message and its envelope.

::

    kind (1) | number (8) | arrived (8) | envelope's length (4) | envelope | rest

The kind is :attr:`Message.record_kind`, plus 2 if the body is large. The rest of a plain message is
its body. Each protocol with its own messages registers a codec for the rest of theirs, and AMQP 1.0
also one for its peers' notes on a message (:data:`RECORDS`).

The body of a large message (:mod:`brokerproof.reference_broker.kernel.large_body`) is in a separate
file. Between the envelope and the rest follows::

    body's number (8) | its bytes (8) | is text (1) | sections (4) | each: code, constructor (1
    each), begin, end (8 each)

An envelope is encoded once and caches its encoding; equal envelopes become one object again when
they are read, so that encoders compute their cached parts once for all messages of an envelope.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.kernel.java_fields import Malformed
from brokerproof.reference_broker.kernel.large_body import LargeBody, LargeBodySlice
from brokerproof.reference_broker.kernel.message import Envelope, LargeMessage, Message, Section

_HEAD = struct.Struct(">BQQI")
_LENGTH = struct.Struct(">I")
_IS_LARGE = 2
"""The number added to the kind of a large message."""
_LARGE = struct.Struct(">QQ?I")
_PART = struct.Struct(">BBQQ")
_WIRE = "stored"
_ROUTINGS = (None, RoutingType.ANYCAST, RoutingType.MULTICAST)
_MOST_ENVELOPES = 4096
_TEXT = ("utf-8", "surrogatepass")


class BadBytes(Exception):
    """Bytes that are not a message, although their checksum is correct."""


@dataclass(frozen=True, slots=True)
class RecordHead:
    """The part common to all kinds of messages. ``large`` is the body's file, if there is one, and
    ``sections`` are the parts of that body."""

    number: int
    route: Envelope
    arrived: Instant
    large: LargeBody | None
    sections: tuple[Section, ...]


class RecordCodec(Protocol):
    """Writes and reads what follows the :class:`RecordHead` of one kind of message. ``decode``
    raises ``ValueError``, ``IndexError``, ``struct.error`` or :class:`Malformed`."""

    def encode(self, message: Any) -> bytes: ...

    def decode(self, head: RecordHead, data: bytes) -> Message: ...


class NotesCodec(Protocol):
    """Writes and reads the notes of a protocol; raises the same errors as a record codec."""

    def encode(self, notes: Any) -> bytes: ...

    def decode(self, data: bytes) -> Any: ...


class PlainRecords:
    """Messages that consist of headers and a body; the body follows the head."""

    def encode(self, message: Message) -> bytes:
        return b"" if message.large is not None else bytes(message.body)

    def decode(self, head: RecordHead, data: bytes) -> Message:
        if head.large is not None:
            return LargeMessage(head.number, head.route, LargeBodySlice(head.large), head.arrived)
        return Message(head.number, head.route, data, head.arrived)


class RecordCodecs:
    def __init__(self) -> None:
        self._by_kind: dict[int, RecordCodec] = {0: PlainRecords()}
        self.notes: NotesCodec | None = None

    def register(self, kind: int, codec: RecordCodec) -> None:
        """Use ``codec`` for messages with that :attr:`Message.record_kind`."""
        if kind & _IS_LARGE:
            raise ValueError(f"kind {kind} has the large-message bit set")
        self._by_kind[kind] = codec

    def of(self, kind: int) -> RecordCodec:
        """Return the codec for a kind. Raises ``ValueError``."""
        codec = self._by_kind.get(kind & ~_IS_LARGE)
        if codec is None:
            raise ValueError(f"no message is of kind {kind}")
        return codec


RECORDS = RecordCodecs()
"""Filled by :mod:`brokerproof.reference_broker.assembly`."""


def encode(message: Message) -> bytes:
    envelope = message.route
    head = envelope.wire.get(_WIRE)
    if head is None:
        head = envelope.wire[_WIRE] = _envelope(envelope)
    kind = message.record_kind
    rest = RECORDS.of(kind).encode(message)
    if message.large is None:
        return b"".join((_HEAD.pack(kind, message.number, message.arrived, len(head)), head, rest))
    kind |= _IS_LARGE
    elsewhere = _elsewhere(message.large, message.sections)
    return b"".join(
        (_HEAD.pack(kind, message.number, message.arrived, len(head)), head, elsewhere, rest)
    )


def _elsewhere(body: LargeBody, sections: tuple[Section, ...]) -> bytes:
    parts = b"".join(_PART.pack(*section) for section in sections)
    return _LARGE.pack(body.id, body.length, body.is_text, len(sections)) + parts


def number(data: bytes, at: int) -> int:
    """Return the number of the message that begins at ``at``. Raises ``struct.error``."""
    value: int = _HEAD.unpack_from(data, at)[1]
    return value


def large(data: bytes, at: int) -> tuple[int, int] | None:
    """Return the number and the size of the large body of the message at ``at``; None if there is
    none. Raises ``struct.error``."""
    kind, _, _, length = _HEAD.unpack_from(data, at)
    if not kind & _IS_LARGE:
        return None
    id, size, _, _ = _LARGE.unpack_from(data, at + _HEAD.size + length)
    return id, size


class Decoder:
    """Reads messages; remembers up to 4096 envelopes. ``body`` finds a large body by number and
    size."""

    def __init__(self, body: Callable[[int, int], LargeBody]) -> None:
        self._body = body
        self._envelopes: dict[bytes, Envelope] = {}

    def decode(self, data: bytes, at: int) -> Message:
        """Return the message that begins at ``at`` and extends to the end. Raises
        :class:`BadBytes`."""
        try:
            kind, number, arrived, length = _HEAD.unpack_from(data, at)
            begin = at + _HEAD.size
            rest = begin + length
            head = data[begin:rest]
            envelope = self._envelopes.get(head)
            if envelope is None:
                envelope = self._remember(head)
            large: LargeBody | None = None
            sections: tuple[Section, ...] = ()
            if kind & _IS_LARGE:
                id, size, is_text, count = _LARGE.unpack_from(data, rest)
                large = self._body(id, size)
                large.is_text = is_text
                rest += _LARGE.size
                sections = tuple(
                    _PART.unpack_from(data, rest + _PART.size * index) for index in range(count)
                )
                rest += _PART.size * count
            record = RecordHead(number, envelope, arrived, large, sections)
            return RECORDS.of(kind).decode(record, data[rest:])
        except (struct.error, ValueError, IndexError, Malformed) as problem:
            raise BadBytes(f"the stored message cannot be read: {problem}") from None

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
        *(text for pair in envelope.headers for text in pair),
    ):
        data = text.encode(*_TEXT)
        parts += (_LENGTH.pack(len(data)), data)
    return b"".join(parts)


def _read_envelope(data: bytes) -> Envelope:
    texts: list[str] = []
    at = 2
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        texts.append(data[at : at + length].decode(*_TEXT))
        at += length
    address, destination, *headers = texts
    pairs = tuple(zip(headers[::2], headers[1::2], strict=True))
    return Envelope(address, destination, _ROUTINGS[data[0]], pairs, data[1] == 1)


# --- notes ----------------------------------------------------------------------------------------


def encode_notes(notes: Any) -> bytes:
    """Return notes as bytes; empty if there are none."""
    return b"" if notes is None or RECORDS.notes is None else RECORDS.notes.encode(notes)


def decode_notes(data: bytes) -> Any:
    """Return the notes that :func:`encode_notes` wrote. Raises :class:`BadBytes`."""
    if not data:
        return None
    if RECORDS.notes is None:
        raise BadBytes("no protocol here knows notes")
    try:
        return RECORDS.notes.decode(data)
    except (struct.error, ValueError, IndexError, Malformed) as problem:
        raise BadBytes(f"the stored notes cannot be read: {problem}") from None
