"""Consumers' windows in bytes over CORE, the protocol of the manual's chapter on flow control.

The buffer belongs to the client, and the case acts as the client. The broker must deliver as much
as the credit allows, and no more. Both are judged at every stop. The answer to a force-delivery
shows the stop: it follows everything that can be delivered.
"""

import itertools
from dataclasses import dataclass

from hypothesis import strategies as st

from brokerproof.harness.oracles import core_credit
from brokerproof.suites.api import Bench, Target, case, listed, over
from brokerproof.suites.api.core import CorePeer, Packet
from brokerproof.suites.steps.core import (
    CORE,
    FIXTURES,
    Window,
    numbers,
    publish,
    queue,
    sized,
    take,
)
from brokerproof.suites.steps.traces import judge_trace

BOUND = "ARTEMIS-FLOW-consumer-1"
NOTHING_WAITS = "ARTEMIS-FLOW-consumer-2"
IN_TURN = "ARTEMIS-FLOW-consumer-3"
SAME_COURSE = "ARTEMIS-FLOW-consumer-4"
OVERRIDDEN = "ARTEMIS-FLOW-consumer-5"
HEAD = 25
"""Bytes of a delivery's packet besides the message: header, consumer and delivery count."""
DEFAULT, SMALL = 1024 * 1024, 2000
"""default-consumer-window-size in bytes: the default, and that of the addresses window-2000.#."""


@dataclass(frozen=True)
class Plan:
    """The costs of a backlog's messages. Each step has a number of messages, and how many bytes its
    credit is above or below the end of the last of them."""

    costs: tuple[int, ...]
    steps: tuple[tuple[int, int], ...]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Backlogs of one size and of mixed sizes, and credit around the end of a packet."""
    count = draw(st.integers(3, 12))
    one = draw(st.sampled_from([0, 300, 1000, 70_000]))
    mixed = draw(st.booleans())
    costs = (
        draw(st.lists(st.sampled_from([0, 150, 300, 2000]), min_size=count, max_size=count))
        if mixed
        else [one] * count
    )
    steps = draw(
        st.lists(st.tuples(st.integers(1, 3), st.sampled_from([-1, 0, 1])), min_size=1, max_size=5)
    )
    return Plan(tuple(costs), tuple(steps))


def corners(target: Target) -> list[dict[str, object]]:
    edges = tuple((1, over) for over in (-1, 0, 1))
    return [
        {"plan": Plan((300,) * 8, edges)},
        {"plan": Plan((300, 2000, 0, 0, 2000, 300), ((2, 0), (1, 1), (1, -1)))},
        {"plan": Plan((70_000,) * 4, ((1, 1), (1, -1), (1, 0)))},
    ]


@case(BOUND, needs={CORE})
@over(examples=30, least=8, always=corners, plan=plans())
def test_what_is_delivered_is_what_there_is_credit_for(target: Bench, plan: Plan) -> None:
    """A consumer of a backlog grants credit that ends one byte before, at or after the end of a
    packet. A message begins only while credit is left; the next credit pays for overdrawn bytes."""
    peer = target.core()
    name = queue(target, peer)
    costs = [sized(name, number, cost).cost for number, cost in enumerate(plan.costs)]
    publish(peer, name, plan.costs)
    peer.create_consumer(name)
    early = numbers(peer.all_delivered())
    target.record_finding(BOUND, not early, f"a consumer without credit got {listed(early)}")
    balance, received = 0, 0
    for messages, over_by in plan.steps:
        # Credit up to the end of the last of these messages; at least 1, since 0 has another
        # meaning.
        size = sum(cost + HEAD for cost in costs[received : received + messages])
        credit = max(1, size - balance + over_by)
        balance += credit
        expected = 0
        while received + expected < len(costs) and balance > 0:
            balance -= costs[received + expected] + HEAD
            expected += 1
        peer.credit(credit)
        got = take(target, peer, expected)
        sizes = [delivery.size for delivery in got]
        target.control(
            sizes == [cost + HEAD for cost in costs[received : received + len(got)]],
            f"packets of {listed(sizes)} bytes carry messages that cost"
            f" {listed(costs[received : received + len(got)])}",
        )
        detail = f"after credit {credit:+d}, {balance} bytes are open"
        target.judge_count(
            BOUND, f"messages delivered: {detail}", len(got), (expected, expected), "messages"
        )
        received += len(got)
        if expected != len(got):
            return
    judge_trace(target, peer, core_credit.consumers)


@case(BOUND, needs={CORE})
def test_without_a_bound_everything_comes(target: Bench) -> None:
    """A consumer has a window of -1. All waiting and all later messages arrive."""
    peer = target.core()
    name = queue(target, peer)
    publish(peer, name, [5000] * 30)
    peer.create_consumer(name)
    peer.credit(-1)
    got = numbers(take(target, peer, 30))
    words = f"without a bound, 30 messages wait; {listed(got)} arrived"
    target.record_finding(BOUND, got == list(range(30)), words)
    publish(peer, name, [5000] * 30)
    got = numbers(take(target, peer, 30))
    words = f"without a bound, 30 messages were sent; {listed(got)} arrived"
    target.record_finding(BOUND, got == list(range(30)), words)


@case(BOUND, needs={CORE})
def test_with_a_window_of_zero_nothing_comes_unasked(target: Bench) -> None:
    """A consumer with a window of 0 waits, stops waiting and waits again. One message arrives per
    wait, and none while it does not wait."""
    peer = target.core()
    name = queue(target, peer)
    window = Window(peer, name, 0)
    publish(peer, name, [300] * 3)
    early = numbers(peer.all_delivered())
    target.record_finding(BOUND, not early, f"before a consumer waited, it got {listed(early)}")
    for number in (0, 1, 2):
        window.wants()
        got = take(target, peer, 1)
        detail = f"a consumer waited and got {listed(numbers(got))}; expected {number}"
        target.record_finding(BOUND, numbers(got) == [number], detail)
        for delivery in got:
            window.consumed(delivery)
    window.wants()
    peer.credit(0)
    peer.flush()
    publish(peer, name, [300])
    late = numbers(peer.all_delivered())
    target.record_finding(BOUND, not late, f"after it stopped waiting, it got {listed(late)}")
    window.wants()
    got = take(target, peer, 1)
    words = f"a consumer waited again and got {listed(numbers(got))}; expected 0"
    target.record_finding(BOUND, numbers(got) == [0], words)
    judge_trace(target, peer, core_credit.consumers)


@case(BOUND, needs={CORE})
@over(
    examples=8,
    window=st.sampled_from([1, 300, 1000, 4000]),
    cost=st.sampled_from([200, 324, 325, 326, 1500]),
    always=lambda target: [{"window": 1, "cost": 200}, {"window": 1000, "cost": 1000 - HEAD}],
)
def test_a_window_is_never_overrun_and_never_dries_up(
    target: Bench, window: int, cost: int
) -> None:
    """A client renews credit when half of its window is consumed. All messages arrive in order, and
    the unconsumed bytes exceed the window by at most the last message."""
    peer, producer = target.core(), target.core()
    name = queue(target, producer)
    publish(producer, name, [cost] * 25)
    watched = Window(peer, name, window)
    received: list[Packet] = []
    held: list[Packet] = []
    while len(received) < 25:
        held += take(target, peer, 0 if held else 1)
        if not held:
            break
        buffered = sum(delivery.size for delivery in held)
        most = window + held[-1].size - 1
        target.judge_count(BOUND, "bytes in the buffer", buffered, (0, most), "bytes")
        received.append(held.pop(0))
        watched.consumed(received[-1])
    words = f"25 messages were sent; {listed(numbers(received))} arrived"
    target.record_finding(BOUND, numbers(received) == list(range(25)), words)
    judge_trace(target, peer, core_credit.consumers)


@case(NOTHING_WAITS, needs={CORE})
@over(examples=6, count=st.integers(5, 15), cost=st.sampled_from([200, 2000]))
def test_nothing_waits_behind_a_slow_consumer_without_a_buffer(
    target: Bench, count: int, cost: int
) -> None:
    """Two consumers have no buffer; the slow one receives a message and stops. The fast one gets
    all remaining messages in order."""
    slow, fast = target.core(), target.core()
    name = queue(target, fast)
    behind, ahead = Window(slow, name, 0), Window(fast, name, 0)
    publish(fast, name, [cost] * count)
    behind.wants()
    held = numbers(take(target, slow, 1))
    received: list[int] = []
    for _ in range(count - 1):
        ahead.wants()
        got = take(target, fast, 1)
        for delivery in got:
            ahead.consumed(delivery)
        received += numbers(got)
    detail = (
        f"the slow consumer holds {listed(held)} of {count} messages; the other got"
        f" {listed(received)}"
    )
    target.record_finding(NOTHING_WAITS, held == [0] and received == list(range(1, count)), detail)
    more = numbers(slow.all_delivered())
    target.record_finding(NOTHING_WAITS, not more, f"the slow consumer also got {listed(more)}")


@case(IN_TURN, needs={CORE})
@over(examples=6, window=st.integers(2, 6))
def test_a_slow_consumer_keeps_a_window_of_messages_from_the_other(
    target: Bench, window: int
) -> None:
    """Two consumers have buffers; one consumes nothing. They are served in turn until its buffer is
    full, and the other gets the rest."""
    slow, fast = target.core(), target.core()
    name = queue(target, fast)
    cost = 1000
    Window(slow, name, window * (cost + HEAD))
    ahead = Window(fast, name, -1)
    publish(fast, name, [cost] * (4 * window))
    stranded = numbers(take(target, slow, window))
    received = take(target, fast, 3 * window)
    for one in received:
        ahead.consumed(one)
    more = fast.all_delivered()
    detail = (
        f"the slow consumer holds {listed(stranded)} of {4 * window} messages; the other got"
        f" {listed(numbers([*received, *more]))}"
    )
    in_turn = len(stranded) == window and all(
        right - left == 2 for left, right in itertools.pairwise(stranded)
    )
    rest = [number for number in range(4 * window) if number not in stranded]
    target.record_finding(IN_TURN, in_turn and numbers(received) == rest and not more, detail)


def shares(target: Bench, course: list[int]) -> list[list[int]]:
    """Return the shares of three consumers without a buffer that request in the order
    ``course``."""
    peers: list[CorePeer] = [target.core() for _ in range(3)]
    name = queue(target, peers[0])
    windows = [Window(peer, name, 0) for peer in peers]
    publish(peers[0], name, [200] * len(course))
    got: list[list[int]] = [[] for _ in peers]
    for who in course:
        windows[who].wants()
        received = take(target, peers[who], 1)
        for delivery in received:
            windows[who].consumed(delivery)
        got[who] += numbers(received)
    for peer in peers:
        peer.close_socket()
    return got


@case(SAME_COURSE, needs={CORE})
@over(examples=6, course=st.lists(st.integers(0, 2), min_size=4, max_size=12))
def test_without_a_buffer_who_asks_gets_the_next(target: Bench, course: list[int]) -> None:
    """Three consumers without a buffer request messages in some order. Each gets the next message
    immediately, and the same order gives the same shares."""
    expected: list[list[int]] = [
        [position for position, who in enumerate(course) if who == number] for number in range(3)
    ]
    for _ in range(2):
        got = shares(target, course)
        words = f"the consumers asked in the order {listed(course)} and got"
        words += f" {'; '.join(map(listed, got))}"
        target.record_finding(SAME_COURSE, got == expected, words)


@case(OVERRIDDEN, BOUND, needs={CORE, FIXTURES})
def test_an_address_setting_names_another_window(target: Bench) -> None:
    """A consumer is created without a window. The answer has the default window of a mebibyte or
    that of its address-setting; a consumer that keeps to it gets that much and no more."""
    peer = target.core()
    plain, small = queue(target, peer), queue(target, peer, "window-2000.")
    reported = [
        peer.create_consumer(name, number)["default-consumer-window-size"]
        for number, name in enumerate((plain, small))
    ]
    words = f"the default window is {DEFAULT} bytes; {reported[0]} were reported"
    target.record_finding(BOUND, reported[0] == DEFAULT, words)
    words = f"the address-setting says {SMALL} bytes; {reported[1]} were reported"
    target.record_finding(OVERRIDDEN, reported[1] == SMALL, words)
    publish(peer, small, [600 - HEAD] * 20)
    peer.credit(reported[1] if reported[1] is not None else SMALL, 1)
    got = take(target, peer, -(-SMALL // 600), 1)
    sizes = {delivery.size for delivery in got}
    detail = f"packets of 600 bytes were sent; packets of {listed(sizes)} bytes arrived"
    target.control(sizes == {600}, detail)
    target.judge_count(OVERRIDDEN, "messages within the window", len(got), (4, 4), "messages")
    judge_trace(target, peer, core_credit.consumers)
