"""AMQP messages: their sections, in and out (3.2).

::

    header | delivery-annotations | message-annotations | properties | application-properties | body | footer
    '----------- may be rewritten on the way ----------'  '------------ the bare message -----------'

What arrived is kept as octets. The bare message leaves as the octets that came (AMQP10-MSG-02), the
header is written anew for each delivery, delivery-annotations end here, message-annotations go on
(AMQP10-MSG-10). Only the frame of the sections is looked at on arrival: their order, and that each
ends where it says. What is inside is read when STOMP asks for it.

:class:`AmqpMessage` is a core message whose envelope and body, which is what STOMP sees of it, are
not made before somebody asks (see
:mod:`brokerproof.reference_broker.protocols.amqp10.stomp_conversion`). How a message leaves is in
:mod:`brokerproof.reference_broker.protocols.amqp10.outgoing_message`.
"""  # noqa: E501

from __future__ import annotations

import struct
from typing import Any

from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.kernel.message import Entry, Envelope, Message
from brokerproof.reference_broker.protocols.amqp10 import encoder, messaging, refusal
from brokerproof.reference_broker.protocols.amqp10.composite import InvalidField, descriptor
from brokerproof.reference_broker.protocols.amqp10.decoder import (
    DEPTH,
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
from brokerproof.reference_broker.protocols.amqp10.performatives import Error
from brokerproof.reference_broker.protocols.amqp10.refusal import Refusal
from brokerproof.reference_broker.protocols.amqp10.types import Pairs, Symbol, Ulong
from brokerproof.reference_broker.selector.values import Value

HEADER, PROPERTIES = Header.CODE, Properties.CODE
DURABLE = 0x41
"""How the prefix of a durable message begins: the boolean true."""
NO_PREFIX = b"\x40\x40"
"""Durable and priority of a header that says neither."""

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
"""How the value of a section is constructed; a value section has any."""
_SYMBOLIC = {f"amqp:{name}": code for name, (code, _) in messaging.SECTIONS.items()}


class AmqpMessage(Message):
    """One message as it arrived. ``prefix`` is durable and priority, encoded; ``ttl`` in
    milliseconds, as it came."""

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
        # The base class's __init__ is left out on purpose: envelope and body stay empty, see
        # __getattr__.
        self._names: dict[str, Value] | None = None
        self.number = number
        self.route = route
        self.arrived = arrived
        self.prefix = prefix
        self.ttl = ttl
        self.annotations = annotations
        self.bare = bare

    def __getattr__(self, name: str) -> Any:
        """Python comes here for what has not been set yet: the envelope and the body that STOMP
        wants to see."""
        if name not in ("envelope", "body"):
            raise AttributeError(name)
        from brokerproof.reference_broker.protocols.amqp10 import stomp_conversion

        self.envelope, self.body = stomp_conversion.to_stomp(self)
        return self.envelope if name == "envelope" else self.body

    @property
    def durable(self) -> bool:
        return self.prefix[0] == DURABLE

    def size(self) -> int:
        return len(self.annotations) + len(self.bare)

    def content(self) -> int:
        """Octets of the bare message without those that stand in front of data."""
        found = ((start, inside) for code, start, inside, _ in sections(self.bare) if code == DATA)
        return len(self.bare) - sum(
            inside - start + _before_data(self.bare[inside]) for start, inside in found
        )

    @property
    def described(self) -> bytes:
        """The bare message, for whoever wants to know more than its body."""
        return self.bare

    @property
    def octets(self) -> int:
        """How long the bare message is."""
        return len(self.bare)

    def property(self, name: str) -> Value:
        """What a selector finds under ``name`` (see
        :mod:`brokerproof.reference_broker.protocols.amqp10.filters`)."""
        if self._names is None:
            from brokerproof.reference_broker.protocols.amqp10 import filters

            self._names = filters.names(self)
        return self._names.get(name)


class BadMessage(Exception):
    """Octets that are no AMQP message; one sentence."""


# --- sections -------------------------------------------------------------------------------------


def sections(octets: bytes) -> list[tuple[int, int, int, int]]:
    """Of each section its code, where it begins, where its value begins, and where it ends. Raises
    :class:`BadMessage`.

    The order is that of the specification; a body of one kind must be there: data sections,
    sequence sections, or one value.
    """
    found: list[tuple[int, int, int, int]] = []
    at, size, last = 0, len(octets), 0
    body = False
    try:
        while at < size:
            start = at
            if octets[at] != 0:
                raise BadMessage(f"a section begins with a descriptor, not with 0x{octets[at]:02x}")
            if octets[at + 1] == 0x53:
                code, at = octets[at + 2], at + 3
            else:
                code, at = _descriptor(octets, at + 1)
            if not HEADER <= code <= FOOTER:
                raise BadMessage(f"descriptor 0x{code:02x} is none of a section")
            if (
                code < last
                or (code == last and code not in (DATA, AMQP_SEQUENCE))
                or (last >= DATA and last != code < FOOTER)
            ):
                raise BadMessage(f"section 0x{code:02x} comes after section 0x{last:02x}")
            if octets[at] not in _CONSTRUCTORS.get(code, READERS):
                raise BadMessage(
                    f"section 0x{code:02x} has a value of another type, 0x{octets[at]:02x}"
                )
            body = body or DATA <= code <= AMQP_VALUE
            last, inside = code, at
            at = skip(octets, at)
            found.append((code, start, inside, at))
    except (IndexError, struct.error):
        raise BadMessage("the message ends within a section") from None
    except DecodeError as problem:
        raise BadMessage(str(problem)) from None
    if at != size:
        raise BadMessage("the message ends within a section")
    if not body:
        raise BadMessage("the message has no body")
    return found


def _descriptor(octets: bytes, at: int) -> tuple[int, int]:
    code, after = descriptor(octets, at)
    if code is None:
        name, after = value(octets, at, 4)
        code = _SYMBOLIC.get(name, 0) if isinstance(name, Symbol) else 0
    return code, after


_WIDTHS = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}


def section_code(octets: bytes, at: int) -> tuple[int, int]:
    """The code of the section that begins ``at``, and where its value begins. Raises
    :class:`BadMessage`, ``IndexError``."""
    if octets[at] != 0:
        raise BadMessage(f"a section begins with a descriptor, not with 0x{octets[at]:02x}")
    code, at = _descriptor(octets, at + 1)
    if not HEADER <= code <= FOOTER:
        raise BadMessage(f"descriptor 0x{code:02x} is none of a section")
    return code, at


def _before_data(constructor: int) -> int:
    """How many octets of a binary stand in front of its content."""
    return 2 if constructor == 0xA0 else 5


def skip(octets: bytes, at: int) -> int:
    """The end of the value whose constructor is at ``at``; the upper half of a constructor says how
    long its data is."""
    code = octets[at]
    if code not in READERS:
        raise DecodeError(f"no type has the constructor 0x{code:02x}")
    if code == 0:
        return decode(octets, at)[1]
    group = code >> 4
    if group in _WIDTHS:
        return at + 1 + _WIDTHS[group]
    if group in (0xA, 0xC, 0xE):
        return at + 2 + octets[at + 1]
    return at + 5 + int.from_bytes(octets[at + 1 : at + 5])


# --- in -------------------------------------------------------------------------------------------


def read(octets: bytes, number: int, route: Envelope, now: Instant) -> AmqpMessage:
    """The message that arrived ``now``. Raises :class:`BadMessage`, and :class:`Refusal` for
    annotations (AMQP10-MSG-11).

    ``number`` is its number in the broker, ``route`` where the link or its properties send it;
    ``now`` is in ns since 1970.
    """
    prefix, ttl, annotations, bare = NO_PREFIX, None, b"", len(octets)
    for code, start, inside, end in sections(octets):
        if code == HEADER:
            header = _header(octets, inside)
            prefix = _prefix(header.durable, header.priority)
            ttl = header.ttl
        elif code in (DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, FOOTER):
            check_annotations(_map(octets, inside))
            if code == MESSAGE_ANNOTATIONS:
                annotations = octets[start:end]
            elif code == FOOTER:
                break
        else:
            bare = min(bare, start)
    bare_octets = octets[bare:] if bare else octets
    return AmqpMessage(number, route, now, prefix, ttl, annotations, bare_octets)


def _prefix(durable: bool | None, priority: int | None) -> bytes:
    first = b"\x40" if durable is None else encoder.boolean(durable)
    return first + (b"\x40" if priority is None else encoder.ubyte(priority))


def _header(octets: bytes, at: int) -> Header:
    try:
        return Header.read(octets, at, DEPTH)[0]
    except (IndexError, struct.error, DecodeError, InvalidField) as problem:
        raise BadMessage(f"the header cannot be read: {problem}") from None


def _map(octets: bytes, at: int) -> dict[Any, Any]:
    try:
        annotations = decode(octets, at)[0]
    except DecodeError as problem:
        raise BadMessage(f"annotations cannot be read: {problem}") from None
    if isinstance(annotations, Pairs) and all(
        isinstance(key, Symbol | Ulong) for key, _ in annotations
    ):
        return {str(key) if isinstance(key, Symbol) else key: each for key, each in annotations}
    if not isinstance(annotations, dict) or not all(
        isinstance(key, Symbol | Ulong) for key in annotations
    ):
        raise BadMessage("annotations are a map with symbols as keys")
    return annotations


UNDERSTOOD = frozenset({"rejected"})
"""Annotations outside x-opt- that have a meaning here."""


def check_annotations(annotations: dict[Any, Any]) -> None:
    """Keys that begin with x-opt- may be ignored, others must be understood (AMQP10-MSG-11, -15).
    Raises Refusal."""
    for key in annotations:
        if not (isinstance(key, str) and (key.startswith("x-opt-") or key in UNDERSTOOD)):
            detail = (
                f"the annotation {refusal.shown(str(key))} does not begin with x-opt- and is not"
                " understood here"
            )
            raise Refusal(refusal.UNKNOWN_ANNOTATION, detail)


def properties_of(octets: bytes) -> Properties | None:
    """The properties section of a message or of a bare message. Raises :class:`BadMessage`."""
    for code, _, inside, _ in sections(octets):
        if code == PROPERTIES:
            try:
                return Properties.read(octets, inside, DEPTH)[0]
            except (IndexError, struct.error, DecodeError, InvalidField) as problem:
                raise BadMessage(f"the properties cannot be read: {problem}") from None
    return None


# --- what is kept beside it -----------------------------------------------------------------------


class Notes:
    """What AMQP peers said about a message when they gave it back: kept with its place in the
    queue."""

    __slots__ = ("annotations", "rejected")

    def __init__(self) -> None:
        self.annotations: dict[Any, Any] = {}
        self.rejected: Error | None = None


def notes_of(entry: Entry) -> Notes:
    """The notes of ``entry``, new if there were none."""
    if entry.notes is None:
        entry.notes = Notes()
    return entry.notes  # type: ignore[no-any-return]


def rejected(condition: str, description: str) -> messaging.Rejected:
    """The outcome of a message that is not taken."""
    return messaging.Rejected(error=Error(condition=condition, description=description))
