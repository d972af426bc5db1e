"""Values, packets and frames of the CORE protocol, decoded and encoded.

A packet consists of four bytes for the size of the rest, one for the type, eight for the channel,
and the fields. Text is UTF-16, low byte first, after its length in bytes (*text* here); or, where
Artemis writes Java strings, after its length in characters and in one of three forms that depend on
that length (*words* here). True is any byte but 0, and is written as 255, as in Artemis.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from brokerproof.reference_broker.kernel.java_fields import FieldReader, Malformed, int32

MAGIC = b"ARTEMIS"
HEAD = struct.Struct(">IBq")
LARGEST = 64 * 1024 * 1024
"""The largest packet in bytes."""
_FEW, _MANY = 9, 0xFFF

T = TypeVar("T")


class Packet(NamedTuple):
    """One packet; ``fields`` are the bytes after its head."""

    type: int
    channel: int
    fields: bytes


class PacketParser:
    def __init__(self) -> None:
        self._waiting = bytearray()

    def feed(self, data: bytes) -> None:
        self._waiting += data

    def magic(self) -> bool:
        """Remove the letters that begin a connection. Return False while they are incomplete.
        Raises :class:`Malformed`."""
        begun = bytes(self._waiting[: len(MAGIC)])
        if not MAGIC.startswith(begun):
            raise Malformed(f"a connection must begin with {MAGIC!r}, not with {begun!r}")
        if len(begun) < len(MAGIC):
            return False
        del self._waiting[: len(MAGIC)]
        return True

    def next(self) -> Packet | None:
        """Return the next packet; None while it is incomplete. Raises :class:`Malformed` for bytes
        that are not a packet."""
        waiting = self._waiting
        if len(waiting) < 4:
            return None
        size = int.from_bytes(waiting[:4])
        if not HEAD.size - 4 <= size <= LARGEST:
            raise Malformed(
                f"a packet says that {size} bytes follow; {HEAD.size - 4} to {LARGEST} are allowed"
            )
        if len(waiting) < size + 4:
            return None
        _, type, channel = HEAD.unpack_from(waiting)
        fields = bytes(waiting[HEAD.size : size + 4])
        del waiting[: size + 4]
        return Packet(type, channel, fields)


class Fields(FieldReader):
    """Reads the fields of a packet in order. Methods raise :class:`Malformed` for invalid bytes."""

    __slots__ = ()

    def perhaps(self, read: Callable[[], T]) -> T | None:
        return read() if self.flag() else None

    def text(self) -> str:
        """Return text in UTF-16, low byte first."""
        data = self.take(self.int32())
        if len(data) % 2:
            raise Malformed(f"UTF-16 text cannot have {len(data)} bytes")
        return data.decode("utf-16-le", "surrogatepass")

    def words(self) -> str:
        """Return a Java string."""
        count = self.int32()
        if count < _FEW:
            return self.take(2 * count).decode("utf-16-be", "surrogatepass")
        if count >= _MANY:
            return self.text()
        data = self.take(int.from_bytes(self.take(2)))
        try:
            pairs = data.decode("utf-8", "surrogatepass").encode("utf-16-le", "surrogatepass")
        except UnicodeDecodeError:
            raise Malformed("a string is not in UTF-8") from None
        return pairs.decode("utf-16-le", "surrogatepass")

    def optional_text(self) -> str | None:
        return self.perhaps(self.text)

    def optional_words(self) -> str | None:
        """Return a Java string, or None."""
        return self.perhaps(self.words)


# --- out ------------------------------------------------------------------------------------------

YES, NO = b"\xff", b"\0"


def packet(type: int, channel: int, *fields: bytes) -> bytes:
    data = b"".join(fields)
    return HEAD.pack(HEAD.size - 4 + len(data), type & 0xFF, channel) + data


def flag(value: object) -> bytes:
    return YES if value else NO


def text(value: str) -> bytes:
    """Return text in UTF-16, low byte first."""
    data = value.encode("utf-16-le", "surrogatepass")
    return int32(len(data)) + data


def words(value: str) -> bytes:
    """Return a Java string."""
    pairs = value.encode("utf-16-be", "surrogatepass")
    count = len(pairs) // 2
    if count < _FEW:
        return int32(count) + pairs
    if count >= _MANY:
        return int32(count) + text(value)
    units = struct.unpack(f">{count}H", pairs)
    data = b"".join(chr(unit).encode("utf-8", "surrogatepass") for unit in units)
    return int32(count) + len(data).to_bytes(2) + data


def optional(write: Callable[[T], bytes], value: T | None) -> bytes:
    return NO if value is None else YES + write(value)
