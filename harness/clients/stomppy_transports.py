"""stomp.py, the common STOMP client for Python, as a peer. No other module imports it.

It has two forms. *Over sockets* stomp.py is unmodified, with its own socket and threads; we only
observe its transport to record the bytes. *In memory* the transport writes to and reads from a
harness channel, and the heartbeat loop uses the world's deadlines. Without threads, sockets or
sleeps, a case drives the real client reproducibly in virtual time."""

import os
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from math import ceil
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any

# Without this the import resolves this host's name, which takes seconds without a name service.
os.environ.setdefault("STOMP_SKIP_HOSTNAME_SCAN", "1")

import stomp
import stomp.exception
import stomp.listener
import stomp.transport
from stomp.connect import BaseConnection
from stomp.protocol import Protocol10, Protocol11, Protocol12

from brokerproof.harness.clients.stomppy_peer import StompPyPeer, Tell
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import NS_PER_S, Instant
from brokerproof.harness.protocols.conversation import ControlFailed, Judge
from brokerproof.harness.protocols.stomp.codec import Frame, HeadersLike, header_list
from brokerproof.harness.worlds.real import RealWorld
from brokerproof.harness.worlds.socket_close import SocketCloseTracker
from brokerproof.harness.worlds.thread_bridge import ThreadBridge
from brokerproof.harness.worlds.world import Unreachable

_READ = 16384
"""The default size of stomp.py's reads; in memory, arrivals are split in the same way."""
_JOIN_S = 5.0
_UNSENDABLE = (OSError, stomp.exception.NotConnectedException)
_CLOCKED = (
    "on_connected",
    "on_send",
    "_HeartbeatListener__update_heartbeat",
    "_HeartbeatListener__heartbeat_loop",
)
"""The functions of stomp.py's heartbeating that read a clock or sleep."""


# --- stomp.py's connections, around a transport of ours -------------------------------------------


class _Connection10(stomp.StompConnection10):  # type: ignore[misc]
    def __init__(self, transport: Any, heart_beat: tuple[int, int]) -> None:
        BaseConnection.__init__(self, transport)
        Protocol10.__init__(self, transport)


class _Connection11(stomp.StompConnection11):  # type: ignore[misc]
    def __init__(self, transport: Any, heart_beat: tuple[int, int]) -> None:
        BaseConnection.__init__(self, transport)
        Protocol11.__init__(self, transport, heart_beat)


class _Connection12(stomp.StompConnection12):  # type: ignore[misc]
    def __init__(self, transport: Any, heart_beat: tuple[int, int]) -> None:
        BaseConnection.__init__(self, transport)
        Protocol12.__init__(self, transport, heart_beat)


_CONNECTIONS: dict[str, Any] = {"1.0": _Connection10, "1.1": _Connection11, "1.2": _Connection12}


class _Ears(stomp.ConnectionListener):  # type: ignore[misc]
    """A listener that reports what stomp.py passes to its listeners."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def on_connecting(self, host_and_port: tuple[str, int]) -> None:
        self._tell("opened", None)

    def on_connected(self, frame: Any) -> None:
        self._tell("frame", frame)

    on_message = on_receipt = on_error = on_connected

    def on_heartbeat_timeout(self) -> None:
        self._tell("note", "stomp.py missed the broker's heart-beats and gave the connection up")

    def on_disconnected(self) -> None:
        self._tell("note", "stomp.py reported to its listeners that the connection ended")


# --- in memory ------------------------------------------------------------------------------------


class _MemoryTransport(stomp.transport.BaseTransport):  # type: ignore[misc]
    """stomp.py's transport without a thread: it writes through ``write`` and reads what
    :meth:`feed` receives."""

    running: bool

    def __init__(
        self,
        vhost: str | None,
        dial: Callable[[], None],
        write: Callable[[bytes], None],
        tell: Tell,
    ) -> None:
        super().__init__(auto_decode=False)
        self.vhost = vhost
        self._dial, self._write, self._tell = dial, write, tell
        self._arrived: deque[bytes] = deque()
        self._over = False
        self._io_loop: Callable[[], None] = lambda: None
        self.override_threading(self._instead_of_a_thread)

    def _instead_of_a_thread(self, io_loop: Callable[[], None]) -> None:
        self._io_loop = io_loop

    def attempt_connection(self) -> None:
        self._dial()
        # The host of a 1.2 connection without vhost.
        self.current_host_and_port: tuple[str, int] | None = ("localhost", 61613)

    def send(self, encoded_frame: bytes) -> None:
        if not self.running:
            raise stomp.exception.NotConnectedException
        self._write(encoded_frame)

    def receive(self) -> bytes:
        if self._arrived:
            return self._arrived.popleft()
        if self._over:
            return b""
        # stomp.py's signal that there is nothing to read yet
        raise ssl.SSLWantReadError

    def feed(self, data: bytes) -> None:
        """Process the bytes of one or more reads as stomp.py's own reading loop does."""
        self._arrived.extend(data[start : start + _READ] for start in range(0, len(data), _READ))
        while self._arrived and self.running:
            self._BaseTransport__read_frames()

    def end(self) -> None:
        """End the stream. stomp.py's own loop then finds nothing to read, cleans up, and reports
        the end."""
        self._over = True
        self._io_loop()

    def disconnect_socket(self, how: CloseHow = CloseHow.EOF) -> None:
        was_running, self.running = self.running, False
        if was_running:
            self._tell("left", how)
        self.current_host_and_port = None
        if not self.notified_on_disconnect:
            self.notify("disconnected")

    def cut(self) -> None:
        self.disconnect_socket(CloseHow.RESET)

    def stop(self) -> None:
        """Do nothing: there is no thread."""


class _Rounds:
    """Replaces the event that ends stomp.py's heartbeat loop. It permits one iteration, and ends
    the loop when it sleeps."""

    def __init__(self) -> None:
        self.stopped = False
        self.slept: float | None = None
        """The seconds that the loop wanted to sleep in this iteration; None if it did not sleep."""
        self._left = 0

    def one(self) -> None:
        self._left, self.slept = 1, None

    def set(self) -> None:
        self.stopped = True

    def is_set(self) -> bool:
        self._left -= 1
        return self.stopped or self._left < 0

    def wait(self, timeout: float) -> bool:
        self.slept = timeout
        return True

    def sleep(self, duration: float) -> None:
        # stomp.py calls sleep(0) if it has no heartbeats to send. A minimum avoids an endless loop.
        self.slept = max(duration, 0.001)


class _Pulse:
    """Runs stomp.py's own heartbeat loop, one iteration at a time, on a world's deadlines.

    The loop's functions get a different ``monotonic`` and ``time``. An iteration ends where it
    would sleep; the next one starts after that time. Each iteration enters the loop anew, and the
    loop takes its first clock reading as the time of the last frame sent. So the first reading in
    an iteration returns that time."""

    def __init__(self, peer: StompPyPeer, connection: Any) -> None:
        self._peer, self._connection = peer, connection
        self._rounds = connection.heartbeat_terminate_event = _Rounds()
        # A non-empty value keeps on_connected from starting a thread.
        self._no_thread = connection.heartbeat_thread = SimpleNamespace(name="the world")
        self._since: Instant = 0
        self._rewound: Instant | None = None
        names = vars(stomp.listener) | {
            "monotonic": self._monotonic,
            "time": SimpleNamespace(sleep=self._rounds.sleep),
        }
        for name in _CLOCKED:
            code = getattr(stomp.listener.HeartbeatListener, name).__code__
            setattr(connection, name, MethodType(FunctionType(code, names), connection))

    def _monotonic(self) -> float:
        at, self._rewound = self._rewound, None
        return (self._peer.world.now() if at is None else at) / NS_PER_S

    def start(self) -> None:
        """Start the loop, once stomp.py has negotiated its heartbeats."""
        if self._connection.running:
            self._since = self._peer.world.now()
            self._round()

    def _round(self) -> None:
        while not self._rounds.stopped:
            spoke = self._peer.spoke_at
            self._rounds.one()
            self._rewound = max(self._since, spoke if spoke is not None else 0)
            self._connection._HeartbeatListener__heartbeat_loop()
            self._connection.heartbeat_thread = self._no_thread
            if self._rounds.slept is not None or self._peer.spoke_at == spoke:
                # The loop relies on waking after the requested instant, as a thread does.
                pause = ceil((self._rounds.slept or 0.0) * NS_PER_S) + 1
                self._peer.world.at(self._peer.world.now() + pause, self._round)
                return


# --- over sockets ---------------------------------------------------------------------------------


class _SocketTransport(stomp.transport.Transport):  # type: ignore[misc]
    """stomp.py's own transport, which reports all traffic."""

    def __init__(self, address: tuple[str, int], vhost: str | None, tell: Tell) -> None:
        super().__init__([address], reconnect_attempts_max=1, vhost=vhost, auto_decode=False)
        self._address, self._tell, self._ended = address, tell, False
        self._ending = SocketCloseTracker()

    def attempt_connection(self) -> None:
        try:
            super().attempt_connection()
        except stomp.exception.ConnectFailedException:
            host, port = self._address
            raise Unreachable(
                f"{host}:{port} does not accept connections; is the broker running?"
            ) from None

    def send(self, encoded_frame: bytes) -> None:
        self._tell("sent", encoded_frame)
        try:
            super().send(encoded_frame)
        except OSError as problem:
            self._ending.unsent(problem)
            raise

    def receive(self) -> bytes | None:
        try:
            data: bytes | None = super().receive()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):  # nothing to read at the moment
            raise
        except OSError as problem:
            self._end("closed", self._ending.finish(problem))
            raise
        if data:
            self._tell("bytes", data)
        elif data is not None:
            self._end("closed", self._ending.finish())
        return data

    def _end(self, what: str, how: CloseHow) -> None:
        if not self._ended:
            self._ended = True
            self._tell(what, how)

    def disconnect_socket(self) -> None:
        self._end("left", CloseHow.EOF)
        super().disconnect_socket()

    def cut(self) -> None:
        """End the connection with a reset and wake its thread. With a linger time of zero, closing
        sends RST."""
        self._end("left", CloseHow.RESET)
        self.running = False
        with suppress(OSError, AttributeError):  # it has ended already
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.socket.shutdown(socket.SHUT_RD)

    def stop(self) -> None:
        """Do not wait for the thread, which could take forever; the case waits instead."""


# --- both -----------------------------------------------------------------------------------------


def in_memory(
    judge: Judge,
    conn: int,
    acceptor: str,
    version: str,
    heart_beat: tuple[int, int],
    vhost: str | None,
) -> StompPyPeer:
    """Return stomp.py in memory, not yet connected. ``heart_beat`` is in milliseconds, like
    stomp.py's ``heartbeats``."""
    peer = StompPyPeer(judge, conn, acceptor, version)

    def tell(what: str, content: Any) -> None:
        peer.on_client_event(what, peer.world.now(), content)

    transport = _MemoryTransport(vhost, peer.dial, peer.transmit, tell)
    connection = _connection(version, transport, heart_beat, tell)
    peer.feed, peer.end_of_stream = transport.feed, transport.end
    if version != "1.0":
        peer.on_connected = _Pulse(peer, connection).start
    peer.connection = connection
    peer.unsendable = _UNSENDABLE
    return peer


def over_sockets(
    judge: Judge,
    conn: int,
    acceptor: str,
    version: str,
    heart_beat: tuple[int, int],
    vhost: str | None,
) -> StompPyPeer:
    """Return stomp.py with its own socket and threads, not yet connected. Raises
    :class:`ControlFailed` in virtual time."""
    peer = StompPyPeer(judge, conn, acceptor, version)
    if not isinstance(peer.world, RealWorld):
        raise ControlFailed("stomp.py over sockets needs a target that has sockets")

    def end_threads() -> None:
        transport.set_connected(False)
        transport.disconnect_socket()
        for thread in (transport.io_thread, getattr(connection, "heartbeat_thread", None)):
            if thread is not None:
                thread.join(_JOIN_S)

    bridge = ThreadBridge(peer.world, peer.on_client_event, end_threads)
    host, port = peer.world.endpoint(acceptor)
    peer.remote = f"{host}:{port}"
    transport = _SocketTransport((host, port), vhost, bridge.post)
    tls = peer.world.tls(acceptor)
    if tls is not None:
        authority = None if tls.authority is None else str(tls.authority)
        own = None if tls.own is None else str(tls.own)
        transport.set_ssl([(host, port)], ca_certs=authority, cert_file=own, verify=tls.verify)
    connection = _connection(version, transport, heart_beat, bridge.post)
    peer.connection = connection
    peer.unsendable = _UNSENDABLE
    return peer


def _connection(version: str, transport: Any, heart_beat: tuple[int, int], tell: Tell) -> Any:
    if version == "1.0" and heart_beat != (0, 0):
        raise ControlFailed(
            "STOMP 1.0 has no heart-beats, and stomp.py's 1.0 connection cannot request them"
        )
    connection = _CONNECTIONS[version](transport, heart_beat)
    # Listeners are called in name order: after stomp.py's own.
    connection.set_listener("~ears", _Ears(tell))
    return connection


# --- its codec alone ------------------------------------------------------------------------------


class _Collecting(_MemoryTransport):
    """Collects every frame that stomp.py reads, whatever its command."""

    def __init__(self) -> None:
        self.written, self.read = bytearray(), list[Frame]()
        super().__init__(None, lambda: None, self.written.extend, lambda what, content: None)
        self.start()

    def process_frame(self, f: Any, frame_str: bytes) -> None:
        self.read.append(Frame(f.cmd, header_list(f.headers), f.body or b""))


def parse(*reads: bytes) -> list[Frame]:
    """Return the frames that stomp.py decodes from these reads; heartbeats become frames named
    ``heartbeat``."""
    transport = _Collecting()
    for data in reads:
        transport.feed(data)
    return transport.read


def encode(
    command: str, headers: HeadersLike = (), body: bytes = b"", *, version: str = "1.2"
) -> bytes:
    """Return a frame as stomp.py writes it: with headers sorted by name, and repeated headers in
    the given order."""
    transport = _Collecting()
    _CONNECTIONS[version](transport, (0, 0)).send_frame(command, dict(header_list(headers)), body)
    return bytes(transport.written)
