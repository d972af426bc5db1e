"""AMQP messages: their sections, in and out (3.2).

::

    header | delivery-annotations | message-annotations | properties | application-properties | body | footer
    '----------- may be rewritten on the way ----------'  '------------ the bare message -----------'

A message is kept as the bytes that arrived. The bare message is sent unchanged (AMQP10-MSG-02), the
header is rewritten for each delivery, delivery-annotations are dropped, message-annotations are
passed on (AMQP10-MSG-10). On arrival only the order and the lengths of the sections are checked.
Their content is read when STOMP needs it.

:class:`AmqpMessage` is a core message whose envelope and body, STOMP's view of it, are made on
demand (see :mod:`brokerproof.reference_broker.protocols.amqp10.stomp_conversion`). Sending is in
:mod:`brokerproof.reference_broker.protocols.amqp10.outgoing_message`.
"""  # noqa: E501

import struct
from typing import Any

from brokerproof.harness.model.time import NS_PER_MS, Instant
from brokerproof.reference_broker.kernel.large_body import LargeBodySlice
from brokerproof.reference_broker.kernel.message import Entry, Envelope, Message
from brokerproof.reference_broker.protocols.amqp10 import (
    encoder,
    filters,
    messaging,
    refusal,
    stomp_conversion,
)
from brokerproof.reference_broker.protocols.amqp10.composite import InvalidField
from brokerproof.reference_broker.protocols.amqp10.decoder import DEPTH, DecodeError, decode
from brokerproof.reference_broker.protocols.amqp10.messaging import (
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    MESSAGE_ANNOTATIONS,
    Header,
    Properties,
)
from brokerproof.reference_broker.protocols.amqp10.performatives import Error
from brokerproof.reference_broker.protocols.amqp10.refusal import Refusal
from brokerproof.reference_broker.protocols.amqp10.sections import (
    HEADER,
    PROPERTIES,
    BadMessage,
    sections,
)
from brokerproof.reference_broker.protocols.amqp10.types import Pairs, Symbol, Ulong
from brokerproof.reference_broker.selector.values import Value

DURABLE = 0x41
"""The first byte of a durable message's prefix: the boolean true."""
NO_PREFIX = b"\x40\x40"
"""The prefix of a header without durable and priority."""


PROPERTIES_BEGIN = b"\0\x53\x73"
"""The descriptor of the properties section, in its usual encoding."""
EXPIRY_FIELD = 8
"""The index of absolute-expiry-time among the properties."""


class AmqpMessage(Message):
    """One message as it arrived. ``prefix`` is durable and priority, encoded; ``ttl`` is in
    milliseconds, as received."""

    __slots__ = ("_names", "annotations", "bare", "prefix", "ttl")

    record_kind = 1

    def __init__(
        self,
        number: int,
        route: Envelope,
        arrived: Instant,
        prefix: bytes,
        ttl: int | None,
        annotations: bytes,
        bare: bytes,
    ) -> None:
        # The base class's __init__ is deliberately not called, so envelope and body stay empty (see
        # __getattr__).
        self._names: dict[str, Value] | None = None
        self.number = number
        self.route = route
        self.arrived = arrived
        self.prefix = prefix
        self.ttl = ttl
        self.annotations = annotations
        self.bare = bare

    def __getattr__(self, name: str) -> Any:
        """Make the envelope and the body when STOMP needs them."""
        if name not in ("envelope", "body"):
            raise AttributeError(name)
        self.envelope, self.body = stomp_conversion.to_stomp(self)
        return self.envelope if name == "envelope" else self.body

    @property
    def durable(self) -> bool:
        return self.prefix[0] == DURABLE

    @property
    def expires(self) -> int:
        """absolute-expiry-time, or the arrival and ttl; milliseconds since 1970, 0 for never."""
        instant = self._absolute_expiry_time()
        if instant is not None:
            return instant
        return 0 if self.ttl is None else self.arrived // NS_PER_MS + self.ttl

    def _absolute_expiry_time(self) -> int | None:
        """Read the properties only if there are enough fields, which is rare."""
        if self.bare[:3] != PROPERTIES_BEGIN or _fields_of(self.bare, 3) <= EXPIRY_FIELD:
            return None
        properties, _ = stomp_conversion.sections_of(self.described)
        return None if properties is None else properties.absolute_expiry_time

    def size(self) -> int:
        return len(self.annotations) + len(self.bare)

    def content(self) -> int:
        """Return the length of the bare message, without the bytes before the data."""
        data_sections = (
            (start, inside) for code, start, inside, _ in sections(self.bare) if code == DATA
        )
        return len(self.bare) - sum(
            inside - start + _before_data(self.bare[inside]) for start, inside in data_sections
        )

    @property
    def described(self) -> bytes:
        """The bare message."""
        return self.bare

    def stomp_body(self) -> tuple[bool, bytes | LargeBodySlice, str]:
        """Return whether the body is text, the body, and the value of the amqp-body header."""
        return stomp_conversion.body(self.bare)

    @property
    def bare_size(self) -> int:
        return len(self.bare)

    def property(self, name: str) -> Value:
        """Return a selector's value for ``name`` (see
        :mod:`brokerproof.reference_broker.protocols.amqp10.filters`)."""
        if self._names is None:
            self._names = filters.names(self)
        return self._names.get(name)


def _fields_of(data: bytes, at: int) -> int:
    match data[at]:
        case 0xC0:
            return data[at + 2]
        case 0xD0:
            return int.from_bytes(data[at + 5 : at + 9])
    return 0


def _before_data(constructor: int) -> int:
    """Return how many bytes of an encoded binary precede its content."""
    return 2 if constructor == 0xA0 else 5


# --- in -------------------------------------------------------------------------------------------


def read(data: bytes, number: int, route: Envelope, now: Instant) -> AmqpMessage:
    """Return the message that arrived ``now``. Raises :class:`BadMessage`, and :class:`Refusal` for
    annotations (AMQP10-MSG-11).

    ``number`` is the message's number in the broker, and ``route`` is its destination by link or
    properties; ``now`` is in ns since 1970.
    """
    prefix, ttl, annotations, bare = NO_PREFIX, None, b"", len(data)
    for code, start, inside, end in sections(data):
        if code == HEADER:
            header = _header(data, inside)
            prefix = _prefix(header.durable, header.priority)
            ttl = header.ttl
        elif code in (DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, FOOTER):
            check_annotations(_map(data, inside))
            if code == MESSAGE_ANNOTATIONS:
                annotations = data[start:end]
            elif code == FOOTER:
                break
        elif start < bare:
            bare = start
    bare_data = data[bare:] if bare else data
    return AmqpMessage(number, route, now, prefix, ttl, annotations, bare_data)


def _prefix(durable: bool | None, priority: int | None) -> bytes:
    first = b"\x40" if durable is None else encoder.boolean(durable)
    return first + (b"\x40" if priority is None else encoder.ubyte(priority))


def _header(data: bytes, at: int) -> Header:
    try:
        return Header.read(data, at, DEPTH)[0]
    except (IndexError, struct.error, DecodeError, InvalidField) as problem:
        raise BadMessage(f"the header cannot be read: {problem}") from None


def _map(data: bytes, at: int) -> dict[Any, Any]:
    try:
        annotations = decode(data, at)[0]
    except DecodeError as problem:
        raise BadMessage(f"annotations cannot be read: {problem}") from None
    if isinstance(annotations, Pairs) and all(
        isinstance(key, Symbol | Ulong) for key, _ in annotations
    ):
        return {str(key) if isinstance(key, Symbol) else key: value for key, value in annotations}
    if not isinstance(annotations, dict) or not all(
        isinstance(key, Symbol | Ulong) for key in annotations
    ):
        raise BadMessage("annotations must be a map with symbols as keys")
    return annotations


UNDERSTOOD = frozenset({"rejected"})
"""Annotations outside x-opt- that have a meaning here."""


def check_annotations(annotations: dict[Any, Any]) -> None:
    """Raise Refusal for unknown keys that must be understood. Keys that begin with x-opt- may be
    ignored (AMQP10-MSG-11, -15)."""
    for key in annotations:
        if not (isinstance(key, str) and (key.startswith("x-opt-") or key in UNDERSTOOD)):
            detail = (
                f"the annotation {refusal.shown(str(key))} does not begin with x-opt- and is not"
                " understood here"
            )
            raise Refusal(refusal.UNKNOWN_ANNOTATION, detail)


def properties_of(data: bytes) -> Properties | None:
    """Return the properties section of a message or of a bare message. Raises
    :class:`BadMessage`."""
    for code, _, inside, _ in sections(data):
        if code == PROPERTIES:
            try:
                return Properties.read(data, inside, DEPTH)[0]
            except (IndexError, struct.error, DecodeError, InvalidField) as problem:
                raise BadMessage(f"the properties cannot be read: {problem}") from None
    return None


# --- what is kept beside it -----------------------------------------------------------------------


class Notes:
    """What AMQP peers reported about a message that they returned, kept with its queue entry."""

    __slots__ = ("annotations", "rejected")

    def __init__(self) -> None:
        self.annotations: dict[Any, Any] = {}
        self.rejected: Error | None = None


def notes_of(entry: Entry) -> Notes:
    """Return the notes of ``entry``, which are new if there were none."""
    if entry.notes is None:
        entry.notes = Notes()
    return entry.notes  # type: ignore[no-any-return]


def rejected(condition: str, description: str) -> messaging.Rejected:
    return messaging.Rejected(error=Error(condition=condition, description=description))
