"""Heartbeats in both directions (4.2.7; RabbitMQ: heartbeats)."""

from hypothesis import strategies as st

from brokerproof.harness.protocols.amqp091 import codec
from brokerproof.suites.amqp091.steps import QUIET, fill, queue_of
from brokerproof.suites.api import Bench, Duration, case, ms, over, seconds
from brokerproof.suites.api.amqp091 import Amqp091Peer, either, method
from brokerproof.suites.steps.silence import unread_for
from brokerproof.suites.steps.traces import beats_received

SERVER_HEARTBEATS = "AMQP091-HB-02"
RABBITMQ_HEARTBEATS = "RABBITMQ-AMQP091-HB-01"
SILENT_CLIENT_DISCONNECTED = "AMQP091-HB-03"
NO_CLOSE_AFTER_SILENCE = "AMQP091-HB-04"
ANY_BYTE_KEEPS_ALIVE = "AMQP091-HB-05"
HEARTBEATS_DISABLED = "AMQP091-HB-06"

STATES = ("nothing", "a delivery", "a transaction", "a content", "a stopped flow")
"""States of a silent connection."""
REAL_S = 1
"""The interval in real time, in seconds: the minimum."""


def _interval(target: Bench, virtual_s: int) -> int:
    return virtual_s if target.virtual else REAL_S * target.target.identity.clock_rate


@case(SERVER_HEARTBEATS, RABBITMQ_HEARTBEATS, needs={"amqp091"})
@over(
    examples=4,
    always=lambda target: [{"virtual_s": 2, "state": state} for state in STATES],
    virtual_s=st.sampled_from([1, 2, 7, 60]),
    state=st.sampled_from(STATES),
)
def test_the_server_beats(target: Bench, virtual_s: int, state: str) -> None:
    """Client and server agree on a heartbeat interval, and the client sends only heartbeats. It
    holds a delivery at its prefetch or an open transaction, has begun a content or stopped a flow,
    or did nothing. The server's heartbeats arrive every half interval (RabbitMQ's documentation),
    and never further apart than one interval."""
    interval = _interval(target, virtual_s)
    peer = _in_state(target, state, interval)
    if state == "a stopped flow":
        peer.send("channel.flow", {"active": False}, channel=1)
        stopped = method("channel.flow-ok", channel=1)
        if peer.expect(either(stopped, method("connection.close"))).name != "channel.flow-ok":
            target.record_not_applicable(SERVER_HEARTBEATS, "no channel can be stopped")
            return
    since = target.now()
    for _ in range(7):
        target.advance(seconds(interval) // 2)
        peer.beat()
    beats = beats_received(target, peer, since)
    words = f"heart-beats in 3.5 intervals, with {state}"
    target.judge_count(RABBITMQ_HEARTBEATS, words, len(beats), (6, 8), "heart-beats")
    detail = f"{len(beats)} heart-beats arrived in 3.5 intervals of {interval} s, with {state}"
    target.record_finding(SERVER_HEARTBEATS, len(beats) >= 3, detail)
    target.require(SERVER_HEARTBEATS, len(beats) > 1, detail)
    target.judge_period(SERVER_HEARTBEATS, f"beats with {state}", beats, (0, seconds(interval)))


def _in_state(target: Bench, state: str, interval: int) -> Amqp091Peer:
    """Return a connection in one of :data:`STATES`. Control: the connection reaches this state."""
    peer = target.amqp091(heartbeat=interval)
    queue = queue_of(peer)
    match state:
        case "a delivery":
            fill(peer, queue, [b"held", b"waits"])
            peer.call("basic.qos", {"prefetch-count": 1})
            peer.consume(queue)
            peer.delivery()
        case "a transaction":
            peer.call("tx.select")
            peer.publish(b"open", queue)
            peer.settle()
        case "a stopped flow":
            peer.publish(b"waits", queue)
            peer.consume(queue)
            peer.delivery()
        case "a content":
            peer.write(peer.publication(b"begun", queue)[: -codec.OVERHEAD - len(b"begun")])
    return peer


@case(SILENT_CLIENT_DISCONNECTED, NO_CLOSE_AFTER_SILENCE, RABBITMQ_HEARTBEATS, needs={"amqp091"})
@over(examples=4, virtual_s=st.sampled_from([1, 3, 60]), speaks=st.sampled_from([0, 1, 2]))
def test_a_silent_client_is_given_up(target: Bench, virtual_s: int, speaks: int) -> None:
    """The client falls silent, immediately or after some heartbeats. The server closes the
    connection after two to three intervals, without connection.close."""
    interval = seconds(_interval(target, virtual_s))
    peer = target.amqp091(heartbeat=interval // seconds(1))
    for _ in range(speaks):
        target.advance(interval * 3 // 4)
        peer.beat()
    assert peer.spoke_at is not None
    since, unread = peer.spoke_at, unread_for(target, peer)
    peer.expect_end(
        within=interval * 4 + seconds(2), proves=(SILENT_CLIENT_DISCONNECTED, RABBITMQ_HEARTBEATS)
    )
    assert peer.ended is not None
    gone = peer.ended.at - since
    target.judge_duration(
        SILENT_CLIENT_DISCONNECTED,
        "from the last byte to the end",
        gone,
        (2 * interval, None),
        since,
    )
    late = target.punctuality(interval)
    target.judge_duration(
        RABBITMQ_HEARTBEATS,
        "until it is disconnected",
        gone,
        (2 * interval, 3 * interval + late + unread),
        since,
    )
    answers = [reply.brief() for reply in peer.inbox]
    words = (
        f"before disconnecting a silent client, the broker sent {'; '.join(answers) or 'nothing'}"
    )
    target.record_finding(NO_CLOSE_AFTER_SILENCE, not answers, words)


@case(ANY_BYTE_KEEPS_ALIVE, needs={"amqp091"})
@over(examples=4, what=st.sampled_from(["heart-beats", "methods", "octets"]))
def test_any_octet_is_a_sign_of_life(target: Bench, what: str) -> None:
    """A client sends heartbeats, methods, or a frame byte by byte, one every half interval. It is
    not disconnected for five intervals."""
    interval: Duration = seconds(_interval(target, 2))
    peer = target.amqp091(heartbeat=interval // seconds(1))
    frame = (  # the beginning of a method, byte by byte
        b"\x01\x00\x01\x00\x00\x00\x08\x00\x14\x00\x14\x01"
    )
    for step in range(10):
        target.advance(interval // 2)
        if peer.ended is not None:
            break
        if what == "heart-beats":
            peer.beat()
        elif what == "methods":
            peer.send("basic.qos", {}, channel=1)
        else:
            peer.write(frame[step : step + 1])
    target.record_finding(
        ANY_BYTE_KEEPS_ALIVE,
        peer.ended is None,
        f"with {what} every half interval: {peer.instead()}",
        uncertain=peer.overdue(interval),
    )


@case(HEARTBEATS_DISABLED, needs={"amqp091"})
@over(examples=2, virtual_s=st.sampled_from([180, 1000]))
def test_without_an_interval_there_are_no_heart_beats(target: Bench, virtual_s: int) -> None:
    """The client tunes the heartbeat interval to 0. No heartbeat arrives, and the silent connection
    stays open."""
    peer = target.amqp091(heartbeat=0)
    since = target.now()
    target.advance(seconds(virtual_s) if target.virtual else ms(3500))
    beats = beats_received(target, peer, since)
    detail = f"{len(beats)} heartbeats arrived although tune-ok had heartbeat=0"
    target.record_finding(HEARTBEATS_DISABLED, not beats, detail)
    detail = f"without heartbeats, a client was silent: {peer.instead()}"
    target.record_finding(HEARTBEATS_DISABLED, peer.ended is None, detail)
    if peer.ended is None:
        peer.settle()
        peer.expect_nothing(for_=QUIET)
