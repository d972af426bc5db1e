"""Memory and disk alarms of RabbitMQ: who is held back, who is told, and what goes on (RabbitMQ:
flow control).

An alarm is for all of the broker, so there is one case, which walks through all of it, and targets
of their own for it.
"""

from __future__ import annotations

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case
from brokerproof.harness.model.time import Duration, seconds
from brokerproof.harness.protocols.amqp091.raw_peer import Amqp091Peer, method
from brokerproof.harness.protocols.conversation import PATIENCE
from brokerproof.harness.trace.events import HeartBeatReceived
from brokerproof.suites.amqp091.steps import (
    QUIET,
    arrive,
    bodies,
    drained,
    eventually,
    fill,
    queue_of,
)

BLOCKED, UNBLOCKED = (
    method("connection.blocked", channel=0),
    method("connection.unblocked", channel=0),
)
HEART_BEAT: Duration = seconds(1)


@case(
    *("RABBITMQ-FLOW-mem-1", "RABBITMQ-FLOW-mem-2", "RABBITMQ-FLOW-mem-3", "RABBITMQ-FLOW-disk-1"),
    *("RABBITMQ-FLOW-notify-1", "RABBITMQ-FLOW-conn-1", "RABBITMQ-FLOW-conn-3"),
    needs={"alarms"},
)
def test_an_alarm_holds_back_whoever_publishes(target: Bench) -> None:
    """The memory watermark is set to 0 while connections publish, consume, do both or are idle;
    then it is set back. Then the same with the limit for the disk."""
    memory, at_once, at_runtime, disk, told, others, mixed = target.cited
    owner = target.amqp091(channels=2)
    queue = target.fresh_name()
    owner.declare(queue)
    fill(owner, queue, [b"before"] * 6)
    publisher, deaf = target.amqp091(), target.amqp091(capabilities={"connection.blocked": False})
    consumer, both = target.amqp091(), target.amqp091()
    both.call("basic.qos", {"prefetch-count": 1})
    both.consume(queue)
    (first,) = arrive(both, 1)

    target.raise_alarm("memory")
    try:
        publisher.expect_nothing(
            for_=QUIET, of=BLOCKED, proves=told, why="the connection has published nothing yet"
        )
        publisher.publish(b"held", queue)
        came = publisher.expect(BLOCKED, proves=(told, at_once))
        target.record_finding(
            told, came["reason"] == "low on memory", f"the reason is {came['reason']!r}"
        )
        deaf.publish(b"deaf", queue)
        deaf.expect_nothing(
            for_=QUIET, of=BLOCKED, proves=told, why="the client does not understand it"
        )
        _consumes(target, consumer, queue, others)
        _mixed(target, both, queue, first["delivery-tag"], mixed)
        beating = _silent(target, queue, others)
        left = bodies(drained(owner, queue))
        target.record_finding(
            (memory, at_once),
            b"held" not in left and b"deaf" not in left,
            f"under the alarm {left} could be had",
        )
    finally:
        target.clear_alarm("memory")
    publisher.expect(UNBLOCKED, proves=(told, at_runtime))
    target.record_finding(
        told,
        deaf.take(UNBLOCKED) is None,
        "who was not told of the alarm should not be told of its end",
    )
    more = bodies(arrive(both, 1))  # its acknowledgement counts now, and it has room for one
    target.record_finding(
        mixed, len(more) == 1, f"after the alarm {len(more)} messages came to the mixed connection"
    )
    eventually(owner, lambda: owner.count(queue) >= 3)
    found = sorted([*more, *bodies(drained(owner, queue))])
    all_of_it = found == [b"deaf", b"held", b"mixed", b"silent"]
    target.record_finding(
        (memory, at_runtime),
        all_of_it,
        f"after the alarm {found} could be had, should be what was held back",
    )
    publisher.publish(b"after", queue)
    publisher.settle()
    target.record_finding(
        memory,
        bodies(drained(owner, queue)) == [b"after"],
        "after the alarm messages should pass as before",
    )
    beating.expect_end(within=4 * HEART_BEAT + PATIENCE, proves=others)
    more = arrive(both, 1)
    target.record_finding(
        mixed,
        bodies(more) == [b"before"] or not more,
        f"after the alarm the mixed connection got {bodies(more)}",
    )

    target.raise_alarm("disk")
    try:
        publisher.publish(b"disk", queue)
        came = publisher.expect(BLOCKED, proves=(told, disk))
        target.record_finding(
            told, came["reason"] == "low on disk", f"the reason is {came['reason']!r}"
        )
        target.record_finding(
            disk, owner.count(queue) == 0, "under the alarm no message should come through"
        )
    finally:
        target.clear_alarm("disk")
    publisher.expect(UNBLOCKED, proves=(told, disk))
    target.record_finding(
        disk,
        eventually(owner, lambda: owner.count(queue) == 1),
        "after the alarm the message should be there",
    )
    owner.call("queue.delete", {"queue": queue})


def _consumes(target: Bench, consumer: Amqp091Peer, queue: str, proves: str) -> None:
    """A connection that only consumes begins to, acknowledges and gets more, and declares what it
    likes."""
    consumer.call("basic.qos", {"prefetch-count": 1}, proves=proves)
    tag = consumer.consume(queue, proves=proves)
    for _ in range(2):
        consumer.ack(consumer.delivery(proves=proves)["delivery-tag"])
    consumer.call("basic.cancel", {"consumer-tag": tag}, proves=proves)
    queue_of(consumer)
    target.record_finding(
        proves, consumer.ended is None, "a connection that only consumes should go on"
    )


def _mixed(target: Bench, both: Amqp091Peer, queue: str, tag: int, proves: str) -> None:
    """A connection that consumes publishes: its acknowledgement has no effect, and it gets nothing
    more."""
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
    """A connection with heart-beats publishes and says nothing more, for longer than it may be
    silent: it stays, and hears the server's heart-beats."""
    peer = target.amqp091(heartbeat=HEART_BEAT // seconds(1))
    peer.publish(b"silent", queue)
    peer.expect(BLOCKED, proves=proves)
    since = target.now()
    target.wait_until(lambda: peer.ended is not None, 4 * HEART_BEAT)
    target.record_finding(
        proves,
        peer.ended is None,
        f"silent for four intervals while it is blocked: {peer.instead()}",
    )
    beats = [
        each
        for each in target.events
        if isinstance(each, HeartBeatReceived) and each.conn == peer.conn and each.at_ns > since
    ]
    target.record_finding(
        proves, len(beats) >= 3, f"{len(beats)} heart-beats of the server came meanwhile"
    )
    return peer
