"""AMQP producers at a full address under BLOCK: how much they may send, and when they continue.

Credit already granted stays valid (ARTEMIS-FLOW-amqp-3), so the bound is the credit outstanding on
all links when the address became full. Waiting producers continue when a consumer makes room, and
nothing is lost or reordered.
"""

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from brokerproof.suites.amqp10.steps import QUIET, bystander, collect, granted
from brokerproof.suites.api import PATIENCE, Bench, Match, case, listed, over
from brokerproof.suites.api.amqp10 import AmqpPeer, Frame, Link, Node, either, ending, frame
from brokerproof.suites.steps import small_addresses
from brokerproof.suites.steps.small_addresses import MULTICAST, SMALLEST, limit_of

BLOCKS = "ARTEMIS-FLOW-block-1"
ADDRESS_WIDE = "ARTEMIS-FLOW-block-2"
ONLY_BLOCK = "ARTEMIS-FLOW-block-3"
OVERDRAWN = "ARTEMIS-FLOW-block-5"
NO_CREDIT = "ARTEMIS-FLOW-amqp-2"
OVERSHOOT = "ARTEMIS-FLOW-amqp-3"
UNBLOCKS = "ARTEMIS-PAGING-12"
ONE_COPY = "ARTEMIS-PAGING-9"
TEN = "amqp-credits-10"
"""An acceptor that grants ten credits and refills them when three are left."""
BODY = 5000
"""Bytes; five such messages exceed a full address."""


def number(who: int, count: int) -> int:
    """A number that identifies a message by sender and position."""
    return 1000 * who + count


class Crowd:
    """Several producers at one address, each with its own connection and unused credit."""

    def __init__(self, target: Bench, place: Node, count: int) -> None:
        self.target, self.place = target, place
        self.members: list[tuple[AmqpPeer, Link]] = [
            small_addresses.producer(target, place, TEN) for _ in range(count)
        ]
        self.sent = [0] * count
        self.open: list[list[int]] = [[] for _ in range(count)]
        for peer, link in self.members:
            granted(target, peer, link)

    def spend(self, who: int) -> None:
        """Let one producer send as many messages as its credit allows, without waiting for
        answers."""
        peer, link = self.members[who]
        while link.credit > 0:
            self.open[who].append(
                peer.post(link, small_addresses.body(number(who, self.sent[who]), BODY))
            )
            self.sent[who] += 1

    def answered(self, requirements: str) -> None:
        """Require that every message sent is accepted."""
        for (peer, link), waiting in zip(self.members, self.open, strict=True):
            for delivery_id in waiting:
                peer.confirmed(link.session, delivery_id, proves=requirements)
            waiting.clear()

    def credit(self) -> list[int]:
        return [link.credit for _, link in self.members]

    def expected(self) -> list[list[int]]:
        return [[number(who, index) for index in range(sent)] for who, sent in enumerate(self.sent)]


def by_producer(numbers: list[int], count: int) -> list[list[int]]:
    return [[number for number in numbers if number // 1000 == who] for who in range(count)]


def _credit_on_any(links: Sequence[Link]) -> Callable[[], bool]:
    return lambda: any(link.credit > 0 for link in links)


@case(OVERSHOOT, NO_CREDIT, BLOCKS, UNBLOCKS, needs={"amqp", "amqp-credit", "address-full"})
@over(examples=6, always=lambda target: [{"producers": 3}], producers=st.integers(1, 4))
def test_producers_overrun_by_their_credit_and_no_more(target: Bench, producers: int) -> None:
    """Several producers hold credit when another fills the address. All messages that use this
    credit are accepted, and no more is granted until a consumer consumes everything. One scenario:
    it takes a full address and its recovery."""
    place = small_addresses.node(target, "block")
    crowd = Crowd(target, place, producers)
    given = sum(crowd.credit())
    last, link = small_addresses.producer(target, place)
    filler = [
        small_addresses.body(number(99, index), BODY)
        for index in range(-(-limit_of(target) // BODY))
    ]
    for body in filler:
        state = small_addresses.send(target, last, link, body)
        target.control(state == "accepted", f"a message on the way to a full address was {state}")
    for who in range(producers):
        crowd.spend(who)
    crowd.answered(OVERSHOOT)
    target.advance(QUIET)
    left = crowd.credit()
    detail = f"the address is full; the producers hold {listed(left)} credits"
    target.record_finding(NO_CREDIT, not any(left), detail)
    target.judge_count(
        OVERSHOOT, "messages into a full address", sum(crowd.sent), (given, given), "messages"
    )
    delivered = small_addresses.drain_queue(target, place, sum(crowd.sent) + len(filler))
    received = by_producer(delivered, producers)
    words = f"the producers sent {listed(crowd.sent)}; {'; '.join(map(listed, received))} arrived"
    target.record_finding(BLOCKS, received == crowd.expected(), words)
    target.wait_until(lambda: all(crowd.credit()), PATIENCE)
    left = crowd.credit()
    words = f"once there was room again, the producers held {listed(left)} credits"
    target.record_finding(UNBLOCKS, all(number > 0 for number in left), words)


@case(BLOCKS, UNBLOCKS, needs={"amqp", "amqp-credit", "address-full"})
@over(examples=4, always=lambda target: [{"rounds": 3}], rounds=st.integers(1, 3))
def test_producers_go_on_by_themselves_whenever_there_is_room(target: Bench, rounds: int) -> None:
    """Two producers send many times the address's capacity, as their credit allows, while a
    consumer consumes a few messages at a time. All messages arrive, once and in order."""
    crowd = Crowd(target, small_addresses.node(target, "block"), 2)
    goal = 20 * rounds
    consumer = target.amqp()
    taking = consumer.receiver(crowd.place)
    results: list[int] = []
    deadline = target.now() + 2 * PATIENCE
    while (min(crowd.sent) < goal or len(results) < sum(crowd.sent)) and target.now() < deadline:
        for who in range(2):
            if crowd.sent[who] < goal:
                crowd.spend(who)
        crowd.answered(BLOCKS)
        consumer.flow(taking, link_credit=7)
        got = collect(target, consumer, taking, min(7, sum(crowd.sent) - len(results)), quiet=0)
        for delivery in got:
            consumer.disposition(delivery)
        results += [small_addresses.number_of(delivery.message.body) for delivery in got]
        if not got:
            waiting = [
                link
                for (_, link), sent in zip(crowd.members, crowd.sent, strict=True)
                if sent < goal
            ]
            target.wait_until(_credit_on_any(waiting), PATIENCE)
    went_on = min(crowd.sent) >= goal
    words = f"the producers sent {listed(crowd.sent)} messages; {len(results)} were accepted"
    target.record_finding(UNBLOCKS, went_on, words)
    received = by_producer(results, 2)
    words = f"the producers sent {listed(crowd.sent)}; {'; '.join(map(listed, received))} arrived"
    target.record_finding(BLOCKS, received == crowd.expected(), words)


@case(BLOCKS, UNBLOCKS, needs={"amqp", "amqp-credit", "address-full"})
@over(
    examples=2,
    always=lambda target: [{"same_session": settled} for settled in (True, False)],
    same_session=st.booleans(),
)
def test_a_blocked_producer_is_no_blocked_consumer(target: Bench, same_session: bool) -> None:
    """One connection is an address's only consumer, and sends to it until it has no credit. It gets
    its messages, and its acknowledgements give its producer credit again."""
    place = small_addresses.node(target, "block")
    peer, link = small_addresses.producer(target, place, TEN)
    granted(target, peer, link)
    sent = 0
    while link.credit > 0 and sent < 50:
        peer.publish(link, small_addresses.body(sent, BODY))
        sent += 1
        peer.settle()
    peer.inbox.clear()
    peer.expect_nothing(
        for_=QUIET, of=frame("flow", link=link), proves=BLOCKS, why="the address is full"
    )
    session = peer.session if same_session else peer.begin(1)
    taking = peer.receiver(place, session=session)
    peer.flow(taking, link_credit=sent)
    got = collect(target, peer, taking, sent, quiet=0)
    received = [small_addresses.number_of(delivery.message.body) for delivery in got]
    words = f"{sent} messages were accepted; {listed(received)} arrived"
    target.require(BLOCKS, received == list(range(sent)), words)
    for delivery in got:
        peer.disposition(delivery)
    target.wait_until(lambda: link.credit > 0 or peer.ended is not None, PATIENCE)
    words = f"once there was room again, {link.credit} credits arrived; {peer.instead()}"
    target.record_finding(UNBLOCKS, link.credit > 0, words)


@case(ADDRESS_WIDE, ONE_COPY, needs={"amqp", "multicast", "address-full"})
@over(examples=3, always=lambda target: [{"queues": 3}], queues=st.integers(2, 5))
def test_all_queues_of_an_address_share_its_limit_and_one_copy(target: Bench, queues: int) -> None:
    """An address under FAIL with several subscriptions accepts nearly as many messages as with one.
    It stays full until the last subscription has acknowledged. One scenario: each step depends on
    how full the previous one left the address."""
    _, _, single, its_link = _with_consumers(target, 1)
    alone = _taken(target, single, its_link)
    place, consumers, peer, link = _with_consumers(target, queues)
    together = _taken(target, peer, link)
    # A reference adds 72 bytes to a body of 5000; a copy for each queue would at least halve the
    # number.
    target.judge_count(
        ONE_COPY,
        f"messages accepted for {queues} queues, {alone} for one",
        together,
        (alone - 1, alone),
        "messages",
    )
    for number, (consumer, taking) in enumerate(consumers, 1):
        consumer.flow(taking, link_credit=together)
        got = collect(target, consumer, taking, together, quiet=0)
        received = [small_addresses.number_of(delivery.message.body) for delivery in got]
        words = f"{together} messages were accepted; subscription {number} got {listed(received)}"
        target.require(ONE_COPY, received == list(range(together)), words)
        for delivery in got:
            consumer.disposition(delivery)
        consumer.settle()
        if number < queues:
            target.advance(QUIET)
            state = small_addresses.send(target, peer, link, small_addresses.body(99, SMALLEST))
            detail = (
                f"after {number} of {queues} subscriptions had settled all, a message was {state}"
            )
            target.record_finding(ADDRESS_WIDE, state == "rejected", detail)
    small_addresses.room_again(target, place.address)
    state = small_addresses.send(target, peer, link, small_addresses.body(99, SMALLEST))
    words = f"after all subscriptions had settled all, a message was {state}"
    target.record_finding(ONE_COPY, state == "accepted", words)


Subscribed = tuple[Node, list[tuple[AmqpPeer, Link]], AmqpPeer, Link]


def _with_consumers(target: Bench, queues: int) -> Subscribed:
    place = small_addresses.node(target, "fail", MULTICAST)
    consumers = []
    for _ in range(queues):
        consumer = target.amqp()
        consumers.append((consumer, consumer.receiver(place)))
    peer, link = small_addresses.producer(target, place)
    return place, consumers, peer, link


def _taken(target: Bench, peer: AmqpPeer, link: Link) -> int:
    """Return the number of messages that an address under FAIL accepts before it refuses one."""
    for count in range(20):
        if (
            small_addresses.send(target, peer, link, small_addresses.body(count, BODY))
            != "accepted"
        ):
            return count
    return 20


@case(ONLY_BLOCK, needs={"amqp", "amqp-credit", "address-full"})
@over(
    examples=4,
    always=lambda target: [{"kind": policy} for policy in ("page", "drop")],
    kind=st.just("page"),
)
def test_no_producer_waits_under_another_policy(target: Bench, kind: str) -> None:
    """Under PAGE and DROP a producer with little credit sends many times the address's capacity.
    All messages are accepted and credit is renewed."""
    peer, link = small_addresses.producer(target, small_addresses.node(target, kind), TEN)
    for count in range(4 * limit_of(target) // BODY + 10):
        target.wait_until(lambda: link.credit > 0 or peer.ended is not None, PATIENCE)
        detail = (
            f"after {count} messages of {BODY} bytes, the link has {link.credit} credits;"
            f" {peer.instead()}"
        )
        target.require(ONLY_BLOCK, link.credit > 0, detail)
        peer.publish(link, small_addresses.body(count, BODY), proves=ONLY_BLOCK)


ANSWER: Match[Frame] = either(ending("detach"), ending("end"), ending("close"))


@case(OVERDRAWN, needs={"amqp", "amqp-credit", "address-full"})
@over(examples=4, always=lambda target: [{"kind": "block", "more": 5}], kind=st.sampled_from(["block", "page"]),  # noqa: E501
      more=st.integers(1, 20))  # fmt: skip
def test_a_producer_that_ignores_its_credit_harms_nobody(
    target: Bench, kind: str, more: int
) -> None:
    """A producer continues to send without credit. The broker accepts or refuses the messages or
    ends the link, serves other clients, and queues exactly the accepted messages, in order."""
    place = small_addresses.node(target, kind)
    with bystander(target):
        peer, link = small_addresses.producer(target, place, TEN)
        granted(target, peer, link)
        sent: list[int] = []
        while link.credit > 0 or more > 0:
            more -= link.credit <= 0
            sent.append(peer.post(link, small_addresses.body(len(sent), BODY)))
        outcomes = link.session.outcomes

        def answered() -> bool:
            return (
                all(outcomes[delivery_id] for delivery_id in sent)
                or peer.ended is not None
                or any(map(ANSWER.accepts, peer.inbox))
            )

        target.wait_until(answered, PATIENCE)
        target.record_finding(
            OVERDRAWN,
            answered(),
            f"{sum(not outcomes[delivery_id] for delivery_id in sent)} of {len(sent)} messages"
            " have no outcome",
        )
    accepted = [
        count
        for count, delivery_id in enumerate(sent)
        if (at := outcomes[delivery_id]) is not None and at.kind("state") == "accepted"
    ]
    numbers = small_addresses.drain_queue(target, place, len(accepted))
    lost = [number for number in accepted if number not in numbers]
    fine = not lost and numbers == sorted(set(numbers))
    words = f"{accepted} of {len(sent)} messages were accepted; {listed(numbers)} arrived"
    target.record_finding(OVERDRAWN, fine, words)
