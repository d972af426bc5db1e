"""Large messages: the body is in its own file, the rest of the message in memory.

A :class:`LargeBody` exists as long as it is held: by its message's places in queues, a transaction,
a page with its message, a waiting frame or a delivery in progress. Its file is deleted at the end
of the input in which the last holder releases it, so the body may be passed on within an input
without being held.

Its bytes are not charged to its address's memory (manual, chapter on large messages), and are never
all in memory."""

from collections.abc import Callable, Iterator
from typing import Protocol

PIECE = 256 * 1024
"""Bytes of a body that are read at a time."""

Ranges = tuple[tuple[int, int], ...]
"""The parts of a body in order, each with its begin and end."""


class Files(Protocol):
    """The files of large bodies."""

    def read(
        self, body: "LargeBody", begin: int, count: int, then: Callable[[bytes | None], None]
    ) -> None:
        """Later, call ``then`` with these bytes, or with None if they are unreadable."""

    def idle(self, body: "LargeBody") -> None:
        """Record that nobody holds ``body`` now."""


class LargeBody:
    """``written`` of its ``length`` bytes are in its file, which may exist once it has ``begun``.
    ``is_text``: it is valid UTF-8, if that was checked. A ``damaged`` body can no longer be
    delivered."""

    __slots__ = (
        "begun",
        "damaged",
        "files",
        "holders",
        "id",
        "is_text",
        "length",
        "synced",
        "written",
    )

    def __init__(self, files: Files, id: int, size: int = 0) -> None:
        self.files = files
        self.id = id
        self.length = size
        self.written = 0
        self.holders = 0
        self.begun = self.damaged = self.is_text = self.synced = False

    @property
    def file(self) -> str:
        return f"large/{self.id:09d}.body"

    def retain(self) -> None:
        self.holders += 1

    def drop(self) -> None:
        """Release one hold."""
        self.holders -= 1
        if not self.holders:
            self.files.idle(self)


class LargeBodySlice:
    """The ranges of a large body that form a message's body in a protocol, without the bytes."""

    __slots__ = ("ranges", "whole")

    def __init__(self, whole: LargeBody, ranges: Ranges | None = None) -> None:
        self.whole = whole
        self.ranges = ((0, whole.length),) if ranges is None else ranges

    def __len__(self) -> int:
        return sum(end - begin for begin, end in self.ranges)


class SliceReader:
    """Reads a slice piece by piece, and holds the slice's body until it is closed."""

    def __init__(self, extract: LargeBodySlice) -> None:
        self._body = extract.whole
        self._pieces = _pieces(extract.ranges)
        self._next = next(self._pieces, None)
        self._then: Callable[[bytes | None], None] | None = None
        self.closed = self.waits = False
        """``waits``: a piece is being read."""
        self._body.retain()

    @property
    def is_over(self) -> bool:
        return self._next is None

    def ask(self, then: Callable[[bytes | None], None]) -> None:
        """Call ``then`` later with the next piece (None: unreadable), unless the reader has been
        closed before that."""
        assert self._next is not None
        begin, count = self._next
        self._next = next(self._pieces, None)
        self._then = then
        self.waits = True
        self._body.files.read(self._body, begin, count, self._came)

    def _came(self, data: bytes | None) -> None:
        then, self._then, self.waits = self._then, None, False
        if then is not None and not self.closed:
            then(data)

    def close(self) -> None:
        """Stop reading. This may be called repeatedly."""
        if not self.closed:
            self.closed = True
            self._body.drop()


def _pieces(ranges: Ranges) -> Iterator[tuple[int, int]]:
    for begin, end in ranges:
        for at in range(begin, end, PIECE):
            yield at, min(PIECE, end - at)


class ArrivingBody(Protocol):
    @property
    def length(self) -> int:
        """The number of bytes that have arrived."""

    def write(self, data: bytes) -> None:
        """Add the next bytes."""

    def finish(self) -> LargeBody:
        """Return the complete body, which is deleted unless held at the end of this input."""

    def abandon(self) -> None:
        """Give up the body: the rest will not arrive. May be called repeatedly, even after the
        end."""


class LargeBodies(Protocol):
    def begin(self, *, text: bool, failed: Callable[[str], None]) -> ArrivingBody:
        """Return a new body; ``text``: check whether it is UTF-8. ``failed`` is called with a
        sentence if it cannot be stored."""
