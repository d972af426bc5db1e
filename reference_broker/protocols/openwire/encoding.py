"""OpenWire commands in the loose encoding, decoded and encoded.

A command consists of four bytes for the size of the rest, one for the type, and the fields. A
string, bytes, a structure and an exception are optional: a byte before them says whether they
follow. Other encodings (tight, with a cache, without sizes) are never negotiated.
"""

import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple

from brokerproof.reference_broker.kernel.java_fields import FieldReader, Malformed, int32

_INT = struct.Struct(">i")
_ENCODED_NUL = b"\xc0\x80"


class Command(NamedTuple):
    """One command; ``fields`` are the bytes after its type."""

    type: int
    fields: bytes


class CommandParser:
    """Cuts commands from a stream. A command has at most ``most`` bytes after its size."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._waiting = bytearray()

    def feed(self, data: bytes) -> None:
        self._waiting += data

    def next(self) -> Command | None:
        """Return the next command; None while it is incomplete. Raises :class:`Malformed` for bytes
        that are not a command."""
        waiting = self._waiting
        if len(waiting) < 4:
            return None
        (size,) = _INT.unpack_from(waiting)
        if not 1 <= size <= self.most:
            raise Malformed(f"a command says that {size} bytes follow; 1 to {self.most} may")
        if len(waiting) < size + 4:
            return None
        came = Command(waiting[4], bytes(waiting[5 : size + 4]))
        del waiting[: size + 4]
        return came


class Fields(FieldReader):
    """Reads a command's fields in order. Methods raise :class:`Malformed` for invalid bytes."""

    __slots__ = ()

    def int16(self) -> int:
        """Return two bytes as an unsigned number."""
        return self.unsigned() << 8 | self.unsigned()

    def name(self) -> str:
        """Return text that must be present."""
        return decoded(self.take(self.int16()))

    def text(self) -> str | None:
        return self.name() if self.unsigned() else None

    def data(self) -> bytes | None:
        return self.take(self.int32()) if self.unsigned() else None

    def throwable(self) -> tuple[str | None, str | None] | None:
        """Return an exception's class and message; None if there is none."""
        return (self.text(), self.text()) if self.flag() else None


def decoded(data: bytes) -> str:
    """Return text that Java wrote: each UTF-16 unit is in UTF-8. Raises :class:`Malformed`."""
    if data.isascii():
        return data.decode("ascii")
    try:
        units = data.replace(_ENCODED_NUL, b"\0").decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise Malformed("a text is not in UTF-8") from None
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


# --- out ------------------------------------------------------------------------------------------

YES, NO = b"\1", b"\0"


def command(type: int, *fields: bytes) -> bytes:
    data = b"".join(fields)
    return int32(1 + len(data)) + bytes((type,)) + data


def flag(value: object) -> bytes:
    return YES if value else NO


def encoded(value: str) -> bytes:
    """Return text as Java writes it, without a length."""
    if value.isascii() and "\0" not in value:
        return value.encode()
    pairs = value.encode("utf-16-be", "surrogatepass")
    units = struct.unpack(f">{len(pairs) // 2}H", pairs)
    return b"".join(
        _ENCODED_NUL if unit == 0 else chr(unit).encode("utf-8", "surrogatepass") for unit in units
    )


def name(value: str) -> bytes:
    """Return text that must be present, cut to 65,535 bytes."""
    data = encoded(value)
    if len(data) > 0xFFFF:
        data = data[:0xFFFF].decode("utf-8", "ignore").encode()
    return len(data).to_bytes(2) + data


def text(value: str | None) -> bytes:
    return NO if value is None else YES + name(value)


def data(value: bytes | None) -> bytes:
    return NO if value is None else b"".join((YES, int32(len(value)), value))


def throwable(kind: str, words: str) -> bytes:
    """Return an exception without its stack."""
    return YES + text(kind) + text(words)


def several(parts: Iterable[bytes] | None) -> bytes:
    """Return optional structures, all of which are present."""
    if parts is None:
        return NO
    listed = list(parts)
    return b"".join((YES, len(listed).to_bytes(2), *listed))


def optional(write: Callable[[], bytes] | None) -> bytes:
    """Return the bytes that ``write`` makes, or a missing field."""
    return NO if write is None else YES + write()
