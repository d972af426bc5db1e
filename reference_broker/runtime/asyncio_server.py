"""Drives one sans-I/O broker over TCP, with TLS (:mod:`brokerproof.reference_broker.runtime.tls`)
if an acceptor has it. No other part of the broker uses connected sockets, a clock or asyncio.

Inputs are stamped with ``time.monotonic_ns()``; effects are carried out in order. One timer serves
``next_deadline()``. Everything sent to a connection within one turn of the loop is written at once.

Output to a slow reader waits here. Above :data:`WRITE_HIGH` bytes the broker is notified, so that
messages stay in their queues until the output falls below :data:`WRITE_LOW`. The peer's bytes are
still read, because they include heartbeats and acknowledgements. Only a peer that requests ever
more answers without reading them reaches :data:`WRITE_STOP`; then it is no longer read. A
connection for which more than :data:`WRITE_MOST` bytes wait is cut."""

import asyncio
import contextlib
import os
import signal
import socket
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from brokerproof.harness.model.broker_io import (
    AlarmChanged,
    BytesReceived,
    Close,
    Connected,
    Effect,
    FileLoaded,
    FilesStored,
    Input,
    LoadFile,
    PeerGone,
    Report,
    ResumeReading,
    SendBytes,
    StopReading,
    StoreFiles,
    TimerFired,
    WritePaused,
    WriteResumed,
)
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import NS_PER_S, Duration, Instant
from brokerproof.reference_broker.persistence.disk import Disk
from brokerproof.reference_broker.persistence.threads import FileThreads
from brokerproof.reference_broker.runtime.complaints import LoopComplaints, complain
from brokerproof.reference_broker.runtime.control_input import Control
from brokerproof.reference_broker.runtime.listening import BACKLOG, layers, listen, opened
from brokerproof.reference_broker.runtime.resource_sampler import EVERY_S, Readings
from brokerproof.reference_broker.runtime.tls import TlsLayer
from brokerproof.reference_broker.runtime.turns import Turns
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.settings import Settings

READ_LEAST, READ_FIRST, READ_MOST = 512, 16 * 1024, 256 * 1024
"""Bytes that a connection may submit in one turn of the loop: minimum, initial value, maximum."""
WRITE_LOW, WRITE_HIGH = 256 * 1024, 1024 * 1024
"""Bytes waiting for a slow reader: above the second it gets no messages, below the first again."""
WRITE_STOP = 16 * 1024 * 1024
"""A connection with more bytes waiting is not read until there are fewer than ``WRITE_LOW``."""
WRITE_MOST = 1024 * 1024 * 1024
"""A connection with more bytes waiting than this is cut. The limit is well above the largest
message."""
LINGER_S = 2.0
"""How long to accept and drop further input after the broker closed and everything was written."""
FLUSH_S = 30.0
"""The longest time that a closed connection may take to accept pending output."""
SHUT_S = 1.0
"""The longest time that connections may take to accept pending output when the broker stops."""
END_FILES_S = 30.0
"""The longest time that durable data may take to be written when the broker stops."""
ACCEPT_MOST = 64
"""The number of connections that one turn of the loop accepts from an acceptor."""
SILENT_S = 60.0
"""The longest TLS handshake if no handshake timeout is set."""


class SansIoBroker(Protocol):
    def handle(self, now: Instant, event: Input, /) -> Sequence[Effect]: ...

    def next_deadline(self) -> Instant | None: ...

    def end(self) -> Sequence[Effect]: ...

    @property
    def is_idle(self) -> bool: ...


class _Connection(asyncio.Protocol):
    """One accepted connection, known to the broker as ``conn``.

    Each turn of the loop gives every connection a share of its time
    (:class:`brokerproof.reference_broker.runtime.turns.Turns`). The read size of a connection that
    took longer is halved; that of one that took less than half is doubled. In a measurement, a
    ``BufferedProtocol`` with a shared buffer was no faster: the broker needs ``bytes``, so the
    saved allocation is spent on a copy."""

    transport: asyncio.Transport

    def __init__(self, server: "_Server", acceptor: Acceptor, tls: TlsLayer | None) -> None:
        self.server, self.acceptor, self.tls = server, acceptor, tls
        self.conn = 0
        self.remote = self.local = ""
        self.out: list[bytes] = []
        # The broker knows that the connection ended, ended it itself, or has not seen it yet.
        self.gone = tls is not None
        self.close_asked = self.closing = False
        self.stopped = self.choked = False
        self.share = READ_FIRST
        self.deadline: asyncio.TimerHandle | None = None

    # called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._share(READ_FIRST)
        transport.set_write_buffer_limits(high=WRITE_HIGH, low=WRITE_LOW)
        peer = transport.get_extra_info("peername")
        self.remote = f"{peer[0]}:{peer[1]}" if peer else "unknown"
        here = transport.get_extra_info("sockname")
        self.local = f"{here[0]}:{here[1]}" if here else ""
        with contextlib.suppress(OSError):
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.accepted(self)
        if self.tls is None:
            self._known()
        else:
            self._expect_end(self.acceptor.handshake_timeout_ms / 1000 or SILENT_S)

    def _known(self, certificate: str | None = None) -> None:
        self.gone = False
        self.server.feed(
            Connected(self.conn, self.acceptor.name, self.remote, certificate, self.local)
        )

    def data_received(self, data: bytes) -> None:
        began = time.thread_time_ns()
        if self.tls is not None:
            self._enciphered(self.tls, data)
        elif not self.gone:
            self.server.feed(BytesReceived(self.conn, data))
        took = time.thread_time_ns() - began
        filled = len(data) == self.share
        share = self.server.turns.share(filled)
        if took > share:
            self._share(max(READ_LEAST, self.share // 2))
        elif filled and took < share // 2:
            self._share(min(READ_MOST, 2 * self.share))

    def _share(self, size: int) -> None:
        self.share = self.transport.max_size = size  # type: ignore[attr-defined]

    def _enciphered(self, tls: TlsLayer, data: bytes) -> None:
        if self.closing:
            return
        new = not tls.established
        clear = tls.receive(data)
        self._write(tls.outgoing())
        if new and tls.established:
            if self.deadline is not None:
                self.deadline.cancel()
            self._known(tls.certificate())
        if clear and not self.gone:
            self.server.feed(BytesReceived(self.conn, clear))
        if tls.ended or tls.failed:
            self.end(CloseHow.EOF if tls.ended else CloseHow.RESET)
            self.server.flush_one(self)
            self.close()

    def eof_received(self) -> bool:
        self.server.turns.depart(self._on_eof)
        return True  # the transport closes when this connection's turn to depart arrives

    def _on_eof(self) -> None:
        self.end(CloseHow.EOF)
        self.server.flush_one(self)
        if not self.closing and self.transport.get_write_buffer_size() > 0:
            # The transport writes the rest before it closes, but not forever.
            self._expect_end(FLUSH_S)
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.turns.depart(partial(self._on_lost, CloseHow.RESET if exc else CloseHow.EOF))

    def _on_lost(self, how: CloseHow) -> None:
        self.end(how)
        if self.deadline is not None:
            self.deadline.cancel()
        self.server.connections.pop(self.conn, None)

    def pause_writing(self) -> None:
        if not self.gone:
            self.server.feed(WritePaused(self.conn))

    def resume_writing(self) -> None:
        if self.closing:
            self._flushed()
            return
        self.choked = False
        self._set_reading()
        if not self.gone:
            self.server.feed(WriteResumed(self.conn))

    # called by the server

    def end(self, how: CloseHow) -> None:
        if not self.gone:
            self.gone = True
            self.server.feed(PeerGone(self.conn, how))

    def flush(self) -> None:
        """Write the collected output to the socket."""
        data = self.out[0] if len(self.out) == 1 else b"".join(self.out)
        self.out.clear()
        if data and self.tls is not None:
            self.tls.write(data)
            data = self.tls.outgoing()
        self._write(data)

    def _write(self, data: bytes) -> None:
        if data and not self.transport.is_closing():
            self.transport.write(data)
            waiting = self.transport.get_write_buffer_size()
            if waiting > WRITE_MOST:
                complain(
                    f"connection {self.conn} from {self.remote} lets {WRITE_MOST} bytes wait; cut"
                )
                self.transport.abort()
            elif waiting > WRITE_STOP and not self.choked:
                self.choked = True
                self._set_reading()

    def pause(self, stopped: bool) -> None:
        self.stopped = stopped
        self._set_reading()

    def _set_reading(self) -> None:
        if self.closing or self.transport.is_closing():
            return
        if self.stopped or self.choked:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def close(self) -> None:
        """Write the rest, signal the end, and give the peer time to read it.

        Closing at once while the peer is still sending would trigger a reset, which makes the
        peer's host discard unread data, such as the ERROR frame that explains the close."""
        if self.closing or self.transport.is_closing():
            return
        self.gone = self.closing = True
        self.flush()
        self.take_leave()
        if self.transport.is_closing():
            return
        self.transport.resume_reading()
        self.transport.set_write_buffer_limits(high=0)
        try:
            self.transport.write_eof()
        except OSError:  # the peer has reset the connection, which asyncio has not noticed yet
            self.transport.abort()
            return
        self._expect_end(FLUSH_S)
        if self.transport.get_write_buffer_size() == 0:
            self._flushed()

    def take_leave(self) -> None:
        """Send the closing alert of TLS, if there is TLS."""
        if self.tls is not None:
            self.tls.close()
            self._write(self.tls.outgoing())

    def _flushed(self) -> None:
        self._expect_end(LINGER_S)

    def _expect_end(self, within: float) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
        self.deadline = self.server.loop.call_later(within, self.transport.abort)


class _Server:
    """One broker, its connections and its timer."""

    def __init__(
        self, broker: SansIoBroker, loop: asyncio.AbstractEventLoop, disk: Disk | None
    ) -> None:
        self.broker, self.loop = broker, loop
        self.files = None if disk is None else FileThreads(disk, self._answered)
        self.connections: dict[int, _Connection] = {}
        self._last = 0
        self._dirty: set[_Connection] = set()
        self._to_close: list[_Connection] = []
        self._flushing = False
        self._timer: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None
        self._armed: Instant = 0
        self.turns = Turns(loop.call_soon)
        self._not_before: Instant = 0

    def accepted(self, connection: _Connection) -> None:
        self._last += 1
        connection.conn = self._last
        self.connections[connection.conn] = connection

    def feed(self, event: Input) -> None:
        """Pass one input to the broker and carry out its effects.

        An exception from the broker is our bug, so it ends only the connection that triggered
        it."""
        try:
            effects = self.broker.handle(time.monotonic_ns(), event)
        except Exception as problem:
            self._survive(event, problem)
        else:
            self._apply(effects)
        self.arm()

    def _apply(self, effects: Sequence[Effect]) -> None:
        connections = self.connections
        for effect in effects:
            if isinstance(effect, Report):
                complain(effect.sentence)
                continue
            if isinstance(effect, StoreFiles | LoadFile):
                if self.files is not None:
                    self.files.carry_out(effect)
                continue
            if isinstance(effect, AlarmChanged):
                continue  # a broker process is not linked with others
            connection = connections.get(effect.conn)
            if connection is None or connection.close_asked:
                continue
            match effect:
                case SendBytes(data=data):
                    connection.out.append(data)
                    self._dirty.add(connection)
                case Close():
                    connection.gone = connection.close_asked = True
                    self._to_close.append(connection)
                case StopReading():
                    connection.pause(True)
                case ResumeReading():
                    connection.pause(False)
        if (self._dirty or self._to_close) and not self._flushing:
            # At the end of this turn, so that output caused by several peers is written together.
            self._flushing = True
            self.loop.call_soon(self.flush)

    def _survive(self, event: Input, problem: Exception) -> None:
        frame = traceback.extract_tb(problem.__traceback__)[-1]
        place = f"{frame.filename}:{frame.lineno}"
        conn: int | None = getattr(event, "conn", None)
        connection = None if conn is None else self.connections.get(conn)
        who = "a timer" if conn is None else f"connection {conn}"
        if connection is not None:
            who += f" from {connection.remote}"
        complain(
            f"our own error at {type(event).__name__} of {who}: {type(problem).__name__}: {problem}"
            f" ({place})"
        )
        if conn is None:
            # The deadline may be unchanged: do not retry at once.
            self._not_before = time.monotonic_ns() + NS_PER_S
        if conn is None or isinstance(event, PeerGone):
            return
        with contextlib.suppress(Exception):  # the broker forgets the connection if it still can
            self._apply(self.broker.handle(time.monotonic_ns(), PeerGone(conn, CloseHow.RESET)))
        if connection is not None:
            connection.gone = connection.close_asked = True
            self._to_close.append(connection)
            self.flush()

    def _answered(self, event: FilesStored | FileLoaded) -> None:
        """Accept an answer from another thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self.loop.call_soon_threadsafe(self.feed, event)

    async def end_files(self) -> None:
        """Write durable data before the broker ends; this may take at most :data:`END_FILES_S`."""
        if self.files is None:
            return
        self._apply(self.broker.end())
        until = self.loop.time() + END_FILES_S
        while not self.broker.is_idle and self.loop.time() < until:
            await asyncio.sleep(0.002)
        self.files.close()

    def flush(self) -> None:
        self._flushing = False
        dirty, self._dirty = self._dirty, set()
        for connection in dirty:
            connection.flush()
        closing, self._to_close = self._to_close, []
        for connection in closing:
            connection.close()

    def flush_one(self, connection: _Connection) -> None:
        if connection in self._dirty:
            self._dirty.discard(connection)
            connection.flush()

    async def shut(self) -> None:
        """End every connection cleanly, or forcibly after :data:`SHUT_S`."""
        self.flush()
        for connection in list(self.connections.values()):
            connection.gone = True
            connection.take_leave()
            connection.transport.close()
        for timer in (self._timer, self._reading):
            if timer is not None:
                timer.cancel()
        until = self.loop.time() + SHUT_S
        while self.connections and self.loop.time() < until:
            await asyncio.sleep(0.005)
        for connection in list(self.connections.values()):
            connection.transport.abort()

    def read(self, readings: Readings) -> None:
        """Send the broker readings of the machine, now and periodically."""
        self.feed(readings.read())
        self._reading = self.loop.call_later(EVERY_S, self.read, readings)

    # the timer

    def arm(self) -> None:
        """Set the timer to the next deadline or earlier; if it fires too early, it is set again."""
        due = self.broker.next_deadline()
        if due is None or (self._timer is not None and self._armed <= due):
            return
        due = max(due, self._not_before)
        if self._timer is not None:
            self._timer.cancel()
        self._armed = due
        self._timer = self.loop.call_at(due / NS_PER_S, self._fired)

    def _fired(self) -> None:
        self._timer = None
        due = self.broker.next_deadline()
        if due is not None and due <= time.monotonic_ns():
            self.feed(TimerFired())
        else:
            self.arm()


def _hear(loop: asyncio.AbstractEventLoop, control: int, control_input: Control) -> None:
    """Read from the control input; stop when it ends."""
    data = os.read(control, 65536)
    if data:
        control_input.read(data)
    else:
        loop.remove_reader(control)


async def serve(
    broker: SansIoBroker,
    settings: Settings,
    ready: Callable[[Mapping[str, int]], None],
    stop: asyncio.Event,
    disk: Disk | None = None,
    readings: Readings | None = None,
    control: int | None = None,
) -> None:
    """Open the acceptors, call ``ready`` with their ports by name, and serve until ``stop`` is set.

    Acceptors without a protocol in :data:`SPOKEN` stay closed. Raises :class:`CannotListen`, before
    anything is accepted, if any other acceptor cannot be opened. ``readings`` reports the machine's
    state, ``control`` is a source of limits
    (:mod:`brokerproof.reference_broker.runtime.control_input`)."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(LoopComplaints())
    server = _Server(broker, loop, disk)
    listeners: list[asyncio.Server] = []
    sockets: list[socket.socket] = []
    if readings is not None:
        server.read(readings)
    if control is not None:
        control_input = Control(server.feed, complain)
        loop.add_reader(control, _hear, loop, control, control_input)
    try:
        ports: dict[str, int] = {}
        for acceptor in opened(settings):
            layer = layers(acceptor)
            listening = listen(acceptor)
            ports[acceptor.name] = int(listening.getsockname()[1])
            sockets.append(listening)
            listeners.append(
                await loop.create_server(
                    lambda acceptor=acceptor, layer=layer: _Connection(server, acceptor, layer()),  # type: ignore[misc]
                    sock=listening,
                    backlog=ACCEPT_MOST,
                    start_serving=False,
                )
            )
        for listener in listeners:
            await listener.start_serving()
        for listening in sockets:
            # asyncio uses one number for the backlog and for the connections accepted per turn.
            listening.listen(BACKLOG)
        server.arm()
        ready(ports)
        await stop.wait()
    finally:
        if control is not None:
            loop.remove_reader(control)
        for listener in listeners:
            listener.close()
        await server.shut()
        await server.end_files()


def run(
    broker: SansIoBroker,
    settings: Settings,
    ready: Callable[[Mapping[str, int]], None],
    *,
    parent: int | None = None,
    disk: Disk | None = None,
    readings: Readings | None = None,
    control: int | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or the end of the process ``parent``. Raises
    :class:`CannotListen`."""

    async def until_signalled() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        watch = None if parent is None else loop.create_task(_watch(parent, stop))
        try:
            await serve(broker, settings, ready, stop, disk, readings, control)
        finally:
            if watch is not None:
                watch.cancel()

    asyncio.run(until_signalled())


def epoch() -> Duration:
    """Return what to add to an instant of this adapter to get nanoseconds since 1970."""
    return time.time_ns() - time.monotonic_ns()


def now() -> Instant:
    """Return the current instant on the clock that :func:`serve` uses."""
    return time.monotonic_ns()


async def _watch(pid: int, stop: asyncio.Event) -> None:
    """Set ``stop`` when the process ``pid`` ends.

    A pidfd becomes readable then. A death signal would be sent when the *thread* that started us
    ends, and a harness may start brokers from a short-lived thread. Without a pidfd, the process is
    polled every second."""
    try:
        handle = os.pidfd_open(pid)
    except (AttributeError, OSError):  # also if the process has ended
        while _lives(pid):
            await asyncio.sleep(1)
        stop.set()
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
        stop.set()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True
