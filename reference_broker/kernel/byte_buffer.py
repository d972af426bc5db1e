"""The bytes of one connection that have not yet been parsed into frames."""


class ByteBuffer:
    """Keeps chunks separate until a reader needs bytes across chunk boundaries.

    So parsing a frame takes time linear in its length, however many pieces it arrives in."""

    def __init__(self) -> None:
        self._data = b""
        self._at = 0
        self._later: list[bytes] = []
        self._waiting = 0  # bytes in _later

    def feed(self, data: bytes) -> None:
        if self._at == len(self._data):
            self._data = data
            self._at = 0
        else:
            self._later.append(data)
            self._waiting += len(data)

    def has(self, count: int) -> bool:
        """Return True if ``count`` bytes have arrived; these are then contiguous in ``_data``."""
        left = len(self._data) - self._at
        if left >= count:
            return True
        if left + self._waiting < count:
            return False
        self._data = b"".join((self._data[self._at :], *self._later))
        self._at = 0
        self._waiting = 0
        self._later.clear()
        return True

    def take(self, count: int) -> bytes | None:
        """Remove and return the next ``count`` bytes; None if fewer have arrived."""
        if not self.has(count):
            return None
        self._at += count
        return self._data[self._at - count : self._at]

    def peek(self, count: int) -> bytes:
        """Return up to ``count`` of the next bytes without removing them."""
        self.has(min(count, len(self._data) - self._at + self._waiting))
        return self._data[self._at : self._at + count]

    def clear(self) -> None:
        """Discard the unread bytes."""
        self._data = b""
        self._at = 0
        self._waiting = 0
        self._later.clear()
