"""Fixed-size values in the encoding of Java's data streams, which CORE and OpenWire share."""

import struct

_INT, _LONG = struct.Struct(">i"), struct.Struct(">q")
int32, int64 = _INT.pack, _LONG.pack


class Malformed(Exception):
    """Bytes that a protocol does not allow at this position."""


class FieldReader:
    """Reads fields in order. Each method raises :class:`Malformed` if its value is missing."""

    __slots__ = ("at", "buffer")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.buffer = data
        self.at = at

    @property
    def left(self) -> int:
        return len(self.buffer) - self.at

    def take(self, count: int) -> bytes:
        begin, end = self.at, self.at + count
        if count < 0 or end > len(self.buffer):
            raise Malformed(f"a field of {count} bytes, but only {self.left} are left")
        self.at = end
        return self.buffer[begin:end]

    def byte(self) -> int:
        """Return one byte, signed."""
        byte = self.unsigned()
        return byte - 256 if byte > 127 else byte

    def unsigned(self) -> int:
        at = self.at
        if at >= len(self.buffer):
            self.take(1)
        self.at = at + 1
        return self.buffer[at]

    def flag(self) -> bool:
        return self.unsigned() != 0

    def int32(self) -> int:
        """Return four bytes, signed."""
        at = self.at
        if at + 4 > len(self.buffer):
            self.take(4)
        self.at = at + 4
        value: int = _INT.unpack_from(self.buffer, at)[0]
        return value

    def int64(self) -> int:
        """Return eight bytes, signed."""
        at = self.at
        if at + 8 > len(self.buffer):
            self.take(8)
        self.at = at + 8
        value: int = _LONG.unpack_from(self.buffer, at)[0]
        return value

    def number(self, form: str) -> int | float:
        """Return a number in a format of :mod:`struct`."""
        value: int | float = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return value


def int8(value: int) -> bytes:
    """One byte, signed."""
    return bytes((value & 0xFF,))
