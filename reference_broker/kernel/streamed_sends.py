"""Sends of large bodies in pieces, read from their files no faster than the peer takes them.

While something is on its way to a connection, all else for it waits behind, in order: a frame is
not interrupted. The next piece is read when the last is with the transport, the transport is not
full, and nothing of it waits for the disk; so there is never more than a piece or two in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from brokerproof.reference_broker.kernel.large_body import LargeBodySlice, SliceReader


class Layer(Protocol):
    """Something between a connection and its transport."""

    def outgoing(self, data: bytes) -> bytes:
        """Return the bytes that go to the transport for ``data``."""

    def outgoing_part(self, data: bytes, *, first: bool, last: bool) -> bytes:
        """Likewise, for some bytes of something that leaves in parts."""

    def close_asked(self) -> None:
        """The connection wants to be closed; the layer does it when it is time."""


@dataclass(slots=True, eq=False)
class _Stream:
    """One thing that leaves in pieces."""

    head: bytes
    reading: SliceReader
    tail: bytes
    layer: Layer | None
    made_of: Callable[[bytes], bytes] | None = None
    """Makes what leaves of the whole, where it cannot leave in pieces: then the pieces are
    gathered."""
    gathered: list[bytes] = field(default_factory=list)
    first: bool = True


@dataclass(slots=True)
class _Line:
    """The sends waiting for one connection; the first is under way. None stands for the close of
    the connection."""

    waiting: deque[_Stream | bytes | None] = field(default_factory=deque)
    moved: bool = False
    """True if anything left since this was last read."""


class Streams:
    """``put`` takes bytes for a connection and says whether they have to wait for the disk;
    ``close`` closes one; ``layer`` is what stands between one and its transport."""

    def __init__(
        self,
        put: Callable[[int, bytes], bool],
        close: Callable[[int], None],
        layer: Callable[[int], Layer | None],
    ) -> None:
        self._put = put
        self._close = close
        self._layer = layer
        self.lines: dict[int, _Line] = {}
        """By connection."""
        self._paused: set[int] = set()
        self.watchers: dict[int, Callable[[bool], None]] = {}
        self.broken: list[int] = []
        """Connections to which something cannot be sent to its end: they are of no more use."""

    def __contains__(self, conn: int) -> bool:
        return conn in self.lines

    def begin(
        self,
        conn: int,
        head: bytes,
        body: LargeBodySlice,
        tail: bytes,
        made_of: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """One more thing is to leave: ``head``, the bytes of ``body`` and ``tail``, or what is
        ``made_of`` them as a whole."""
        stream = _Stream(head, SliceReader(body), tail, self._layer(conn), made_of)
        line = self.lines.get(conn)
        if line is not None:
            line.waiting.append(stream)
            return
        self.lines[conn] = _Line(deque([stream]))
        self._tell(conn, True)
        self.go_on(conn)

    def behind(self, conn: int, data: bytes | None) -> bool:
        """Puts ``data``, or the end of the connection, behind what is on its way; False if nothing
        is."""
        line = self.lines.get(conn)
        if line is None:
            return False
        line.waiting.append(data)
        return True

    def pause(self, conn: int, paused: bool) -> None:
        """True if the transport of ``conn`` is full."""
        if paused:
            self._paused.add(conn)
        else:
            self._paused.discard(conn)
            self.go_on(conn)

    def go_on(self, conn: int) -> None:
        """Reads the next piece for ``conn``, if it may."""
        line = self.lines.get(conn)
        if line is None or conn in self._paused:
            return
        stream = line.waiting[0]
        assert isinstance(stream, _Stream)
        if not stream.reading.waits:
            stream.reading.ask(lambda data: self._came(conn, stream, data))

    def _came(self, conn: int, stream: _Stream, raw: bytes | None) -> None:
        line = self.lines[conn]
        line.moved = True
        if raw is None:
            self.broken.append(conn)
            return
        last = stream.reading.is_over
        if stream.made_of is not None:
            stream.gathered.append(raw)
            if not last:
                self.go_on(conn)
                return
            raw = stream.made_of(b"".join(stream.gathered))
            stream.gathered.clear()
        data = raw
        if stream.first or last:
            data = b"".join(
                (stream.head if stream.first else b"", raw, stream.tail if last else b"")
            )
        if stream.layer is not None:
            data = stream.layer.outgoing_part(data, first=stream.first, last=last)
        stream.first = False
        held = self._put(conn, data)
        if not last:
            if not held:
                self.go_on(conn)
            return
        stream.reading.close()
        line.waiting.popleft()
        self._next(conn, line)

    def _next(self, conn: int, line: _Line) -> None:
        while line.waiting:
            first_waiting = line.waiting[0]
            if isinstance(first_waiting, _Stream):
                self.go_on(conn)
                return
            line.waiting.popleft()
            if first_waiting is None:
                self._close(conn)
            else:
                self._put(conn, first_waiting)
        del self.lines[conn]
        self._tell(conn, False)

    def _tell(self, conn: int, streams: bool) -> None:
        watcher = self.watchers.get(conn)
        if watcher is not None:
            watcher(streams)

    def on_peer_gone(self, conn: int) -> None:
        """``conn`` can carry nothing more."""
        self._paused.discard(conn)
        line = self.lines.pop(conn, None)
        for send in () if line is None else line.waiting:
            if isinstance(send, _Stream):
                send.reading.close()

    def stalled(self, conn: int) -> bool:
        """True if nothing has left to ``conn`` since this was asked last, although something
        waits."""
        line = self.lines.get(conn)
        if line is None:
            return False
        moved, line.moved = line.moved, False
        return not moved
