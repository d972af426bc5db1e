"""STOMP under RabbitMQ's memory and disk alarms, over TCP and WebSocket: who is blocked.

The chapter on flow control says how connections are blocked (their sockets are not read) but not at
which frame. RabbitMQ's plugin accepts the SEND that reveals a client as a publisher. So one SEND
under the alarm may be accepted, but not the next one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from brokerproof.suites.amqp091.steps import QUIET
from brokerproof.suites.api import PATIENCE, Bench, Duration, case, listed, seconds
from brokerproof.suites.api.stomp import Destination, StompPeer, frame
from brokerproof.suites.steps.queues import bodies, collect, receive
from brokerproof.suites.steps.traces import beats_received

CONNECTION_BLOCKED = "RABBITMQ-FLOW-conn-1"
BLOCKED_ON_MEMORY = "RABBITMQ-FLOW-mem-1"
BLOCKED_ON_DISK = "RABBITMQ-FLOW-disk-1"

HEART_BEAT: Duration = seconds(1)
RESOURCES = {"memory": BLOCKED_ON_MEMORY, "disk": BLOCKED_ON_DISK}
TRANSPORTS = pytest.mark.parametrize("over", ["tcp", "websocket"])
"""The chapter describes connections, without distinguishing TCP and WebSocket."""


def client(target: Bench, over: str, **options: Any) -> StompPeer:
    """A connected client; ``options`` are those of ``target.stomp``."""
    return target.stomp(over=target.websocket() if over == "websocket" else None, **options)


@contextmanager
def short_of(target: Bench, resource: str) -> Iterator[None]:
    """Make a resource of the broker short for a while, and let every connection notice it."""
    target.raise_alarm(resource)
    try:
        target.advance(QUIET * 2)
        yield
    finally:
        target.clear_alarm(resource)


def offered(peer: StompPeer, to: Destination, body: bytes) -> str:
    """Send a SEND without waiting for the receipt; return the receipt's id."""
    receipt = peer.next_receipt()
    peer.publish(to, body, {"receipt": receipt}, receipt=False)
    return receipt


def confirmed(peer: StompPeer, receipt: str, proves: str) -> None:
    peer.expect(frame("RECEIPT", {"receipt-id": receipt}), proves=proves)


@case(BLOCKED_ON_MEMORY, BLOCKED_ON_DISK, CONNECTION_BLOCKED, needs={"alarms"})
@TRANSPORTS
def test_an_alarm_holds_back_stomp_producers(target: Bench, over: str) -> None:
    """Under a memory alarm and then a disk alarm, at most the first SEND of a client is confirmed
    and delivered, while other clients consume. After the alarm the remaining SENDs are confirmed
    and their messages arrive once. One scenario: an alarm blocks the whole broker."""
    to = target.destination()
    consumer = client(target, over)
    consumer.subscribe(to, ack="client-individual")
    for resource, proves in RESOURCES.items():
        publisher, idle = client(target, over), client(target, over)
        confirmed(publisher, offered(publisher, to, b"before"), proves)
        received = collect(target, consumer, 1)
        detail = f"'before' was sent before the alarm; {listed(bodies(received))} arrived"
        target.control(bodies(received) == [b"before"], detail)
        with short_of(target, resource):
            first = offered(publisher, to, b"first")
            early = publisher.watch_for(frame("RECEIPT", {"receipt-id": first}), within=QUIET)
            receipts = [offered(publisher, to, b"%d" % at) for at in range(2)]
            second = publisher.watch_for(
                frame("RECEIPT", {"receipt-id": receipts[0]}), within=QUIET * 2
            )
            held = second is None and publisher.ended is None
            instead = "was confirmed" if second else f"was not confirmed; {publisher.instead()}"
            detail = f"while {resource} was short, a second SEND {instead}"
            target.record_finding((proves, CONNECTION_BLOCKED), held, detail)
            if not held:
                for message in (*received, *collect(target, consumer, 3)):
                    consumer.ack(message, receipt=True)
                continue
            consumer.ack(received[0], receipt=True)
            words = f"under the alarm, on a connection that only consumes: {consumer.instead()}"
            target.record_finding(CONNECTION_BLOCKED, consumer.ended is None, words)
            received = receive(target, consumer, 2, within=QUIET * 2)
            detail = f"while {resource} was short, {listed(bodies(received))} arrived of two"
            target.record_finding(proves, bodies(received) in ([], [b"first"]), detail)
            idle.settle()
            words = f"under the alarm, on a connection that sends no message: {idle.instead()}"
            target.record_finding(CONNECTION_BLOCKED, idle.ended is None, words)
        if early is None:
            confirmed(publisher, first, proves)
        for receipt in receipts:
            confirmed(publisher, receipt, proves)
        delivered = bodies(received) + bodies(more := collect(target, consumer, 3 - len(received)))
        detail = f"after the alarm, {listed(delivered)} arrived; expected 'first', 0 and 1"
        target.record_finding(proves, sorted(delivered) == [b"0", b"1", b"first"], detail)
        for message in (*received, *more):
            consumer.ack(message, receipt=True)


@case(CONNECTION_BLOCKED, needs={"alarms"})
@TRANSPORTS
def test_a_blocked_stomp_client_may_be_silent(target: Bench, over: str) -> None:
    """A client with a heartbeat interval of a second sends a message under an alarm and is then
    silent. It stays connected and gets the broker's heartbeats; after the alarm its silence counts
    again."""
    to = target.destination()
    with short_of(target, "memory"):  # raising it may take longer than a client may be silent
        peer, control = (client(target, over, heart_beat="1000,1000") for _ in range(2))
        peer.publish(to, b"under the alarm", receipt=False)
        since = target.now()
        target.wait_until(lambda: peer.ended is not None, 4 * HEART_BEAT)
        words = f"the client was silent for four intervals while blocked: {peer.instead()}"
        target.record_finding(CONNECTION_BLOCKED, peer.ended is None, words)
        if peer.ended is not None:
            return
        target.control(
            control.ended is not None,
            "a client that sends nothing should be disconnected after its silence",
        )
        beats = beats_received(target, peer, since)
        words = f"{len(beats)} signs of life of the broker arrived meanwhile"
        target.record_finding(CONNECTION_BLOCKED, len(beats) >= 3, words)
    peer.expect_end(within=4 * HEART_BEAT + PATIENCE, proves=CONNECTION_BLOCKED)


@case(BLOCKED_ON_MEMORY, BLOCKED_ON_DISK, needs={"alarms"})
@TRANSPORTS
def test_a_stomp_producer_waits_for_the_last_alarm(target: Bench, over: str) -> None:
    """A client publishes under a memory and a disk alarm, and the memory alarm is cleared first.
    Its messages wait until the disk alarm is cleared too."""
    to = target.destination()
    with short_of(target, "disk"):
        with short_of(target, "memory"):
            # Only now: raising an alarm may take longer than a WebSocket may be idle.
            publisher = client(target, over)
            publisher.publish(to, b"first", receipt=False)
            target.advance(QUIET)
            receipt = offered(publisher, to, b"second")
            publisher.expect_nothing(
                for_=QUIET,
                of=frame("RECEIPT"),
                proves=(BLOCKED_ON_MEMORY, BLOCKED_ON_DISK),
                why="memory and disk are short",
            )
        held = (
            publisher.watch_for(frame("RECEIPT", {"receipt-id": receipt}), within=QUIET * 3) is None
        )
        answer = "was not confirmed" if held else "was confirmed"
        words = f"when memory was free again and the disk still short, the second SEND {answer}"
        target.record_finding(BLOCKED_ON_DISK, held, words)
        if not held:
            return
    confirmed(publisher, receipt, BLOCKED_ON_MEMORY)
