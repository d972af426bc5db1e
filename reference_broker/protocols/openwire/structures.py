"""Structures in commands: ids, destinations and transactions."""

import struct
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from brokerproof.harness.model.enums import RoutingType
from brokerproof.reference_broker.kernel.java_fields import Malformed, int32, int64
from brokerproof.reference_broker.kernel.queue_and_topic_names import qualified
from brokerproof.reference_broker.protocols.openwire import codes
from brokerproof.reference_broker.protocols.openwire.encoding import (
    NO,
    YES,
    Fields,
    data,
    several,
    text,
)

TEXT_VIEWS = 10
"""The first version in which a MessageId may be just a text."""


_CONSUMER, _PRODUCER = bytes((codes.CONSUMER_ID,)), bytes((codes.PRODUCER_ID,))
_MESSAGE = bytes((codes.MESSAGE_ID,))
_TWO_LONGS = struct.Struct(">qq").pack


class Destination(NamedTuple):
    """A queue or topic, permanent or temporary."""

    type: int
    name: str

    @property
    def routing(self) -> RoutingType:
        return (
            RoutingType.ANYCAST
            if self.type in (codes.QUEUE, codes.TEMP_QUEUE)
            else RoutingType.MULTICAST
        )

    @property
    def address(self) -> str:
        return qualified(self.name, self.routing)

    def encode(self, version: int) -> bytes:
        return bytes((self.type,)) + text(self.name)


class ConnectionId(NamedTuple):
    value: str

    def encode(self, version: int) -> bytes:
        return bytes((codes.CONNECTION_ID,)) + text(self.value)


class SessionId(NamedTuple):
    connection: str
    value: int

    def encode(self, version: int) -> bytes:
        return bytes((codes.SESSION_ID,)) + text(self.connection) + int64(self.value)

    def __str__(self) -> str:
        return f"{self.connection}:{self.value}"


class ConsumerId(NamedTuple):
    connection: str
    session: int
    value: int

    @property
    def parent(self) -> SessionId:
        return SessionId(self.connection, self.session)

    def encode(self, version: int) -> bytes:
        return _CONSUMER + text(self.connection) + _TWO_LONGS(self.session, self.value)

    def __str__(self) -> str:
        return f"{self.connection}:{self.session}:{self.value}"


class ProducerId(NamedTuple):
    connection: str
    value: int
    session: int

    @property
    def parent(self) -> SessionId:
        return SessionId(self.connection, self.session)

    def encode(self, version: int) -> bytes:
        return _PRODUCER + text(self.connection) + _TWO_LONGS(self.value, self.session)

    def __str__(self) -> str:
        return f"{self.connection}:{self.session}:{self.value}"


class MessageId(NamedTuple):
    """The id of a message. ``view`` is a text that stands for the other fields; ``sequence`` is the
    broker's own number."""

    view: str | None
    producer: ProducerId | None
    number: int
    sequence: int

    @property
    def key(self) -> object:
        """The part that all ids of one message have in common."""
        return self.view or (self.producer, self.number)

    def encode(self, version: int) -> bytes:
        view = text(self.view) if version >= TEXT_VIEWS else b""
        producer = nested(self.producer, version)
        return b"".join((_MESSAGE, view, producer, _TWO_LONGS(self.number, self.sequence)))

    def __str__(self) -> str:
        return self.view or f"{self.producer}:{self.number}"


class LocalTransaction(NamedTuple):
    value: int
    connection: ConnectionId | None

    def encode(self, version: int) -> bytes:
        return (
            bytes((codes.LOCAL_TRANSACTION,)) + int64(self.value) + nested(self.connection, version)
        )


class XaTransaction(NamedTuple):
    format: int
    whole: bytes | None
    branch: bytes | None

    def encode(self, version: int) -> bytes:
        return (
            bytes((codes.XA_TRANSACTION,))
            + int32(self.format)
            + data(self.whole)
            + data(self.branch)
        )


class BrokerId(NamedTuple):
    value: str

    def encode(self, version: int) -> bytes:
        return bytes((codes.BROKER_ID,)) + text(self.value)


Structure: TypeAlias = (
    Destination
    | ConnectionId
    | SessionId
    | ConsumerId
    | ProducerId
    | MessageId
    | LocalTransaction
    | XaTransaction
    | BrokerId
)


def nested(structure: Structure | None, version: int) -> bytes:
    return NO if structure is None else YES + structure.encode(version)


def listed(structures: list[Structure | None] | None, version: int) -> bytes:
    return several(
        None if structures is None else (nested(structure, version) for structure in structures)
    )


# --- in -------------------------------------------------------------------------------------------


def structure(fields: Fields, version: int) -> Structure | None:
    """Return the structure in a field, or None. Raises :class:`Malformed`, also for a structure
    that commands cannot contain."""
    if not fields.unsigned():
        return None
    type = fields.unsigned()
    if type in _DESTINATIONS:
        return Destination(type, fields.text() or "")
    if type == codes.MESSAGE_ID:
        view = fields.text() if version >= TEXT_VIEWS else None
        producer = structure(fields, version)
        if producer is not None and not isinstance(producer, ProducerId):
            raise Malformed("a message id lacks its producer")
        return MessageId(view, producer, fields.int64(), fields.int64())
    if type == codes.LOCAL_TRANSACTION:
        value, connection = fields.int64(), structure(fields, version)
        if connection is not None and not isinstance(connection, ConnectionId):
            raise Malformed("a transaction lacks its connection")
        return LocalTransaction(value, connection)
    read = _READERS.get(type)
    if read is None:
        raise Malformed(f"a structure has the unknown type {type}")
    return read(fields)


def structures(fields: Fields, version: int) -> list[Structure | None] | None:
    return [structure(fields, version) for _ in range(fields.int16())] if fields.flag() else None


_DESTINATIONS = (codes.QUEUE, codes.TOPIC, codes.TEMP_QUEUE, codes.TEMP_TOPIC)
_READERS: dict[int, Callable[[Fields], Structure]] = {
    codes.XA_TRANSACTION: lambda fields: XaTransaction(
        fields.int32(), fields.data(), fields.data()
    ),
    codes.CONNECTION_ID: lambda fields: ConnectionId(fields.text() or ""),
    codes.SESSION_ID: lambda fields: SessionId(fields.text() or "", fields.int64()),
    codes.CONSUMER_ID: lambda fields: ConsumerId(
        fields.text() or "", fields.int64(), fields.int64()
    ),
    codes.PRODUCER_ID: lambda fields: ProducerId(
        fields.text() or "", fields.int64(), fields.int64()
    ),
    codes.BROKER_ID: lambda fields: BrokerId(fields.text() or ""),
}
