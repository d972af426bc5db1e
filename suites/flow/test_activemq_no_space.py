"""ActiveMQ configured to refuse a send for lack of room, immediately or after a time-out.

(ActiveMQ documentation, "Configure Client-Side Exceptions"; fail.xml and timeout.xml in
fixtures/brokers/activemq.)
"""

from typing import Any

import pytest
from hypothesis import strategies as st

from brokerproof.harness.clients.activemq_statistics import Statistics
from brokerproof.suites.api import Bench, Clock, Duration, Target, case, listed, ms, over
from brokerproof.suites.steps.producer_flow import (
    CONSUMERS,
    PRODUCERS,
    PROMPTLY,
    QUIET,
    Place,
    Producer,
    Scale,
    StompProducer,
    filled,
    place,
    slack,
    waits_for,
)
from brokerproof.suites.steps.queues import commit_is_confirmed, judge_arrivals, left_in, numbered
from brokerproof.suites.steps.small_addresses import SMALLEST, body

AT_ONCE = "ACTIVEMQ-PFC-9"
AFTER_A_WHILE = "ACTIVEMQ-PFC-10"
ATOMIC = "STOMP12-BEGIN-03"
NEEDS = {"stomp-1.2", "amqp", "statistics"}
both = pytest.mark.parametrize("protocol", ["stomp", "amqp"])


def full_of(target: Bench, protocol: str) -> tuple[Statistics, Producer, Place, int]:
    """Fill a queue, waiting for every answer; return the number of messages."""
    statistics, producer, to = target.statistics(), PRODUCERS[protocol](target), place(target, "vm")
    return statistics, producer, to, filled(target, producer, statistics, to, 1000)


def refused(
    target: Bench,
    producer: Producer,
    offered: Any,
    proves: str,
    bounds: tuple[Duration, Duration],
    since: int,
) -> None:
    """Judge whether the message is refused within ``bounds`` after ``since``; over AMQP, with a
    reason."""
    producer.expect(offered, "refused", "a message for which there is no room", proves)
    target.judge_duration(
        proves, "until it was refused", producer.answered_at(offered) - since, bounds, since
    )
    if producer.protocol == "amqp":
        link, delivery = offered
        error = link.session.outcomes[delivery].part("state").get("error")
        detail = f"it was rejected with {error}"
        target.record_finding(proves, "resource-limit-exceeded" in str(error), detail)


@case(AT_ONCE, needs={*NEEDS, "send-fail"})
@both
@over(
    examples=10,
    always=lambda target: [{"gap": gap, "sizes": [1000, 300]} for gap in (-1, 0, 1)],
    gap=st.sampled_from([-300, -1, 0, 1, 300]),
    sizes=st.lists(st.integers(SMALLEST, 3000), max_size=3),
)
def test_a_send_without_room_fails_at_once(
    target: Bench, protocol: str, gap: int, sizes: list[int]
) -> None:
    """A queue is filled to its limit or slightly below or above. Below the limit it accepts one
    more message; from the limit on it refuses the message immediately, with the reason. The
    connection continues."""
    statistics, producer, to = target.statistics(), PRODUCERS[protocol](target), place(target, "vm")
    data = Scale(target, producer, statistics).bodies(to.policy.memory_limit + gap, sizes)
    for size in data:
        producer.send(to, size, proves=AT_ONCE)
    if gap < 0:
        data.append(body(len(data), max(20, -gap)))
        producer.send(to, data[-1], proves=AT_ONCE)
    again = body(len(data), 20)
    for _ in range(2):
        since = target.now()
        refused(target, producer, producer.offer(to, again), AT_ONCE, (0, PROMPTLY), since)
    producer.send(place(target, "vm"), body(0, 20), proves=AT_ONCE)
    received = CONSUMERS[protocol](target, to).rest(len(data))
    judge_arrivals(target, AT_ONCE, received, len(data), "accepted")
    producer.send(to, again, proves=AT_ONCE)


@case(ATOMIC, needs={*NEEDS, "transactions", "send-fail"})
@over(
    examples=4,
    always=lambda target: [{"before": 1, "behind": 1}],
    before=st.integers(0, 3),
    behind=st.integers(0, 3),
)
def test_a_transaction_whose_send_finds_no_room_is_whole(
    target: Bench, before: int, behind: int
) -> None:
    """In a transaction, one SEND without receipt goes to a full queue, the rest have room. Either
    COMMIT is confirmed and all messages arrive, or it is not confirmed and none arrives."""
    _, _, full, count = full_of(target, "stomp")
    to, producer = place(target, "vm"), target.stomp()
    named = {"transaction": producer.transaction}
    producer.request("BEGIN", named)
    sent = numbered(before + behind)
    for data in sent[:before]:
        producer.publish(to.to, data, named, receipt=False)
    producer.publish(full.to, body(count, 20), named, receipt=False)
    for data in sent[before:]:
        producer.publish(to.to, data, named, receipt=False)
    is_confirmed = commit_is_confirmed(target, producer)
    heard = "was confirmed" if is_confirmed else f"was not confirmed ({producer.instead()})"
    producer.close_socket()
    left = left_in(target, to.to, "1.2", len(sent) if is_confirmed else 0)
    arrived = CONSUMERS["stomp"](target, full).rest(count + is_confirmed)
    target.record_finding(
        ATOMIC,
        (len(left), len(arrived)) == ((len(sent), count + 1) if is_confirmed else (0, count)),
        f"COMMIT {heard}; {listed(left)} arrived of {len(sent)} messages with room, and"
        f" {len(arrived) - count} of the one without",
    )


@case(AFTER_A_WHILE, needs={*NEEDS, "send-fail-timeout"})
@both
@over(examples=4, always=lambda target: [{"offers": 2}], offers=st.integers(1, 5))
def test_a_send_without_room_fails_after_the_time(
    target: Bench, protocol: str, offers: int
) -> None:
    """Messages are sent to a full queue at intervals. Each is refused when its time-out expires,
    not before, and the connection continues."""
    _, producer, to, count = full_of(target, protocol)
    wait, other = waits_for(target), place(target, "vm")
    waiting = []
    for number in range(offers):
        waiting.append((target.now(), producer.offer(to, body(count + number, 20))))
        producer.send(other, body(number, 20), proves=AFTER_A_WHILE)
        target.advance(wait // 8)
    for _, offered in waiting:
        producer.heard(offered)
    target.advance(QUIET)  # by then the host's delay is known
    for since, offered in waiting:
        refused(target, producer, offered, AFTER_A_WHILE, (wait, wait + slack(target, wait)), since)
    received = CONSUMERS[protocol](target, to).rest(count)
    judge_arrivals(target, AFTER_A_WHILE, received, count, "accepted")
    since, late = target.now(), producer.offer(to, body(count, 20))
    producer.expect(late, "taken", "once there was room again, a message", AFTER_A_WHILE)
    target.judge_duration(
        AFTER_A_WHILE,
        "until it was accepted",
        producer.answered_at(late) - since,
        (0, PROMPTLY),
        since,
    )


def earlier(target: Target) -> st.SearchStrategy[Duration]:
    """Return how long before the time-out to make room; longer on real, slower hosts."""
    return st.sampled_from(
        [ms(50), ms(500), ms(2900)]
        if target.clock is Clock.VIRTUAL
        else [ms(1000), ms(2000), ms(2700)]
    )


@case(AFTER_A_WHILE, needs={*NEEDS, "send-fail-timeout"})
@both
@over(examples=6, always=lambda target: [{"early": ms(1500)}], early=earlier)
def test_room_in_time_saves_a_send(target: Bench, protocol: str, early: Duration) -> None:
    """A consumer makes room at a full queue shortly before a waiting message's time-out. The
    message is accepted immediately and arrives. One scenario: freed room must end the wait."""
    _, producer, to, count = full_of(target, protocol)
    since = target.now()
    waiting = producer.offer(to, body(count, 20))
    wait = waits_for(target)
    target.advance(max(0, wait - early - (target.now() - since)))
    if target.now() - since > wait - early // 2:
        target.record_finding(
            AFTER_A_WHILE,
            False,
            "there was no time left to make room in",
            uncertain="the host was late",
        )
        return
    words = f"after {(target.now() - since) // ms(1)} ms, it still waits"
    target.record_finding(AFTER_A_WHILE, producer.answer(waiting) is None, words)
    consumer, room = CONSUMERS[protocol](target, to), target.now()
    received = consumer.rest(count + 1)
    if not producer.taken_in_time(waiting, AFTER_A_WHILE, early, since):
        return
    target.judge_duration(
        AFTER_A_WHILE,
        "from the consumer to the answer",
        producer.answered_at(waiting) - room,
        (0, PROMPTLY),
        room,
    )
    target.advance(2 * early)
    late = producer.peer.inbox if isinstance(producer, StompProducer) else []
    target.record_finding(AFTER_A_WHILE, not late, f"after it was accepted: {producer.instead()}")
    judge_arrivals(target, AFTER_A_WHILE, received, count + 1, "sent")


@case(AFTER_A_WHILE, needs={*NEEDS, "send-fail-timeout"})
@over(examples=4, always=lambda target: [{"pushed": 1}], pushed=st.integers(1, 2))
def test_a_stalled_connection_goes_on_after_the_time(target: Bench, pushed: int) -> None:
    """SENDs without receipt to a full queue stall their connection until the time-out of each. Then
    the connection continues, and none of them is in the queue."""
    _, producer, to, count = full_of(target, "stomp")
    assert isinstance(producer, StompProducer)
    wait, other = waits_for(target), place(target, "vm")
    since = target.now()
    for number in range(pushed):
        producer.push(to, body(count + number, 20))
    behind = producer.offer(other, body(0, 20))
    producer.heard(behind, within=(pushed + 2) * wait)
    producer.expect(
        behind,
        "taken",
        f"after {pushed} messages for which there was no room, a message",
        AFTER_A_WHILE,
    )
    bounds = (pushed * wait, pushed * (wait + slack(target, wait)))
    target.judge_duration(
        AFTER_A_WHILE, "until it was accepted", producer.answered_at(behind) - since, bounds, since
    )
    received = CONSUMERS["stomp"](target, to).rest(count)
    judge_arrivals(target, AFTER_A_WHILE, received, count, "accepted")
