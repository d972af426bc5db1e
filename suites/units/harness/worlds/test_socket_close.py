"""Bytes that arrived before a reset are read, whichever call reports the reset. A reset is never
mistaken for an orderly close."""

import json
import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.clients import proton_sockets, stomppy_transports
from brokerproof.harness.counterexamples.player import Player
from brokerproof.harness.load.control_channel import ControlConnection
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import Instant, seconds
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.targets import certificates, target_file
from brokerproof.harness.targets.activemq.target import ActivemqTarget
from brokerproof.harness.targets.artemis.target import ArtemisTarget
from brokerproof.harness.targets.container.target import ContainerTarget
from brokerproof.harness.targets.external.target import AddressTarget
from brokerproof.harness.targets.process import ProcessTarget
from brokerproof.harness.targets.proton.target import ProtonTarget
from brokerproof.harness.targets.rabbitmq.target import RabbitmqTarget
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.targets.target import Identity
from brokerproof.harness.worlds.real import RealWorld
from brokerproof.harness.worlds.socket_close import OPEN
from brokerproof.harness.worlds.tls import Tls
from brokerproof.harness.worlds.wake_up_lateness import Canary

LAST = b"ERROR\nmessage:this is why\n\n\0"
WAYS = {"linger": CloseHow.RESET, "unread": CloseHow.RESET, "in order": CloseHow.EOF}
"""Ways in which a broker closes: without lingering, with unread bytes from the client, and with
neither."""


class Broker:
    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._context = context
        self._taking = threading.Thread(target=self._take)
        self._taking.start()

    def _take(self) -> None:
        self._plain, _ = self._listener.accept()
        self._plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket: socket.socket = self._plain
        if self._context is not None:
            self._socket = self._context.wrap_socket(self._plain, server_side=True)

    def say(self, data: bytes) -> int:
        """Write as much of ``data`` as fits into the other end's window."""
        self._taking.join(10)
        self._socket.setblocking(False)
        sent = 0
        while sent < len(data):
            try:
                sent += self._socket.send(data[sent : sent + 65536])
            except (BlockingIOError, ssl.SSLWantWriteError):
                break
        return sent

    def close(self, how: str = "in order") -> None:
        """Close after the other end has sent ``x``; :data:`WAYS` determines what happens next."""
        self._taking.join(10)
        if how == "linger":
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if how == "in order":
            self._socket.setblocking(True)
            self._socket.recv(1)
        self._socket.close()
        self._listener.close()


class Peer:
    def __init__(self) -> None:
        self.came = b""
        self.ended: CloseHow | None = None

    def bytes_arrived(self, at: Instant, data: bytes) -> None:
        self.came += data

    def channel_closed(self, at: Instant, how: CloseHow) -> None:
        self.ended = how


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certificates")
    certificates.make(made)
    return made


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made._listener.close()


def until_the_end_is_here(sock: Any) -> None:
    """Wait until the kernel knows that the other end has closed; do not read the error."""
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    assert poll.poll(10_000), "the broker's end should have been told"


def ended(world: RealWorld, peer: Peer) -> tuple[bytes, CloseHow | None]:
    assert world.wait_until(lambda: peer.ended is not None, world.now() + seconds(10))
    return peer.came, peer.ended


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("secured", [False, True], ids=["tcp", "tls"])
@pytest.mark.parametrize("writes", [0, 1, 3])
def test_a_write_that_fails_loses_nothing(
    folder: Path, way: str, secured: bool, writes: int
) -> None:
    context, tls = None, {}
    if secured:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / certificates.SERVER)
        context.num_tickets = 0
        tls = {"stomp": Tls(folder / certificates.AUTHORITY)}
    broker, peer = Broker(context), Peer()
    with closing(RealWorld({"stomp": broker.address}, Canary(), tls)) as world:
        channel = world.open("stomp", peer)
        channel.write(b"x")
        broker.say(LAST)
        broker.close(way)
        until_the_end_is_here(channel)
        for _ in range(writes):
            channel.write(b"y" * 100)
        came, how = ended(world, peer)
        assert came == LAST
        # The end of TLS was not announced: a reset is still visible, and so is the end of the
        # stream below.
        assert how is WAYS[way]


def test_a_connection_that_was_reset_before_it_is_taken_over_has_ended(broker: Broker) -> None:
    connection, peer = socket.create_connection(broker.address), Peer()
    broker.close("linger")
    until_the_end_is_here(connection)
    with closing(RealWorld({}, Canary())) as world:
        world.attach(connection, peer)
        assert ended(world, peer) == (b"", CloseHow.RESET)


def test_a_half_close_that_fails_loses_nothing(broker: Broker) -> None:
    peer = Peer()
    with closing(RealWorld({"stomp": broker.address}, Canary())) as world:
        channel = world.open("stomp", peer)
        broker.say(LAST)
        broker.close("linger")
        until_the_end_is_here(channel)
        channel.half_close()
        assert ended(world, peer) == (LAST, CloseHow.RESET)


@pytest.mark.parametrize("way", WAYS)
def test_stomp_py_reads_on_and_tells_the_reset(broker: Broker, way: str) -> None:
    told: list[tuple[str, Any]] = []
    transport = stomppy_transports._SocketTransport(
        broker.address, None, lambda what, content: told.append((what, content))
    )
    transport.running = True
    transport.attempt_connection()
    transport.send(b"x")
    broker.say(LAST)
    broker.close(way)
    until_the_end_is_here(transport.socket)
    if WAYS[way] is CloseHow.RESET:
        with pytest.raises(ConnectionResetError):
            transport.send(b"y")
    assert [transport.receive(), transport.receive()] == [LAST, b""]
    assert told[-2:] == [("bytes", LAST), ("closed", WAYS[way])]
    transport.socket.close()


class Selectable:
    def __init__(self, plain: socket.socket) -> None:
        self._plain, self._transport = plain, object()

    def recv(self, size: int) -> bytes:
        return self._plain.recv(size)

    def send(self, data: bytes) -> int:
        return self._plain.send(data)


@pytest.mark.parametrize("way", WAYS)
def test_proton_reads_on_and_tells_the_reset(broker: Broker, way: str) -> None:
    told: list[tuple[str, Any]] = []
    with socket.create_connection(broker.address) as plain:
        selectable = Selectable(plain)
        proton_sockets._ObservedIO(lambda what, content: told.append((what, content)))._observe(
            selectable
        )
        selectable.send(b"x")
        broker.say(LAST)
        broker.close(way)
        until_the_end_is_here(plain)
        if WAYS[way] is CloseHow.RESET:
            with pytest.raises(ConnectionResetError):
                selectable.send(b"y")
        assert [selectable.recv(100), selectable.recv(100)] == [LAST, b""]
    assert told[1:] == [("bytes", LAST), ("closed", WAYS[way])]


@pytest.mark.parametrize("way", WAYS)
def test_a_script_reads_on_and_tells_the_reset(broker: Broker, way: str) -> None:
    player = Player({"stomp": broker.address}, "", "", say=lambda line: None)
    with closing(player):
        player.open(1, "stomp")
        player.send(1, b"x")
        broker.say(LAST)
        broker.close(way)
        until_the_end_is_here(player._sockets[1])
        player.send(1, b"y")
        player.ends(1, "")
        assert [frame.command for frame in player.came[1]] == ["ERROR"]
        assert player.ended[1][1] == WAYS[way].value


def test_the_last_word_of_a_driver_is_heard_though_it_has_left(broker: Broker) -> None:
    heard: list[dict[str, Any]] = []
    with closing(RealWorld({}, Canary())) as world:
        plain = socket.create_connection(broker.address)
        wire = ControlConnection(world, plain, heard.append, lambda: None)
        broker.say(json.dumps({"report": 1}).encode() + b"\n")
        broker.close("linger")
        until_the_end_is_here(plain)
        wire.say(stop=1)
        assert world.wait_until(lambda: bool(heard), world.now() + seconds(10))
    assert heard == [{"report": 1}]


class Ours(SocketTarget):
    is_local = True


class Delaying(SocketTarget):
    """A target that is not declared to send immediately."""


def judged(
    broker: Broker,
    kind: Callable[[Identity], SocketTarget],
    size: int,
    *,
    held: bool,
    way: str = "linger",
) -> tuple[Seen, str | None]:
    """Return the bench's finding about a broker that sent ``size`` bytes and no ERROR; with
    ``held``, the bytes first wait unread."""
    target = kind(target_file.load("stomp://127.0.0.1:1").identity)
    target.endpoints = {"stomp": broker.address}
    bench = Bench(target, ("STOMP12-ERR-02",), label="reset")
    with closing(bench.world):
        peer = bench.peer(acceptor="stomp")
        peer.channel.hold_reading(held)
        peer.channel.write(b"x")
        assert size == 0 or broker.say(b"\n" * size)
        broker.close(way)
        peer.channel.hold_reading(False)
        assert bench.wait_until(lambda: peer.ended is not None, seconds(10))
        bench.record_finding("STOMP12-ERR-02", False, "no ERROR arrived")
    (finding,) = bench.example_record.findings
    return finding.seen, finding.uncertain


def elsewhere(identity: Identity) -> SocketTarget:
    return AddressTarget(identity, {})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [0, 100])
def test_a_broker_of_this_machine_that_just_ends_the_connection_is_accused(
    broker: Broker, size: int, way: str
) -> None:
    assert judged(broker, Ours, size, held=False, way=way) == (Seen.VIOLATED, None)


@pytest.mark.parametrize("way", ["linger", "unread"])
def test_what_a_broker_of_this_machine_sends_late_may_be_lost_with_the_reset(
    broker: Broker, way: str
) -> None:
    _, uncertain = judged(broker, Delaying, 100, held=False, way=way)
    assert "may be lost" in (uncertain or "")


@pytest.mark.parametrize(
    ("kind", "is_local"),
    [
        (ProcessTarget, True),
        (ArtemisTarget, True),
        (RabbitmqTarget, True),
        (ProtonTarget, True),
        (ActivemqTarget, False),  # TCP_NODELAY is off unless a connector says otherwise
        (ContainerTarget, False),
        (AddressTarget, False),
    ],
)
def test_a_reset_proves_something_where_the_broker_is_near_and_sends_at_once(
    kind: type[SocketTarget], is_local: bool
) -> None:
    assert kind.is_local is is_local


@pytest.mark.parametrize("way", ["linger", "unread"])
def test_elsewhere_what_the_broker_sent_may_be_lost_with_the_reset(
    broker: Broker, way: str
) -> None:
    _, uncertain = judged(broker, elsewhere, 100, held=False, way=way)
    assert "may be lost" in (uncertain or "")


def test_elsewhere_an_orderly_end_is_proof(broker: Broker) -> None:
    assert judged(broker, elsewhere, 100, held=False, way="in order") == (Seen.VIOLATED, None)


@pytest.mark.parametrize("size", [OPEN + 1, 100_000_000])
def test_what_found_our_window_shut_may_be_lost_on_this_machine_too(
    broker: Broker, size: int
) -> None:
    _, uncertain = judged(broker, Ours, size, held=True)
    assert "may be lost" in (uncertain or "")
