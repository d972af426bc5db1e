"""Addresses in page mode: consumers, browsers and selectors get paged messages once, in order."""

from hypothesis import strategies as st

from brokerproof.suites.amqp10.steps import collect
from brokerproof.suites.api import PATIENCE, Bench, case, over
from brokerproof.suites.api.amqp10 import AmqpPeer
from brokerproof.suites.api.stomp import Destination
from brokerproof.suites.steps import paging, small_addresses
from brokerproof.suites.steps.paging import SIZE, Taker, brief
from brokerproof.suites.steps.queue_model import IN_VIRTUAL_TIME
from brokerproof.suites.steps.queues import QUIET
from brokerproof.suites.steps.small_addresses import (
    MULTICAST,
    SMALLEST,
    limit_of,
    page_of,
    read_ahead_of,
)

ENTERS = "ARTEMIS-PAGING-1"
BROWSES = "ARTEMIS-PAGING-4"
SELECTS = "ARTEMIS-PAGING-5"
NARROW = "ARTEMIS-PAGING-6"
POLICIES = "ARTEMIS-PAGING-8"
LAZY = "ARTEMIS-PAGING-10"
KEEPS = "ARTEMIS-PAGING-11"
FIRST_IN_FIRST_OUT = "ARTEMIS-RING-order-1"
WINDOW = "ARTEMIS-PAGING-16"
NEEDS = {"stomp-1.2", "address-full", "admin", "paging"}
LARGE = 110_000
"""Bytes of a body that is stored as a large message."""


def stored(target: Bench, count: int, size: int = SIZE) -> Destination:
    """Return an address under PAGE to which ``count`` messages were sent."""
    to = small_addresses.destination(target, "page")
    paging.send(to, target.stomp(), range(count), size)
    return to


@case(ENTERS, POLICIES, KEEPS, needs=NEEDS)
@over(
    examples=8,
    always=lambda target: [
        {"count": 60, "size": SIZE, "protocol": "stomp"},
        {"count": 20, "size": 15_000, "protocol": "amqp"},
    ],
    count=st.integers(30, 50),
    size=st.sampled_from([600, SIZE, 3000, 10_240, 15_000]),
    protocol=st.sampled_from(["stomp", "amqp"]),
)
def test_what_was_paged_comes_once_and_in_order(
    target: Bench, count: int, size: int, protocol: str
) -> None:
    """An address under PAGE receives many times its limit, and pages. A consumer gets every message
    once, in the order of sending."""
    admin = target.admin()
    if protocol == "stomp":
        to = stored(target, count, size)
    else:
        to = small_addresses.destination(target, "page")
        peer, link = small_addresses.producer(target, small_addresses.same(to))
        for number in range(count):
            state = small_addresses.send(target, peer, link, small_addresses.body(number, size))
            detail = f"a message to an address under PAGE was {state}"
            target.record_finding(POLICIES, state == "accepted", detail)
    beside = small_addresses.destination(target, "page")
    target.stomp().publish(beside, small_addresses.body(0, 10))
    if not paging.paged(target, admin, to.name):
        return
    other = admin.address(beside.name)
    detail = f"{to.name} pages; the state of {beside.name} is {other}"
    target.record_finding(ENTERS, not other.paging and other.pages == 0, detail)
    target.record_held(POLICIES, count, f"the address pages; {count} were accepted")
    taken = (
        Taker(target, to).all(count)
        if protocol == "stomp"
        else small_addresses.drain_queue(target, small_addresses.same(to), count)
    )
    detail = f"{count} messages were paged; {brief(taken)} arrived"
    target.record_finding(KEEPS, taken == list(range(count)), detail)


@case(ENTERS, needs={"amqp", "address-full", "admin", "paging"})
@over(examples=8, always=lambda target: [{"gap": -1}, {"gap": 1}], gap=st.sampled_from((-1, 1)))
def test_page_mode_begins_at_the_limit(target: Bench, gap: int) -> None:
    """An address under PAGE that is filled to one byte below its limit does not page; one filled to
    one byte above does."""
    place = small_addresses.node(target, "page")
    peer, link = small_addresses.producer(target, place)
    for size in small_addresses.filling(
        limit_of(target) + gap, small_addresses.overhead(target), [1000, 300, 4000]
    ):
        small_addresses.send(target, peer, link, size)
    state, _ = target.admin().until(
        place.address, lambda status: status.size == limit_of(target) + gap
    )
    target.control(
        state.size == limit_of(target) + gap,
        f"the address should hold {limit_of(target) + gap} bytes; it has {state}",
    )
    if gap < 0:
        detail = f"one byte below the limit, the address has {state}"
        target.record_finding(ENTERS, not state.paging and state.pages == 0, detail)
    else:  # new messages go to disk; brokers differ in when the address reports that
        small_addresses.send(target, peer, link, small_addresses.body(9, SMALLEST))
        state, reached = target.admin().until(
            place.address, lambda status: status.paging and status.pages > 0
        )
        detail = f"above the limit, another message was sent; the address has {state}"
        target.record_finding(ENTERS, reached, detail)


@case(KEEPS, needs=NEEDS)
@over(
    examples=6,
    always=lambda target: [
        {"bursts": [40, 40], "stay": True},
        {"bursts": [40, 5, 60], "stay": False},
    ],
    bursts=st.lists(st.integers(1, 50), min_size=1, max_size=3).map(lambda more: [40, *more]),
    stay=st.booleans(),
)
def test_order_is_kept_when_page_mode_is_left_and_entered_again(
    target: Bench, bursts: list[int], stay: bool
) -> None:
    """Bursts of messages are paged and consumed, and the address leaves page mode before each
    burst. Every message arrives once, in order."""
    to, admin, producer = (
        small_addresses.destination(target, "page"),
        target.admin(),
        target.stomp(),
    )
    first = 0
    taker = Taker(target, to)
    for count in bursts:
        if not stay:
            taker.peer.request("UNSUBSCRIBE", {"id": "0"})
        paging.send(to, producer, range(first, first + count))
        # The consumer may be faster than the producer; the first burst shows paging because no
        # consumer exists yet.
        if not stay and first == 0 and not paging.paged(target, admin, to.name):
            return
        taker = taker if stay else Taker(target, to)
        expected = list(range(0 if stay else first, first + count))
        received = taker.all(len(expected))
        target.require(
            KEEPS,
            received == expected,
            f"{first + count} were sent and {brief(expected)} should arrive; {brief(received)} did",
        )
        paging.left(target, admin, to.name)
        first += count


@case(KEEPS, FIRST_IN_FIRST_OUT, needs={"stomp-1.2", "admin", "paging"})
@over(
    examples=10,
    always=lambda target: [{"count": 200, "size": SIZE}],
    count=st.integers(60, 300),
    size=st.sampled_from([200, SIZE]),
)
def test_persistent_messages_sent_in_one_go_keep_their_order_through_pages(
    target: Bench, count: int, size: int
) -> None:
    """In one write a producer sends persistent messages beyond the limit of an address under PAGE,
    and the broker confirms the last. A consumer then gets all of them once, in order."""
    to, admin = small_addresses.destination(target, "page"), target.admin()
    paging.send(to, target.stomp(), range(count), size, {"persistent": "true"})
    if not paging.paged(target, admin, to.name):
        return
    received = Taker(target, to).all(count)
    lost = sorted(set(range(count)) - set(received))
    twice = len(received) - len(set(received))
    detail = (
        f"{len(lost)} of {count} persistent messages were lost and {twice} duplicated;"
        f" {brief(received)} arrived"
    )
    target.record_finding(KEEPS, not lost and not twice, detail)
    target.record_finding(FIRST_IN_FIRST_OUT, received == sorted(received), detail)


@case(KEEPS, needs=NEEDS)
@over(examples=5, producers=st.integers(2, 4))
def test_several_producers_keep_their_order_through_pages(target: Bench, producers: int) -> None:
    """Several producers send concurrently beyond the limit. Every message arrives once, in its
    producer's order."""
    to, admin = small_addresses.destination(target, "page"), target.admin()
    peers = [target.stomp() for _ in range(producers)]
    per_producer = 80 // producers
    for number in range(per_producer):
        for who, peer in enumerate(peers):
            peer.publish(
                to,
                small_addresses.body(1000 * who + number, SIZE),
                receipt=number == per_producer - 1,
            )
    if not paging.paged(target, admin, to.name):
        return
    received = Taker(target, to).all(per_producer * producers)
    by_producer = [
        [number for number in received if number // 1000 == who] for who in range(producers)
    ]
    expected = [list(range(1000 * who, 1000 * who + per_producer)) for who in range(producers)]
    target.record_finding(
        KEEPS,
        by_producer == expected,
        f"each of {producers} producers sent {per_producer} messages;"
        f" {'; '.join(map(brief, by_producer))} arrived",
    )


@case(BROWSES, needs=NEEDS | {"amqp", "amqp-copy"})
@over(examples=4, count=st.integers(40, 70))
def test_a_browser_sees_pages_and_takes_nothing(target: Bench, count: int) -> None:
    """A browser of a paging address gets a copy of every message in order. All messages remain for
    a consumer."""
    to, admin = stored(target, count), target.admin()
    if not paging.paged(target, admin, to.name):
        return
    seen = _browsed(target, to, count)
    detail = f"a browser saw {brief(seen)} of {count} messages"
    target.record_finding(BROWSES, seen == list(range(count)), detail)
    received = Taker(target, to).all(count)
    detail = f"a consumer got {brief(received)} of {count} messages afterwards"
    target.record_finding(BROWSES, received == list(range(count)), detail)


def _browsed(target: Bench, to: Destination, count: int) -> list[int]:
    peer: AmqpPeer = target.amqp()
    place = small_addresses.same(to)
    source = {
        "address": place.address,
        "capabilities": place.capabilities,
        "distribution-mode": "copy",
    }
    link = peer.receiver(place, source=small_addresses.source(source), credit=count + 10)
    return [
        small_addresses.number_of(delivery.message.body)
        for delivery in collect(target, peer, link, count)
    ]


@case(SELECTS, KEEPS, needs=NEEDS | {"selectors"})
@over(
    examples=4,
    always=lambda target: [{"count": 60, "every": 2}],
    count=st.integers(50, 70),
    every=st.integers(2, 5),
)
def test_selectors_read_on_through_the_pages(target: Bench, count: int, every: int) -> None:
    """Messages of two colours are paged, and two consumers each select one colour. Each gets all
    messages of its colour in order, and none of the other colour."""
    to, admin, producer = (
        small_addresses.destination(target, "page"),
        target.admin(),
        target.stomp(),
    )
    for number in range(count):
        colour = "red" if number % every == 0 else "blue"
        producer.publish(
            to, small_addresses.body(number, SIZE), {"colour": colour}, receipt=number == count - 1
        )
    if not paging.paged(target, admin, to.name):
        return
    red = Taker(target, to, headers={"selector": "colour = 'red'"})
    blue = Taker(target, to, headers={"selector": "colour = 'blue'"})
    expected = [number for number in range(count) if number % every == 0]
    others = [number for number in range(count) if number % every]
    # Both together: messages that one consumer leaves behind delay the other (ARTEMIS-PAGING-6).
    deadline = target.now() + 2 * PATIENCE
    while len(red.found) + len(blue.found) < count and target.now() < deadline:
        for taker in (red, blue):
            taker.take(count, within=QUIET)
    red.rest()
    blue.rest()
    detail = f"red is {brief(red.found)}; expected {brief(expected)}"
    target.record_finding(SELECTS, red.found == expected, detail)
    detail = f"blue is {brief(blue.found)}; expected {brief(others)}"
    target.record_finding(KEEPS, blue.found == others, detail)


@case(NARROW, needs=NEEDS | {"selectors", "amqp", "amqp-copy"})
def test_what_a_narrow_selector_wants_comes_when_the_way_is_free(target: Bench) -> None:
    """In the pages a red message waits behind a hundred blue ones. A browser sees all of them, and
    a consumer that selects red gets its message once the blue ones are consumed."""
    to, admin, producer = (
        small_addresses.destination(target, "page"),
        target.admin(),
        target.stomp(),
    )
    blue, last = 100, 100
    for number in range(blue + 1):
        colour = "red" if number == last else "blue"
        producer.publish(
            to, small_addresses.body(number, SIZE), {"colour": colour}, receipt=number == last
        )
    if not paging.paged(target, admin, to.name):
        return
    picky = Taker(target, to, headers={"selector": "colour = 'red'"})
    early = picky.rest()
    target.record_note(f"before anything was consumed, the selector got {brief(early)}")
    if not early:
        seen = _browsed(target, to, blue + 1)
        detail = f"a browser saw {brief(seen)} of {blue + 1} messages"
        target.record_finding(NARROW, seen == list(range(blue + 1)), detail)
    others = Taker(target, to, headers={"selector": "colour = 'blue'"}).all(blue)
    detail = f"the blue messages should arrive; {brief(others)} did"
    target.control(others == list(range(blue)), detail)
    received = picky.all(1)
    detail = f"nothing is in the way, and the selector for red got {brief(received)}"
    target.record_finding(NARROW, received == [last], detail)


@case(LAZY, KEEPS, needs=NEEDS | {"multicast"})
@over(examples=4, eager=st.integers(1, 3))
def test_one_lazy_subscription_takes_the_whole_address_to_disk(target: Bench, eager: int) -> None:
    """One of several subscriptions consumes nothing, and the address pages. The others get every
    message in order as it is sent; the idle one gets them all in the end."""
    to, admin = small_addresses.destination(target, "page", MULTICAST), target.admin()
    lazy = Taker(target, to, window=1)
    others = [Taker(target, to) for _ in range(eager)]
    producer = target.stomp()
    paging.send(to, producer, range(40))
    if not paging.paged(target, admin, to.name):
        return
    for number, taker in enumerate(others):
        received = taker.take(40)
        detail = f"eager subscription {number} got {brief(received)} of 40 messages"
        target.record_finding(LAZY, received == list(range(40)), detail)
    paging.send(to, producer, range(40, 80))
    state = admin.address(to.name)
    detail = f"one subscription has not taken its messages; the address has {state}"
    target.record_finding(LAZY, state.paging, detail)
    for number, taker in enumerate(others):
        received = taker.all(80)
        detail = f"eager subscription {number} got {brief(received)} of 80 messages"
        target.record_finding(LAZY, received == list(range(80)), detail)
    received = lazy.all(80)
    detail = f"the lazy subscription got {brief(received)} of 80 messages"
    target.record_finding(KEEPS, received == list(range(80)), detail)


@case(LAZY, KEEPS, needs=NEEDS | {"multicast", IN_VIRTUAL_TIME})
@over(
    examples=3,
    always=lambda target: [
        {"taken": taken, "large": True, "early": taken == 9} for taken in (0, 9, 40)
    ],
    taken=st.integers(0, 40),
    large=st.booleans(),
    early=st.booleans(),
)
def test_a_subscription_that_ends_takes_nothing_along(
    target: Bench, taken: int, large: bool, early: bool
) -> None:
    """Of three subscriptions of a paging address, one consumes some messages, perhaps large ones,
    and ends. The others get every message in order; with ``early``, one of them gets them before
    the first ends."""
    to, admin = small_addresses.destination(target, "page", MULTICAST), target.admin()
    lazy, leaver = Taker(target, to, window=1), Taker(target, to, window=1)
    eager, producer = Taker(target, to), target.stomp()
    for number in range(40):
        size = LARGE if large and number % 10 == 9 else SIZE
        producer.publish(to, small_addresses.body(number, size), receipt=number == 39)
    if not paging.paged(target, admin, to.name):
        return
    before = leaver.take(taken)
    detail = f"the subscription that ends got {brief(before)} of {taken} messages"
    target.control(before == list(range(taken)), detail)
    if early:
        eager.take(40)
    leaver.peer.request("UNSUBSCRIBE", {"id": "0"})
    leaver.peer.close_socket()
    for name, requirement, taker in (("eager", LAZY, eager), ("lazy", KEEPS, lazy)):
        received = taker.all(40)
        target.record_finding(
            requirement,
            received == list(range(40)),
            f"another one took {taken} and ended; of 40 messages, the {name} one got"
            f" {brief(received)}",
        )


@case(KEEPS, WINDOW, needs=NEEDS)
@over(examples=3, always=lambda target: [{"size": SIZE}], size=st.sampled_from([500, SIZE, 5000]))
def test_a_deep_queue_takes_little_memory(target: Bench, size: int) -> None:
    """An address under PAGE gets many times its limit. Its memory stays near the limit, and a
    consumer that acknowledges gets every message once, in order."""
    admin = target.admin()
    count = 8 * limit_of(target) // (size + 400)
    to = stored(target, count, size)
    if not paging.paged(target, admin, to.name):
        return
    # A broker may charge several times a small message's size, and it charges messages read from
    # pages too.
    weight = small_addresses.Scale(target, admin, to).weight(size)
    most = limit_of(target) + read_ahead_of(target) + page_of(target) + 2 * weight
    readings = [admin.size(to.name)]
    taker = Taker(target, to)
    held = sum(len(message.body) for message in taker.waiting())
    bounds = (1, limit_of(target) + read_ahead_of(target) + 2 * size)
    target.judge_count(
        WINDOW, "bytes of bodies that wait for acknowledgement", held, bounds, "bytes"
    )
    while len(taker.found) < count:
        before = len(taker.found)
        taker.take(min(count, before + max(1, count // 10)))
        readings.append(admin.size(to.name))
        if len(taker.found) == before:
            break
    received = taker.rest()
    detail = f"{count} messages were paged; {brief(received)} arrived"
    target.record_finding(KEEPS, received == list(range(count)), detail)
    target.judge_count(
        KEEPS, "bytes charged to an address that pages", max(readings), (0, most), "bytes"
    )
