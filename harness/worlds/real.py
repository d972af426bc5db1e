"""Real time: real sockets and the host's monotonic clock. The world waits in select, and dates
arrivals when select returns."""

import contextlib
import heapq
import os
import selectors
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeAlias

from brokerproof.harness.model.enums import Clock, CloseHow
from brokerproof.harness.model.time import NS_PER_S, Duration, Instant, seconds
from brokerproof.harness.worlds.bounds import CHECK_EVERY, CaseBounds, RunBounds
from brokerproof.harness.worlds.broker_core_waits import SchedulerDelay
from brokerproof.harness.worlds.host_clock import HOST_CLOCK, HostClock
from brokerproof.harness.worlds.socket_close import SocketCloseTracker
from brokerproof.harness.worlds.tls import Certificate, Tls, TlsFailed, TlsLayer
from brokerproof.harness.worlds.wake_up_lateness import Canary
from brokerproof.harness.worlds.world import Channel, Receiver, Unreachable

_READ = 256 * 1024
_CONNECT_TIMEOUT_S = 10.0
_AGREE_WITHIN: Duration = seconds(10)


Accepted: TypeAlias = Callable[[], tuple[Receiver, Callable[[Channel], None]]]
"""Called for each incoming connection: returns the receiver of the connection and a function that
takes its channel."""


class Watched(Protocol):
    """A file descriptor that a :class:`RealWorld` serves while it waits."""

    def fileno(self) -> int: ...

    def ready(self, mask: int) -> None:
        """Handle an event that select reported."""

    def close(self) -> None:
        """Close it; no effect if it is already closed."""


class _Socket:
    """One non-blocking TCP connection, with or without TLS."""

    def __init__(
        self,
        world: "RealWorld",
        acceptor: str,
        connection: socket.socket,
        receiver: Receiver,
        tls: TlsLayer | None,
    ) -> None:
        self._world, self._socket, self._receiver = world, connection, receiver
        self._acceptor, self._tls = acceptor, tls
        self._close_tracker = SocketCloseTracker(is_local=world.is_local)
        self._unsent = bytearray()
        self._received = 0
        self._open = self._writable = True
        self._reading = True
        self._closing = False
        try:
            self.remote = _place(connection.getpeername())
        except OSError:  # reset immediately
            self.remote = "a closed connection"
        self.local = _place(connection.getsockname())

    @property
    def security(self) -> str:
        return self._tls.brief() if self._tls is not None else ""

    @property
    def all_received(self) -> bool:
        return self._close_tracker.all_received

    def secure(self, certificate: Certificate | None = None) -> None:
        self._tls = self._world.tls_layer(self._acceptor, certificate)
        if self._tls is not None:
            self._unsent += self._tls.outgoing()
            self._flush()

    @property
    def unsent(self) -> int:
        """The number of bytes that wait until the socket accepts them."""
        return len(self._unsent)

    def fileno(self) -> int:
        return self._socket.fileno()

    def write(self, data: bytes) -> None:
        if self._writable:
            if self._tls is not None:
                self._tls.write(data)
                data = self._tls.outgoing()
            self._unsent += data
            self._flush()

    def half_close(self) -> None:
        if self._writable:
            self._say_goodbye()
            self._writable = False
            self._closing = True
            self._flush()

    def close(self) -> None:
        if self._open:
            if self._writable:
                self._say_goodbye()
            self._writable = False
            self._end()

    def _say_goodbye(self) -> None:
        """End TLS before TCP, since TLS has its own close."""
        if self._tls is not None:
            self._tls.close()
            self._unsent += self._tls.outgoing()
            self._flush()

    def cut(self) -> None:
        if self._open:
            # A linger time of zero makes close() send RST and discard unsent data.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._end()

    def hold_reading(self, held: bool) -> None:
        self._reading = not held
        self._watch()

    def ready(self, mask: int) -> None:
        """Handle an event that select reported."""
        if mask & selectors.EVENT_WRITE:
            self._flush()
        if mask & selectors.EVENT_READ and self._open:
            self._read()

    def _read(self) -> None:
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError as problem:
            self._gone(self._close_tracker.finish(problem))
            return
        if not data:
            self._gone(self._close_tracker.finish())
            return
        self._close_tracker.read(len(data), more=len(data) == _READ)
        self._received += len(data)
        self._world.bounds.on_bytes_received(self._world.now(), len(data), self._received)
        if self._tls is None:
            self._receiver.bytes_arrived(self._world.now(), data)
        else:
            self._deciphered(self._tls, data)

    def _deciphered(self, tls: TlsLayer, data: bytes) -> None:
        clear = tls.receive(data)
        self._unsent += tls.outgoing()
        self._flush()
        if clear:
            self._receiver.bytes_arrived(self._world.now(), clear)
        if self._open and (tls.ended or tls.failed):
            self._gone(CloseHow.EOF if tls.ended else CloseHow.RESET)

    def _flush(self) -> None:
        while self._unsent and self._open:
            try:
                sent = self._socket.send(self._unsent)
            except BlockingIOError:
                break
            except OSError as problem:
                # The broker closed the connection. Its earlier bytes can still be read and may say
                # why.
                self._close_tracker.unsent(problem)
                self._unsent.clear()
                break
            del self._unsent[:sent]
        if self._closing and not self._unsent and self._open:
            self._closing = False
            with contextlib.suppress(OSError):  # already closed; a read will show how
                self._socket.shutdown(socket.SHUT_WR)
        self._watch()

    def _watch(self) -> None:
        if self._open:
            events = selectors.EVENT_READ if self._reading else 0
            if self._unsent:
                events |= selectors.EVENT_WRITE
            self._world.watch(self, events)

    def fail(self) -> None:
        """Close the connection because the TLS handshake failed, and notify its user."""
        self._world.at(self._world.now(), lambda: self._gone(CloseHow.RESET))

    def _gone(self, how: CloseHow) -> None:
        at = self._world.now()
        self._end()
        self._receiver.channel_closed(at, how)

    def _end(self) -> None:
        self._open = self._writable = False
        self._world.watch(self, 0)
        self._socket.close()


class _Listener:
    """A port for incoming connections. ``accepted`` returns the receiver of each connection, and a
    function that takes its channel."""

    def __init__(self, world: "RealWorld", accepted: Accepted) -> None:
        self._world, self._accepted = world, accepted
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]

    def fileno(self) -> int:
        return self._socket.fileno()

    def ready(self, mask: int) -> None:
        with suppress(OSError):  # the peer has already left
            connection, _ = self._socket.accept()
            receiver, use = self._accepted()
            use(self._world.attach(connection, receiver))

    def close(self) -> None:
        self._socket.close()


def _place(address: object) -> str:
    return "{}:{}".format(*address[:2]) if isinstance(address, tuple) else "a pipe"


class RealWorld:
    """Connections to acceptors at ``endpoints`` (host and port by acceptor name), with TLS for
    those in ``tls``. For ``is_local`` see
    :class:`brokerproof.harness.targets.sockets.SocketTarget`. Without ``bounds``, there is no
    limit. ``pages`` is the paging folder of a broker that we started. Instants and durations are on
    ``host_clock``."""

    clock = Clock.REAL

    def __init__(
        self,
        endpoints: Mapping[str, tuple[str, int]],
        canary: Canary,
        tls: Mapping[str, Tls] | None = None,
        *,
        is_local: bool = False,
        bounds: RunBounds | None = None,
        pages: Path | None = None,
        host_clock: HostClock = HOST_CLOCK,
    ) -> None:
        self.is_local = is_local
        self._pages = pages
        self._clock = host_clock
        self.bounds = CaseBounds(bounds)
        self._endpoints, self._canary, self._tls = endpoints, canary, tls or {}
        self._selector = selectors.DefaultSelector()
        self._watched: dict[Watched, int] = {}
        self._sockets: list[Watched] = []
        self._timers: list[tuple[Instant, int, Callable[[], None]]] = []
        self._order = 0
        self._endings: list[Callable[[], None]] = []
        self._client: SchedulerDelay | None = None
        self._client_waited: Duration = 0

    def now(self) -> Instant:
        return self._clock.now()

    def lateness(self, since: Instant, until: Instant | None = None) -> Duration:
        late = self._canary.worst(since, until)
        if self._client is not None:
            self._client_waited += self._client.worst()
        return late + self._client_waited

    def of_host(self, duration: Duration) -> Duration:
        return self._clock.of_host(duration)

    def page_files(self, content: bytes) -> Mapping[str, int]:
        if self._pages is None:
            raise Unreachable("the folder of this broker's files is not known")
        files: dict[str, int] = {}
        paths = [
            Path(folder, name)
            for folder, _, names in os.walk(self._pages)
            for name in names
            if name.endswith(".page")
        ]
        for path in paths:
            with suppress(FileNotFoundError):  # removed since the listing
                data = path.read_bytes()
                if content in data:
                    files[str(path.relative_to(self._pages))] = len(data)
        return files

    def endpoint(self, acceptor: str) -> tuple[str, int]:
        """Return the acceptor's host and port, for clients that open their own sockets. Raises
        :class:`Unreachable`."""
        if acceptor not in self._endpoints:
            raise Unreachable(
                f"the target has no acceptor {acceptor!r}; it has"
                f" {', '.join(sorted(self._endpoints))}"
            )
        return self._endpoints[acceptor]

    def moved(
        self, endpoints: Mapping[str, tuple[str, int]], tls: Mapping[str, Tls] | None = None
    ) -> None:
        """Use new endpoints and, if given, new TLS settings from now on; open connections stay."""
        self._endpoints = endpoints
        self._tls = self._tls if tls is None else tls

    def tls(self, acceptor: str) -> Tls | None:
        """Return the acceptor's TLS settings, for clients that open their own sockets; None without
        TLS."""
        return self._tls.get(acceptor)

    def adopt(self, foreign: Watched) -> None:
        """Serve ``foreign``: notify it when it is readable, and close it when this world closes."""
        self._sockets.append(foreign)
        self.watch(foreign, selectors.EVENT_READ)

    def at(self, instant: Instant, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._timers, (instant, self._order, action))

    def open(
        self,
        acceptor: str,
        receiver: Receiver,
        certificate: Certificate | None = None,
        *,
        plain: bool = False,
    ) -> _Socket:
        host, port = self.endpoint(acceptor)
        try:
            connection = socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S)
        except OSError as problem:
            raise Unreachable(
                f"{host}:{port} does not accept connections ({problem}); is the broker running?"
            ) from None
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tls = None if plain else self.tls_layer(acceptor, certificate)
        if tls is not None:
            self._agree(connection, tls, tolerant=certificate is not None)
        connection.setblocking(False)
        channel = _Socket(self, acceptor, connection, receiver, tls)
        self.adopt(channel)
        if tls is not None and tls.failed:
            channel.fail()
        return channel

    def listen(self, accepted: Accepted) -> int:
        """Accept connections until this world ends; return the port."""
        listener = _Listener(self, accepted)
        self.adopt(listener)
        return listener.port

    def attach(self, connection: socket.socket, receiver: Receiver) -> Channel:
        """Take over a connection that was opened elsewhere; return its channel."""
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        channel = _Socket(self, "", connection, receiver, None)
        self.adopt(channel)
        return channel

    def watch_client(self, pid: int) -> None:
        """From now on, count the time for which threads of this process (a client on trial) wait
        for a core as lateness of the host."""
        self._client = SchedulerDelay(pid)
        self._client.worst()

    def on_close(self, action: Callable[[], None]) -> None:
        """Run ``action`` when this world closes, after every connection."""
        self._endings.append(action)

    def tls_layer(self, acceptor: str, certificate: Certificate | None = None) -> TlsLayer | None:
        """Return the TLS layer for one connection to the acceptor; None without TLS. Raises
        :class:`Unreachable`."""
        tls = self._tls.get(acceptor)
        if tls is None:
            return None
        try:
            return TlsLayer(tls.context(certificate), self.endpoint(acceptor)[0])
        except TlsFailed as problem:
            raise Unreachable(str(problem)) from None

    def _agree(self, connection: socket.socket, tls: TlsLayer, *, tolerant: bool) -> None:
        """Perform the handshake. If it fails, raises :class:`Unreachable` unless ``tolerant``."""

        def say() -> None:
            with contextlib.suppress(
                OSError
            ):  # the broker closed; its earlier bytes can still be read
                connection.sendall(tls.outgoing())

        deadline = self.now() + self._clock.of_host(_AGREE_WITHIN)
        try:
            say()
            while not tls.established and not tls.failed:
                data = connection.recv(_READ)
                if not data:
                    tls.failed = (
                        "the connection ended during the TLS handshake; does this port speak TLS?"
                    )
                    break
                tls.receive(data)
                say()
                if self.now() > deadline and not tls.established:
                    raise TimeoutError("timed out")
        except OSError as problem:
            tls.failed = tls.failed or f"the connection broke during the TLS handshake ({problem})"
        if tls.failed and not tolerant:
            host, port = connection.getpeername()[:2] if connection.fileno() >= 0 else ("?", 0)
            connection.close()
            raise Unreachable(f"{host}:{port}: {tls.failed}")

    def watch(self, channel: Watched, events: int) -> None:
        """Watch for ``events`` of this channel; with 0, stop watching."""
        before = self._watched.get(channel, 0)
        if events == before:
            return
        if events == 0:
            self._selector.unregister(channel)
            del self._watched[channel]
        else:
            (self._selector.modify if before else self._selector.register)(channel, events)
            self._watched[channel] = events

    def wait_until(self, ready: Callable[[], bool], deadline: Instant) -> bool:
        while not ready():
            now = self.now()
            self.bounds.check(now)
            if self._timers and self._timers[0][0] <= min(now, deadline):
                heapq.heappop(self._timers)[2]()
                continue
            if now >= deadline:
                return False
            wake_at = min([deadline, *(due for due, _, _ in self._timers[:1])])
            waiting_s = self._clock.waiting_s(wake_at - now)
            for key, mask in self._selector.select(min(waiting_s, CHECK_EVERY / NS_PER_S)):
                key.fileobj.ready(mask)  # type: ignore[union-attr]
        return True

    def close(self) -> None:
        for channel in self._sockets:
            channel.close()
        self._selector.close()
        for action in self._endings:
            action()
        self.bounds.close()
