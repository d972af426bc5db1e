"""Messages of OpenWire: in, out, and their conversion for STOMP and AMQP.

A message is kept as separate fields and sent unchanged except for the broker's own: number, failed
deliveries, arrival.

==========================  ==========================================================================================
OpenWire                    STOMP header
==========================  ==========================================================================================
persistent, priority        ``persistent:true``; ``priority`` unless it is 4
expiration, timestamp       ``expires``, ``timestamp``: milliseconds since 1970, unless 0
correlationId, type         ``correlation-id``, ``type``
groupID                     ``JMSXGroupID``
properties                  by their names, values written out
==========================  ==========================================================================================

In the other direction, every other header becomes a text property. A text message is text,
everything else bytes.
"""  # noqa: E501

from typing import Any

from brokerproof.harness.model.time import NS_PER_MS, Instant
from brokerproof.reference_broker.kernel import selector_properties
from brokerproof.reference_broker.kernel.java_fields import Malformed, int8, int32, int64
from brokerproof.reference_broker.kernel.message import Envelope, Message
from brokerproof.reference_broker.kernel.queue_and_topic_names import is_topic, plain
from brokerproof.reference_broker.persistence.codec import RecordHead
from brokerproof.reference_broker.protocols.openwire import codes, maps
from brokerproof.reference_broker.protocols.openwire.encoding import (
    NO,
    Fields,
    data,
    decoded,
    encoded,
    flag,
    text,
)
from brokerproof.reference_broker.protocols.openwire.structures import (
    Destination,
    MessageId,
    ProducerId,
    Structure,
    listed,
    nested,
    structure,
    structures,
)
from brokerproof.reference_broker.selector.values import Value

_USUAL_PRIORITY = 4
_WORDS = {"correlation-id": "correlation_id", "type": "jms_type", "JMSXGroupID": "group"}
_NUMBERS = {"expires": "expiration", "timestamp": "timestamp", "priority": "priority"}


class MessageFields:
    """The fields of a message from ``producerId`` on. Times are in ms since 1970, 0 for none."""

    __slots__ = (
        "arrival",
        "broker_in",
        "cluster",
        "compressed",
        "content",
        "correlation_id",
        "data_structure",
        "destination",
        "droppable",
        "expiration",
        "first_of_group",
        "group",
        "group_sequence",
        "id",
        "jms_type",
        "original",
        "original_transaction",
        "path",
        "persistent",
        "priority",
        "producer",
        "properties",
        "redeliveries",
        "reply_to",
        "target",
        "timestamp",
        "transaction",
        "type",
        "user",
    )

    def __init__(self, type: int) -> None:
        self.type = type
        """The type of the message."""
        self.producer: Structure | None = None
        self.destination: Destination | None = None
        self.transaction: Structure | None = None
        self.original: Structure | None = None
        self.id: MessageId | None = None
        self.original_transaction: Structure | None = None
        self.group: str | None = None
        self.group_sequence = 0
        self.correlation_id: str | None = None
        self.persistent = False
        self.expiration = 0
        self.priority = _USUAL_PRIORITY
        self.reply_to: Structure | None = None
        self.timestamp = 0
        self.jms_type: str | None = None
        self.content: bytes | None = None
        self.properties: bytes | None = None
        self.data_structure: Structure | None = None
        self.target: Structure | None = None
        self.compressed = False
        self.redeliveries = 0
        self.path: list[Structure | None] | None = None
        self.arrival = 0
        self.user: str | None = None
        self.droppable = False
        self.cluster: list[Structure | None] | None = None
        self.broker_in = 0
        self.first_of_group = False

    @staticmethod
    def read(type: int, fields: Fields, version: int) -> "MessageFields":
        """Return the fields that follow the head of a command. Raises :class:`Malformed`."""
        message = MessageFields(type)
        message.producer = structure(fields, version)
        destination = structure(fields, version)
        message.transaction = structure(fields, version)
        message.original = structure(fields, version)
        id = structure(fields, version)
        if not isinstance(destination, Destination | None) or not isinstance(id, MessageId | None):
            raise Malformed("a message lacks its destination or id")
        message.destination, message.id = destination, id
        message.original_transaction = structure(fields, version)
        message.group, message.group_sequence, message.correlation_id = (
            fields.text(),
            fields.int32(),
            fields.text(),
        )
        message.persistent, message.expiration, message.priority = (
            fields.flag(),
            fields.int64(),
            fields.byte(),
        )
        message.reply_to, message.timestamp, message.jms_type = (
            structure(fields, version),
            fields.int64(),
            fields.text(),
        )
        message.content, message.properties = fields.data(), fields.data()
        message.data_structure, message.target = (
            structure(fields, version),
            structure(fields, version),
        )
        message.compressed, message.redeliveries = fields.flag(), fields.int32()
        message.path, message.arrival, message.user = (
            structures(fields, version),
            fields.int64(),
            fields.text(),
        )
        fields.flag()  # received by a bridge
        if version >= 2:
            message.droppable = fields.flag()
        if version >= 3:
            message.cluster, message.broker_in = structures(fields, version), fields.int64()
            fields.int64()
        if version >= 10:
            message.first_of_group = fields.flag()
        return message

    def encode(self, version: int, number: int, redeliveries: int) -> bytes:
        """Return the message as bytes, from its type on. ``number`` is the broker's own number,
        ``redeliveries`` the number of failed deliveries."""
        id = self.id
        if id is not None:
            id = MessageId(id.view, id.producer, id.number, sequence=number)
        fields = [
            int8(self.type),
            int32(0),
            NO,
            nested(self.producer, version),
            nested(self.destination, version),
            nested(self.transaction, version),
            nested(self.original, version),
            nested(id, version),
            nested(self.original_transaction, version),
            text(self.group),
            int32(self.group_sequence),
            text(self.correlation_id),
            flag(self.persistent),
            int64(self.expiration),
            int8(self.priority),
            nested(self.reply_to, version),
            int64(self.timestamp),
            text(self.jms_type),
            data(self.content),
            data(self.properties),
            nested(self.data_structure, version),
            nested(self.target, version),
            flag(self.compressed),
            int32(redeliveries),
            listed(self.path, version),
            int64(self.arrival),
            text(self.user),
            NO,
        ]
        if version >= 2:
            fields.append(flag(self.droppable))
        if version >= 3:
            fields += [listed(self.cluster, version), int64(self.broker_in), int64(0)]
        if version >= 10:
            fields.append(flag(self.first_of_group))
        return b"".join(fields)


class OpenWireMessage(Message):
    __slots__ = ("_properties", "fields")

    record_kind = 8

    def __init__(
        self, number: int, route: Envelope, arrived: Instant, fields: MessageFields
    ) -> None:
        # The base class's __init__ is deliberately not called, so envelope and body stay empty (see
        # __getattr__).
        self.number = number
        self.route = route
        self.arrived = arrived
        self.fields = fields
        self._properties: dict[str, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        """Make the envelope and the body when another protocol needs them."""
        if name not in ("envelope", "body"):
            raise AttributeError(name)
        self.envelope, self.body = _to_others(self.route, self.fields, self.properties)
        return self.envelope if name == "envelope" else self.body

    @property
    def durable(self) -> bool:
        return self.fields.persistent

    @property
    def expires(self) -> int:
        return self.fields.expiration

    def size(self) -> int:
        return len(self.fields.content or b"") + len(self.fields.properties or b"")

    def content(self) -> int:
        return self.size()

    @property
    def properties(self) -> dict[str, Any]:
        """Properties by name; empty if they cannot be read."""
        if self._properties is None:
            try:
                self._properties = maps.read(self.fields.properties)
            except Malformed:
                self._properties = {}
        return self._properties

    def property(self, name: str) -> Value:
        """Return a selector's value for ``name``: a property with its own type, or one of the names
        that JMS or the broker defines."""
        fields = self.fields
        match name:
            case selector_properties.SIZE:
                return self.size()
            case selector_properties.TIMESTAMP | "JMSTimestamp":
                return fields.timestamp or self.arrived // NS_PER_MS
            case "AMQAddress":
                return self.route.address
            case "AMQPriority" | "JMSPriority":
                return fields.priority
            case "AMQDurable":
                return "DURABLE" if fields.persistent else "NON_DURABLE"
            case "JMSDeliveryMode":
                return "PERSISTENT" if fields.persistent else "NON_PERSISTENT"
            case "AMQExpiration" | "JMSExpiration":
                return fields.expiration
            case "AMQGroupID" | "JMSXGroupID":
                return fields.group
            case "JMSCorrelationID":
                return fields.correlation_id
            case "JMSType":
                return fields.jms_type
            case "JMSMessageID":
                return str(fields.id)
        value = self.properties.get(name)
        return value if isinstance(value, str | bool | int | float) else None


class OpenWireRecords:
    """Messages in files, in the newest version of the protocol."""

    def encode(self, message: OpenWireMessage) -> bytes:
        fields = message.fields
        return fields.encode(codes.NEWEST, message.number, fields.redeliveries)

    def decode(self, head: RecordHead, data: bytes) -> OpenWireMessage:
        fields = MessageFields.read(data[0], Fields(data, 1 + 4 + 1), codes.NEWEST)
        return OpenWireMessage(head.number, head.route, head.arrived, fields)


# --- from and to others ---------------------------------------------------------------------------


def fields_of(message: Message) -> MessageFields:
    """Return ``message``, from any protocol, for an OpenWire consumer."""
    if isinstance(message, OpenWireMessage):
        return message.fields
    envelope, body = message.envelope, bytes(message.body)
    fields = MessageFields(codes.BYTES_MESSAGE)
    fields.content = body
    if envelope.text:
        try:
            data = encoded(body.decode())
        except UnicodeDecodeError:
            pass
        else:
            fields.type, fields.content = codes.TEXT_MESSAGE, int32(len(data)) + data
    address = envelope.address
    fields.destination = Destination(
        codes.TOPIC if is_topic(address) else codes.QUEUE, plain(address)
    )
    fields.producer = ProducerId("ID:brokerproof", 1, -1)
    fields.id = MessageId(None, fields.producer, message.number, message.number)
    fields.timestamp = fields.arrival = fields.broker_in = message.arrived // NS_PER_MS
    headers = dict(reversed(envelope.headers))
    fields.persistent = headers.pop("persistent", "") == "true"
    for header, field in _WORDS.items():
        setattr(fields, field, headers.pop(header, None))
    for header, field in _NUMBERS.items():
        digits = headers.get(header, "")
        if (
            digits.isascii()
            and digits.isdigit()
            and int(digits) <= (9 if field == "priority" else 2**63 - 1)
        ):
            setattr(fields, field, int(headers.pop(header)))
    fields.properties = maps.write(dict(reversed(headers.items()))) if headers else None
    return fields


def _to_others(
    route: Envelope, fields: MessageFields, properties: dict[str, Any]
) -> tuple[Envelope, bytes]:
    headers: list[tuple[str, str]] = []
    if fields.persistent:
        headers.append(("persistent", "true"))
    if fields.priority != _USUAL_PRIORITY:
        headers.append(("priority", str(fields.priority)))
    for header in ("expires", "timestamp"):
        number = getattr(fields, _NUMBERS[header])
        if number:
            headers.append((header, str(number)))
    for header, field in _WORDS.items():
        words = getattr(fields, field)
        if words is not None:
            headers.append((header, words))
    headers += [
        (name, _written(value)) for name, value in properties.items() if name and value is not None
    ]
    body, is_text = fields.content or b"", False
    if fields.type == codes.TEXT_MESSAGE and not fields.compressed:
        body, is_text = _text(body)
    return Envelope(route.address, route.destination, route.routing, tuple(headers), is_text), body


def _text(content: bytes) -> tuple[bytes, bool]:
    """Return the content of a text message, and whether it is readable as text."""
    if not content:
        return b"", True
    fields = Fields(content)
    try:
        return decoded(fields.take(fields.int32())).encode("utf-8", "surrogatepass"), True
    except Malformed:
        return content, False


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)
