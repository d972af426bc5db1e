"""CORE messages: in, out, and their conversion for STOMP and AMQP.

::

    13 + length of the body (4) | body | number (8) | address | user id | type | durable |
    expiration | timestamp | priority | properties

A message is kept as bytes, and sent unchanged except for its number, which the broker assigns. A
body of type 3 is optional text, everything else is bytes.

=====================  =============================================================================================
CORE                   STOMP header
=====================  =============================================================================================
durable, priority      ``persistent:true``; ``priority`` unless it is 4
expiration, timestamp  ``expires``, ``timestamp``: milliseconds since 1970, unless 0
properties             by their names, values written out; none of those that begin with ``_AMQ`` or ``__AMQ``
=====================  =============================================================================================

In the other direction, every other header becomes a text property.
"""  # noqa: E501

import contextlib
from typing import Any

from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.model.time import NS_PER_MS, Instant
from brokerproof.reference_broker.kernel import selector_properties
from brokerproof.reference_broker.kernel.java_fields import Malformed, int8, int32, int64
from brokerproof.reference_broker.kernel.message import Envelope, Message
from brokerproof.reference_broker.persistence.codec import RecordHead
from brokerproof.reference_broker.protocols.core.encoding import Fields, flag, optional, text
from brokerproof.reference_broker.selector.values import Value

TEXT, BYTES = 3, 4
OFFSET = 13
"""Bytes before the body in a packet. The length that precedes the body includes them."""
ROUTING = "_AMQ_ROUTING_TYPE"
_INTERNAL = ("_AMQ", "__AMQ")
_ROUTINGS = {0: RoutingType.MULTICAST, 1: RoutingType.ANYCAST}
_USUAL_PRIORITY = 4
_TAIL = "core tail"


class CoreMessage(Message):
    """One message as it arrived: ``data`` is its body, ``tail`` the rest from the address on."""

    __slots__ = ("_fields", "data", "tail")

    record_kind = 4

    def __init__(
        self,
        number: int,
        route: Envelope,
        arrived: Instant,
        data: bytes,
        tail: bytes,
        fields: "MessageFields",
    ) -> None:
        # The base class's __init__ is deliberately not called, so envelope and body stay empty (see
        # __getattr__).
        self.number = number
        self.route = route
        self.arrived = arrived
        self.data = data
        self.tail = tail
        self._fields = fields

    def __getattr__(self, name: str) -> Any:
        """Make the envelope and the body when another protocol needs them."""
        if name not in ("envelope", "body"):
            raise AttributeError(name)
        self.envelope, self.body = _to_stomp(self.route, self._fields, self.data)
        return self.envelope if name == "envelope" else self.body

    @property
    def durable(self) -> bool:
        return self._fields.durable

    @property
    def expires(self) -> int:
        return self._fields.expiration

    def size(self) -> int:
        return 12 + len(self.data) + len(self.tail)

    def content(self) -> int:
        return self.size()

    def property(self, name: str) -> Value:
        """Return a selector's value for ``name``, which is a property, with its own type, or one of
        the broker's names."""
        fields = self._fields
        match name:
            case selector_properties.SIZE:
                return self.size()
            case selector_properties.TIMESTAMP:
                return fields.timestamp or self.arrived // NS_PER_MS
            case "AMQAddress":
                return self.route.address
            case "AMQPriority":
                return fields.priority
            case "AMQDurable":
                return "DURABLE" if fields.durable else "NON_DURABLE"
            case "AMQExpiration":
                return fields.expiration
        value = fields.properties.get("_AMQ_GROUP_ID" if name == "AMQGroupID" else name)
        return None if isinstance(value, bytes) else value


class MessageFields:
    """The head of a message. ``expiration`` and ``timestamp`` are in ms since 1970; 0 for none."""

    __slots__ = ("address", "durable", "expiration", "priority", "properties", "timestamp", "type")

    def __init__(self, fields: Fields) -> None:
        self.address = fields.optional_text()
        fields.perhaps(lambda: fields.take(16))
        self.type = fields.byte()
        self.durable = fields.flag()
        self.expiration = fields.int64()
        self.timestamp = fields.int64()
        self.priority = fields.byte()
        self.properties = _properties(fields)

    @property
    def routing(self) -> RoutingType | None:
        """The routing type that the producer requested, if any."""
        number = self.properties.get(ROUTING)
        return _ROUTINGS.get(number) if isinstance(number, int) else None


_NUMBERS = {3: ">b", 5: ">h", 6: ">i", 7: ">q", 8: ">f", 9: ">d"}


def _properties(fields: Fields) -> dict[str, Any]:
    if not fields.flag():
        return {}
    count = fields.int32()
    if not 0 <= count <= fields.left:
        raise Malformed(f"a message states {count} properties, with {fields.left} bytes left")
    return {fields.text(): _value(fields) for _ in range(count)}


def _value(fields: Fields) -> Any:
    kind = fields.byte()
    if kind in _NUMBERS:
        return fields.number(_NUMBERS[kind])
    match kind:
        case 0:
            return None
        case 2:
            return fields.flag()
        case 4:
            return fields.take(fields.int32())
        case 10:
            return fields.text()
        case 11:
            return fields.take(2).decode("utf-16-be", "surrogatepass")
    raise Malformed(f"a property has the unknown type {kind}")


# --- in files -------------------------------------------------------------------------------------


class CoreRecords:
    """Messages in files: the body after its length, then everything from the address on."""

    def encode(self, message: CoreMessage) -> bytes:
        return int32(len(message.data)) + message.data + message.tail

    def decode(self, head: RecordHead, data: bytes) -> CoreMessage:
        fields = Fields(data)
        body = fields.take(fields.int32())
        tail = data[fields.at :]
        return CoreMessage(head.number, head.route, head.arrived, body, tail, MessageFields(fields))


# --- in -------------------------------------------------------------------------------------------


class Arrival:
    """A message in a packet, without a number. ``cost`` is the credit that it cost the producer."""

    __slots__ = ("cost", "data", "fields", "tail")

    def __init__(self, fields: Fields) -> None:
        begin = fields.at
        end = fields.int32()
        if end < OFFSET:
            raise Malformed(f"a body ends at byte {end}, but cannot end before byte {OFFSET}")
        self.data = fields.take(end - OFFSET)
        fields.int64()
        tail = fields.at
        self.fields = MessageFields(fields)
        self.tail = fields.buffer[tail : fields.at]
        self.cost = fields.at - begin


# --- out ------------------------------------------------------------------------------------------


def encoded(message: Message) -> bytes:
    """Return ``message``, from any protocol, encoded for a CORE consumer."""
    if isinstance(message, CoreMessage):
        data, tail = message.data, message.tail
    else:
        data, tail = _from_stomp(message)
    return b"".join((int32(OFFSET + len(data)), data, int64(message.number), tail))


def marker(number: int, address: str, name: str, value: int) -> bytes:
    """Return a message that has no body and one numeric property."""
    names = b"\1" + int32(1) + text(name) + int8(7) + int64(value)
    tail = _tail(
        address, 0, durable=False, expiration=0, timestamp=0, priority=_USUAL_PRIORITY, names=names
    )
    return int32(OFFSET) + int64(number) + tail


def _tail(
    address: str,
    type: int,
    *,
    durable: bool,
    expiration: int,
    timestamp: int,
    priority: int,
    names: bytes,
) -> bytes:
    return b"".join(
        (
            optional(text, address),
            b"\0",
            int8(type),
            flag(durable),
            int64(expiration),
            int64(timestamp),
            int8(priority),
            names,
        )
    )


def _from_stomp(message: Message) -> tuple[bytes, bytes]:
    envelope, body = message.envelope, bytes(message.body)
    is_text = envelope.text
    data = body
    if is_text:
        try:
            data = optional(text, body.decode())
        except UnicodeDecodeError:
            is_text = False
    key = f"{_TAIL} {is_text}"
    tail = envelope.wire.get(key)
    if tail is None:
        tail = envelope.wire[key] = _tail_of(envelope, TEXT if is_text else BYTES)
    return data, tail


def _tail_of(envelope: Envelope, type: int) -> bytes:
    headers = dict(reversed(envelope.headers))
    numbers = {}
    for name, most in (("expires", 2**63 - 1), ("timestamp", 2**63 - 1), ("priority", 9)):
        digits = headers.get(name, "")
        if digits.isascii() and digits.isdigit() and len(digits) < 20 and int(digits) <= most:
            numbers[name] = int(digits)
    durable = headers.get("persistent") == "true"
    others = {
        name: value
        for name, value in headers.items()
        if name not in numbers and name != "persistent"
    }
    names = b"\0"
    if others:
        pairs = (text(name) + int8(10) + text(value) for name, value in reversed(others.items()))
        names = b"\1" + int32(len(others)) + b"".join(pairs)
    return _tail(
        envelope.address,
        type,
        durable=durable,
        expiration=numbers.get("expires", 0),
        timestamp=numbers.get("timestamp", 0),
        priority=numbers.get("priority", _USUAL_PRIORITY),
        names=names,
    )


def _to_stomp(route: Envelope, fields: MessageFields, data: bytes) -> tuple[Envelope, bytes]:
    headers: list[tuple[str, str]] = []
    if fields.durable:
        headers.append(("persistent", "true"))
    if fields.priority != _USUAL_PRIORITY:
        headers.append(("priority", str(fields.priority)))
    headers += [
        (name, str(instant))
        for name, instant in (("expires", fields.expiration), ("timestamp", fields.timestamp))
        if instant
    ]
    for name, value in fields.properties.items():
        if name and not name.startswith(_INTERNAL) and value is not None:
            headers.append((name, _written(value)))
    body, is_text = data, False
    if fields.type == TEXT:
        with contextlib.suppress(Malformed):  # it claims to be text, and may not be
            body, is_text = (
                (Fields(data).optional_text() or "").encode("utf-8", "surrogatepass"),
                True,
            )
    return Envelope(route.address, route.destination, route.routing, tuple(headers), is_text), body


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)
