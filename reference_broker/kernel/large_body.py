"""Large messages: bodies that lie in files of their own while everything else of the message is in
memory.

A :class:`LargeBody` is there as long as somebody holds it: the places of its message in queues, a
transaction, the page that its message lies on, a frame that waits, a delivery that is on its way.
When the last of them is done with it, its file goes, at the end of the input in which that was: so
it may pass from hand to hand without being held between.

Its bytes do not count for the memory of its address (manual, chapter on large messages), and are
never in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

PIECE = 256 * 1024
"""Bytes of a body that are read at once."""

Ranges = tuple[tuple[int, int], ...]
"""Parts of a body, in order: begin and end of each."""


class Files(Protocol):
    """The files of large bodies."""

    def read(
        self, body: LargeBody, begin: int, count: int, then: Callable[[bytes | None], None]
    ) -> None:
        """Calls ``then`` later with these bytes, or with None if they cannot be read."""

    def idle(self, body: LargeBody) -> None:
        """Nobody holds ``body`` now."""


class LargeBody:
    """``length`` is its length, of which ``written`` are in its file, which may be there once it
    has ``begun``; ``is_text`` says that it is UTF-8 as a whole, where that was asked for. A body
    that was found ``damaged`` cannot be delivered to anybody any more."""

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
        """One less needs it."""
        self.holders -= 1
        if not self.holders:
            self.files.idle(self)


class LargeBodySlice:
    """The ranges of a large body that are the body of a message, as a protocol sees it. It has a
    length and no bytes."""

    __slots__ = ("ranges", "whole")

    def __init__(self, whole: LargeBody, ranges: Ranges | None = None) -> None:
        self.whole = whole
        self.ranges = ((0, whole.length),) if ranges is None else ranges

    def __len__(self) -> int:
        return sum(end - begin for begin, end in self.ranges)


class SliceReader:
    """Reads an extract piece by piece, and holds its body meanwhile. One piece is under way at a
    time."""

    def __init__(self, extract: LargeBodySlice) -> None:
        self._body = extract.whole
        self._pieces = _pieces(extract.ranges)
        self._next = next(self._pieces, None)
        self._then: Callable[[bytes | None], None] | None = None
        self.closed = self.waits = False
        """``waits``: a piece is under way."""
        self._body.retain()

    @property
    def is_over(self) -> bool:
        return self._next is None

    def ask(self, then: Callable[[bytes | None], None]) -> None:
        """``then`` is called later with the next piece, None if it cannot be read; not if this is
        closed by then."""
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
        """Nothing more is wanted. May be called again."""
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
        """Return the body, which is complete. It is removed again unless it is held at the end of
        this input."""

    def abandon(self) -> None:
        """The rest will not arrive. May be called again, and after the end."""


class LargeBodies(Protocol):
    def begin(self, *, text: bool, failed: Callable[[str], None]) -> ArrivingBody:
        """Return a new body; with ``text`` it is noted whether it is UTF-8. ``failed`` is called
        with a sentence if it cannot be stored."""
