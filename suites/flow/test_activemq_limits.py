"""Producers at the limit of an ActiveMQ destination: which ones wait, and from which byte on.

(ActiveMQ documentation, producer flow control; the targets are configured with
fixtures/brokers/activemq/flow.xml.)
"""

from typing import Any

import pytest
from hypothesis import strategies as st

from brokerproof.suites.api import Bench, RoutingType, Target, case, listed, over
from brokerproof.suites.api.stomp import frame
from brokerproof.suites.steps.producer_flow import (
    CONSUMERS,
    PRODUCERS,
    QUIET,
    AmqpConsumer,
    AmqpProducer,
    Scale,
    StompConsumer,
    StompProducer,
    filled,
    place,
)
from brokerproof.suites.steps.queues import judge_arrivals
from brokerproof.suites.steps.small_addresses import SMALLEST, body

ONE_BY_ONE = "ACTIVEMQ-PFC-1"
WAITS = "ACTIVEMQ-PFC-2"
ANSWERED = "ACTIVEMQ-PFC-3"
SWITCHED_OFF = "ACTIVEMQ-PFC-6"
ONE_AT_A_TIME = "ACTIVEMQ-PFC-5"
FILES = "ACTIVEMQ-PFC-7"
STALLS = "ACTIVEMQ-PFC-8"
NEEDS = {"stomp-1.2", "amqp", "producer-flow-control", "statistics"}
GAPS = (-1, 0, 1)
both = pytest.mark.parametrize("protocol", ["stomp", "amqp"])


def corners(target: Target) -> list[dict[str, Any]]:
    return [{"gap": gap, "sizes": [1000, 300]} for gap in GAPS]


@case(WAITS, ANSWERED, ONE_AT_A_TIME, needs=NEEDS)
@both
@over(
    examples=12,
    always=corners,
    gap=st.sampled_from([*GAPS, -200, 204]),
    sizes=st.lists(st.integers(SMALLEST, 3000), max_size=3),
)
def test_a_message_waits_from_the_very_octet(
    target: Bench, protocol: str, gap: int, sizes: list[int]
) -> None:
    """A queue is filled with non-persistent messages to its limit, or some bytes below or above.
    Below the limit it accepts one more; from the limit on it answers only once it has room."""
    statistics, producer, to = target.statistics(), PRODUCERS[protocol](target), place(target, "vm")
    limit, scale = to.policy.memory_limit, Scale(target, producer, statistics)
    data = scale.bodies(limit + gap, sizes)
    for size in data:
        producer.send(to, size, proves=(ANSWERED, ONE_AT_A_TIME))
    held = statistics.destination(to.name)
    detail = f"the queue should hold {limit + gap} bytes; it holds {held.memory}"
    target.control(held.memory.used == limit + gap, detail)
    if gap < 0:
        data.append(body(len(data), 20))
        producer.send(to, data[-1], proves=WAITS)
    waiting = producer.offer(to, body(len(data), 20))
    producer.waits(
        waiting,
        (WAITS, ANSWERED, ONE_AT_A_TIME),
        f"the queue holds {statistics.destination(to.name).memory}",
    )
    received = CONSUMERS[protocol](target, to).rest(len(data) + 1)
    producer.expect(waiting, "taken", "once there was room again, a message", (WAITS, ANSWERED))
    judge_arrivals(target, WAITS, received, len(data) + 1, "sent")


@case(ONE_BY_ONE, WAITS, needs=NEEDS)
@over(
    examples=6,
    always=lambda target: [{"full": 2, "size": 1000}],
    full=st.integers(1, 4),
    size=st.integers(10, 5000),
)
def test_who_waits_does_not_hold_up_a_stomp_connection(target: Bench, full: int, size: int) -> None:
    """SENDs of one connection wait at several full queues. Its other SENDs, deliveries and ACKs
    continue. Once one queue has room, only the SEND to that queue is confirmed."""
    statistics, producer, other = target.statistics(), StompProducer(target), place(target, "off")
    waiting = []
    for _ in range(full):
        to = place(target, "vm")
        count = filled(target, producer, statistics, to, size)
        waiting.append((to, count, producer.offer(to, body(count, 20))))
    producer.waits(waiting[-1][2], ONE_BY_ONE, f"{full} queues are full")
    for number in range(3):
        producer.send(other, body(number, 100), proves=ONE_BY_ONE)
    producer.peer.subscribe(other.to, ack="client-individual", proves=ONE_BY_ONE)
    for number in range(3):
        message = producer.peer.message(body=body(number, 100), proves=ONE_BY_ONE)
        producer.peer.ack(message, receipt=True)
    for at, (to, count, offered) in enumerate(waiting):
        received = StompConsumer(target, to).rest(count + 1)
        producer.expect(
            offered, "taken", f"once its queue had room, message {at}", (ONE_BY_ONE, WAITS)
        )
        judge_arrivals(target, WAITS, received, count + 1, "sent")
        early = [
            later
            for later, (_, _, key) in enumerate(waiting)
            if later > at and producer.answer(key)
        ]
        words = f"only {at + 1} of {full} queues have room; messages to {early} were answered"
        target.record_finding(ONE_BY_ONE, not early, words)


@case(ONE_BY_ONE, WAITS, needs=NEEDS)
def test_who_waits_does_not_hold_up_an_amqp_session(target: Bench) -> None:
    """While one link of an AMQP session waits at a full queue, the session's other links continue
    and make room."""
    statistics, producer, other = target.statistics(), AmqpProducer(target), place(target, "off")
    to, still = place(target, "vm"), place(target, "vm")
    count = filled(target, producer, statistics, to, 1000)
    waiting = producer.offer(to, body(count, 20))
    waits_on = producer.offer(still, body(filled(target, producer, statistics, still, 1000), 20))
    for number in range(3):
        producer.send(other, body(number, 100), proves=ONE_BY_ONE)
    received = AmqpConsumer(target, to, peer=producer.peer).take(count)
    words = f"{count} messages were accepted; {listed(received)} arrived on the same session"
    target.record_finding(ONE_BY_ONE, received == list(range(count)), words)
    producer.expect(waiting, "taken", "once its queue had room, a message", (ONE_BY_ONE, WAITS))
    producer.waits(waits_on, ONE_BY_ONE, "the other queue is full as before")


@case(ANSWERED, STALLS, WAITS, needs=NEEDS)
@over(
    examples=6,
    always=lambda target: [{"pushed": 1, "size": 1000}],
    pushed=st.integers(1, 30),
    size=st.integers(10, 3000),
)
def test_who_asks_for_nothing_is_stalled(target: Bench, pushed: int, size: int) -> None:
    """SENDs without receipt to a full queue get no answer, and neither does any later frame of the
    connection. Once a consumer has made room, all messages arrive, once and in order."""
    statistics, owner, stalled = target.statistics(), StompProducer(target), StompProducer(target)
    to, other = place(target, "vm"), place(target, "off")
    count = filled(target, owner, statistics, to, 1000)
    waiting = owner.offer(to, body(count, 20))
    stalled.send(other, body(0, 10))
    for number in range(pushed):
        stalled.push(to, body(1000 + number, size))
    behind = stalled.offer(other, body(1, 10))
    stalled.waits(
        behind,
        (STALLS, ANSWERED),
        f"after {pushed} messages to a full queue that asked for no response",
    )
    owner.send(other, body(2, 10), proves=STALLS)
    delivered = StompConsumer(target, to).rest(count + 1 + pushed)
    stalled.expect(
        behind, "taken", "once there was room again, the messages after them", (STALLS, WAITS)
    )
    owner.expect(waiting, "taken", "once there was room again, a message", WAITS)
    answers = stalled.peer.inbox
    words = f"a producer that asked for no response received: {stalled.instead()}"
    target.record_finding(ANSWERED, not answers, words)
    received = [
        [number for number in delivered if (number < 1000) is mine] for mine in (True, False)
    ]
    expected = [list(range(count + 1)), list(range(1000, 1000 + pushed))]
    target.record_finding(
        WAITS,
        received == expected,
        f"one producer sent {count + 1} messages, of which {listed(received[0])} arrived; another"
        f" sent {pushed}, of which {listed(received[1])} arrived",
    )


@case(WAITS, needs=NEEDS)
@over(
    examples=6,
    always=lambda target: [{"producers": 3, "size": 1500}],
    producers=st.integers(1, 4),
    size=st.integers(200, 6000),
)
def test_a_burst_does_not_get_past_the_limit(target: Bench, producers: int, size: int) -> None:
    """Producers send many times the queue's capacity without waiting. The queue exceeds its limit
    by at most one message of each, and every message arrives once, in its producer's order."""
    statistics, to = target.statistics(), place(target, "vm")
    crowd = [StompProducer(target) for _ in range(producers)]
    weight, limit = Scale(target, crowd[0], statistics).weight(size), to.policy.memory_limit
    per_producer = 3 * limit // weight + 2
    for number in range(per_producer):
        for who, producer in enumerate(crowd):
            producer.push(to, body(1000 * who + number, size))
    statistics.until(to.name, lambda held: held.memory.full)
    target.advance(QUIET)
    used = statistics.destination(to.name).memory.used
    target.judge_count(
        WAITS, "bytes at a full queue", used, (limit, limit - 1 + producers * weight), "bytes"
    )
    received = StompConsumer(target, to).rest(per_producer * producers)
    by_producer = [
        [number for number in received if number // 1000 == who] for who in range(producers)
    ]
    expected = [list(range(1000 * who, 1000 * who + per_producer)) for who in range(producers)]
    words = f"each producer sent {per_producer}; {'; '.join(map(listed, by_producer))} arrived"
    target.record_finding(WAITS, by_producer == expected, words)


@case(SWITCHED_OFF, WAITS, needs=NEEDS)
@both
def test_flow_control_can_be_switched_off_for_a_queue(target: Bench, protocol: str) -> None:
    """Two queues have the same limit. The one without flow control accepts many times that; the
    other makes its producer wait."""
    statistics, producer = target.statistics(), PRODUCERS[protocol](target)
    on, off = place(target, "vm"), place(target, "off")
    size, limit = 1000, off.policy.memory_limit
    count = 5 * limit // size
    for number in range(count):
        producer.send(off, body(number, size), proves=SWITCHED_OFF)
    held = statistics.destination(off.name)
    words = f"without flow control, a queue holds {held.memory}"
    target.record_finding(SWITCHED_OFF, held.memory.used > 5 * limit, words)
    waiting = producer.offer(on, body(filled(target, producer, statistics, on, size), 20))
    producer.waits(waiting, (SWITCHED_OFF, WAITS), "beside it a queue with flow control is full")
    received = CONSUMERS[protocol](target, off).rest(count)
    judge_arrivals(target, SWITCHED_OFF, received, count, "accepted")


@case(SWITCHED_OFF, WAITS, needs=NEEDS)
def test_flow_control_can_be_switched_off_for_a_topic(target: Bench) -> None:
    """Two topics with the same limit each have a subscriber that acknowledges nothing. The one
    without flow control accepts many times the limit; at the other a producer waits for an ACK."""
    statistics, producer = target.statistics(), StompProducer(target)
    on, off = (place(target, kind, RoutingType.MULTICAST) for kind in ("vm", "off"))
    slow, other = StompConsumer(target, on, prefetch=1), StompConsumer(target, off, prefetch=1)
    size, limit = 1000, off.policy.memory_limit
    for number in range(5 * limit // size):
        producer.send(off, body(number, size), proves=SWITCHED_OFF)
    target.control(
        other.peer.take(frame("MESSAGE")) is not None,
        "the subscriber of the other topic got something",
    )
    count = filled(target, producer, statistics, on, size)
    waiting = producer.offer(on, body(count, 20))
    producer.waits(waiting, (SWITCHED_OFF, WAITS), "beside it a topic with flow control is full")
    received = slow.rest(count + 1)
    producer.expect(waiting, "taken", "once there was room again, a message to the topic", WAITS)
    judge_arrivals(target, WAITS, received, count + 1, "sent")


@case(FILES, needs=NEEDS)
@both
def test_a_cursor_in_files_never_reaches_the_limit(target: Bench, protocol: str) -> None:
    """Two queues have the same limit. The one with a file cursor accepts many times that, and its
    messages arrive once, in order; the other keeps to its limit."""
    statistics, producer = target.statistics(), PRODUCERS[protocol](target)
    memory, files = place(target, "vm"), place(target, "file")
    size, limit = 1000, files.policy.memory_limit
    count, most = 5 * limit // size, 0
    for number in range(count):
        producer.send(files, body(number, size), proves=FILES)
        most = max(most, statistics.destination(files.name).memory.used)
    target.judge_count(
        FILES, "bytes in memory where messages wait in files", most, (0, limit - 1), "bytes"
    )
    held = statistics.destination(files.name).messages
    detail = f"{count} messages were accepted; the queue has {held}"
    target.record_finding(FILES, held == count, detail)
    waiting = producer.offer(memory, body(filled(target, producer, statistics, memory, size), 20))
    producer.waits(waiting, FILES, "beside it a queue whose messages wait in memory is full")
    received = CONSUMERS[protocol](target, files).rest(count)
    judge_arrivals(target, FILES, received, count, "accepted")
