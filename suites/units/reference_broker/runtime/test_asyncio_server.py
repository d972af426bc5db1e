"""The asyncio adapter with tiny brokers, over real sockets on the loopback interface."""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from brokerproof.harness.model.broker_io import (
    BytesReceived,
    Close,
    Connected,
    Effect,
    Input,
    PeerGone,
    ResumeReading,
    SendBytes,
    StopReading,
    TimerFired,
    WritePaused,
    WriteResumed,
)
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import NS_PER_MS
from brokerproof.reference_broker.runtime import asyncio_server, complaints, listening
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.settings import Settings

ANSWER_WITHIN_S = 5.0
ONE_READ = 256 * 1024  # asyncio reads this much from a socket at a time


class Echo:
    """Echoes its input, unless ``behave`` answers differently. Remembers every input."""

    def __init__(
        self, behave: Callable[[int, Input], list[Effect] | None] = lambda now, event: None
    ) -> None:
        self.inputs: list[Input] = []
        self.at: list[int] = []
        self.deadline: int | None = None
        self._behave = behave
        self._changed = threading.Condition()

    def handle(self, now: int, event: Input) -> list[Effect]:
        with self._changed:
            self.inputs.append(event)
            self.at.append(now)
            self._changed.notify_all()
        effects = self._behave(now, event)
        if effects is not None:
            return effects
        return [SendBytes(event.conn, event.data)] if isinstance(event, BytesReceived) else []

    def next_deadline(self) -> int | None:
        return self.deadline

    def wait_for(self, kind: type[Input], count: int = 1) -> list[Input]:
        def seen() -> list[Input]:
            return [event for event in self.inputs if isinstance(event, kind)]

        with self._changed:
            assert self._changed.wait_for(lambda: len(seen()) >= count, ANSWER_WITHIN_S), (
                self.inputs
            )
            return seen()


@contextmanager
def serving(broker: Echo, *acceptors: Acceptor) -> Iterator[Mapping[str, int]]:
    """Yield the ports by acceptor while another thread serves the broker."""
    ready: list[Mapping[str, int]] = []
    began = threading.Event()
    stopper: list[Callable[[], None]] = []
    failures: list[BaseException] = []

    async def main() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        stopper.append(lambda: loop.call_soon_threadsafe(stop.set))
        settings = Settings(acceptors=acceptors or (Acceptor("stomp"),))
        await asyncio_server.serve(
            broker, settings, lambda ports: (ready.append(ports), began.set()), stop
        )  # type: ignore[func-returns-value]

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as problem:
            failures.append(problem)
            began.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert began.wait(ANSWER_WITHIN_S)
        if failures:
            raise failures[0]
        yield ready[0]
    finally:
        if not failures:
            stopper[0]()
        thread.join(ANSWER_WITHIN_S)
        assert not thread.is_alive()


@contextmanager
def client(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), ANSWER_WITHIN_S) as connected:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield connected


def until_it_blocks(peer: socket.socket) -> int:
    """Send until the peer accepts no further byte within the time-out; return the number of bytes
    sent."""
    sent = 0
    while True:
        try:
            sent += peer.send(bytes(65536))
        except TimeoutError:
            return sent


def exactly(peer: socket.socket, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        piece = peer.recv(min(size - len(got), 1 << 20))
        assert piece, f"ended after {len(got)} of {size} bytes"
        got += piece
    return bytes(got)


def test_what_is_sent_comes_back_and_inputs_come_in_order() -> None:
    broker = Echo()
    with serving(broker, Acceptor("one"), Acceptor("two")) as ports:
        assert set(ports) == {"one", "two"}
        with client(ports["two"]) as peer:
            remote = f"127.0.0.1:{peer.getsockname()[1]}"
            peer.sendall(b"hello")
            assert exactly(peer, 5) == b"hello"
            peer.shutdown(socket.SHUT_WR)
            assert peer.recv(1) == b""
        gone = broker.wait_for(PeerGone)
    assert broker.inputs[0] == Connected(1, "two", remote, local=f"127.0.0.1:{ports['two']}")
    assert gone == [PeerGone(1, CloseHow.EOF)]
    assert broker.at == sorted(broker.at)


def _sizes(broker: Echo, size: int) -> list[int]:
    with serving(broker) as ports, client(ports["stomp"]) as peer:
        sender = threading.Thread(target=peer.sendall, args=(b"x" * size,))
        sender.start()
        exactly(peer, size)
        sender.join()
    return [len(event.data) for event in broker.inputs if isinstance(event, BytesReceived)]


def test_a_connection_whose_bytes_cost_much_gets_a_small_share_of_each_turn() -> None:
    def slow(now: int, event: Input) -> list[Effect] | None:
        sum(range(1_000_000))
        return None

    sizes = _sizes(Echo(slow), 20 * asyncio_server.READ_FIRST)
    assert sizes[0] <= asyncio_server.READ_FIRST
    assert max(sizes[6:]) <= asyncio_server.READ_LEAST


def test_time_for_which_the_host_ran_others_does_not_shrink_a_share() -> None:
    def preempted(now: int, event: Input) -> list[Effect] | None:
        other = threading.Thread(target=sum, args=(range(1_000_000),))
        other.start()
        other.join()
        return None

    sizes = _sizes(Echo(preempted), 20 * asyncio_server.READ_FIRST)
    assert max(sizes) > asyncio_server.READ_FIRST


def test_a_connection_whose_bytes_cost_little_is_read_in_large_pieces() -> None:
    sizes = _sizes(Echo(), 200 * asyncio_server.READ_FIRST)
    assert max(sizes) > asyncio_server.READ_FIRST
    assert max(sizes) <= asyncio_server.READ_MOST


def test_a_reset_is_told_apart_from_an_end() -> None:
    broker = Echo()
    with serving(broker) as ports:
        with client(ports["stomp"]) as peer:
            broker.wait_for(Connected)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert broker.wait_for(PeerGone) == [PeerGone(1, CloseHow.RESET)]


def test_connections_have_numbers_of_their_own() -> None:
    broker = Echo()
    with serving(broker) as ports:
        for _ in range(3):
            with client(ports["stomp"]) as peer:
                peer.sendall(b"x")
                assert exactly(peer, 1) == b"x"
        broker.wait_for(PeerGone, 3)
    assert [input_.conn for input_ in broker.inputs if isinstance(input_, Connected)] == [1, 2, 3]


def test_effects_of_one_input_arrive_joined_and_in_order() -> None:
    broker = Echo(
        lambda now, event: (
            [SendBytes(event.conn, b"%d," % n) for n in range(1000)]
            if isinstance(event, BytesReceived)
            else None
        )
    )
    expected = b"".join(b"%d," % n for n in range(1000))
    with serving(broker) as ports, client(ports["stomp"]) as peer:
        peer.sendall(b"go")
        assert exactly(peer, len(expected)) == expected


def test_the_last_words_before_a_close_arrive_although_the_peer_goes_on_sending() -> None:
    """An immediate close would answer the peer's later bytes with a reset, which destroys unread
    bytes."""
    farewell = b"ERROR" + bytes(200_000)

    def refuse(now: int, event: Input) -> list[Effect] | None:
        return (
            [SendBytes(event.conn, farewell), Close(event.conn)]
            if isinstance(event, BytesReceived)
            else None
        )

    broker = Echo(refuse)
    with serving(broker) as ports, client(ports["stomp"]) as peer:
        peer.sendall(b"bad")
        for _ in range(50):
            peer.sendall(bytes(20_000))
        assert exactly(peer, len(farewell)) == farewell
        assert peer.recv(1) == b"", "then an orderly end"
        assert len(broker.wait_for(BytesReceived)) == 1, "and no further input"
    assert not [input_ for input_ in broker.inputs if isinstance(input_, PeerGone)], (
        "the broker closed it itself"
    )


def test_a_peer_that_does_not_end_after_our_close_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio_server, "LINGER_S", 0.05)
    broker = Echo(
        lambda now, event: [Close(event.conn)] if isinstance(event, BytesReceived) else None
    )
    with serving(broker) as ports, client(ports["stomp"]) as peer:
        peer.sendall(b"x")
        assert peer.recv(1) == b""

        def cut() -> None:
            while True:
                peer.sendall(b"still here")

        with pytest.raises(ConnectionError):
            cut()


def test_nothing_sent_after_a_close_leaves() -> None:
    def confused(now: int, event: Input) -> list[Effect] | None:
        if isinstance(event, BytesReceived):
            return [
                SendBytes(event.conn, b"a"),
                Close(event.conn),
                SendBytes(event.conn, b"b"),
                Close(event.conn),
            ]
        return None

    with serving(Echo(confused)) as ports, client(ports["stomp"]) as peer:
        peer.sendall(b"x")
        assert peer.recv(10) == b"a"
        assert peer.recv(10) == b""


def test_a_connection_that_is_not_read_pushes_back_on_its_peer_until_it_is_read_again() -> None:
    total = 0
    held: list[int] = []

    def hold(now: int, event: Input) -> list[Effect] | None:
        nonlocal total
        match event:
            case BytesReceived(conn, data) if conn == 1:
                total += len(data)
                if not held:
                    held.append(conn)
                    return [StopReading(conn)]
                return []
            case BytesReceived():
                return [ResumeReading(1), SendBytes(event.conn, b"ok")]
        return None

    broker = Echo(hold)
    with serving(broker) as ports, client(ports["stomp"]) as flood:
        flood.settimeout(0.3)
        sent = until_it_blocks(flood)
        assert total <= ONE_READ
        with client(ports["stomp"]) as other:
            other.sendall(b"go on")
            assert exactly(other, 2) == b"ok"
        flood.shutdown(socket.SHUT_WR)
        broker.wait_for(PeerGone, 2)
        assert total == sent


def test_a_peer_that_does_not_read_is_reported_and_reported_well_again() -> None:
    size = 16 * asyncio_server.WRITE_HIGH

    def pour(now: int, event: Input) -> list[Effect] | None:
        return (
            [SendBytes(event.conn, bytes(size))]
            if isinstance(event, BytesReceived) and event.data == b"x"
            else []
        )

    broker = Echo(pour)
    with serving(broker) as ports, client(ports["stomp"]) as slow:
        slow.sendall(b"x")
        assert broker.wait_for(WritePaused) == [WritePaused(1)]
        slow.sendall(b"beat")
        assert broker.wait_for(BytesReceived, 2)[1] == BytesReceived(1, b"beat"), (
            "it is heard nevertheless"
        )
        assert exactly(slow, size) == bytes(size)
        assert broker.wait_for(WriteResumed) == [WriteResumed(1)]


def test_a_peer_that_only_asks_and_never_reads_is_not_read_either_until_it_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise requests would pile up."""
    monkeypatch.setattr(asyncio_server, "WRITE_STOP", 2 * asyncio_server.WRITE_HIGH)
    in_the_host = 16 * 1024 * 1024  # bytes that its socket buffers hold, at most
    broker = Echo(
        lambda now, event: (
            [SendBytes(event.conn, bytes(10 * len(event.data)))]
            if isinstance(event, BytesReceived)
            else None
        )
    )
    with serving(broker) as ports, client(ports["stomp"]) as greedy:
        greedy.settimeout(0.3)
        sent = until_it_blocks(greedy)

        def taken() -> int:
            return sum(
                len(input_.data)
                for input_ in broker.inputs
                if isinstance(input_, BytesReceived) and input_.conn == 1
            )

        assert 10 * taken() <= asyncio_server.WRITE_STOP + in_the_host + 20 * ONE_READ
        assert taken() < sent
        with client(ports["stomp"]) as other:
            other.sendall(b"x")
            assert exactly(other, 10) == bytes(10)
        greedy.settimeout(ANSWER_WITHIN_S)
        exactly(greedy, 10 * sent)
        assert taken() == sent


def test_a_connection_with_too_much_waiting_is_cut_and_said_so(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(asyncio_server, "WRITE_MOST", 10_000_000)
    broker = Echo(
        lambda now, event: (
            [SendBytes(event.conn, bytes(50_000_000))] if isinstance(event, BytesReceived) else None
        )
    )
    with serving(broker) as ports, client(ports["stomp"]) as slow:
        slow.sendall(b"x")
        broker.wait_for(PeerGone)
    assert "lets 10000000 bytes wait; cut" in capfd.readouterr().err


def test_a_mistake_of_the_broker_costs_one_connection_and_one_line(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def stumble(now: int, event: Input) -> list[Effect] | None:
        if isinstance(event, BytesReceived) and event.data == b"trip":
            raise ZeroDivisionError("one\nby zero")
        return None

    broker = Echo(stumble)
    with serving(broker) as ports, client(ports["stomp"]) as good, client(ports["stomp"]) as bad:
        good.sendall(b"1")
        assert exactly(good, 1) == b"1"
        bad.sendall(b"trip")
        assert bad.recv(1) == b""
        assert broker.wait_for(PeerGone) == [PeerGone(2, CloseHow.RESET)], (
            "the broker is to forget it"
        )
        good.sendall(b"2")
        assert exactly(good, 1) == b"2"
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "our own error at BytesReceived of connection 2 from 127.0.0.1:" in lines[0]
    assert "ZeroDivisionError" in lines[0]


def test_deadlines_fire_when_they_are_due_and_when_they_move() -> None:
    broker = Echo()

    def behave(now: int, event: Input) -> list[Effect] | None:
        match event:
            case BytesReceived(data=b"late"):
                broker.deadline = now + 60_000 * NS_PER_MS
            case BytesReceived(data=b"soon"):
                broker.deadline = now + 30 * NS_PER_MS
            case BytesReceived(data=b"later"):
                broker.deadline = now + 80 * NS_PER_MS
            case TimerFired():
                assert broker.deadline is not None
                assert now >= broker.deadline, "never early"
                broker.deadline = None
                return [SendBytes(1, b"!")]
        return []

    broker._behave = behave
    with serving(broker) as ports, client(ports["stomp"]) as peer:
        peer.sendall(b"late")
        broker.wait_for(BytesReceived, 1)
        peer.sendall(b"soon")
        assert exactly(peer, 1) == b"!"
        peer.sendall(b"soon")
        broker.wait_for(BytesReceived, 3)
        peer.sendall(b"later")
        assert exactly(peer, 1) == b"!"
        asked = broker.at[broker.inputs.index(BytesReceived(1, b"later"))]
        fired = [
            at
            for at, each in zip(broker.at, broker.inputs, strict=True)
            if isinstance(each, TimerFired)
        ]
    assert len(fired) == 2, "a deadline that moved away does not fire twice"
    assert fired[1] >= asked + 80 * NS_PER_MS


def test_a_timer_that_fails_is_not_tried_again_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    def fail(now: int, event: Input) -> list[Effect] | None:
        if isinstance(event, TimerFired):
            raise RuntimeError("stuck")
        return None

    broker = Echo(fail)
    broker.deadline = 1
    with serving(broker) as ports, client(ports["stomp"]) as peer:
        broker.wait_for(TimerFired)
        for _ in range(20):
            peer.sendall(b"x")
            assert exactly(peer, 1) == b"x"
    assert (
        capfd.readouterr().err.count("our own error at TimerFired of a timer: RuntimeError: stuck")
        == 1
    )


def test_a_port_in_use_is_one_sentence_and_opens_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(listening.CannotListen) as caught,
            serving(Echo(), Acceptor("free"), Acceptor("busy", port=port)),
        ):
            pytest.fail("it was served")
    assert str(caught.value) == (
        f"acceptor 'busy' cannot listen on 127.0.0.1:{port} (Address already in use); "
        "choose another port, or 0 for a free one"
    )


def test_a_host_that_is_not_ours_is_one_sentence() -> None:
    with pytest.raises(
        listening.CannotListen, match=r"acceptor 'a' cannot listen on 192\.0\.2\.1:0 \("
    ):
        listening.listen(Acceptor("a", host="192.0.2.1"))


def test_an_acceptor_that_speaks_nothing_of_ours_stays_closed() -> None:
    with serving(
        Echo(), Acceptor("mqtt", protocols=("MQTT",)), Acceptor("both", protocols=("AMQP", "MQTT"))
    ) as ports:
        assert set(ports) == {"both"}


def test_what_was_said_before_the_stop_still_arrives() -> None:
    broker = Echo(
        lambda now, event: (
            [SendBytes(event.conn, bytes(300_000))] if isinstance(event, Connected) else None
        )
    )
    with serving(broker) as ports:
        peer = socket.create_connection(("127.0.0.1", ports["stomp"]), ANSWER_WITHIN_S)
        broker.wait_for(Connected)
        reader: list[bytes] = []
        thread = threading.Thread(
            target=lambda: reader.append(exactly(peer, 300_000) + peer.recv(1))
        )
        thread.start()
    thread.join(ANSWER_WITHIN_S)
    peer.close()
    assert reader == [bytes(300_000)]


def test_a_reset_before_the_close_leaves_the_other_connections_to_close() -> None:
    """A peer resets before the broker closes it; the connections after it in the list are still
    closed."""
    peer_closes, peer_has_closed = threading.Event(), threading.Event()

    def behave(_: int, event: Input) -> list[Effect] | None:
        if not isinstance(event, BytesReceived):
            return None
        peer_closes.set()
        assert peer_has_closed.wait(ANSWER_WITHIN_S)
        return [Close(1), Close(2)]

    broker = Echo(behave)
    with serving(broker) as ports, client(ports["stomp"]) as first:
        broker.wait_for(Connected)
        with client(ports["stomp"]) as second:
            broker.wait_for(Connected, 2)
            first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            first.sendall(b"x")
            assert peer_closes.wait(ANSWER_WITHIN_S)
            first.close()
            peer_has_closed.set()
            assert second.recv(1) == b"", "the second connection is closed in order"


def test_the_same_problem_of_the_loop_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    now = [100.0]
    loop = SimpleNamespace(time=lambda: now[0])
    complain = complaints.LoopComplaints()
    context: dict[str, object] = {"message": "accept failed", "exception": OSError(24, "files")}
    for _ in range(1000):
        complain(loop, context)  # type: ignore[arg-type]
    now[0] += complaints.COMPLAIN_EVERY_S
    complain(loop, context)  # type: ignore[arg-type]
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "999 more times" in lines[1]
