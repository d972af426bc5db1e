"""Messages, and their places in queues.

A :class:`Message` is what a producer sent and never changes. An :class:`Envelope` has what many
messages of a producer have in common (destination, headers); they share it, so encoders work once
per envelope rather than once per message. An :class:`Entry` is a message's place in one queue; a
message sent to three subscriptions has three entries."""

from collections.abc import Callable
from typing import Any, Protocol

from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.model.time import NS_PER_MS, Instant
from brokerproof.reference_broker.kernel import selector_properties
from brokerproof.reference_broker.kernel.large_body import LargeBody, LargeBodySlice
from brokerproof.reference_broker.selector.values import Value


class Envelope:
    """A message's header fields, without its body and its number.

    ``destination`` is what the producer wrote, ``address`` the same without the acceptor's prefix;
    ``routing`` is None if the producer requested none. ``text``: the producer gave no
    content-length (ARTEMIS-STOMP-jms-1). ``size`` is the bytes of header names and values. ``wire``
    caches encoded bytes by the encoder's key."""

    __slots__ = (
        "_durable",
        "_expires",
        "_properties",
        "address",
        "destination",
        "headers",
        "routing",
        "size",
        "text",
        "wire",
    )

    def __init__(
        self,
        address: str,
        destination: str,
        routing: RoutingType | None,
        headers: tuple[tuple[str, str], ...],
        text: bool,
    ) -> None:
        self.address = address
        self.destination = destination
        self.routing = routing
        self.headers = headers
        self.text = text
        self.wire: dict[str, bytes] = {}
        self.size = selector_properties.size(headers)
        self._properties: dict[str, Value] | None = None
        self._durable: bool | None = None
        self._expires: int | None = None

    @property
    def durable(self) -> bool:
        """True if the first ``persistent`` header is ``true``."""
        if self._durable is None:
            values = (value for name, value in self.headers if name == "persistent")
            self._durable = next(values, "") == "true"
        return self._durable

    @property
    def expires(self) -> int:
        """The first ``expires`` header: milliseconds since 1970; 0 if there is none."""
        if self._expires is None:
            self._expires = selector_properties.expires(self.headers)
        return self._expires

    @property
    def properties(self) -> dict[str, Value]:
        """Selector properties shared by all messages of this envelope, computed on first use."""
        if self._properties is None:
            self._properties = selector_properties.of_headers(self.address, self.headers)
        return self._properties


Section = tuple[int, int, int, int]
"""A protocol's code for a part of a large body, the constructor of its value, its begin and end."""


class Message:
    """One message: its number (unique in the broker, from 1), its envelope and its body.

    ``route`` is the message's destination; it is the envelope unless a protocol decodes the rest on
    demand (see :mod:`brokerproof.reference_broker.protocols.amqp10.message`). ``arrived`` is its
    arrival, in ns since 1970."""

    __slots__ = ("arrived", "body", "envelope", "number", "route")

    large: LargeBody | None = None
    """The file of the body, if the message is too large for memory
    (:mod:`brokerproof.reference_broker.kernel.large_body`)."""
    sections: tuple[Section, ...] = ()
    """The ranges of a large body's parts, if the protocol divides it."""
    record_kind = 0
    """Chooses the codec that writes the message to a file
    (:mod:`brokerproof.reference_broker.persistence.codec`)."""

    def __init__(self, number: int, envelope: Envelope, body: bytes, arrived: Instant = 0) -> None:
        self.number = number
        self.envelope = self.route = envelope
        self.body: Any = body
        self.arrived = arrived

    def size(self) -> int:
        """The message's size in bytes, as charged to its address's memory (see
        :mod:`brokerproof.reference_broker.families.artemis.accounting`)."""
        return self.envelope.size + len(self.body)

    @property
    def durable(self) -> bool:
        """True if the message must survive a restart."""
        return self.envelope.durable

    @property
    def expires(self) -> int:
        """The message's expiry in milliseconds since 1970; 0 or less: never."""
        return self.envelope.expires

    def content(self) -> int | None:
        """Return the bytes of the content and properties; None if the headers determine them."""
        return None

    def paged_out(self, write: Callable[[bytes], LargeBody]) -> "Message | None":
        """Return the message with its body in the file that ``write`` creates; None if its protocol
        needs it whole."""
        return None

    def property(self, name: str) -> Value:
        """Return the value of ``name`` for selectors: a header, or one of the broker's own names
        (see ``selector_properties.py``)."""
        if name == selector_properties.SIZE:
            return self.size()
        if name == selector_properties.TIMESTAMP:
            return self.arrived // NS_PER_MS
        return self.envelope.properties.get(name)


class LargeMessage(Message):
    """A message whose body is an :class:`LargeBodySlice`."""

    __slots__ = ("large",)

    def __init__(
        self, number: int, envelope: Envelope, body: LargeBodySlice, arrived: Instant = 0
    ) -> None:
        super().__init__(number, envelope, b"", arrived)
        self.body = body
        self.large = body.whole

    def size(self) -> int:
        return self.envelope.size

    def content(self) -> int:
        return self.size()

    def property(self, name: str) -> Value:
        return (
            self.envelope.size + len(self.body)
            if name == selector_properties.SIZE
            else super().property(name)
        )


class ResourceClaim(Protocol):
    """A resource that an entry in a queue holds: memory, or a place in the journal or on a page."""

    def release(self) -> None:
        """Record that the entry has left its queue permanently. Called once."""

    def failed(self, failures: int) -> None:
        """Record that the entry returned to its queue as failed delivery number ``failures``."""


class LargeBodyClaim:
    """The claim of a large message's queue entries: ``charge``, and the body while any of
    ``holders`` has it."""

    __slots__ = ("_body", "_charge", "_holders")

    def __init__(self, charge: ResourceClaim, body: LargeBody, holders: int) -> None:
        self._charge = charge
        self._body = body
        self._holders = holders
        body.retain()

    def release(self) -> None:
        """Release the share of one holder."""
        self._charge.release()
        self._holders -= 1
        if not self._holders:
            self._body.drop()

    def failed(self, failures: int) -> None:
        self._charge.failed(failures)


class Entry:
    """A message's place in one queue.

    ``order`` grows with every message put into the queue and never changes, so a returned message
    regains its place. ``deliveries`` counts deliveries, ``failures`` failed ones, and ``earlier``
    the failures in the queue that dead-lettered it. ``barred`` has the consumers that must not
    receive it again (None: none). ``notes`` is for protocols: annotations made when the message was
    returned. ``charge`` must be released when the entry leaves its queue permanently (None:
    nothing). ``batch`` is the storage batch that added the entry (0: none): no delivery is sent
    before it is stored."""

    __slots__ = (
        "barred",
        "batch",
        "charge",
        "deliveries",
        "earlier",
        "failures",
        "message",
        "notes",
        "order",
    )

    def __init__(self, message: Message, order: int, charge: ResourceClaim | None = None) -> None:
        self.message = message
        self.order = order
        self.charge = charge
        self.batch = 0
        self.deliveries = 0
        self.failures = 0
        self.earlier = 0
        self.barred: tuple[object, ...] | None = None
        self.notes: Any = None
