"""AMQP at the exact byte that fills an address: refusals, drops, or no credit (ARTEMIS-PAGING-8).

Each case measures the charge for a message and then fills an address to one byte below its limit,
to the limit, or to one byte above. It sends each message after the answer to the previous one,
because for a burst only bounds are certain.
"""

from hypothesis import strategies as st

from brokerproof.suites.amqp10.steps import QUIET, bystander, collect
from brokerproof.suites.api import PATIENCE, Bench, Target, case, listed, over
from brokerproof.suites.api.amqp10 import AmqpPeer, Node, frame
from brokerproof.suites.steps import small_addresses
from brokerproof.suites.steps.small_addresses import MESSAGES, SMALLEST, limit_of, threshold_of

POLICIES = "ARTEMIS-PAGING-8"
THREE = "ARTEMIS-PAGING-13"
NO_CREDIT = "ARTEMIS-FLOW-amqp-2"
REFUSED_AT_THRESHOLD = "ARTEMIS-FLOW-amqp-5"
REFUSED = "ARTEMIS-FLOW-amqp-4"
UNBLOCK = "ARTEMIS-PAGING-12"
GAPS = (-1, 0, 1)
"""Bytes that an address holds above its limit."""

fillings = st.lists(st.sampled_from([SMALLEST, 300, 1000, 1001, 4000]), max_size=3)


def corners(target: Target) -> list[dict[str, object]]:
    return [{"gap": gap, "sizes": [1000, 300]} for gap in GAPS]


def filled(target: Bench, place: Node, total: int, sizes: list[int]) -> tuple[AmqpPeer, int]:
    """Fill ``place`` with messages that are charged ``total`` bytes together; return their
    number."""
    bodies = small_addresses.filling(total, small_addresses.overhead(target), sizes)
    peer, link = small_addresses.producer(target, place)
    for size in bodies:
        state = small_addresses.send(target, peer, link, size)
        detail = f"a message to an address that is not full was {state}"
        target.require(POLICIES, state == "accepted", detail)
    return peer, len(bodies)


@case(POLICIES, needs={"amqp", "address-full"})
@over(examples=8, always=corners, gap=st.sampled_from(GAPS), sizes=fillings)
def test_fail_refuses_from_the_very_octet(target: Bench, gap: int, sizes: list[int]) -> None:
    """An address under FAIL is filled to its limit or one byte below or above. Below the limit it
    accepts one more message; from the limit on it refuses the message and does not queue it. Other
    addresses still accept messages."""
    place = small_addresses.node(target, "fail")
    with bystander(target):
        peer, count = filled(target, place, limit_of(target) + gap, sizes)
        link = peer.session.links[0]
        states = [
            small_addresses.send(target, peer, link, small_addresses.body(count + more, SMALLEST))
            for more in range(2)
        ]
        expected = ["accepted" if gap < 0 else "rejected", "rejected"]
        target.record_finding(
            POLICIES,
            states == expected,
            f"{gap:+d} bytes from the limit, two more messages were {states[0]} and {states[1]}",
        )
    kept = count + (gap < 0)
    received = small_addresses.drain_queue(target, place, kept)
    detail = f"{kept} messages were accepted; the queue has {listed(received)}"
    target.record_finding(POLICIES, received == list(range(kept)), detail)
    small_addresses.room_again(target, place.address)
    state = small_addresses.send(
        target, *small_addresses.producer(target, place), small_addresses.body(0, SMALLEST)
    )
    words = f"once there was room again, a message was {state}"
    target.record_finding(POLICIES, state == "accepted", words)


@case(POLICIES, needs={"amqp", "address-full"})
@over(examples=8, always=corners, gap=st.sampled_from(GAPS), sizes=fillings)
def test_drop_loses_from_the_very_octet(target: Bench, gap: int, sizes: list[int]) -> None:
    """An address under DROP is filled to its limit or one byte below or above. Every message is
    accepted, and exactly those sent while the address was full are lost."""
    place = small_addresses.node(target, "drop")
    peer, count = filled(target, place, limit_of(target) + gap, sizes)
    link = peer.session.links[0]
    states = [
        small_addresses.send(target, peer, link, small_addresses.body(count + more, SMALLEST))
        for more in range(3)
    ]
    words = f"messages to a full address under DROP were {listed(map(str, states))}"
    target.record_finding(POLICIES, states == ["accepted"] * 3, words)
    kept = count + (gap < 0)
    received = small_addresses.drain_queue(target, place, kept)
    target.record_finding(
        POLICIES,
        received == list(range(kept)),
        f"{gap:+d} bytes from the limit, {kept} should be kept; the queue has {listed(received)}",
    )
    small_addresses.room_again(target, place.address)
    small_addresses.send(target, peer, link, small_addresses.body(kept, SMALLEST))
    again = small_addresses.drain_queue(target, place, 1)
    words = f"once there was room again, a message was kept; the queue has {listed(again)}"
    target.record_finding(POLICIES, again == [kept], words)


@case(POLICIES, needs={"amqp", "address-full"})
@over(
    examples=6,
    always=lambda target: [{"kind": policy} for policy in ("fail", "drop")],
    kind=st.just("fail"),
)
def test_settled_messages_to_a_full_address_are_lost(target: Bench, kind: str) -> None:
    """A producer sends settled messages to a full address under FAIL or DROP. They are not queued,
    its connection stays open, and it continues when the address has room."""
    place = small_addresses.node(target, kind)
    peer, count = filled(target, place, limit_of(target), [1000])
    link = peer.session.links[0]
    for more in range(3):
        peer.publish(link, small_addresses.body(count + more, SMALLEST), settled=True)
    peer.settle()
    received = small_addresses.drain_queue(target, place, count)
    detail = f"{count} messages were accepted; the queue has {listed(received)}"
    target.record_finding(POLICIES, received == list(range(count)), detail)
    small_addresses.room_again(target, place.address)
    state = small_addresses.send(
        target, *small_addresses.producer(target, place), small_addresses.body(0, SMALLEST)
    )
    words = f"once there was room again, a message was {state}"
    target.record_finding(POLICIES, state == "accepted", words)


@case(NO_CREDIT, POLICIES, needs={"amqp", "amqp-credit", "address-full"})
@over(examples=8, always=corners, gap=st.sampled_from(GAPS), sizes=fillings)
def test_credit_stops_at_the_very_octet(target: Bench, gap: int, sizes: list[int]) -> None:
    """An address under BLOCK is filled to its limit or one byte below or above. A new producer gets
    credit only below the limit; messages that use earlier credit are accepted."""
    place = small_addresses.node(target, "block")
    peer, count = filled(target, place, limit_of(target) + gap, sizes)
    late, link = small_addresses.producer(target, place)
    if gap < 0:
        target.wait_until(lambda: link.credit > 0 or late.ended is not None, PATIENCE)
        detail = (
            f"one byte below the limit, a new producer got {link.credit} credits; {late.instead()}"
        )
        target.record_finding(NO_CREDIT, link.credit > 0, detail)
    else:
        late.expect_nothing(
            for_=QUIET, of=frame("flow", link=link), proves=NO_CREDIT, why=f"full by {gap} bytes"
        )
        state = small_addresses.send(
            target, peer, peer.session.links[0], small_addresses.body(count, SMALLEST)
        )
        words = f"a message on credit given before the address was full was {state}"
        target.record_finding(POLICIES, state == "accepted", words)


@case(NO_CREDIT, UNBLOCK, POLICIES, needs={"amqp", "amqp-credit", "address-full"})
@over(examples=8, always=lambda target: [{"gap": 0}, {"gap": -1}], gap=st.sampled_from((0, -1)))
def test_credit_comes_back_at_the_very_octet(target: Bench, gap: int) -> None:
    """A consumer empties an address under BLOCK that exceeds its limit. A waiting producer gets
    credit as soon as the address is below the limit, not at exactly the limit."""
    place = small_addresses.node(target, "block")
    extra = small_addresses.overhead(target)
    first = [1000, 300]
    total = limit_of(target) + gap + sum(size + extra for size in first)
    _, count = filled(target, place, total, [*first, 400, 500])
    late, link = small_addresses.producer(target, place)
    late.expect_nothing(
        for_=QUIET, of=frame("flow", link=link), proves=NO_CREDIT, why="the address is full"
    )
    consumer = target.amqp()
    taking = consumer.receiver(place, credit=count)
    held = collect(target, consumer, taking, count, quiet=0)
    target.control(len(held) == count, f"{count} messages were accepted; {len(held)} arrived")
    late.expect_nothing(
        for_=QUIET, of=frame("flow", link=link), proves=NO_CREDIT, why="nothing is acknowledged yet"
    )
    needed = 2 if gap < 0 else 3
    for number, delivery in enumerate(held[:needed], 1):
        consumer.disposition(delivery)
        consumer.settle()
        if number < needed:
            why = f"{number} of {needed} messages are acknowledged"
            late.expect_nothing(for_=QUIET, of=frame("flow", link=link), proves=NO_CREDIT, why=why)
    target.wait_until(lambda: link.credit > 0 or late.ended is not None, PATIENCE)
    words = f"below the limit again, {link.credit} credits arrived; {late.instead()}"
    target.record_finding(UNBLOCK, link.credit > 0, words)


@case(REFUSED, POLICIES, needs={"amqp", "address-full"})
@over(examples=8, always=lambda target: [{"gap": -1, "sizes": []}, {"gap": 1, "sizes": [300]}],
      gap=st.sampled_from((-1, 1)), sizes=fillings)  # fmt: skip
def test_the_threshold_rejects_above_its_very_octet(
    target: Bench, gap: int, sizes: list[int]
) -> None:
    """Under BLOCK with a reject threshold, an address is filled with earlier credit. One byte below
    the threshold it accepts messages; one byte above it rejects them and does not queue them."""
    place = small_addresses.node(target, "reject")
    peer, count = filled(target, place, threshold_of(target) + gap, [*sizes, 9000])
    link = peer.session.links[0]
    state = small_addresses.send(target, peer, link, small_addresses.body(count, SMALLEST))
    expected = "accepted" if gap < 0 else "rejected"
    words = f"{gap:+d} bytes from the threshold, a message was {state}; expected {expected}"
    target.record_finding(REFUSED, state == expected, words)
    kept = count + (gap < 0)
    state = small_addresses.send(target, peer, link, small_addresses.body(kept, SMALLEST))
    detail = f"above the threshold, a message was {state}"
    target.record_finding(REFUSED, state == "rejected", detail)
    peer.publish(link, small_addresses.body(kept, SMALLEST), settled=True)
    peer.settle()
    received = small_addresses.drain_queue(target, place, kept)
    words = f"{kept} messages were accepted; the queue has {listed(received)}"
    target.record_finding(REFUSED, received == list(range(kept)), words)


@case(REFUSED_AT_THRESHOLD, POLICIES, needs={"amqp", "address-full"})
def test_the_threshold_rejects_at_its_very_octet(target: Bench) -> None:
    """An address holds exactly the bytes of its reject threshold. The next message is rejected, as
    one chapter of the manual says and another denies."""
    place = small_addresses.node(target, "reject")
    peer, count = filled(target, place, threshold_of(target), [9000])
    state = small_addresses.send(
        target, peer, peer.session.links[0], small_addresses.body(count, SMALLEST)
    )
    words = f"at the threshold, a message was {state}; expected rejected"
    target.record_finding(REFUSED_AT_THRESHOLD, state == "rejected", words)


@case(THREE, needs={"amqp", "address-full"})
@over(
    examples=8,
    always=lambda target: [
        {"kind": policy, "sizes": [1, 5000, 300]} for policy in ("fail", "drop")
    ],
    kind=st.sampled_from(["fail", "drop"]),
    sizes=st.lists(st.sampled_from([1, 300, 30_000]), min_size=MESSAGES, max_size=MESSAGES),
)
def test_messages_count_whatever_their_size(target: Bench, kind: str, sizes: list[int]) -> None:
    """An address with max-size-messages accepts that many messages of any size. A further one is
    refused under FAIL, or lost under DROP, until a message is acknowledged."""
    place = small_addresses.node(target, f"limited.{kind}")
    peer, link = small_addresses.producer(target, place)
    states = [
        small_addresses.send(target, peer, link, small_addresses.body(number, size))
        for number, size in enumerate([*sizes, 1])
    ]
    expected = ["accepted"] * MESSAGES + ["rejected" if kind == "fail" else "accepted"]
    words = f"with room for {MESSAGES} messages, the outcomes were {', '.join(map(str, states))}"
    target.record_finding(THREE, states == expected, words)
    consumer = target.amqp()
    taking = consumer.receiver(place, credit=MESSAGES + 1)
    held = collect(target, consumer, taking, MESSAGES)
    delivered = [small_addresses.number_of(delivery.message.body) for delivery in held]
    detail = f"{MESSAGES} messages were accepted; {delivered} arrived"
    target.require(THREE, delivered == list(range(MESSAGES)), detail)
    consumer.disposition(held[0])
    consumer.settle()
    target.advance(QUIET)  # brokers may free acknowledged messages later
    if kind == "fail":
        state = small_addresses.send(target, peer, link, small_addresses.body(9, 1))
        detail = f"after one was acknowledged, another was {state}"
        target.record_finding(THREE, state == "accepted", detail)
    else:
        small_addresses.send(target, peer, link, small_addresses.body(9, 1))
        received = [
            small_addresses.number_of(delivery.message.body)
            for delivery in collect(target, consumer, taking, 1)
        ]
        detail = f"after one was acknowledged and another sent, {listed(received)} arrived"
        target.record_finding(THREE, received == [9], detail)


@case(THREE, NO_CREDIT, needs={"amqp", "amqp-credit", "address-full"})
def test_credit_stops_at_the_last_message(target: Bench) -> None:
    """Under BLOCK with max-size-messages a new producer gets credit while the address is one
    message short of its limit, and none at the limit."""
    place = small_addresses.node(target, "limited.block")
    peer, link = small_addresses.producer(target, place)
    for number in range(MESSAGES - 1):
        small_addresses.send(target, peer, link, small_addresses.body(number, 300))
    early, room = small_addresses.producer(target, place)
    target.wait_until(lambda: room.credit > 0 or early.ended is not None, PATIENCE)
    words = f"with room for one message, {room.credit} credits arrived; {early.instead()}"
    target.record_finding(THREE, room.credit > 0, words)
    small_addresses.send(target, peer, link, small_addresses.body(MESSAGES, 300))
    late, none = small_addresses.producer(target, place)
    late.expect_nothing(
        for_=QUIET,
        of=frame("flow", link=none),
        proves=(THREE, NO_CREDIT),
        why="all places are taken",
    )
    small_addresses.drain_queue(target, place, MESSAGES)
    target.wait_until(lambda: none.credit > 0 or late.ended is not None, PATIENCE)
    words = f"once there was room again, {none.credit} credits arrived; {late.instead()}"
    target.record_finding(NO_CREDIT, none.credit > 0, words)
