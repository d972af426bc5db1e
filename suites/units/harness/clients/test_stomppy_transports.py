"""stomp.py as a peer: its frames and their timing in virtual time, their trace events, and its
close."""

import socket
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue

import pytest
from stomp.exception import NotConnectedException

from brokerproof.harness.clients import stomppy_transports
from brokerproof.harness.clients.stomppy_peer import StompPyPeer
from brokerproof.harness.model.broker_io import (
    BytesReceived,
    Close,
    Effect,
    Input,
    PeerGone,
    SendBytes,
    TimerFired,
)
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import Duration, Instant, ms, seconds
from brokerproof.harness.protocols.byte_log import Expectation
from brokerproof.harness.protocols.conversation import ControlFailed, Violated
from brokerproof.harness.protocols.stomp import codec
from brokerproof.harness.protocols.stomp.raw_peer import Destination, frame
from brokerproof.harness.trace.events import (
    ConnectionAbandoned,
    ConnectionClosed,
    Event,
    FrameReceived,
    FrameSent,
    HeartBeatReceived,
    HeartBeatSent,
    Noted,
)
from brokerproof.harness.worlds.link import LinkFaults
from brokerproof.harness.worlds.real import RealWorld
from brokerproof.harness.worlds.virtual import VirtualWorld
from brokerproof.harness.worlds.wake_up_lateness import Canary
from brokerproof.harness.worlds.world import World

Answer = Callable[[codec.Frame], bytes | None]
QUEUE = Destination("/queue/a")


def answering(heart_beat: str | None = None, version: str = "1.2") -> Answer:
    def answer(said: codec.Frame) -> bytes:
        if said.command in ("CONNECT", "STOMP"):
            headers = {"version": version} | (
                {} if heart_beat is None else {"heart-beat": heart_beat}
            )
            return codec.encode("CONNECTED", headers)
        receipt = said.get("receipt")
        return b"" if receipt is None else codec.encode("RECEIPT", {"receipt-id": receipt})

    return answer


class Scripted:
    """A broker that answers according to a script and, if ``period`` is given, sends heartbeats at
    this interval. None in the script means a close."""

    def __init__(self, answer: Answer, period: Duration | None = None, beat: bytes = b"\n") -> None:
        self._answer, self._period, self._beat = answer, period, beat
        self._due: Instant | None = period
        self._reader = codec.Reader("1.2")
        self.gone: CloseHow | None = None

    def handle(self, now: Instant, event: Input) -> list[Effect]:
        match event:
            case BytesReceived(conn, data):
                frames = [
                    frame for frame in self._reader.feed(data) if isinstance(frame, codec.Frame)
                ]
                answers = [self._answer(frame) for frame in frames]
                return [
                    Close(conn) if answer is None else SendBytes(conn, answer)
                    for answer in answers
                    if answer != b""
                ]
            case PeerGone(how=how):
                self.gone = how
            case TimerFired() if self._due is not None and self._period is not None:
                self._due += self._period
                return [SendBytes(1, self._beat)]
        return []

    def next_deadline(self) -> Instant | None:
        return self._due


class Notebook:
    def __init__(self, world: World) -> None:
        self.world = world
        self.events: list[Event] = []
        self.judged: list[tuple[str, bool]] = []

    def record(self, event: Event) -> None:
        self.events.append(event)

    def record_finding(
        self,
        requirements: str | tuple[str, ...],
        held: bool,
        detail: str,
        *,
        uncertain: str | None = None,
        expectation: Expectation | None = None,
    ) -> bool:
        self.judged.append((detail, held))
        return held

    def record_held(
        self, requirements: str | tuple[str, ...], evidence: object, detail: str
    ) -> None:
        self.judged.append((detail, evidence is not None))

    def of(self, *kinds: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kinds)]

    def instants(self, kind: type[Event]) -> list[Instant]:
        return [event.at_ns for event in self.of(kind)]

    def advance(self, duration: Duration) -> None:
        self.world.wait_until(lambda: False, self.world.now() + duration)


def virtual(
    answer: Answer,
    version: str = "1.2",
    heart_beat: tuple[int, int] = (0, 0),
    *,
    period: Duration | None = None,
    beat: bytes = b"\n",
    faults: LinkFaults | None = None,
) -> tuple[Notebook, StompPyPeer, Scripted]:
    broker = Scripted(answer, period, beat)
    world = VirtualWorld(broker, {"stomp": None})
    if faults is not None:
        world.faults = faults
    notebook = Notebook(world)
    peer = stomppy_transports.in_memory(notebook, 1, "stomp", version, heart_beat, "vhost")
    peer.connect(login="l", passcode="p")
    return notebook, peer, broker


def soon_after(found: list[Instant], wanted: list[Duration]) -> bool:
    """True if the events happened at these instants or at most a microsecond later."""
    return len(found) == len(wanted) and all(
        0 <= a - b <= 1000 for a, b in zip(found, wanted, strict=True)
    )


# --- what crosses the wire is in the trace --------------------------------------------------------


def test_a_frame_it_writes_is_recorded_as_it_was_meant_and_measured_as_it_was_written() -> None:
    notebook, peer, _ = virtual(answering())
    peer.publish(QUEUE, b"a\0b", {"k": "x:y\\\n"}, content_type="a/b")
    sent = notebook.of(FrameSent)[-1]
    assert isinstance(sent, FrameSent)
    assert sent.body == b"a\0b"
    assert sent.size == len(
        b"SEND\ncontent-length:3\ncontent-type:a/b\ndestination:/queue/a\nk:x\\cy\\\\\\n\nreceipt:r1\n\na\0b\0"
    )
    assert ("k", "x:y\\\n") in sent.headers


def test_it_starts_no_thread_and_two_runs_are_the_same() -> None:
    def run() -> list[Event]:
        notebook, peer, _ = virtual(answering("700,900"), heart_beat=(500, 500), period=ms(700))
        peer.publish(QUEUE, b"x")
        notebook.advance(ms(10_000))
        peer.settle()
        peer.disconnect()
        return notebook.events

    threads = threading.active_count()
    assert run() == run()
    assert threading.active_count() == threads


# --- heartbeats ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cx", "sy", "every"), [(500, "500", 500), (500, "800", 800), (1000, "20", 1000)]
)
@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_it_beats_every_max_of_what_it_offers_and_what_is_asked(
    version: str, cx: int, sy: str, every: int
) -> None:
    notebook, _, _ = virtual(answering(f"0,{sy}", version), version, (cx, 0))
    notebook.advance(ms(10 * every + 1))
    assert soon_after(notebook.instants(HeartBeatSent), [ms(n * every) for n in range(1, 11)])


def test_a_beat_is_counted_from_the_last_frame_it_sent() -> None:
    notebook, peer, _ = virtual(answering("0,1000"), heart_beat=(1000, 0))
    notebook.advance(ms(300))
    peer.publish(QUEUE, b"x")
    notebook.advance(ms(2500))
    assert soon_after(notebook.instants(HeartBeatSent), [ms(1300), ms(2300)])


@pytest.mark.parametrize(
    ("offered", "answer"), [((0, 0), "0,500"), ((500, 0), "0,0"), ((500, 0), None)]
)
def test_it_does_not_beat_when_nobody_wants_it(
    offered: tuple[int, int], answer: str | None
) -> None:
    notebook, peer, _ = virtual(answering(answer), heart_beat=offered)
    notebook.advance(ms(100_000))
    assert notebook.of(HeartBeatSent) == []
    peer.settle()


def test_it_gives_up_a_broker_that_does_not_beat_as_promised() -> None:
    """stomp.py waits half a period longer than agreed, and for the first heartbeat half a period
    more."""
    notebook, peer, broker = virtual(answering("500,0"), heart_beat=(0, 1000))
    notebook.advance(ms(10_000))
    [left] = notebook.of(ConnectionAbandoned)
    assert soon_after([left.at_ns], [ms(3000)])
    assert broker.gone is CloseHow.EOF
    assert not peer.connection.is_connected()
    assert any("missed the broker's heart-beats" in event.detail for event in notebook.of(Noted))


def test_it_does_not_count_a_beat_of_carriage_return_and_line_feed() -> None:
    """1.2 allows such heartbeats, but stomp.py 9.0.0 disconnects from a server that sends no
    others. They are on the wire, and therefore in the trace."""
    notebook, peer, _ = virtual(
        answering("500,0"), heart_beat=(0, 500), period=ms(500), beat=b"\r\n"
    )
    notebook.advance(ms(10_000))
    assert soon_after([peer.left.at] if peer.left else [], [ms(1500)])
    assert len(notebook.of(HeartBeatReceived)) == 3


def test_it_can_fall_silent_and_still_talk() -> None:
    notebook, peer, _ = virtual(answering("0,1000"), heart_beat=(1000, 0))
    notebook.advance(ms(2500))
    peer.stop_beating()
    notebook.advance(ms(10_000))
    assert len(notebook.of(HeartBeatSent)) == 2
    peer.settle()


def test_version_1_0_has_no_heart_beats() -> None:
    with pytest.raises(ControlFailed, match="no heart-beats"):
        virtual(answering(), "1.0", (1000, 0))


# --- ends -----------------------------------------------------------------------------------------


def test_it_leaves_when_its_disconnect_is_answered() -> None:
    notebook, peer, broker = virtual(answering("0,1000"), heart_beat=(1000, 0))
    peer.disconnect()
    assert peer.ended is None
    assert [event.how for event in notebook.of(ConnectionAbandoned)] == [CloseHow.EOF]
    notebook.advance(ms(10_000))
    assert broker.gone is CloseHow.EOF
    assert notebook.of(HeartBeatSent) == []


def test_it_hears_that_the_broker_closed() -> None:
    def answer(said: codec.Frame) -> bytes | None:
        return None if said.command == "SEND" else answering("0,1000")(said)

    notebook, peer, _ = virtual(answer, heart_beat=(1000, 0))
    peer.publish(QUEUE, b"x", receipt=False)
    assert peer.expect_end().how is CloseHow.EOF
    assert not peer.connection.is_connected()
    notebook.advance(ms(10_000))
    assert notebook.of(HeartBeatSent) == []
    assert [event.how for event in notebook.of(ConnectionClosed)] == [CloseHow.EOF]


def test_what_it_cannot_send_is_the_brokers_doing_or_its_own() -> None:
    def answer(said: codec.Frame) -> bytes | None:
        return None if said.command == "SEND" else answering()(said)

    notebook, peer, _ = virtual(answer)
    peer.publish(QUEUE, b"x", receipt=False)
    peer.expect_end()
    with pytest.raises(Violated, match="the connection ended"):
        peer.publish(QUEUE, b"y", proves="R")
    assert any("could not send" in event.detail for event in notebook.of(Noted))
    _, peer, _ = virtual(answering())
    peer.close_socket()
    with pytest.raises(ControlFailed, match="has closed this connection"):
        peer.publish(QUEUE, b"x", proves="R")


@pytest.mark.parametrize("how", list(CloseHow))
def test_it_can_be_cut_off(how: CloseHow) -> None:
    notebook, peer, broker = virtual(answering())
    peer.close_socket(how)
    notebook.advance(ms(1))
    assert broker.gone is how
    assert [event.how for event in notebook.of(ConnectionAbandoned)] == [how]


# --- whose fault ----------------------------------------------------------------------------------


def saying(data: bytes) -> Answer:
    """Return a broker that sends ``data`` instead of the first receipt."""

    def answer(said: codec.Frame) -> bytes | None:
        return data if said.command == "SEND" else answering()(said)

    return answer


def test_a_link_that_ends_amid_connect_is_a_failed_control(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(*_: object, **__: object) -> None:
        raise NotConnectedException

    _, peer, _ = virtual(answering())
    monkeypatch.setattr(peer.connection, "connect", ended)
    with pytest.raises(ControlFailed, match="nothing arrived"):
        peer.connect()


def test_a_frame_that_it_loses_is_not_the_brokers_fault() -> None:
    """After two ends of line in one read, stomp.py loses the next frame
    (fixtures/vectors/stomp.json)."""
    notebook, peer, _ = virtual(saying(b"\n\nRECEIPT\nreceipt-id:r1\n\n\0"))
    with pytest.raises(ControlFailed, match="did not pass on RECEIPT"):
        peer.publish(QUEUE, b"x", proves="R")
    assert notebook.judged == []
    assert len(notebook.of(FrameReceived)) == 2


def test_a_frame_that_it_misreads_is_not_the_brokers_fault() -> None:
    notebook, peer, _ = virtual(saying(b"RECEIPT\nreceipt-id:r1\nx:a\\nb\n\n\0"))
    peer._recorder._reader.version = "1.0"  # these two bytes are no escape in this version
    with pytest.raises(ControlFailed, match="crossed the wire"):
        peer.publish(QUEUE, b"x", proves="R")
    assert notebook.judged == []


def test_a_frame_that_it_stumbles_over_is_a_failed_control() -> None:
    _, peer, broker = virtual(saying(b"RECEIPT\n\n\0"))
    with pytest.raises(ControlFailed, match=r"failed on what it read \(KeyError"):
        peer.publish(QUEUE, b"x", proves="R")
    assert not peer.connection.is_connected()
    assert broker.gone is None  # not reported yet: the end of the stream is in transit


def test_a_receipt_that_does_not_come_is() -> None:
    notebook, peer, _ = virtual(saying(b""))
    with pytest.raises(Violated):
        peer.publish(QUEUE, b"x", proves="R")
    assert [held for _, held in notebook.judged] == [False]


# --- the same over sockets ------------------------------------------------------------------------


@pytest.fixture
def served() -> Iterator[tuple[int, SimpleQueue[CloseHow]]]:
    """Serve one TCP connection with a scripted broker that sends a heartbeat every 40 ms; yield the
    port, and the close as the broker saw it."""
    listener = socket.create_server(("127.0.0.1", 0))
    ends: SimpleQueue[CloseHow] = SimpleQueue()

    def serve() -> None:
        answer, reader = answering("40,40"), codec.Reader("1.2")
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(0.04)
            while True:
                try:
                    data = connection.recv(4096)
                except TimeoutError:
                    connection.sendall(b"\n")
                    continue
                except ConnectionResetError:
                    return ends.put(CloseHow.RESET)
                if not data:
                    return ends.put(CloseHow.EOF)
                for frame in reader.feed(data):
                    if isinstance(frame, codec.Frame):
                        connection.sendall(answer(frame) or b"")

    server = threading.Thread(target=serve)
    server.start()
    yield listener.getsockname()[1], ends
    server.join(5)
    assert not server.is_alive()
    listener.close()


@pytest.mark.parametrize("form", [stomppy_transports.over_sockets, stomppy_transports.in_memory])
@pytest.mark.parametrize("how", [None, *CloseHow])
def test_over_sockets_the_trace_is_the_same(
    served: tuple[int, SimpleQueue[CloseHow]],
    form: Callable[..., StompPyPeer],
    how: CloseHow | None,
) -> None:
    port, ends = served
    threads = set(threading.enumerate())
    world = RealWorld({"stomp": ("127.0.0.1", port)}, Canary())
    notebook = Notebook(world)
    # It accepts a heartbeat every two seconds: at a shorter interval stomp.py itself may give up on
    # a busy machine.
    peer = form(notebook, 1, "stomp", "1.2", (40, 2000), None)
    peer.connect()
    peer.publish(QUEUE, b"x")
    beats = (HeartBeatSent, HeartBeatReceived)
    assert world.wait_until(
        lambda: all(notebook.of(beat) for beat in beats), world.now() + seconds(10)
    )
    if how is None:
        peer.disconnect()
    else:
        peer.close_socket(how)
    notebook.advance(ms(10))
    assert [
        (type(event), event.command)
        for event in notebook.events
        if isinstance(event, (FrameSent, FrameReceived))
    ][:4] == [
        (FrameSent, "STOMP"),
        (FrameReceived, "CONNECTED"),
        (FrameSent, "SEND"),
        (FrameReceived, "RECEIPT"),
    ]
    assert [event.how for event in notebook.of(ConnectionAbandoned)] == [how or CloseHow.EOF]
    assert notebook.of(ConnectionClosed) == []
    world.close()
    assert set(threading.enumerate()) <= threads
    assert ends.get(timeout=5) is (how or CloseHow.EOF)


def test_over_sockets_a_closed_port_is_a_failed_control() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # kept open, so that no other process listens there
        world = RealWorld({"stomp": closed.getsockname()}, Canary())
        peer = stomppy_transports.over_sockets(Notebook(world), 1, "stomp", "1.2", (0, 0), None)
        with pytest.raises(ControlFailed, match="does not accept connections"):
            peer.connect()
        world.close()


def test_over_sockets_needs_sockets() -> None:
    world = VirtualWorld(Scripted(answering()), {"stomp": None})
    with pytest.raises(ControlFailed, match="needs a target that has sockets"):
        stomppy_transports.over_sockets(Notebook(world), 1, "stomp", "1.2", (0, 0), None)


def test_an_expectation_names_what_came_instead() -> None:
    _, peer, _ = virtual(saying(b"ERROR\nmessage:no\n\n\0"))
    peer.publish(QUEUE, b"x", receipt=False)
    with pytest.raises(ControlFailed, match="got ERROR"):
        peer.expect(frame("MESSAGE"))
