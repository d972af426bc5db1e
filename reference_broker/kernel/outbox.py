"""Collects the effects of one ``handle`` call; each connection gets at most one ``SendBytes``."""

import enum
from collections import deque
from collections.abc import Callable, Sequence

from brokerproof.harness.model.broker_io import (
    AlarmChanged,
    Close,
    Effect,
    Observe,
    ResumeReading,
    SendBytes,
    StopReading,
)
from brokerproof.reference_broker.kernel.large_body import LargeBodySlice
from brokerproof.reference_broker.kernel.streamed_sends import Layer, Streams


class PauseReason(enum.Enum):
    """Why an open connection is not read."""

    FILES = enum.auto()
    """The broker has fallen behind with writing files."""
    ROOM = enum.auto()
    """The address to which the connection sends is full."""
    ALARM = enum.auto()
    """The connection publishes, but the broker is short of memory or disk space."""
    FLOW = enum.auto()
    """The connection publishes faster than the queues can take messages."""


class Outbox:
    """Effects are in this order: observations as made, then for each connection its bytes, whether
    it is read, and its close.

    No confirmation is sent before its data is stored: a connection *waits for* the batch that
    contains the changes made by its own input, or made on its behalf by another connection's input,
    and for the batch of every entry delivered to it. Until that batch is stored nothing is sent to
    the connection. This applies to the whole connection rather than single frames, so it does not
    matter which buffers a frame passes through first (an AMQP session's window, a body in pieces, a
    full socket), or in which input it arrives. Order is always preserved."""

    def __init__(self) -> None:
        self.streams = Streams(self._put_now, self._close_now, self._layers_of)
        self._lines = self.streams.lines
        self._observed: list[Effect] = []
        self._chunks: dict[int, list[bytes]] = {}
        self._closed: list[int] = []
        self._layers: dict[int, Layer] = {}
        self._unread: dict[int, set[PauseReason]] = {}
        self._reading: dict[int, bool] = {}
        self._held: dict[int, deque[tuple[int, bytes | None]]] = {}
        self._free: list[Effect] = []
        self._waits_for: dict[int, int] = {}
        """The last batch, not yet stored, for which each connection waits."""
        self._concerned: set[int] = set()
        """Connections that this input affects, whether or not bytes are sent to them."""
        self._stored = 0
        """The last batch that has been stored."""

    @property
    def closed(self) -> Sequence[int]:
        """The connections whose transport closes with the next drain."""
        return self._closed

    def wrap(self, conn: int, layer: Layer) -> None:
        """Insert ``layer`` between ``conn`` and the transport."""
        self._layers[conn] = layer

    def unwrap(self, conn: int) -> None:
        """Remove the layer from ``conn``."""
        self._layers.pop(conn, None)

    def concern(self, conn: int) -> None:
        """Record that this input affects ``conn``. If the input changes durable data, output to the
        connection waits until that is stored."""
        self._concerned.add(conn)

    def wait_for(self, conn: int, batch: int) -> None:
        """Hold output to ``conn`` until ``batch`` and this input's changes are stored."""
        self._concerned.add(conn)
        if batch > self._stored:
            self._waits_for[conn] = max(batch, self._waits_for.get(conn, 0))

    def send(self, conn: int, data: bytes) -> None:
        """Send ``data`` to ``conn`` after everything sent before."""
        if self._layers:
            layer = self._layers.get(conn)
            if layer is not None:
                data = layer.outgoing(data)
        self.put(conn, data)

    def put(self, conn: int, data: bytes) -> None:
        """Send ``data`` without passing the layers above TCP."""
        if self._lines and self.streams.behind(conn, data):
            self._concerned.add(conn)
            return
        self._put_now(conn, data)

    def stream(self, conn: int, head: bytes, body: LargeBodySlice, tail: bytes) -> None:
        """Send ``head``, the bytes of ``body`` and ``tail`` to ``conn`` contiguously, as fast as
        the peer reads."""
        self._concerned.add(conn)
        self.streams.begin(conn, head, body, tail)

    def gather(self, conn: int, body: LargeBodySlice, made_of: Callable[[bytes], bytes]) -> None:
        """Read ``body`` and send ``made_of(bytes)``; for protocols that need the whole body."""
        self._concerned.add(conn)
        self.streams.begin(conn, b"", body, b"", made_of)

    def watch(self, conn: int, streams: Callable[[bool], None]) -> None:
        """Call ``streams`` whenever streaming to ``conn`` starts or ends."""
        self.streams.watchers[conn] = streams

    def pause_writing(self, conn: int, paused: bool) -> None:
        """Pause or resume streaming to ``conn``, whose peer does not read."""
        self.streams.pause(conn, paused)

    def on_peer_gone(self, conn: int) -> None:
        self.streams.on_peer_gone(conn)

    def _layers_of(self, conn: int) -> Layer | None:
        return self._layers.get(conn)

    def _put_now(self, conn: int, data: bytes) -> bool:
        """Return True if ``data`` waits for storage."""
        chunks = self._chunks.get(conn)
        if chunks is None:
            self._chunks[conn] = [data]
        else:
            chunks.append(data)
        return conn in self._held

    def close(self, conn: int) -> None:
        """Close ``conn`` after everything sent."""
        layer = self._layers.get(conn)
        if layer is not None:
            layer.close_asked()
        elif not self.streams.behind(conn, None):
            self._close_now(conn)

    def cut(self, conn: int) -> None:
        """Close ``conn`` immediately, ignoring its layer."""
        self._close_now(conn)

    def _close_now(self, conn: int) -> None:
        self._closed.append(conn)

    def stop_reading(self, conn: int, reason: PauseReason) -> None:
        """Stop reading ``conn`` until no ``reason`` remains: the transport blocks the peer."""
        reasons = self._unread.setdefault(conn, set())
        if not reasons:
            self._reading[conn] = False
        reasons.add(reason)

    def resume_reading(self, conn: int, reason: PauseReason) -> None:
        self._concerned.add(conn)
        reasons = self._unread.get(conn)
        if reasons is None:
            return
        reasons.discard(reason)
        if not reasons:
            del self._unread[conn]
            self._reading[conn] = True

    def forget(self, conn: int) -> None:
        """Forget ``conn``, which has ended."""
        self._unread.pop(conn, None)
        self._reading.pop(conn, None)
        self.streams.watchers.pop(conn, None)

    def observe(self, conn: int, requirement: str, detail: str) -> None:
        """Record that a branch implementing ``requirement`` was taken."""
        self._observed.append(Observe(conn, requirement, detail))

    def alarm(self, resource: str, short: bool) -> None:
        """Notify linked brokers that our own alarm was raised or cleared."""
        self._observed.append(AlarmChanged(resource, short))

    def drain(self, batch: int = 0) -> list[Effect]:
        """Return all collected effects and empty the outbox. With a ``batch``, effects for the
        connections of this input wait until it is stored."""
        waits_for = self._waits_for
        if batch:
            waits_for.update(dict.fromkeys((*self._chunks, *self._concerned), batch))
        self._concerned.clear()
        effects = self._observed
        if self._free:
            effects += self._free
            self._free = []
        for conn, chunks in self._chunks.items():
            data = b"".join(chunks) if len(chunks) > 1 else chunks[0]
            if conn in waits_for or conn in self._held:
                self._held.setdefault(conn, deque()).append((waits_for.get(conn, 0), data))
            else:
                effects.append(SendBytes(conn, data))
        effects.extend(
            ResumeReading(conn) if read else StopReading(conn)
            for conn, read in self._reading.items()
        )
        for conn in self._closed:
            if conn in self._held:
                self._held[conn].append((0, None))
            else:
                effects.append(Close(conn))
        self._observed = []
        self._chunks = {}
        self._closed = []
        self._reading.clear()
        return effects

    def release(self, batch: int) -> None:
        """Record that all batches up to ``batch`` are stored: output that waited for them is sent
        with the next drain."""
        self._stored = batch
        self._waits_for = {conn: last for conn, last in self._waits_for.items() if last > batch}
        for conn, held in list(self._held.items()):
            chunks: list[bytes] = []
            while held and held[0][0] <= batch:
                data = held.popleft()[1]
                if data is not None:
                    chunks.append(data)
                    continue
                self._let_go(conn, chunks)
                chunks = []
                self._free.append(Close(conn))
            self._let_go(conn, chunks)
            if not held:
                del self._held[conn]
                self.streams.go_on(conn)

    def _let_go(self, conn: int, chunks: list[bytes]) -> None:
        if chunks:
            self._free.append(SendBytes(conn, b"".join(chunks)))

    def give_up(self) -> list[int]:
        """Drop all effects that waited for a batch that cannot be stored; return their connections.

        A connection due to close after them is closed now; one with an incomplete large body is
        cut."""
        held, self._held = self._held, {}
        waited, self._waits_for = self._waits_for, {}
        self._free += [Close(conn) for conn, data in held.items() if data[-1][1] is None]
        self.streams.broken += [conn for conn in held if conn in self.streams]
        return list(held | waited)
