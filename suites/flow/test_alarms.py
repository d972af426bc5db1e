"""RabbitMQ's memory and disk alarms: who is blocked, who is notified, and what continues.

(RabbitMQ: flow control.) An alarm affects the whole broker, so one case checks everything, on
targets of its own.
"""

from brokerproof.suites.amqp091.steps import (
    QUIET,
    arrive,
    bodies,
    drained,
    eventually,
    fill,
    queue_of,
)
from brokerproof.suites.api import PATIENCE, Bench, Duration, case, listed, seconds
from brokerproof.suites.api.amqp091 import Amqp091Peer, method
from brokerproof.suites.steps.traces import beats_received

BLOCKED_ON_MEMORY = "RABBITMQ-FLOW-mem-1"
BLOCKED_AT_ONCE = "RABBITMQ-FLOW-mem-2"
SET_AT_RUNTIME = "RABBITMQ-FLOW-mem-3"
BLOCKED_ON_DISK = "RABBITMQ-FLOW-disk-1"
NOTIFIED = "RABBITMQ-FLOW-notify-1"
OTHERS_GO_ON = "RABBITMQ-FLOW-conn-1"
MIXED_CONNECTION = "RABBITMQ-FLOW-conn-3"

BLOCKED, UNBLOCKED = (
    method("connection.blocked", channel=0),
    method("connection.unblocked", channel=0),
)
HEART_BEAT: Duration = seconds(1)


@case(
    BLOCKED_ON_MEMORY,
    BLOCKED_AT_ONCE,
    SET_AT_RUNTIME,
    BLOCKED_ON_DISK,
    NOTIFIED,
    OTHERS_GO_ON,
    MIXED_CONNECTION,
    needs={"alarms"},
)
def test_an_alarm_holds_back_whoever_publishes(target: Bench) -> None:
    """A memory alarm and then a disk alarm are raised and cleared while connections publish,
    consume, do both or are idle. Publishers are blocked and notified, consumers continue, and after
    each alarm the blocked messages arrive. One scenario: an alarm blocks the whole broker, so one
    case observes all of its effects."""
    owner = target.amqp091(channels=2)
    queue = target.fresh_name()
    owner.declare(queue)
    fill(owner, queue, [b"before"] * 6)
    publisher, deaf = target.amqp091(), target.amqp091(capabilities={"connection.blocked": False})
    consumer, both = target.amqp091(), target.amqp091()
    both.call("basic.qos", {"prefetch-count": 1})
    both.consume(queue)
    first = both.delivery()

    target.raise_alarm("memory")
    try:
        publisher.expect_nothing(
            for_=QUIET, of=BLOCKED, proves=NOTIFIED, why="the connection has published nothing yet"
        )
        publisher.publish(b"held", queue)
        answer = publisher.expect(BLOCKED, proves=(NOTIFIED, BLOCKED_AT_ONCE))
        detail = f"connection.blocked has the reason {answer['reason']!r}"
        target.record_finding(NOTIFIED, answer["reason"] == "low on memory", detail)
        deaf.publish(b"deaf", queue)
        deaf.expect_nothing(
            for_=QUIET, of=BLOCKED, proves=NOTIFIED, why="the client does not understand it"
        )
        _consumes(target, consumer, queue, OTHERS_GO_ON)
        _mixed(target, both, queue, first["delivery-tag"], MIXED_CONNECTION)
        beating = _silent(target, queue, OTHERS_GO_ON)
        left = bodies(drained(owner, queue))
        target.record_finding(
            (BLOCKED_ON_MEMORY, BLOCKED_AT_ONCE),
            b"held" not in left and b"deaf" not in left,
            f"under the alarm, {listed(left)} could be received",
        )
    finally:
        target.clear_alarm("memory")
    publisher.expect(UNBLOCKED, proves=(NOTIFIED, SET_AT_RUNTIME))
    told = "no" if deaf.take(UNBLOCKED) is None else "a"
    words = f"a client that does not understand connection.blocked got {told} connection.unblocked"
    target.record_finding(NOTIFIED, told == "no", words)
    more = bodies(arrive(both, 1))  # now the broker reads its ack: room for one message
    detail = f"after the alarm, {len(more)} messages reached the mixed connection"
    target.record_finding(MIXED_CONNECTION, len(more) == 1, detail)
    eventually(owner, lambda: owner.count(queue) >= 3)
    received = sorted([*more, *bodies(drained(owner, queue))])
    all_of_it = received == [b"deaf", b"held", b"mixed", b"silent"]
    target.record_finding(
        (BLOCKED_ON_MEMORY, SET_AT_RUNTIME),
        all_of_it,
        f"after the alarm, {listed(received)} could be received; expected the four blocked ones",
    )
    publisher.publish(b"after", queue)
    publisher.settle()
    passed = bodies(drained(owner, queue))
    words = f"after the alarm, 'after' was sent; {listed(passed)} arrived"
    target.record_finding(BLOCKED_ON_MEMORY, passed == [b"after"], words)
    beating.expect_end(within=4 * HEART_BEAT + PATIENCE, proves=OTHERS_GO_ON)
    last = bodies(arrive(both, 1))
    detail = f"after the alarm, the mixed connection got {listed(last)}"
    target.record_finding(MIXED_CONNECTION, last in ([b"before"], []), detail)

    target.raise_alarm("disk")
    try:
        publisher.publish(b"disk", queue)
        answer = publisher.expect(BLOCKED, proves=(NOTIFIED, BLOCKED_ON_DISK))
        detail = f"connection.blocked has the reason {answer['reason']!r}"
        target.record_finding(NOTIFIED, answer["reason"] == "low on disk", detail)
        count = owner.count(queue)
        words = f"under the alarm, {count} messages reached the queue"
        target.record_finding(BLOCKED_ON_DISK, count == 0, words)
    finally:
        target.clear_alarm("disk")
    publisher.expect(UNBLOCKED, proves=(NOTIFIED, BLOCKED_ON_DISK))
    arrived = eventually(owner, lambda: owner.count(queue) == 1)
    words = f"after the alarm, the queue has {owner.count(queue)} messages; one had been blocked"
    target.record_finding(BLOCKED_ON_DISK, arrived, words)
    owner.call("queue.delete", {"queue": queue})


def _consumes(target: Bench, consumer: Amqp091Peer, queue: str, proves: str) -> None:
    """Judge whether a connection that only consumes can acknowledge, get more messages, and
    declare."""
    consumer.call("basic.qos", {"prefetch-count": 1}, proves=proves)
    tag = consumer.consume(queue, proves=proves)
    for _ in range(2):
        consumer.ack(consumer.delivery(proves=proves)["delivery-tag"])
    consumer.call("basic.cancel", {"consumer-tag": tag}, proves=proves)
    queue_of(consumer)
    words = f"under the alarm, on a connection that only consumes: {consumer.instead()}"
    target.record_finding(proves, consumer.ended is None, words)


def _mixed(target: Bench, both: Amqp091Peer, queue: str, tag: int, proves: str) -> None:
    """Publish on a connection that consumes: its acknowledgement has no effect, and it receives
    nothing."""
    both.publish(b"mixed", queue)
    both.expect(BLOCKED, proves=proves)
    both.ack(tag)
    both.expect_nothing(
        for_=QUIET * 2,
        of=method("basic.deliver"),
        proves=proves,
        why="its acknowledgement is not read",
    )


def _silent(target: Bench, queue: str, proves: str) -> Amqp091Peer:
    """Publish on a connection with heartbeats, then be silent for longer than allowed. The
    connection stays open and receives the server's heartbeats."""
    peer = target.amqp091(heartbeat=HEART_BEAT // seconds(1))
    peer.publish(b"silent", queue)
    peer.expect(BLOCKED, proves=proves)
    since = target.now()
    target.wait_until(lambda: peer.ended is not None, 4 * HEART_BEAT)
    words = f"the client was silent for four intervals while blocked: {peer.instead()}"
    target.record_finding(proves, peer.ended is None, words)
    beats = beats_received(target, peer, since)
    detail = f"{len(beats)} heartbeats of the server arrived meanwhile"
    target.record_finding(proves, len(beats) >= 3, detail)
    return peer
