"""Channels (class channel, 4.3, 4.5, 4.8)."""

from __future__ import annotations

from hypothesis import strategies as st

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case, over
from brokerproof.harness.protocols.amqp091.raw_peer import method
from brokerproof.suites.amqp091.steps import (
    CHANNEL,
    CONNECTION,
    QUIET,
    arrive,
    bodies,
    fill,
    queue_of,
)

CHANNEL_OPENED_TWICE = "AMQP091-CHAN-01"
CHANNEL_NOT_OPEN = "AMQP091-CHAN-03"
OTHER_CHANNELS_CONTINUE = "AMQP091-CHAN-02"
CHANNEL_MAX_EXCEEDED = "AMQP091-TUNE-06"
CLOSED_CHANNEL_REDELIVERS = "AMQP091-CHAN-04"
REDELIVERED_FLAG = "AMQP091-RED-01"
CHANNEL_FLOW = "AMQP091-CHAN-05"


@case(CHANNEL_OPENED_TWICE, needs={"amqp091"})
def test_a_channel_is_opened_once(target: Bench) -> None:
    """A second channel.open on an open channel closes the connection with 504 CHANNEL_ERROR."""
    peer = target.amqp091()
    peer.send("channel.open", channel=1)
    peer.refused(CONNECTION, 504, proves=CHANNEL_OPENED_TWICE)


@case(CHANNEL_NOT_OPEN, needs={"amqp091"})
@over(
    examples=6,
    name=st.sampled_from(["basic.qos", "queue.declare", "basic.get", "tx.select"]),
    closed=st.booleans(),
)
def test_a_method_on_a_channel_that_is_not_open_is_an_error(
    target: Bench, name: str, closed: bool
) -> None:
    """A method on a channel that was never opened, or has been closed, closes the connection with
    504 CHANNEL_ERROR."""
    peer = target.amqp091(channels=2)
    if closed:
        peer.close_channel(2)
    peer.send(name, {}, channel=2 if closed else 9)
    peer.refused(CONNECTION, 504, proves=CHANNEL_NOT_OPEN)


@case(OTHER_CHANNELS_CONTINUE, needs={"amqp091"})
def test_other_channels_go_on(target: Bench) -> None:
    """A channel exception closes one channel. Another channel of the connection still publishes and
    consumes."""
    peer = target.amqp091(channels=2)
    queue = queue_of(peer, channel=2)
    peer.consume(queue, channel=2, no_ack=True)
    peer.send("queue.declare", {"queue": target.fresh_name(), "passive": True}, channel=1)
    peer.refused(CHANNEL, 404, channel=1)
    peer.publish(b"after", queue, channel=2)
    delivery = peer.delivery(channel=2, proves=OTHER_CHANNELS_CONTINUE)
    target.record_finding(
        OTHER_CHANNELS_CONTINUE,
        delivery.body == b"after",
        f"channel 2 delivered {delivery.brief()}",
    )


@case(CHANNEL_MAX_EXCEEDED, needs={"amqp091"})
@over(examples=3, most=st.sampled_from([1, 2, 5]))
def test_more_channels_than_agreed_are_refused(target: Bench, most: int) -> None:
    """As many channels as channel-max allows can be opened. One more closes the connection."""
    peer = target.amqp091(channels=most, channel_max=most)
    peer.send("channel.open", channel=most + 1)
    peer.expect(method("connection.close", channel=0), proves=CHANNEL_MAX_EXCEEDED)


@case(CLOSED_CHANNEL_REDELIVERS, REDELIVERED_FLAG, needs={"amqp091"})
@over(examples=4, way=st.sampled_from(["channel.close", "exception", "connection.close", "gone"]))
def test_what_a_closed_channel_had_is_delivered_again(target: Bench, way: str) -> None:
    """Of three delivered messages one is acknowledged; then the channel or its connection is
    closed, in order or not. Another consumer gets the other two, in order, with redelivered set."""
    owner = target.amqp091()
    name = target.fresh_name()
    owner.declare(name)
    peer = target.amqp091()
    fill(peer, name, [b"1", b"2", b"3"])
    peer.consume(name)
    first = arrive(peer, 3)
    target.control(bodies(first) == [b"1", b"2", b"3"], "three messages should arrive")
    peer.ack(first[0]["delivery-tag"])
    peer.settle()
    match way:
        case "channel.close":
            peer.close_channel()
        case "exception":
            peer.send("queue.declare", {"queue": target.fresh_name(), "passive": True}, channel=1)
            peer.refused(CHANNEL, 404)
        case "connection.close":
            peer.close()
        case "gone":
            peer.close_socket()
    owner.consume(name, no_ack=True)
    deliveries = arrive(owner, 2)
    target.record_finding(
        CLOSED_CHANNEL_REDELIVERS,
        bodies(deliveries) == [b"2", b"3"],
        f"afterwards {bodies(deliveries)} arrived",
    )
    flags = [delivery["redelivered"] for delivery in deliveries]
    target.record_finding(
        REDELIVERED_FLAG, flags == [True] * len(deliveries), f"the flags redelivered are {flags}"
    )
    owner.call("queue.delete", {"queue": name})


@case(CHANNEL_FLOW, needs={"amqp091"})
def test_the_flow_of_content_can_be_stopped(target: Bench) -> None:
    """channel.flow with active=false is answered with flow-ok, and no delivery follows. After
    active=true the waiting message is delivered."""
    peer = target.amqp091()
    queue = queue_of(peer)
    peer.consume(queue, no_ack=True)
    answer = peer.call("channel.flow", {"active": False}, proves=CHANNEL_FLOW)
    target.record_finding(
        CHANNEL_FLOW, answer["active"] is False, f"flow-ok says active={answer['active']}"
    )
    peer.publish(b"later", queue)
    peer.expect_nothing(
        for_=QUIET, of=method("basic.deliver"), proves=CHANNEL_FLOW, why="the flow is stopped"
    )
    peer.call("channel.flow", {"active": True}, proves=CHANNEL_FLOW)
    delivery = peer.delivery(proves=CHANNEL_FLOW)
    target.record_finding(
        CHANNEL_FLOW, delivery.body == b"later", f"afterwards {delivery.brief()} arrived"
    )
