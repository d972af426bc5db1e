"""Forwards bytes between applications and a broker, and records the bytes and their times on a
tape.

Each side sees what the other does: bytes at once, the close of a direction, a reset, and
back-pressure (if one side does not read, nothing more is read from the other). If the tape cannot
be written, recording ends but traffic continues."""

import asyncio
import contextlib
import ipaddress
import json
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from brokerproof.harness.model.time import NS_PER_S, Duration, Instant, ms
from brokerproof.harness.targets.endpoint import Endpoint

HEAD = struct.Struct("<QIBI")
"""A record's instant (ns since 1970), connection, kind, and the size of its data."""
DATA, EOF, RESET, HELD, OPENED, TIME = range(0, 12, 2)
"""The kinds of record. For the first four, the number for the broker's side is higher by one."""
TAPE_BYTES = 8 << 20
"""The most bytes of a tape file, which covers at most :data:`TAPE_TIME`."""
TAPE_TIME: Duration = ms(500)
TICK_S = 0.1
LATE: Duration = ms(500)
"""If a side was not read for longer than this, it may have sent something in the meantime."""
_RTT = 68
"""The offset of ``tcpi_rtt`` in Linux's ``struct tcp_info``."""
_EPOCH = time.time_ns() - time.monotonic_ns()


def now() -> Instant:
    """Return nanoseconds since 1970 on a clock that is never adjusted."""
    return _EPOCH + time.monotonic_ns()


@dataclass
class Tape:
    """Files of records in ``folder``. ``ready`` receives each complete file."""

    folder: Path
    ready: Callable[[Path], object]
    failed: Callable[[OSError], object]
    _records: list[bytes] = field(default_factory=list)
    _size: int = 0
    _since: Instant = 0
    _files: int = 0
    _on: bool = True

    def note(self, kind: int, conn: int = 0, data: bytes = b"") -> None:
        if not self._on:
            return
        at = now()
        self._records += (HEAD.pack(at, conn, kind, len(data)), data)
        self._size += HEAD.size + len(data)
        self._since = self._since or at
        if self._size >= TAPE_BYTES or at - self._since >= TAPE_TIME:
            self.flush()

    def flush(self) -> None:
        records, self._records, self._size, self._since = self._records, [], 0, 0
        if not records or not self._on:
            return
        path = self.folder / f"{self._files:08d}.tape"
        self._files += 1
        try:
            path.write_bytes(b"".join(records))
        except OSError as problem:
            self._on = False
            self.failed(problem)
        else:
            self.ready(path)

    def end(self) -> None:
        """Write pending records and stop recording."""
        self.flush()
        self._on = False


def records(path: Path) -> Iterator[tuple[Instant, int, int, bytes]]:
    """Yield the instant, connection, kind and bytes of each record in a file."""
    tape, place = path.read_bytes(), 0
    while place < len(tape):
        at, conn, kind, size = HEAD.unpack_from(tape, place)
        place += HEAD.size + size
        yield at, conn, kind, tape[place - size : place]


class _Half(asyncio.Protocol):
    """One side of a connection; ``place`` is 0 for the application's side, 1 for the broker's."""

    transport: asyncio.Transport

    def __init__(self, relay: "Relay", conn: int, other: "_Half | None" = None) -> None:
        self._relay, self._conn, self.other = relay, conn, other
        self._place = 0 if other is None else 1
        self._paused_at: Instant = 0
        self.is_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._relay.halves.add(self)
        if self.other is None:
            transport.pause_reading()
            self._relay.reach_broker(self, _Half(self._relay, self._conn, self))
            return
        ends = self.other.transport, transport
        about = {"ends": [*map(_address, ends)], "rtt": max(map(_round_trip, ends))}
        self._note(OPENED, json.dumps(about).encode())
        if self.other.is_over:
            self.reset()
        else:
            self.other.other = self
            self.other.transport.resume_reading()

    def _note(self, kind: int, data: bytes = b"") -> None:
        self._relay.tape.note(kind + self._place, self._conn, data)

    def data_received(self, data: bytes) -> None:
        assert self.other is not None
        self.other.transport.write(data)
        self._relay.passed[self._place] += len(data)
        self._note(DATA, data)

    def eof_received(self) -> bool:
        assert self.other is not None
        self._note(EOF)
        self.is_over = True
        ends = (self.transport, self.other.transport)
        goes_on = not self.other.is_over and all(end.can_write_eof() for end in ends)
        if goes_on:
            self.other.transport.write_eof()
        else:
            for end in ends:
                end.close()
        return goes_on

    def connection_lost(self, exc: Exception | None) -> None:
        self._relay.halves.discard(self)
        was_over, self.is_over = self.is_over, True
        if exc is not None:
            self._note(RESET)
        if self.other is None:
            return
        if exc is not None:
            self.other.reset()
        elif not was_over:
            self.other.transport.close()

    def reset(self) -> None:
        """End the connection with RST."""
        self.is_over = True
        if (end := self.transport.get_extra_info("socket")) is not None:
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def pause_writing(self) -> None:
        assert self.other is not None
        self.other._paused_at = now()
        self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        assert self.other is not None
        self.other.is_held(now())
        self.other._paused_at = 0
        self.other.transport.resume_reading()

    def is_held(self, at: Instant) -> bool:
        """If this side has not been read for a long time, record this and return True."""
        is_held = bool(self._paused_at) and at - self._paused_at > LATE
        if is_held:
            self._note(HELD)
        return is_held

    def look(self, at: Instant) -> None:
        """Check for a reset on a side that is not being read."""
        if self.is_held(at) and self.transport.get_extra_info("socket").getsockopt(
            socket.SOL_SOCKET, socket.SO_ERROR
        ):
            self.connection_lost(ConnectionResetError())
            self.reset()


def _address(transport: asyncio.Transport) -> tuple[str, int]:
    host, port, *_ = transport.get_extra_info("peername")
    return ipaddress.ip_address(host.partition("%")[0]).packed.hex(), port


def _round_trip(transport: asyncio.Transport) -> Duration:
    """Return the round-trip time that the kernel has measured, or a second if there is none."""
    end: socket.socket = transport.get_extra_info("socket")
    with contextlib.suppress(OSError, AttributeError, struct.error):
        info = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RTT + 4)
        return int(struct.unpack_from("I", info, _RTT)[0]) * 1000
    return NS_PER_S


class Relay:
    """Connects each accepted connection to ``target``. Raises
    :class:`brokerproof.harness.worlds.tls.TlsFailed` for unusable files."""

    def __init__(
        self,
        target: Endpoint,
        tape: Tape,
        say: Callable[[str], object],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._target, self.tape, self._say, self._tls = target, tape, say, tls
        self._secure = None if target.tls is None else target.tls.context()
        self._tasks: set[asyncio.Task[None]] = set()
        self.halves: set[_Half] = set()
        self.accepted = 0
        self._is_refused = False
        self.passed = [0, 0]
        """The bytes from applications, and those from the broker."""

    async def listen(self, host: str, port: int) -> asyncio.Server:
        """Raises ``OSError``."""
        loop = asyncio.get_running_loop()
        return await loop.create_server(self._accept, host, port, ssl=self._tls)

    def _accept(self) -> _Half:
        self.accepted += 1
        return _Half(self, self.accepted)

    def reach_broker(self, application: _Half, broker: _Half) -> None:
        """Connect ``broker``, the broker's side; if that fails, refuse the application."""
        self._tasks.add(task := asyncio.ensure_future(self._connect(application, broker)))
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, application: _Half, broker: _Half) -> None:
        at, name = (self._target.host, self._target.port), self._target.host
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: broker,
                *at,
                ssl=self._secure,
                server_hostname=name if self._secure else None,
            )
        except OSError as problem:
            if not self._is_refused:
                self._say(f"{name}:{at[1]} cannot be reached ({problem})")
            self._is_refused = True
            application.reset()
        else:
            self._is_refused = False

    async def pass_time(self, until: asyncio.Event, every: Callable[[], object]) -> None:
        """Record the passing of time until the event is set; call ``every`` each time."""
        while not until.is_set():
            due = now() + round(TICK_S * NS_PER_S)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(until.wait(), TICK_S)
            at = now()
            # this process was late too, so it dated bytes that arrived in the meantime too late
            if at - due > LATE:
                self.tape.note(HELD)
            for half in [*self.halves]:
                half.look(at)
            self.tape.note(TIME)
            every()

    def end(self) -> None:
        """Close the tape, then all connections."""
        self.tape.end()
        for half in [*self.halves]:
            half.transport.close()
