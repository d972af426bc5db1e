"""The shared part of splitting incoming bytes into the frames of a binary protocol."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Bytes that are not a frame, or a frame whose body is unreadable. If ``lost`` is true, the
    reader stops here."""

    data: bytes
    reason: str
    lost: bool = False


class LengthPrefixedReader(Generic[F]):
    """Buffers bytes until they form a frame. Their content never causes an exception."""

    unit: ClassVar[str] = "frame"
    """The protocol's word for a frame."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._broken = False

    @property
    def pending(self) -> int:
        return len(self._pending)

    def feed(self, data: bytes) -> Iterator[F | Unreadable]:
        """Return the frames that ``data`` completes, but none after invalid bytes."""
        if self._broken:
            yield Unreadable(data, f"follows bytes that were no {self.unit}", lost=True)
            return
        self._pending += data
        while (frame := self._next()) is not None:
            yield frame
            if isinstance(frame, Unreadable) and frame.lost:
                self._broken = True
                self._pending.clear()
                return

    def _next(self) -> F | Unreadable | None:
        """Return and remove the next frame; None while it is incomplete."""
        raise NotImplementedError
