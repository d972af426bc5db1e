"""Primitive values as Java's data streams write them, which CORE and OpenWire share.

Numbers are big-endian and signed. A *nullable* value (``KIND?``) begins with a byte that shows
whether a value follows. Each protocol adds its own kinds of text.
"""

import struct
from typing import Any

_NUMBERS = {"byte": ">b", "short": ">h", "int": ">i", "long": ">q", "float": ">f", "double": ">d"}


class Malformed(Exception):
    """Bytes that are not a value of the expected type."""


def modified_utf8(text: str) -> bytes:
    """Return the UTF-16 code units of ``text``, each as UTF-8.

    Java's own form writes NUL as two bytes; this function writes it as one byte.
    """
    units = memoryview(text.encode("utf-16-be", "surrogatepass")).cast("B")
    return b"".join(
        chr(units[at] << 8 | units[at + 1]).encode("utf-8", "surrogatepass")
        for at in range(0, len(units), 2)
    )


def encode(kind: str, value: Any) -> bytes:
    """Encode a primitive value. Raises ``ValueError`` for a number out of range."""
    match kind:
        case "boolean":
            return b"\1" if value else b"\0"
        case "char":
            return bytes(value.encode("utf-16-be", "surrogatepass")[:2])
        case "bytes":
            return len(value).to_bytes(4) + bytes(value)
    try:
        return struct.pack(_NUMBERS[kind], value)
    except struct.error:
        raise ValueError(f"{value!r} is not a valid {kind}: it is out of range") from None


class Cursor:
    """Reads values one by one. Methods raise :class:`Malformed` if the bytes end too early."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, count: int) -> bytes:
        if not 0 <= count <= self.left:
            raise Malformed(f"{count} bytes are needed, but only {self.left} are left")
        self.at += count
        return self.data[self.at - count : self.at]

    def value(self, kind: str) -> Any:
        if kind.endswith("?"):
            return self.value(kind[:-1]) if self.take(1)[0] else None
        match kind:
            case "boolean":
                return self.take(1)[0] != 0
            case "char":
                return self.utf16(2, "utf-16-be")
            case "bytes":
                return self.take(self.value("int"))
        return struct.unpack(_NUMBERS[kind], self.take(struct.calcsize(_NUMBERS[kind])))[0]

    def utf16(self, count: int, order: str) -> str:
        """Return the text of the next ``count`` bytes; ``order`` is their codec."""
        if count < 0 or count % 2:
            raise Malformed(f"a text in UTF-16 cannot have {count} bytes")
        return self.take(count).decode(order, "surrogatepass")
