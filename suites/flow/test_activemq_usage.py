"""ActiveMQ's broker-wide limits on memory, store and temporary store, and their flow control.

(ActiveMQ documentation, "System usage" and "Disabling Flow Control";
fixtures/brokers/activemq/usage.xml.) Each case uses up the resources of a whole broker, so the
cases run one after another on separate targets, and each restores the initial state.
"""

import pytest
from hypothesis import strategies as st

from brokerproof.harness.clients.activemq_statistics import Statistics
from brokerproof.suites.api import (
    PATIENCE,
    RECONFIGURABLE,
    Bench,
    Duration,
    Where,
    case,
    listed,
    over,
    seconds,
)
from brokerproof.suites.steps.producer_flow import (
    PLAIN,
    QUIET,
    Place,
    Scale,
    StompConsumer,
    StompProducer,
    broker_limit,
    place,
)
from brokerproof.suites.steps.queues import judge_arrivals
from brokerproof.suites.steps.small_addresses import body

ONE_BY_ONE = "ACTIVEMQ-PFC-1"
ONE_BY_ONE_ON_DISK = "ACTIVEMQ-PFC-READING-1"
WAITS = "ACTIVEMQ-PFC-2"
SWITCHED_OFF = "ACTIVEMQ-PFC-6"
LIMITS = "ACTIVEMQ-PFC-11"
TO_THE_DISK = "ACTIVEMQ-PFC-12"
NEEDS = {"stomp-1.2", "amqp", "system-usage", "statistics"}
SIZE = 10_000
"""Bytes of a body: a few messages fill the available room."""
FULL: Duration = seconds(4)
"""A send without an answer after this time waits for room: even on a busy host, a write to disk
takes less time."""
MOST_BESIDES = 1500
"""Bytes that a message may take on disk beyond its body: its headers and its index entry."""
SPARE = 250_000
"""Bytes that a store may hold besides messages: an index, a partly filled file."""


def used(statistics: Statistics, kind: str) -> int:
    return statistics.broker()[kind].used


def empty(target: Bench, statistics: Statistics, kind: str) -> int:
    """Return the amount in use before the case begins. Control: at most half of the limit."""
    limit, deadline = broker_limit(target, kind), target.now() + PATIENCE
    while (before := used(statistics, kind)) > limit // 2 and target.now() < deadline:
        target.advance(QUIET)
    detail = f"{before} bytes of {kind} are in use before anything was sent"
    target.control(before <= limit // 2, detail)
    return before


def on_disk(
    target: Bench,
    producer: StompProducer,
    to: Place,
    kind: str,
    before: int,
    proves: tuple[str, ...],
) -> tuple[int, str]:
    """Send messages until one is not answered. Return the number of accepted messages, and the
    unanswered message. Require that this happens at the limit of ``kind``, of which ``before``
    bytes were in use."""
    limit, count = broker_limit(target, kind), 0
    least = (limit - before - SPARE) // (SIZE + MOST_BESIDES)
    while True:
        offered = producer.offer(to, body(count, SIZE), persistent=kind == "store")
        if producer.heard(offered, PATIENCE if count < least else FULL) is None:
            break
        words = f"message {count} was refused; {producer.instead()}"
        target.require(proves, producer.answer(offered) == "taken", words)
        count += 1
        words = f"{count} messages of {SIZE} bytes were accepted into {limit} bytes"
        target.require(proves, count * SIZE <= limit + SIZE, words)
    target.judge_count(
        proves, f"messages on disk ({kind})", count, (least, limit // SIZE + 1), "messages"
    )
    return count, offered


@case(LIMITS, WAITS, ONE_BY_ONE, needs=NEEDS)
def test_all_of_the_memory_can_be_used_up(target: Bench) -> None:
    """Two queues without limits of their own fill the broker's memory. A producer to either queue
    then waits, and continues when its connection consumes messages."""
    statistics, producer = target.statistics(), StompProducer(target)
    limit, weight = broker_limit(target, "memory"), Scale(target, producer, statistics).weight(SIZE)
    before = empty(target, statistics, "memory")
    queues = [place(target, "vm"), place(target, "vm")]
    sent = [0, 0]
    while used(statistics, "memory") < limit and sum(sent) < 2 * limit // weight:
        which = sum(sent) % 2
        producer.send(queues[which], body(sent[which], SIZE), proves=LIMITS)
        sent[which] += 1
    # Memory in use at the start may have been freed since, and queries for statistics briefly use
    # some.
    least, most = (limit - before) // weight, limit // weight + 1
    target.judge_count(
        LIMITS, "messages in all of the memory", sum(sent), (least, most), "messages"
    )
    waiting = [producer.offer(queues[which], body(sent[which], SIZE)) for which in range(2)]
    for key in waiting:
        producer.waits(
            key, (LIMITS, WAITS), f"{used(statistics, 'memory')} bytes of {limit} are in use"
        )
    producer.peer.subscribe(queues[0].to, ack="client-individual", proves=ONE_BY_ONE)
    for number in range(sent[0]):
        producer.peer.ack(
            producer.peer.message(body=body(number, SIZE), proves=ONE_BY_ONE), receipt=True
        )
    for key in waiting:
        producer.expect(
            key, "taken", "once there was room again, a message", (LIMITS, WAITS, ONE_BY_ONE)
        )
    producer.peer.ack(producer.peer.message(body=body(sent[0], SIZE), proves=WAITS), receipt=True)
    received = StompConsumer(target, queues[1]).rest(sent[1] + 1)
    judge_arrivals(target, WAITS, received, sent[1] + 1, "sent")


@case(LIMITS, WAITS, needs=NEEDS)
def test_all_of_the_store_can_be_used_up(target: Bench) -> None:
    """Persistent messages fill the store and their producer waits, while non-persistent ones are
    accepted. Once the queue's messages are consumed, the producer continues."""
    statistics, producer, other = target.statistics(), StompProducer(target), StompProducer(target)
    to, beside = place(target, PLAIN), place(target, "vm")
    before = empty(target, statistics, "store")
    count, waiting = on_disk(target, producer, to, "store", before, (LIMITS, WAITS))
    full = statistics.broker()["store"]
    detail = f"a persistent message waits while the store uses {full}"
    target.record_finding(LIMITS, full.full, detail)
    other.send(beside, body(0, SIZE), proves=LIMITS)
    received = StompConsumer(target, to).rest(count + 1)
    producer.expect(waiting, "taken", "once the store had room, a message", (LIMITS, WAITS))
    judge_arrivals(target, WAITS, received, count + 1, "sent")
    StompConsumer(target, beside).rest(1)


@case(LIMITS, WAITS, needs=NEEDS)
def test_all_of_the_temporary_store_can_be_used_up(target: Bench) -> None:
    """Non-persistent messages fill the temporary store and their producer waits, while persistent
    ones are accepted. Once the queue's messages are consumed, the producer continues."""
    statistics, producer, other = target.statistics(), StompProducer(target), StompProducer(target)
    to, beside = place(target, PLAIN), place(target, PLAIN)
    before = empty(target, statistics, "temp")
    count, waiting = on_disk(target, producer, to, "temp", before, (LIMITS, WAITS))
    other.send(beside, body(0, SIZE), persistent=True, proves=LIMITS)
    received = StompConsumer(target, to).rest(count + 1)
    producer.expect(
        waiting, "taken", "once the temporary store had room, a message", (LIMITS, WAITS)
    )
    judge_arrivals(target, WAITS, received, count + 1, "sent")
    StompConsumer(target, beside).rest(1)


@case(LIMITS, ONE_BY_ONE_ON_DISK, needs=NEEDS)
@pytest.mark.parametrize("kind", ["store", "temp"])
def test_who_waits_for_disk_does_not_hold_up_its_connection(target: Bench, kind: str) -> None:
    """A SEND waits because the store for its kind of message is full; a SEND of the other kind on
    the same connection is confirmed."""
    statistics, producer = target.statistics(), StompProducer(target)
    to, beside = place(target, PLAIN), place(target, PLAIN if kind == "temp" else "vm")
    before = empty(target, statistics, kind)
    producer.send(beside, body(0, 20), persistent=kind == "temp")
    count, waiting = on_disk(target, producer, to, kind, before, (LIMITS,))
    behind = producer.offer(beside, body(1, 20), persistent=kind == "temp")
    received = producer.heard(behind, 5 * QUIET)
    answer = received or "not answered"
    detail = (
        f"while a message waits for room ({kind}), one of the other kind on its connection was"
        f" {answer}"
    )
    target.record_finding(ONE_BY_ONE_ON_DISK, received == "taken", detail)
    delivered = StompConsumer(target, to).rest(count + 1)
    producer.expect(waiting, "taken", "once there was room on disk, a message")
    producer.expect(behind, "taken", "once there was room on disk, the messages after them")
    words = f"{count + 1} messages were sent; {listed(delivered)} arrived"
    target.control(delivered == list(range(count + 1)), words)
    StompConsumer(target, beside).rest(2)


@case(TO_THE_DISK, SWITCHED_OFF, needs=NEEDS)
def test_without_flow_control_messages_are_taken_until_the_disk_is_full(target: Bench) -> None:
    """A queue without flow control and with a small memoryLimit keeps its messages in files. It
    accepts messages until the disk limit is reached, and all of them arrive."""
    statistics, producer, to = target.statistics(), StompProducer(target), place(target, "off")
    before = empty(target, statistics, "temp")
    count, waiting = on_disk(target, producer, to, "temp", before, (TO_THE_DISK,))
    more = count * SIZE // to.policy.memory_limit
    words = f"{count} messages of {SIZE} bytes were accepted, {more} times the queue's memoryLimit"
    target.record_finding(SWITCHED_OFF, more >= 10, words)
    received = StompConsumer(target, to).rest(count + 1)
    producer.expect(waiting, "taken", "once there was room on disk again, a message")
    judge_arrivals(target, TO_THE_DISK, received, count + 1, "sent")


SMALL = st.sampled_from(
    [Where("stomp", {"broker": {"disk_space": size}}) for size in (600_000, 1_000_000, 1_500_000)]
)


@case(TO_THE_DISK, LIMITS, needs={*NEEDS, RECONFIGURABLE})
@over(examples=4, where=SMALL, kind=st.sampled_from(["store", "temp"]))
def test_a_small_disk_is_used_up(target: Bench, where: Where, kind: str) -> None:
    """A broker's limit exceeds its disk. Without flow control it accepts messages until the disk is
    full; then a producer waits, and all messages arrive."""
    statistics, producer, to = target.statistics(), StompProducer(target), place(target, "off")
    before = empty(target, statistics, kind)
    count, waiting = on_disk(target, producer, to, kind, before, (TO_THE_DISK, LIMITS))
    more = count * SIZE // to.policy.memory_limit
    words = f"{count} messages of {SIZE} bytes were accepted, {more} times the queue's memoryLimit"
    target.record_finding(TO_THE_DISK, more >= 10, words)
    received = StompConsumer(target, to).rest(count + 1)
    producer.expect(waiting, "taken", "once there was room on disk again, a message", LIMITS)
    judge_arrivals(target, TO_THE_DISK, received, count + 1, "sent")
