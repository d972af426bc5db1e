"""Messages of Artemis's CORE protocol (release 2.56.0, CoreMessage), encoded and decoded.

::

where the body ends | body | id | address | user id | type | durable | expiration | timestamp |
    priority | properties

The first field is a position from the beginning of the packet that carries the message, so it is
the body's length plus 13. A message costs a producer the bytes of this encoding
(ClientProducerImpl); a delivery costs a consumer the bytes of the whole packet
(ServerConsumerImpl).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from brokerproof.harness.protocols.core.values import (
    Cursor,
    Malformed,
    encode,
    encode_properties,
    read_properties,
)

PACKET_HEADER = 13
"""Bytes of a packet before its fields: size, type, channel."""
DEFAULT, TEXT, BYTES = 0, 3, 4
"""Types of messages: the last two have a nullable simple string, or bytes, as their body."""

HEADERS: tuple[tuple[str, str], ...] = (
    ("id", "long"),
    ("address", "simple?"),
    ("user_id", "uuid?"),
    ("type", "byte"),
    ("durable", "boolean"),
    ("expiration", "long"),
    ("timestamp", "long"),
    ("priority", "byte"),
)
"""Names and types of the fields after the body, except the properties."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message. ``expiration`` and ``timestamp`` are milliseconds since 1970 (0: none); ``id``
    is the broker's number."""

    address: str | None
    body: bytes = b""
    properties: Mapping[str, Any] = field(default_factory=dict)
    id: int = 0
    user_id: bytes | None = None
    type: int = BYTES
    durable: bool = False
    expiration: int = 0
    timestamp: int = 0
    priority: int = 4

    def encode(self) -> bytes:
        """Return the message as bytes. Raises ``ValueError`` for values that cannot be written."""
        data = (PACKET_HEADER + len(self.body)).to_bytes(4) + self.body
        data += b"".join(encode(kind, getattr(self, name)) for name, kind in HEADERS)
        return data + encode_properties(dict(self.properties))

    @property
    def cost(self) -> int:
        """Return the bytes of credit that a producer needs for this message."""
        return len(self.encode())

    def get(self, name: str) -> Any:
        """Return the value of a property; None if it is absent."""
        value = self.properties.get(name)
        return getattr(value, "value", value)

    def text(self) -> str | None:
        """Return the body of a text message. Raises :class:`Malformed` for any other type."""
        value = Cursor(self.body).value("simple?")
        return None if value is None else str(value)

    @staticmethod
    def read(cursor: Cursor) -> "Message":
        """Read the message at the cursor. Raises :class:`Malformed`."""
        end = cursor.value("int")
        if end < PACKET_HEADER:
            raise Malformed(
                f"the body of a message ends at byte {end}, within the head of its packet"
            )
        body = cursor.take(end - PACKET_HEADER)
        headers = {name: cursor.value(kind) for name, kind in HEADERS}
        return Message(body=body, properties=read_properties(cursor), **headers)
