"""Sends large bodies in pieces, read from their files no faster than the peer reads.

While a body is streamed to a connection, all other output to that connection waits in order, since
a frame must not be interrupted. The next piece is read when the transport has accepted the last one
and is not full, and no output waits for the disk. So at most one or two pieces are in memory."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from brokerproof.reference_broker.kernel.large_body import LargeBodySlice, SliceReader


class Layer(Protocol):
    """A layer between a connection and its transport."""

    def outgoing(self, data: bytes) -> bytes:
        """Return the bytes to write to the transport for ``data``."""

    def outgoing_part(self, data: bytes, *, first: bool, last: bool) -> bytes:
        """Return the bytes to write for ``data``, which is part of a streamed frame."""

    def close_asked(self) -> None:
        """Called when the connection wants to close; the layer closes it when it can."""


@dataclass(slots=True, eq=False)
class _Stream:
    """One streamed frame."""

    head: bytes
    reading: SliceReader
    tail: bytes
    layer: Layer | None
    made_of: Callable[[bytes], bytes] | None = None
    """If the body cannot be sent in pieces, the pieces are gathered, and this function converts the
    whole body to output."""
    gathered: list[bytes] = field(default_factory=list)
    first: bool = True


@dataclass(slots=True)
class _Line:
    """The sends waiting for one connection; the first is in progress. None stands for the close."""

    waiting: deque[_Stream | bytes | None] = field(default_factory=deque)
    moved: bool = False
    """True if anything was sent since this attribute was last read."""


class Streams:
    """``put`` accepts bytes for a connection and returns whether they must wait for the disk;
    ``close`` closes a connection; ``layer`` returns a connection's layer."""

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
        """Lines by connection."""
        self._paused: set[int] = set()
        self.watchers: dict[int, Callable[[bool], None]] = {}
        self.broken: list[int] = []
        """Connections that are useless because the rest of a message cannot be sent to them."""

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
        """Queue another stream: ``head``, the bytes of ``body`` and ``tail``, or what ``made_of``
        returns for the whole body."""
        stream = _Stream(head, SliceReader(body), tail, self._layer(conn), made_of)
        line = self.lines.get(conn)
        if line is not None:
            line.waiting.append(stream)
            return
        self.lines[conn] = _Line(deque([stream]))
        self._tell(conn, True)
        self.go_on(conn)

    def behind(self, conn: int, data: bytes | None) -> bool:
        """Queue ``data``, or the close, behind current streams; return False if there are none."""
        line = self.lines.get(conn)
        if line is None:
            return False
        line.waiting.append(data)
        return True

    def pause(self, conn: int, paused: bool) -> None:
        """Pause or resume sending to ``conn``, whose transport is full or has room again."""
        if paused:
            self._paused.add(conn)
        else:
            self._paused.discard(conn)
            self.go_on(conn)

    def go_on(self, conn: int) -> None:
        """Read the next piece for ``conn`` if permitted."""
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
        """Record that ``conn`` is dead."""
        self._paused.discard(conn)
        line = self.lines.pop(conn, None)
        for send in () if line is None else line.waiting:
            if isinstance(send, _Stream):
                send.reading.close()

    def stalled(self, conn: int) -> bool:
        """Return True if output to ``conn`` waits but none was sent since the last call."""
        line = self.lines.get(conn)
        if line is None:
            return False
        moved, line.moved = line.moved, False
        return not moved
