"""OpenWire producers at the limit of an ActiveMQ queue: Responses, windows and ProducerAcks.

(ActiveMQ documentation, producer flow control; fixtures/brokers/activemq.) Messages are consumed
over STOMP.
"""

from typing import Any

from hypothesis import strategies as st

from brokerproof.suites.api import PATIENCE, Bench, Duration, Target, case, listed, ms, over
from brokerproof.suites.api.openwire import command
from brokerproof.suites.api.openwire import queue as openwire_queue
from brokerproof.suites.openwire.steps import COMMIT, ROLLBACK, begin, transact
from brokerproof.suites.steps.producer_flow import (
    PROMPTLY,
    QUIET,
    OpenWireProducer,
    Place,
    Scale,
    StompConsumer,
    StompProducer,
    filled,
    place,
    slack,
    waits_for,
)
from brokerproof.suites.steps.queues import judge_arrivals, numbered
from brokerproof.suites.steps.small_addresses import body

ONE_BY_ONE = "ACTIVEMQ-PFC-1"
WAITS = "ACTIVEMQ-PFC-2"
ANSWERED = "ACTIVEMQ-PFC-3"
WINDOW = "ACTIVEMQ-PFC-4"
ALWAYS_SYNC = "ACTIVEMQ-PFC-5"
STALLS = "ACTIVEMQ-PFC-8"
AT_ONCE = "ACTIVEMQ-PFC-9"
AFTER_A_WHILE = "ACTIVEMQ-PFC-10"
COUNTS = "OPENWIRE-TX-1"
UNDONE = "STOMP11-BEGIN-02"
BASE = {"stomp-1.2", "amqp", "openwire", "statistics"}
NEEDS = {*BASE, "producer-flow-control"}
RESOURCE = "ResourceAllocationException"


class Window:
    """The client's account of a producer with a window: bytes sent and acknowledged."""

    def __init__(self, target: Bench, producer: OpenWireProducer, to: Place) -> None:
        self.target, self.producer, self.to = target, producer, to
        self.id = producer.producer(to)
        self.costs: list[int] = []
        """Bytes of the window that each sent message occupies, in order."""
        self.acks: list[int] = []
        """The acknowledged sizes, in order."""

    @property
    def outstanding(self) -> int:
        self.acks += self.producer.peer.acks(self.id)
        return sum(self.costs) - sum(self.acks)

    def send(self, size: int) -> None:
        """Send one more message, even if the window does not allow it."""
        message = self.producer.message(self.to, body(len(self.costs), size))
        self.costs.append(message.cost)
        self.producer.peer.publish(message)

    def room(self, size: int, within: Duration) -> bool:
        """Wait for room for one more message. A client may send while any of its window is left."""

        def there() -> bool:
            return self.outstanding < self.producer.window or self.producer.ended()

        return self.target.wait_until(there, within)

    def acknowledged(self, count: int, within: Duration = PATIENCE) -> bool:
        self.target.wait_until(lambda: self.outstanding >= 0 and len(self.acks) >= count, within)
        return len(self.acks) >= count


def corners(target: Target) -> list[dict[str, Any]]:
    return [{"window": window, "size": 1000} for window in (1, 4096, 100_000)]


@case(WINDOW, WAITS, ONE_BY_ONE, needs=NEEDS)
@over(
    examples=8,
    always=corners,
    window=st.sampled_from([1, 1500, 4096, 10_000, 100_000]),
    size=st.integers(10, 4000),
)
def test_a_window_bounds_what_is_outstanding(target: Bench, window: int, size: int) -> None:
    """A producer with a window sends without waiting for Responses. Each accepted message gets a
    ProducerAck with its size, but none from the queue's limit on. Once the queue has room, all
    messages are acknowledged and arrive in order. One scenario: only a full window can reopen."""
    statistics, producer = target.statistics(), OpenWireProducer(target, window=window)
    to, other = place(target, "vm"), place(target, "off")
    weight = Scale(target, producer, statistics).weight(size)
    limit = to.policy.memory_limit
    fits = -(-limit // weight)  # as many as the queue has at its limit
    books, most = Window(target, producer, to), 0
    while books.room(size, QUIET if len(books.costs) >= fits else PATIENCE):
        target.require(
            WINDOW, not producer.ended(), f"after {len(books.costs)} messages, {producer.instead()}"
        )
        books.send(size)
        most = max(most, books.outstanding)
    sent = len(books.costs)
    words = f"{fits} messages fit; {len(books.acks)} of {sent} were acknowledged"
    target.record_finding(WINDOW, books.acknowledged(fits), words)
    target.advance(QUIET)
    target.record_finding(
        WINDOW, books.outstanding > 0, f"{sent} messages were sent; {fits} fill the queue"
    )
    target.judge_count(WINDOW, "messages acknowledged", len(books.acks), (fits, fits), "messages")
    target.record_finding(
        WINDOW,
        books.acks == books.costs[:fits],
        f"messages cost {listed(books.costs[:fits])} bytes; {listed(books.acks)} were acknowledged",
    )
    target.judge_count(
        WINDOW, "bytes outstanding", most, (1, window - 1 + max(books.costs)), "bytes"
    )
    producer.send(other, body(0, 20), proves=ONE_BY_ONE)
    used = statistics.destination(to.name).memory.used
    target.judge_count(WAITS, "bytes at a full queue", used, (limit, limit - 1 + weight), "bytes")
    received = StompConsumer(target, to).rest(sent)
    words = f"once there was room again, {len(books.acks)} of {sent} were acknowledged"
    target.record_finding((WINDOW, WAITS), books.acknowledged(sent), words)
    words = f"messages cost {listed(books.costs)} bytes; {listed(books.acks)} were acknowledged"
    target.record_finding(WINDOW, books.acks == books.costs, words)
    judge_arrivals(target, WAITS, received, sent, "sent")


@case(ONE_BY_ONE, WINDOW, ANSWERED, ALWAYS_SYNC, needs=NEEDS)
@over(
    examples=4,
    always=lambda target: [{"window": size} for size in (0, 4096)],
    window=st.sampled_from([0, 1, 50_000]),
)
def test_producers_of_a_connection_are_slowed_one_by_one(target: Bench, window: int) -> None:
    """Two of three producers of a connection wait at full queues, for a Response and for a
    ProducerAck. The third continues, and room at one queue releases only that queue's producer. One
    scenario: it takes both kinds of waiting on one connection."""
    statistics, producer = target.statistics(), OpenWireProducer(target, window=window)
    first, second, other = place(target, "vm"), place(target, "vm"), place(target, "off")
    counts = [filled(target, producer, statistics, peer, 1000) for peer in (first, second)]
    waiting = producer.offer(first, body(counts[0], 20))
    producer.waits(waiting, (ANSWERED, ALWAYS_SYNC), "the queue is full")
    books = Window(target, producer, second)
    later: int | None = None
    if window:
        books.send(20)
        target.advance(QUIET)
        target.record_finding(
            WINDOW, not books.acks, f"at a full queue, {listed(books.acks)} bytes were acknowledged"
        )
    else:
        later = producer.offer(second, body(counts[1], 20))
        producer.waits(later, ANSWERED, "the other queue is full")
    for number in range(3):
        producer.send(other, body(number, 100), proves=ONE_BY_ONE)
    received = StompConsumer(target, first).rest(counts[0] + 1)
    producer.expect(waiting, "taken", "once its queue had room, a message", (ONE_BY_ONE, ANSWERED))
    judge_arrivals(target, ANSWERED, received, counts[0] + 1, "sent")
    still = (
        books.outstanding > 0 if window else later is not None and producer.answer(later) is None
    )
    words = f"once one queue had room, the producer at the other {'waits' if still else 'went on'}"
    target.record_finding(ONE_BY_ONE, still, words)
    StompConsumer(target, second).rest(counts[1] + 1)
    if later is not None:
        producer.expect(later, "taken", "once its queue had room, a message", ONE_BY_ONE)
    else:
        words = f"once there was room again, {listed(books.acks)} bytes were acknowledged; expected"
        target.record_finding(WINDOW, books.acknowledged(1), f"{words} {listed(books.costs)}")


@case(STALLS, ANSWERED, needs=NEEDS)
@over(examples=4, always=lambda target: [{"pushed": 2}], pushed=st.integers(1, 20))
def test_a_producer_without_window_or_response_stalls_its_connection(
    target: Bench, pushed: int
) -> None:
    """A producer without a window sends to a full queue and asks for no Response. The broker
    answers nothing on its connection until the queue has room; another connection continues."""
    statistics, owner, stalled = (
        target.statistics(),
        StompProducer(target),
        OpenWireProducer(target),
    )
    to, other = place(target, "vm"), place(target, "off")
    count = filled(target, owner, statistics, to, 1000)
    stalled.send(other, body(0, 20))
    stalled.producer(to)
    with stalled.peer.in_one_write():
        for number in range(pushed):
            stalled.push(to, body(count + number, 20))
        behind = stalled.offer(other, body(1, 20))
    stalled.waits(
        behind,
        (STALLS, ANSWERED),
        f"after {pushed} messages to a full queue that asked for no response",
    )
    words = f"a producer that asked for no response received: {stalled.instead()}"
    target.record_finding(ANSWERED, not stalled.peer.inbox, words)
    owner.send(other, body(2, 20), proves=STALLS)
    received = StompConsumer(target, to).rest(count + pushed)
    stalled.expect(behind, "taken", "once there was room again, the messages after them", STALLS)
    words = f"{count + pushed} messages were sent; {listed(received)} arrived"
    target.record_finding(STALLS, received == list(range(count + pushed)), words)


def refused(
    target: Bench,
    producer: OpenWireProducer,
    offered: int,
    proves: str,
    bounds: tuple[int, int],
    since: int,
) -> None:
    """Require an ExceptionResponse with the documented exception within ``bounds``."""
    producer.expect(offered, "refused", "a message for which there is no room", proves)
    target.judge_duration(
        proves, "until it was refused", producer.answered_at(offered) - since, bounds, since
    )
    name = producer.reason(offered)
    target.record_finding(
        proves, name.endswith(RESOURCE), f"it was refused with {name}; expected {RESOURCE}"
    )


@case(AT_ONCE, needs={*BASE, "send-fail"})
def test_a_message_without_room_fails_at_once(target: Bench) -> None:
    """A message to a full queue immediately gets an ExceptionResponse with
    ResourceAllocationException. The connection continues, and the queue accepts the message once it
    has room."""
    statistics, producer, to = target.statistics(), OpenWireProducer(target), place(target, "vm")
    count = filled(target, producer, statistics, to, 1000)
    for number in range(2):
        since = target.now()
        refused(
            target,
            producer,
            producer.offer(to, body(count + number, 20)),
            AT_ONCE,
            (0, PROMPTLY),
            since,
        )
    producer.send(place(target, "vm"), body(0, 20), proves=AT_ONCE)
    received = StompConsumer(target, to).rest(count)
    judge_arrivals(target, AT_ONCE, received, count, "accepted")
    producer.send(to, body(count, 20), proves=AT_ONCE)


@case(COUNTS, needs={*BASE, "send-fail"})
@over(
    examples=4,
    always=lambda target: [{"before": 1, "behind": 1}],
    before=st.integers(0, 3),
    behind=st.integers(0, 3),
)
def test_a_transaction_whose_message_finds_no_room_is_whole(
    target: Bench, before: int, behind: int
) -> None:
    """One message of a transaction goes to a full queue without requesting a Response; the rest
    have room. Either the commit gets a Response and all messages arrive, or it does not and none
    arrives."""
    statistics, producer = target.statistics(), OpenWireProducer(target)
    full, to = place(target, "vm"), place(target, "vm")
    count = filled(target, producer, statistics, full, 1000)
    producer.producer(to)
    peer, named = producer.peer, begin(producer.peer, 1)
    for data, goal in [
        *((data, to) for data in numbered(before)),
        (body(count, 20), full),
        *((data, to) for data in numbered(behind)),
    ]:
        id = producer.producer(goal)
        peer.publish(peer.message(id, openwire_queue(goal.name), data, transactionId=named))
    fields = {"connectionId": peer.connection, "transactionId": named, "type": COMMIT}
    number = peer.send("TransactionInfo", fields, response=True)
    producer.heard(number)
    confirmed = producer.answer(number) == "taken"
    arrived = len(StompConsumer(target, to).rest(before + behind))
    more = len(StompConsumer(target, full).rest(count + confirmed)) - count
    target.record_finding(
        COUNTS,
        (arrived, more) == ((before + behind, 1) if confirmed else (0, 0)),
        f"the commit was {'' if confirmed else 'not '}confirmed ({peer.instead()}); {arrived} of"
        f" {before + behind} messages with room arrived, and {more} of the one without",
    )


@case(COUNTS, UNDONE, needs=NEEDS)
@over(
    examples=6,
    always=lambda target: [
        {"protocol": protocol, "window": window, "lost": lost}
        for protocol, window in (("openwire", 0), ("openwire", 4096), ("stomp", 0))
        for lost in (False, True)
    ],
    protocol=st.sampled_from(["openwire", "stomp"]),
    window=st.sampled_from([0, 4096]),
    lost=st.booleans(),
)
def test_what_waited_for_room_ends_with_its_transaction(
    target: Bench, protocol: str, window: int, lost: bool
) -> None:
    """A message of a transaction waits at a full queue, and its transaction is rolled back or its
    connection is lost. Once the queue has room, the message does not arrive and uses no memory."""
    statistics, producer = target.statistics(), OpenWireProducer(target, window=window)
    to, waiting = place(target, "vm"), target.stomp("1.1")
    count = filled(target, StompProducer(target), statistics, to, 1000)
    named, peer, data = {"transaction": waiting.transaction}, producer.peer, body(count, 20)
    if protocol == "stomp":
        waiting.request("BEGIN", named)
        waiting.publish(to.to, data, {**named, "receipt": "asked"}, receipt=False)
    else:
        transaction, id = begin(peer, 1), producer.producer(to)
        message = peer.message(id, openwire_queue(to.name), data, transactionId=transaction)
        peer.publish(message, response=not window)
    target.advance(QUIET)
    if lost:
        (waiting if protocol == "stomp" else peer).close_socket()
    elif protocol == "stomp":
        waiting.request("ABORT", named)
    else:
        transact(peer, transaction, ROLLBACK)
    numbers = StompConsumer(target, to).rest(count)
    words = f"{count} messages fill the queue, and one more was undone; {listed(numbers)} arrived"
    rule = COUNTS if protocol == "openwire" else UNDONE
    target.record_finding(rule, numbers == list(range(count)), words)
    usage, free = statistics.until(to.name, lambda usage: usage.memory.used == 0)
    target.control(free, f"{words}, and {usage.memory.used} bytes are in use")


@case(AFTER_A_WHILE, needs={*BASE, "send-fail-timeout"})
@over(
    examples=4,
    always=lambda target: [{"early": None}, {"early": ms(1500)}],
    early=st.sampled_from([None, ms(1000), ms(2500)]),
)
def test_a_message_without_room_fails_after_the_time(target: Bench, early: Duration | None) -> None:
    """A message to a full queue gets an ExceptionResponse at its time-out, or a Response as soon as
    the queue has room. Another producer of the connection continues. One scenario: both outcomes of
    the wait begin with the same full queue."""
    statistics, producer, to = target.statistics(), OpenWireProducer(target), place(target, "vm")
    count = filled(target, producer, statistics, to, 1000)
    wait, since = waits_for(target), target.now()
    waiting = producer.offer(to, body(count, 20))
    producer.send(place(target, "vm"), body(0, 20), proves=AFTER_A_WHILE)
    if early is None:
        refused(target, producer, waiting, AFTER_A_WHILE, (wait, wait + slack(target, wait)), since)
        received = StompConsumer(target, to).rest(count)
        judge_arrivals(target, AFTER_A_WHILE, received, count, "accepted")
        return
    target.advance(max(0, wait - early - (target.now() - since)))
    if target.now() - since > wait - early // 2:
        target.record_finding(
            AFTER_A_WHILE,
            False,
            "there was no time left to make room in",
            uncertain="the host was late",
        )
        return
    words = f"{early // ms(1)} ms before its time a message still waits"
    target.record_finding(AFTER_A_WHILE, producer.answer(waiting) is None, words)
    received = StompConsumer(target, to).rest(count + 1)
    if not producer.taken_in_time(waiting, AFTER_A_WHILE, early, since):
        return
    judge_arrivals(target, AFTER_A_WHILE, received, count + 1, "sent")
    producer.peer.expect_nothing(
        for_=2 * early, of=command("ExceptionResponse"), proves=AFTER_A_WHILE, why="it was accepted"
    )
