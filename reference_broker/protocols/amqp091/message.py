"""AMQP 0-9-1 messages, and their conversion to and from STOMP's headers, from which AMQP 1.0
converts.

=====================  ========================  ==================================================================
header                 property                  remarks
=====================  ========================  ==================================================================
persistent             delivery-mode             ``true`` is 2
priority               priority                  0 to 255
content-type           content-type              also content-encoding, correlation-id, reply-to, type, user-id,
                                                 app-id
amqp-message-id        message-id                ``message-id`` itself is the STOMP broker's own
expires                expiration                an instant there, milliseconds to live here
timestamp              timestamp                 milliseconds there, seconds here
other headers          headers                   strings from STOMP; simple values, written out, the other way
=====================  ========================  ==================================================================

The destination of a message is ``/queue/KEY`` for the exchange without a name, ``/topic/KEY`` for
amq.topic and ``/exchange/NAME/KEY`` for others.
"""  # noqa: E501

import struct
from collections.abc import Callable
from typing import Any

from pamqp import encode

from brokerproof.harness.model.time import NS_PER_MS, Duration, Instant
from brokerproof.reference_broker.families.rabbitmq.exchanges import DEFAULT
from brokerproof.reference_broker.kernel.large_body import LargeBody, LargeBodySlice
from brokerproof.reference_broker.kernel.message import Envelope, Message
from brokerproof.reference_broker.protocols.amqp091 import methods

_TEXTS = {
    "content-type": "content_type",
    "content-encoding": "content_encoding",
    "correlation-id": "correlation_id",
    "reply-to": "reply_to",
    "amqp-message-id": "message_id",
    "type": "message_type",
    "user-id": "user_id",
    "app-id": "app_id",
}
_KEY = "amqp091 properties"


class Amqp091Message(Message):
    """One message as it was published. ``properties`` are bytes from the flags on; ``lifetime`` is
    in ns (None: unlimited)."""

    __slots__ = ("exchange", "lifetime", "properties", "routing_key")

    def __init__(
        self,
        number: int,
        arrived: Instant,
        exchange: str,
        routing_key: str,
        properties: bytes,
        body: bytes,
        lifetime: Duration | None = None,
    ) -> None:
        # The base class's __init__ is deliberately not called. The envelope is made when another
        # protocol needs it.
        self.number = number
        self.arrived = arrived
        self.exchange = exchange
        self.routing_key = routing_key
        self.properties = properties
        self.body = body
        self.lifetime = lifetime

    def __getattr__(self, name: str) -> Any:
        """Make the envelope when another protocol needs it."""
        if name not in ("envelope", "route"):
            raise AttributeError(name)
        self.envelope = self.route = _envelope(self)
        return self.envelope

    def size(self) -> int:
        return len(self.properties) + len(self.body)

    def content(self) -> int:
        return self.size()

    def paged_out(self, write: Callable[[bytes], LargeBody]) -> Message | None:
        return PagedMessage(self, write(self.body)) if self.body else None


def destination(exchange: str, key: str) -> str:
    """Return the destination to which a message was published, in STOMP's notation."""
    if exchange == DEFAULT:
        return f"/queue/{key}"
    return f"/topic/{key}" if exchange == "amq.topic" else f"/exchange/{exchange}/{key}"


def _envelope(message: Amqp091Message) -> Envelope:
    properties = methods.properties(message.properties)
    headers: list[tuple[str, str]] = []
    if properties.get("delivery_mode") == 2:
        headers.append(("persistent", "true"))
    if "priority" in properties:
        headers.append(("priority", str(properties["priority"])))
    headers += [(header, properties[name]) for header, name in _TEXTS.items() if name in properties]
    if message.lifetime is not None:
        headers.append(("expires", str((message.arrived + message.lifetime) // NS_PER_MS)))
    if "timestamp" in properties:
        headers.append(("timestamp", str(properties["timestamp"] * 1000)))
    known = {name for name, _ in headers}
    for name, value in properties.get("headers", {}).items():
        if name and name not in known and isinstance(value, str | int | float | bool | None):
            headers.append((name, _written(value)))
    to = destination(message.exchange, message.routing_key)
    return Envelope(message.routing_key, to, None, tuple(headers), text=False)


def _written(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


class PagedMessage(Amqp091Message):
    __slots__ = ("large",)

    def __init__(self, of: Amqp091Message, body: LargeBody) -> None:
        fields = (of.number, of.arrived, of.exchange, of.routing_key, of.properties)
        super().__init__(*fields, b"", of.lifetime)
        self.body = LargeBodySlice(body)
        self.large = body

    def size(self) -> int:
        return len(self.properties)


def exchange_and_key(message: Message) -> tuple[str, str]:
    """Return the exchange and routing key of ``message``. Other protocols publish to the exchange
    without a name."""
    if isinstance(message, Amqp091Message):
        return message.exchange, message.routing_key
    return DEFAULT, message.route.address


def properties_of(message: Message, now: Instant) -> bytes:
    """Return the properties of ``message``, from their flags on; ``now`` in ns since 1970."""
    if isinstance(message, Amqp091Message):
        return message.properties
    envelope = message.envelope
    known = envelope.wire.get(_KEY)
    if known is None:
        known = envelope.wire[_KEY] = encoded(_of_headers(envelope, now))
    return known


def _of_headers(envelope: Envelope, now: Instant) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, text in envelope.headers:
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None
        if name in _TEXTS and len(text.encode()) <= 255:
            properties.setdefault(_TEXTS[name], text)
        elif name == "persistent" and text == "true":
            properties["delivery_mode"] = 2
        elif name == "priority" and number is not None and number <= 255:
            properties.setdefault("priority", number)
        elif name == "expires" and number is not None:
            properties.setdefault("expiration", str(max(0, number - now // NS_PER_MS)))
        elif name == "timestamp" and number is not None:
            properties.setdefault("timestamp", number // 1000)
        elif len(name.encode()) <= 128:
            others.setdefault(name, text)
    if others:
        properties["headers"] = others
    return properties


def encoded(properties: dict[str, Any]) -> bytes:
    """Return properties, named as in pamqp, as bytes from the flags on."""
    flags, data = 0, b""
    for bit, (name, kind) in enumerate(methods.PROPERTIES):
        if properties.get(name) is not None:
            flags |= 1 << (15 - bit)
            value = properties[name]
            data += struct.pack(">Q", value) if kind == "timestamp" else encode.by_type(value, kind)
    return flags.to_bytes(2) + data
