"""From STOMP to AMQP and back.

A STOMP message with a content-length is bytes, one without is text (ARTEMIS-STOMP-jms-1). In AMQP
that is the kind of body: a data section, or an amqp-value with a string.

=====================  ==============================  ==========================================================
STOMP header           AMQP                            remarks
=====================  ==============================  ==========================================================
destination            properties.to                   the name as the producer wrote it
persistent             header.durable                  ``true`` or ``false``
priority               header.priority                 0 to 255; anything else is an application property
expires                properties.absolute-expiry-time milliseconds since 1970; also header.ttl, the remaining time
timestamp              properties.creation-time        milliseconds since 1970
correlation-id         properties.correlation-id       a string from STOMP; ulong, uuid, binary are written out
reply-to               properties.reply-to
type                   properties.subject
content-type           properties.content-type
amqp-message-id        properties.message-id           ``message-id`` itself is the STOMP broker's own
amqp-user-id           properties.user-id              UTF-8, or hexadecimal after ``0x``
amqp-group-id          properties.group-id             also ``amqp-group-sequence``, ``amqp-reply-to-group-id``
other headers          application-properties          strings from STOMP; from AMQP simple values, written out
=====================  ==============================  ==========================================================

Bodies from AMQP: a string is text, and so is a missing body; any other simple value is written out
as bytes (ARTEMIS-CROSSING-body-2); data sections become one run of bytes; lists, maps and sequences
become the bytes of their AMQP encoding, with an ``amqp-body`` header of ``value`` or ``sequence``.
An unreadable header is omitted, so that consumers still get the message.
"""  # noqa: E501

import contextlib
import struct
from collections.abc import Sequence
from typing import Any, Protocol

from brokerproof.harness.model.time import NS_PER_MS, Instant
from brokerproof.reference_broker.kernel.large_body import LargeBodySlice
from brokerproof.reference_broker.kernel.message import Envelope, Message
from brokerproof.reference_broker.protocols.amqp10 import encoder
from brokerproof.reference_broker.protocols.amqp10.composite import InvalidField
from brokerproof.reference_broker.protocols.amqp10.decoder import DEPTH, DecodeError, decode
from brokerproof.reference_broker.protocols.amqp10.messaging import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    Properties,
)
from brokerproof.reference_broker.protocols.amqp10.performatives import UINT_MAX
from brokerproof.reference_broker.protocols.amqp10.sections import PROPERTIES, sections
from brokerproof.reference_broker.protocols.amqp10.types import (
    Array,
    Described,
    Pairs,
    Symbol,
    Ulong,
    Uuid,
)

_TEXTS = {
    "reply-to": "reply_to",
    "type": "subject",
    "correlation-id": "correlation_id",
    "amqp-message-id": "message_id",
    "amqp-group-id": "group_id",
    "amqp-reply-to-group-id": "reply_to_group_id",
}
_NUMBERED = {"amqp-user-id": "user_id", "amqp-group-sequence": "group_sequence"}
_INSTANTS = {"expires": "absolute_expiry_time", "timestamp": "creation_time"}
_LONG_MAX = 2**63 - 1
_PREFIX, _HEAD, _EXPIRES = "amqp prefix", "amqp head", "amqp expires"


class Source(Protocol):
    """An AMQP message that is being converted."""

    route: Envelope
    prefix: bytes
    ttl: int | None
    arrived: Instant

    @property
    def described(self) -> bytes:
        """Return the sections that describe the body."""

    @property
    def bare_size(self) -> int: ...

    def stomp_body(self) -> tuple[bool, bytes | LargeBodySlice, str]:
        """Return whether the body is text, the body, and the value of the amqp-body header."""


# --- STOMP to AMQP --------------------------------------------------------------------------------


def prefix(envelope: Envelope) -> bytes:
    """Return durable and priority of the header section, which is encoded once per envelope."""
    known = envelope.wire.get(_PREFIX)
    if known is None:
        headers = dict(reversed(envelope.headers))
        durable = {"true": b"\x41", "false": b"\x42"}.get(headers.get("persistent", ""), b"\x40")
        priority = _number(headers.get("priority", ""), 255)
        known = durable + (b"\x40" if priority is None else encoder.ubyte(priority))
        envelope.wire[_PREFIX] = known
    return known


def ttl_ms(envelope: Envelope, now: Instant) -> int | None:
    """Return the ms until the header's expiry; None if absent (0: never). ``now`` is since 1970."""
    known = envelope.wire.get(_EXPIRES)
    if known is None:
        expires = _number(dict(reversed(envelope.headers)).get("expires", ""), _LONG_MAX)
        known = envelope.wire[_EXPIRES] = b"%d" % expires if expires else b""
    return min(UINT_MAX, max(0, int(known) - now // NS_PER_MS)) if known else None


def to_amqp(message: Message) -> bytes:
    """Return the bare message; for a large message, everything before its body."""
    envelope = message.envelope
    head = envelope.wire.get(_HEAD)
    if head is None:
        head = envelope.wire[_HEAD] = _head(envelope)
    if message.large is not None:
        code = b"\x77\xb1" if envelope.text and message.large.is_text else b"\x75\xb0"
        return b"".join((head, b"\0\x53", code, message.large.length.to_bytes(4)))
    if envelope.text:
        try:
            message.body.decode()
        except UnicodeDecodeError:
            pass
        else:
            return head + b"\0\x53\x77" + encoder.variable(0xA1, message.body)
    return head + b"\0\x53\x75" + encoder.binary(message.body)


def _head(envelope: Envelope) -> bytes:
    properties = Properties(to=envelope.destination)
    others: dict[str, str] = {}
    seen: set[str] = set()
    for name, text in envelope.headers:
        if name in seen:
            continue  # the first of repeated headers counts (STOMP12-REPEAT-02)
        seen.add(name)
        if not _property(properties, name, text):
            others[name] = text
    head = properties.encode()
    if others:
        head += encoder.encode(Described(Ulong(APPLICATION_PROPERTIES), others))
    return head


def _property(properties: Properties, name: str, text: str) -> bool:
    """Put a header into its AMQP property. Return False if there is none, or it does not fit."""
    if name in _TEXTS:
        setattr(properties, _TEXTS[name], text)
    elif name in _INSTANTS:
        instant = _number(text, _LONG_MAX)
        if instant is None:
            return False
        setattr(properties, _INSTANTS[name], instant)
    elif name == "content-type" and text.isascii():
        properties.content_type = text
    elif name == "amqp-user-id":
        properties.user_id = _binary(text)
    elif name == "amqp-group-sequence":
        properties.group_sequence = _number(text, 2**32 - 1)
        return properties.group_sequence is not None
    elif name == "persistent":
        return text in ("true", "false")
    elif name == "priority":
        return _number(text, 255) is not None
    else:
        return False
    return True


def _number(text: str, most: int) -> int | None:
    if text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= most:
        return int(text)
    return None


def _binary(text: str) -> bytes:
    if text.startswith("0x"):
        try:
            return bytes.fromhex(text[2:])
        except ValueError:
            pass
    return text.encode()


# --- AMQP to STOMP --------------------------------------------------------------------------------


def to_stomp(message: Source) -> tuple[Envelope, bytes | LargeBodySlice]:
    """Return envelope and body for a STOMP subscription. No input of a producer makes it raise."""
    route = message.route
    properties, application = sections_of(message.described)
    headers: list[tuple[str, str]] = []
    if message.prefix[0] == 0x41:
        headers.append(("persistent", "true"))
    if message.prefix[1] == 0x50:
        headers.append(("priority", str(message.prefix[2])))
    if properties is not None:
        headers += _headers(properties)
    if message.ttl is not None:  # absolute-expiry-time wins
        headers.append(("expires", str(message.arrived // NS_PER_MS + message.ttl)))
    for key, value in application:
        written = identity(value) if isinstance(value, bytes) else _written(value)
        if isinstance(key, str) and written is not None:
            headers.append((key, written))
    text, body, kind = message.stomp_body()
    if kind:
        headers.append(("amqp-body", kind))
    first = {name: value for name, value in reversed(headers) if name}
    ordered = tuple(
        (name, first[name]) for name in dict.fromkeys(name for name, _ in headers) if name in first
    )
    return Envelope(route.address, route.destination, route.routing, ordered, text), body


def sections_of(bare: bytes) -> tuple[Properties | None, Sequence[tuple[Any, Any]]]:
    """Return properties, and application properties as pairs. Unreadable properties are omitted."""
    properties: Properties | None = None
    application: Sequence[tuple[Any, Any]] = ()
    for code, _, inside, _ in sections(bare):
        if code == PROPERTIES:
            with contextlib.suppress(IndexError, struct.error, DecodeError, InvalidField):
                properties = Properties.read(bare, inside, DEPTH)[0]
        elif code == APPLICATION_PROPERTIES:
            values = _simple(bare, inside)
            application = (
                values
                if isinstance(values, Pairs)
                else tuple(values.items())
                if isinstance(values, dict)
                else ()
            )
    return properties, application


def body(bare: bytes) -> tuple[bool, bytes, str]:
    """Return whether the body is text, its bytes, and the value of the amqp-body header, if any."""
    parts: list[bytes] = []
    for code, _, inside, end in sections(bare):
        if code == DATA:
            parts.append(_simple(bare, inside))
        elif code == AMQP_SEQUENCE:
            parts.append(bare[inside:end])
        elif code == AMQP_VALUE:
            value = _simple(bare, inside)
            if isinstance(value, bytes):
                return False, value, ""
            written = _written(value)
            if written is None:
                return False, bare[inside:end], "value"
            text = value is None or (isinstance(value, str) and not isinstance(value, Symbol))
            return text, written.encode("utf-8", "backslashreplace"), ""
    return (
        False,
        b"".join(parts),
        "sequence" if any(code == AMQP_SEQUENCE for code, *_ in sections(bare)) else "",
    )


def _headers(properties: Properties) -> list[tuple[str, str]]:
    headers = []
    for header, attribute in {
        **_TEXTS,
        **_INSTANTS,
        "content-type": "content_type",
        **_NUMBERED,
    }.items():
        value = getattr(properties, attribute)
        if value is not None:
            headers.append((header, identity(value)))
    return headers


def identity(value: Any) -> str:
    """Return an id or bytes as text: UTF-8 if possible, otherwise hexadecimal after 0x."""
    if isinstance(value, Uuid):
        digits = value.hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return "0x" + value.hex()
    return str(value)


def _simple(data: bytes, at: int) -> Any:
    """Return the value at this position; for an unreadable one a list, which is not simple."""
    try:
        return decode(data, at)[0]
    except DecodeError:
        return []


def _written(value: Any) -> str | None:
    """Return a simple value as text; None for other values."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case list() | dict() | Array() | Pairs() | Described() | bytes():
            return None
        case Symbol():
            return str(value)
    return str(value)
