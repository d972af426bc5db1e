"""The virtual world: time jumps, links keep order, and only events on the heap happen."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.harness.model.broker_io import (
    BytesReceived,
    Close,
    Connected,
    Effect,
    Input,
    Observe,
    PeerGone,
    ResumeReading,
    SendBytes,
    StopReading,
    TimerFired,
    WritePaused,
    WriteResumed,
)
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import Instant, ms, seconds
from brokerproof.harness.worlds.link import LinkFaults
from brokerproof.harness.worlds.virtual import SOCKET_BUFFER, BrokerStuck, VirtualWorld
from brokerproof.harness.worlds.world import Unreachable


class Scripted:
    """A broker that echoes, and obeys single letters as commands."""

    def __init__(self) -> None:
        self.heard: list[tuple[Instant, Input]] = []
        self.due: Instant | None = None
        self.conn = 0

    def handle(self, now: Instant, event: Input) -> Sequence[Effect]:
        self.heard.append((now, event))
        match event:
            case Connected(conn=conn):
                self.conn = conn
                return []
            case BytesReceived(conn=conn, data=b"close"):
                return [SendBytes(conn, b"bye"), Close(conn)]
            case BytesReceived(conn=conn, data=b"stop"):
                self.due = now + ms(100)
                return [StopReading(conn)]
            case BytesReceived(conn=conn, data=b"timer"):
                self.due = now + ms(250)
                return [Observe(conn, "X-1", "saw it")]
            case BytesReceived(conn=conn, data=data):
                return [SendBytes(conn, data)]
            case TimerFired():
                self.due = None
                return [ResumeReading(self.conn), SendBytes(self.conn, b"timer!")]
        return []

    def next_deadline(self) -> Instant | None:
        return self.due


class Ear:
    def __init__(self) -> None:
        self.arrivals: list[tuple[Instant, bytes]] = []
        self.closed: tuple[Instant, CloseHow] | None = None

    def bytes_arrived(self, at: Instant, data: bytes) -> None:
        self.arrivals.append((at, data))

    def channel_closed(self, at: Instant, how: CloseHow) -> None:
        assert self.closed is None
        self.closed = (at, how)

    @property
    def heard(self) -> bytes:
        return b"".join(data for _, data in self.arrivals)


def world(broker: object, **kwargs: object) -> VirtualWorld:
    return VirtualWorld(broker, {"stomp": {}}, **kwargs)  # type: ignore[arg-type]


def test_waiting_for_nothing_jumps_to_the_deadline() -> None:
    w = world(Scripted())
    assert not w.wait_until(lambda: False, seconds(86_400))
    assert w.now() == seconds(86_400)


def test_an_answer_arrives_without_time_passing_on_a_perfect_link() -> None:
    w, ear = world(Scripted()), Ear()
    w.open("stomp", ear).write(b"hello")
    assert w.wait_until(lambda: bool(ear.arrivals), seconds(1))
    assert ear.arrivals == [(0, b"hello")]


def test_a_timer_fires_at_its_instant_and_not_before() -> None:
    w, ear = world(Scripted()), Ear()
    w.open("stomp", ear).write(b"timer")
    assert not w.wait_until(lambda: bool(ear.arrivals), ms(250) - 1)
    assert w.wait_until(lambda: bool(ear.arrivals), ms(250))
    assert ear.arrivals == [(ms(250), b"timer!")]


def test_latency_delays_both_ways() -> None:
    w, ear = world(Scripted()), Ear()
    w.faults = LinkFaults(latency=ms(10))
    w.open("stomp", ear).write(b"x")
    w.wait_until(lambda: bool(ear.arrivals), seconds(1))
    assert ear.arrivals == [(ms(20), b"x")]


@given(
    st.binary(min_size=1, max_size=300), st.integers(1, 40), st.integers(0, 5), st.integers(0, 1000)
)
def test_a_bad_link_never_loses_or_reorders(
    data: bytes, fragment: int, jitter: int, seed: int
) -> None:
    w, ear = world(Scripted(), seed=seed), Ear()
    w.faults = LinkFaults(latency=3, jitter=jitter, fragment=fragment)
    link = w.open("stomp", ear)
    half = len(data) // 2
    link.write(b"." + data[:half])
    link.write(data[half:] + b".")
    w.wait_until(lambda: False, 10_000)
    assert ear.heard == b"." + data + b"."
    assert [at for at, _ in ear.arrivals] == sorted(at for at, _ in ear.arrivals)


def test_the_same_seed_gives_the_same_world() -> None:
    def arrivals(seed: int) -> list[tuple[Instant, bytes]]:
        w, ear = world(Scripted(), seed=seed), Ear()
        w.faults = LinkFaults(latency=5, jitter=1000, fragment=3)
        w.open("stomp", ear).write(b"a conversation cut to pieces")
        w.wait_until(lambda: False, 100_000)
        return ear.arrivals

    assert arrivals(1) == arrivals(1) != arrivals(2)


def test_what_was_sent_before_a_close_still_arrives() -> None:
    w, ear = world(Scripted()), Ear()
    w.faults = LinkFaults(latency=ms(1))
    link = w.open("stomp", ear)
    link.write(b"close")
    w.wait_until(lambda: ear.closed is not None, seconds(1))
    assert ear.heard == b"bye"
    assert ear.closed == (ms(2), CloseHow.EOF)
    link.write(b"too late")  # harmless


def test_a_half_close_and_a_cut_reach_the_broker_as_what_they_are() -> None:
    broker = Scripted()
    w = world(broker)
    w.open("stomp", Ear()).half_close()
    w.open("stomp", Ear()).cut()
    w.wait_until(lambda: False, 1)
    gone = {event for _, event in broker.heard if isinstance(event, PeerGone)}
    assert gone == {PeerGone(1, CloseHow.EOF), PeerGone(2, CloseHow.RESET)}


def test_a_broker_that_stops_reading_is_not_fed_until_it_resumes() -> None:
    broker, ear = Scripted(), Ear()
    w = world(broker)
    link = w.open("stomp", ear)
    link.write(b"stop")
    w.wait_until(lambda: False, ms(1))
    link.write(b"later")
    w.wait_until(lambda: False, ms(99))
    assert ear.heard == b""
    w.wait_until(lambda: False, ms(200))
    assert (ms(100), BytesReceived(1, b"later")) in broker.heard


def test_a_peer_that_stops_reading_gets_everything_when_it_reads_again() -> None:
    w, ear = world(Scripted()), Ear()
    link = w.open("stomp", ear)
    link.hold_reading(True)
    link.write(b"close")
    w.wait_until(lambda: False, ms(5))
    assert (ear.heard, ear.closed) == (b"", None)
    link.hold_reading(False)
    assert (ear.heard, ear.closed) == (b"bye", (ms(5), CloseHow.EOF))


def test_the_broker_learns_that_its_writes_wait_and_that_they_go_on() -> None:
    broker = Scripted()
    w = world(broker)
    link = w.open("stomp", Ear())
    link.hold_reading(True)
    link.apply(SendBytes(1, bytes(SOCKET_BUFFER)))
    w.wait_until(lambda: False, ms(1))
    assert not [event for _, event in broker.heard if isinstance(event, WritePaused)]
    link.apply(SendBytes(1, b"x"))
    link.apply(SendBytes(1, b"y"))
    w.wait_until(lambda: False, ms(2))
    link.hold_reading(False)
    paused = [event for _, event in broker.heard if isinstance(event, WritePaused | WriteResumed)]
    assert paused == [WritePaused(1), WriteResumed(1)]


def test_what_the_broker_observes_is_passed_on() -> None:
    seen: list[object] = []
    w = world(Scripted(), observed=seen.append)
    w.open("stomp", Ear()).write(b"timer")
    w.wait_until(lambda: bool(seen), seconds(1))
    assert [(finding.requirement, finding.detail) for finding in seen] == [("X-1", "saw it")]  # type: ignore[attr-defined]


def test_a_broker_that_never_moves_on_is_found_out() -> None:
    broker = Scripted()
    w = world(broker)
    broker.next_deadline = lambda: 0  # type: ignore[method-assign]
    with pytest.raises(BrokerStuck, match="woken at 0 ns"):
        w.wait_until(lambda: False, seconds(1))


def test_an_unknown_acceptor_is_unreachable() -> None:
    with pytest.raises(Unreachable, match="no acceptor 'nowhere'; it has stomp"):
        world(Scripted()).open("nowhere", Ear())
