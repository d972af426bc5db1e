"""Under ActiveMQ's flow control a producer's messages stay in order even if only some must wait.

(ActiveMQ documentation, "How do I preserve order of messages"; fixtures/brokers/activemq/flow.xml.)
"""

import itertools

import pytest
from hypothesis import strategies as st

from brokerproof.suites.api import Bench, case, listed, over
from brokerproof.suites.steps.producer_flow import (
    CONSUMERS,
    PRODUCERS,
    OpenWireProducer,
    Place,
    Producer,
    StompConsumer,
    StompProducer,
    filled,
    place,
)
from brokerproof.suites.steps.small_addresses import body

ORDER = "ACTIVEMQ-ORDER-1"
NEEDS = {"stomp-1.2", "amqp", "openwire", "producer-flow-control", "statistics"}


def out_of_place(numbers: list[int]) -> str:
    """Describe the first message that arrived after a later message."""
    for before, after in itertools.pairwise(numbers):
        if after < before:
            return f"message {after} arrived after message {before}"
    return "all arrived in order"


@case(ORDER, needs=NEEDS)
@over(
    examples=6,
    always=lambda target: [{"waiting": 1, "pushed": 1}],
    waiting=st.integers(1, 3),
    pushed=st.integers(1, 3),
)
def test_who_waits_is_not_overtaken_by_who_stalls(target: Bench, waiting: int, pushed: int) -> None:
    """A producer sends to a full queue with a receipt, without one, and again with one. Once a
    consumer makes room, the messages arrive in that order."""
    statistics, producer, to = target.statistics(), StompProducer(target), place(target, "vm")
    count = filled(target, producer, statistics, to, 1000)
    for _ in range(waiting):
        producer.offer(to, body(count, 20))
        count += 1
    for _ in range(pushed):
        producer.push(to, body(count, 20))
        count += 1
    last = producer.offer(to, body(count, 20))
    received = StompConsumer(target, to).rest(count + 1)
    producer.expect(last, "taken", "once there was room again, the last message")
    words = f"{count + 1} messages were sent; {listed(received)} arrived"
    target.control(sorted(received) == list(range(count + 1)), words)
    detail = (
        f"the queue had {count - waiting - pushed} messages when it was full:"
        f" {out_of_place(received)}"
    )
    target.record_finding(ORDER, received == sorted(received), detail)


@case(ORDER, needs=NEEDS)
@pytest.mark.parametrize("protocol", ["stomp", "amqp", "openwire"])
@over(examples=4, always=lambda target: [{"size": 500}], size=st.integers(300, 2000))
def test_who_waits_is_not_overtaken_by_who_comes_later(
    target: Bench, protocol: str, size: int
) -> None:
    """A producer sends many times a queue's capacity without waiting for answers, while a consumer
    acknowledges. The messages arrive in order, as from a queue without flow control."""
    count = 150
    detail = f"of {count} messages of {size} bytes"
    for kind in ("off", "vm", "off"):
        result = streamed(target, protocol, place(target, kind), count, size)
        if kind == "vm":
            words = f"{detail}: {out_of_place(result)}"
            target.record_finding(ORDER, result == sorted(result), words)
        else:
            words = f"{detail} to a queue without flow control: {out_of_place(result)}"
            target.control(result == sorted(result), words)


def streamed(target: Bench, protocol: str, to: Place, count: int, size: int) -> list[int]:
    """Send ``count`` messages and consume them concurrently; return their order of arrival."""
    wide = OpenWireProducer(target, window=10_000_000)
    producer: Producer = wide if protocol == "openwire" else PRODUCERS[protocol](target)
    consumer = CONSUMERS["stomp" if protocol == "openwire" else protocol](target, to)
    for number in range(count):
        if protocol == "openwire":
            wide.push(to, body(number, size))
        else:
            producer.offer(to, body(number, size))
    received = consumer.rest(count)
    detail = f"{count} messages were sent; {len(received)} arrived; {producer.instead()}"
    target.control(sorted(received) == list(range(count)), detail)
    return received
