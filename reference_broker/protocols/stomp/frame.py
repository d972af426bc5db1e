"""A STOMP frame as read: a head and a body."""

import enum

from brokerproof.reference_broker.kernel.large_body import LargeBodySlice
from brokerproof.reference_broker.kernel.message import Envelope


class Version(enum.IntEnum):
    """The protocol versions, oldest first."""

    V1_0 = 0
    V1_1 = 1
    V1_2 = 2

    @property
    def wire(self) -> str:
        """The version as written in ``accept-version`` and ``version`` headers."""
        return f"1.{int(self)}"


SUPPORTED = "1.0,1.1,1.2"

Headers = tuple[tuple[str, str], ...]


class Head:
    """A decoded command with its headers.

    It is immutable, so frames with the same head share one object. ``headers`` has every entry in
    order, ``first`` the first entry of each name (STOMP12-REPEAT-02). ``content_length`` is None if
    that header is missing. ``envelope`` caches the envelope made for a SEND.
    """

    __slots__ = ("command", "content_length", "envelope", "first", "headers")

    def __init__(self, command: str, headers: Headers, content_length: int | None) -> None:
        self.command = command
        self.headers = headers
        self.first = dict(reversed(headers))
        self.content_length = content_length
        self.envelope: Envelope | None = None

    def with_receipt(self, value: str) -> "Head":
        """Return this head, which must have a receipt header, with another value in the first one.
        The envelope is kept."""
        at = self.headers.index(("receipt", self.first["receipt"]))
        other = Head.__new__(Head)
        other.command = self.command
        other.content_length = self.content_length
        other.headers = (*self.headers[:at], ("receipt", value), *self.headers[at + 1 :])
        other.first = {**self.first, "receipt": value}
        other.envelope = self.envelope
        return other


class Frame:
    """One frame as received. A body too large for memory is a slice of a large body."""

    __slots__ = ("body", "head")

    def __init__(self, head: Head, body: bytes | LargeBodySlice) -> None:
        self.head = head
        self.body = body

    def get(self, name: str) -> str | None:
        """Return the first header with that name, or None."""
        return self.head.first.get(name)
