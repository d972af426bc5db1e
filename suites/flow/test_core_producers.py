"""Producers' credit in bytes over CORE: requests, grants, and full addresses.

The client must keep to the credit (ARTEMIS-FLOW-block-5), and the case acts as the client. The
broker grants credit, waits before it grants it, or refuses. Cases wait for a missing grant slightly
longer than for any that arrived, and judge the silence only after the connection has been shown to
work.
"""

from functools import partial

from hypothesis import strategies as st

from brokerproof.harness.clients.artemis_management import ADMIN, Admin
from brokerproof.harness.oracles import core_credit
from brokerproof.suites.api import PATIENCE, Bench, RoutingType, case, listed, over, shown
from brokerproof.suites.api.core import CorePeer, Packet, packet
from brokerproof.suites.steps.core import (
    CORE,
    FIXTURES,
    QUIET,
    Producer,
    bystander,
    number_of,
    numbers,
    publish,
    queue,
    sized,
    take,
)
from brokerproof.suites.steps.queues import judge_arrivals
from brokerproof.suites.steps.small_addresses import MESSAGES, limit_of, scratch_name
from brokerproof.suites.steps.traces import judge_trace

COST = "ARTEMIS-FLOW-producer-1"
WITHIN_ROOM = "ARTEMIS-FLOW-producer-2"
OVERSHOOT = "ARTEMIS-FLOW-producer-3"
BLOCKS = "ARTEMIS-FLOW-block-1"
ADDRESS_WIDE = "ARTEMIS-FLOW-block-2"
ONLY_BLOCK = "ARTEMIS-FLOW-block-3"
OVERDRAWN = "ARTEMIS-FLOW-block-5"
FULL = {CORE, FIXTURES, "address-full"}
GRANT = packet("producer-credits")
MOST = 2**31 - 1
AMOUNTS = [1, 2, 1000, 65_535, 65_536, MOST]


def grants(target: Bench, peer: CorePeer, count: int) -> list[int]:
    """The next ``count`` grants in bytes (fewer if some do not arrive), and any surplus."""

    def here() -> int:
        return sum(GRANT.accepts(received) for received in peer.inbox)

    if count:
        target.wait_until(
            lambda: here() >= count or peer.ended is not None or any(map(peer.fatal, peer.inbox)),
            PATIENCE,
        )
    peer.settle()
    target.wait_until(lambda: here() > count, QUIET)
    results = []
    while (answer := peer.take(GRANT)) is not None:
        results.append(int(answer["credits"]))
    return results


def until_full(target: Bench, name: str) -> None:
    """Wait until the address ``name`` is full: brokers may charge for accepted messages later."""
    if ADMIN in target.capabilities:
        state, there = target.admin().until(name, lambda state: state.size >= limit_of(target))
        target.control(there, f"the messages sent should fill the address; it holds {state}")
    else:
        target.advance(QUIET)


def full_queue(target: Bench, peer: CorePeer, kind: str) -> str:
    """Return a queue at an address of this kind (block, fail, three.block …), filled with messages
    of 1000 bytes, and one more message if the broker accepts it."""
    name = queue(target, peer, target.full_address(kind))
    for number in range(-(-limit_of(target) // 1000) + 1):
        peer.send("send", {"message": sized(name, number, 1000), "sender": 0})
    peer.settle()
    until_full(target, name)
    return name


def drain(target: Bench, name: str, count: int, consumer: CorePeer | None = None) -> list[Packet]:
    """Consume ``count`` messages of a queue; acknowledge each."""
    peer = consumer or target.core()
    peer.create_consumer(name, 9)
    peer.credit(-1, 9)
    got = take(target, peer, count, 9)[:count]
    for delivery in got:
        peer.acknowledge(delivery, one=True)
    peer.close_consumer(9)
    return got


# --- requests
# --------------------------------------------------------------------------------------


@case(COST, needs={CORE})
@over(
    examples=10,
    asked=st.lists(st.sampled_from(AMOUNTS), min_size=1, max_size=5),
    always=lambda target: [{"asked": [1]}, {"asked": [MOST]}, {"asked": [65_536, 1, 65_536]}],
)
def test_what_is_asked_for_is_granted(target: Bench, asked: list[int]) -> None:
    """A producer repeatedly requests credit at an address without a limit. Each request is granted
    in full, in order, and nothing more is granted."""
    peer = target.core()
    name = queue(target, peer)
    for amount in asked:
        peer.request_credits(name, amount)
    got = grants(target, peer, len(asked))
    detail = f"{listed(asked)} bytes were requested; {listed(got)} were granted"
    target.record_finding(COST, got == asked, detail)
    judge_trace(target, peer, core_credit.producers)


@case(COST, needs={CORE})
@over(
    examples=8,
    window=st.sampled_from([1, 500, 1000, 5000, 65_536]),
    cost=st.sampled_from([300, 499, 500, 501, 2000]),
    always=lambda target: [{"window": 1, "cost": 500}, {"window": 1000, "cost": 500}],
)
def test_a_producer_that_keeps_to_its_window_gets_everything_through(
    target: Bench, window: int, cost: int
) -> None:
    """A producer keeps to its credit and requests more when low. All messages arrive once, in
    order."""
    peer = target.core()
    name = queue(target, peer)
    producer = Producer(peer, name, window)
    for number in range(20):
        message = sized(name, number, cost)
        producer.ask(message.cost)
        target.wait_until(partial(producer.can_offer, message.cost), PATIENCE)
        went = producer.offer(message, wait=number == 19)
        target.record_finding(
            COST,
            went,
            f"with a window of {window}, there were {producer.balance} bytes for message {number}",
        )
        if not went:
            return
        target.control(
            producer.balance + producer.arriving <= max(window, message.cost),
            "the producer should keep to its window",
        )
    target.control(
        core_credit.overdrawn(target.events, peer.conn) == 0,
        "the producer should keep to its credit",
    )
    got = numbers(drain(target, name, 20))
    judge_arrivals(target, COST, got, 20, "sent")
    judge_trace(target, peer, core_credit.producers)


# --- room -----------------------------------------------------------------------------------------


@case(COST, WITHIN_ROOM, needs=FULL)
def test_no_producer_is_given_more_than_the_room(target: Bench) -> None:
    """A producer requests half the limit of an empty address, and another three times the limit.
    The first request is granted, and the second gets no more than the remaining room."""
    peer = target.core()
    modest, greedy = (
        queue(target, peer, target.full_address("block")),
        queue(target, peer, target.full_address("block")),
    )
    peer.request_credits(modest, limit_of(target) // 2)
    got = grants(target, peer, 1)
    half = limit_of(target) // 2
    words = f"{half} of {limit_of(target)} bytes were requested; {sum(got)} were granted"
    target.record_finding(COST, got == [half], words)
    peer.request_credits(greedy, 3 * limit_of(target))
    got = grants(target, peer, 1)
    target.judge_count(
        WITHIN_ROOM, "bytes granted to one producer", sum(got), (1, limit_of(target)), "bytes"
    )


def weight(target: Bench, admin: Admin, peer: CorePeer, name: str, cost: int) -> int:
    """Return the bytes charged for a message of this cost at an address with a name of this
    length."""
    scratch = scratch_name(target, target.fresh_name(), len(name))
    peer.create_queue(scratch)
    peer.publish(sized(scratch, 0, cost))
    return admin.size(scratch)


@case(BLOCKS, needs=FULL | {"admin"})
@over(
    examples=3,
    always=lambda target: [{"gap": gap} for gap in (-1, 0, 1)],
    gap=st.sampled_from((-1, 0, 1)),
)
def test_a_full_address_grants_nothing_until_it_has_room(target: Bench, gap: int) -> None:
    """An address is filled to its limit or one byte below or above. Below the limit a byte of
    credit is granted; from the limit on it is granted only after a message has been consumed."""
    peer, admin = target.core(), target.admin()
    name = queue(target, peer, target.full_address("block"))
    weights = [weight(target, admin, peer, name, cost) for cost in (1000, 1001)]
    detail = f"messages that cost 1000 and 1001 bytes weigh {weights}"
    target.control(weights[1] == weights[0] + 1, detail)
    extra = weights[0] - 1000
    costs = [1000] * ((limit_of(target) + gap) // weights[0] - 1)
    costs.append(limit_of(target) + gap - len(costs) * weights[0] - extra)
    for number, cost in enumerate(costs):
        peer.publish(sized(name, number, cost))
    state, there = admin.until(name, lambda state: state.size == limit_of(target) + gap)
    target.control(there, f"the address should have {limit_of(target) + gap} bytes: {state}")
    peer.request_credits(name, 1)
    got = grants(target, peer, int(gap < 0))
    words = f"{gap:+d} bytes from the limit, {sum(got)} credits were granted; 1 was requested"
    target.record_finding(BLOCKS, got == [1] * (gap < 0), words)
    if gap >= 0:
        drain(target, name, 1)
        got = grants(target, peer, 1)
        detail = f"once there was room again, {sum(got)} credits were granted; 1 was requested"
        target.record_finding(BLOCKS, got == [1], detail)
    judge_trace(target, peer, core_credit.producers)


@case(BLOCKS, needs=FULL)
def test_a_limit_of_messages_blocks_too(target: Bench) -> None:
    """An address has a limit of three messages. With two in it credit is granted, with three it is
    not."""
    peer = target.core()
    name = queue(target, peer, target.full_address("limited.block"))
    seen = []
    for number in range(MESSAGES + 1):
        peer.request_credits(name, 100)
        seen.append(grants(target, peer, int(number < MESSAGES)))
        peer.publish(sized(name, number))
    expected = [[100]] * MESSAGES + [[]]
    words = f"with 0 to {MESSAGES} messages, the credits granted were {'; '.join(map(shown, seen))}"
    target.record_finding(BLOCKS, seen == expected, words)
    # the fourth was sent without credit: the address has room once two are consumed
    drain(target, name, 2)
    got = grants(target, peer, 1)
    detail = f"once there was room again, the credits granted were {shown(got)}"
    target.record_finding(BLOCKS, got == [100], detail)


@case(BLOCKS, OVERSHOOT, needs=FULL | {"admin"})
@over(
    examples=3,
    producers=st.integers(1, 3),
    window=st.sampled_from([2000, 8000]),
    always=lambda target: [{"producers": 2, "window": 6000}],
)
def test_producers_wait_for_room_and_go_on_by_themselves(
    target: Bench, producers: int, window: int
) -> None:
    """Producers with windows send several times the address's capacity while a consumer consumes a
    few messages at a time. They wait at the limit and continue without asking again, and every
    message arrives once, in order. One scenario: one address blocks and continues in turn."""
    admin, consumer = target.admin(), target.core()
    name = queue(target, consumer, target.full_address("block"))
    scale = weight(target, admin, consumer, name, 1000)
    crowd = [Producer(target.core(), name, window) for _ in range(producers)]
    goal = 3 * limit_of(target) // scale // producers + 2
    most = limit_of(target) + producers * (window // 1000 + 1) * scale
    consumer.create_consumer(name, 9)
    received: list[Packet] = []
    waits = 0

    def could_send() -> bool:
        return any(consumer.sent < goal and consumer.can_offer(1000) for consumer in crowd)

    while len(received) < goal * producers:
        for who, subscriber in enumerate(crowd):
            while subscriber.sent < goal and subscriber.offer(
                sized(name, 1000 * who + subscriber.sent, 1000)
            ):
                pass
        if target.wait_until(could_send, QUIET):
            continue
        sent = sum(consumer.sent for consumer in crowd)
        if sent < goal * producers:
            # If the address is less than a message below its limit, no producer may fit into the
            # remaining room.
            size = admin.size(name)
            if size < limit_of(target) - 1000:
                granted = target.wait_until(could_send, PATIENCE)
                words = f"the address has {size} of {limit_of(target)} bytes; credit was granted:"
                target.record_finding(BLOCKS, granted, f"{words} {'yes' if granted else 'no'}")
                if granted:
                    continue
                break
            waits += 1
            target.judge_count(OVERSHOOT, "bytes in the address", size, (0, most), "bytes")
        if sent == len(received):
            break
        consumer.credit(1 + 3 * (1000 + 25), 9)
        got = take(target, consumer, min(4, sent - len(received)), 9)
        consumer.credit(0, 9)
        for message in got:
            consumer.acknowledge(message, one=True)
        received += got
        if not got:
            break
    target.control(waits > 0, "the producers had to wait")
    reported = numbers(received)
    by_producer = [
        [number for number in reported if number // 1000 == who] for who in range(producers)
    ]
    expected = [[1000 * who + number for number in range(goal)] for who in range(producers)]
    words = f"{producers} producers sent {listed(consumer.sent for consumer in crowd)} messages;"
    target.record_finding(BLOCKS, by_producer == expected, f"{words} {listed(reported)} arrived")


@case(ADDRESS_WIDE, needs=FULL)
def test_the_limit_counts_for_all_queues_of_the_address(target: Bench) -> None:
    """A multicast address with two queues is full, and one queue is emptied. Credit is granted only
    once the second queue has consumed a message too."""
    peer = target.core()
    address = f"{target.full_address('block')}{target.fresh_name()}"
    queues = [f"{address}-{suffix}" for suffix in "ab"]
    for queue_name in queues:
        peer.create_queue(queue_name, address, RoutingType.MULTICAST)
    count = -(-limit_of(target) // 1000)
    publish(peer, address, [1000] * count)
    until_full(target, address)
    peer.request_credits(address, 100)
    got = grants(target, peer, 0)
    words = f"the address is full; {sum(got) or 'no'} credits were granted"
    target.record_finding(ADDRESS_WIDE, not got, words)
    drained = drain(target, queues[0], count)
    target.control(len(drained) == count, f"the first queue has {len(drained)} messages of {count}")
    got = grants(target, peer, 0)
    detail = f"the other queue still has everything; {sum(got) or 'no'} credits were granted"
    target.record_finding(ADDRESS_WIDE, not got, detail)
    drain(target, queues[1], count)
    got = grants(target, peer, 1)
    detail = f"both queues are empty; {sum(got) or 'no'} credits were granted"
    target.record_finding(ADDRESS_WIDE, got == [100], detail)


@case(ONLY_BLOCK, needs=FULL)
@over(
    examples=4,
    always=lambda target: [{"policy": policy} for policy in ("block", "page", "drop", "fail")],
    policy=st.sampled_from(["block", "page", "drop", "fail"]),
)
def test_only_block_makes_producers_wait(target: Bench, policy: str) -> None:
    """A producer requests credit at a full address. It waits under BLOCK, gets credit under PAGE
    and DROP, and is refused immediately under FAIL."""
    peer = target.core()
    with bystander(target):
        name = full_queue(target, peer, policy)
        peer.request_credits(name, 100)
        got = grants(target, peer, int(policy in ("page", "drop")))
        refused = (
            peer.take(packet("producer-credits-refused", address=name, credits=100)) is not None
        )
    expected = {"block": ([], False), "fail": ([], True)}.get(policy, ([100], False))
    detail = f"credits granted: {shown(got)}{'; 100 were refused' if refused else ''}"
    words = f"a full address under {policy.upper()}: {detail}"
    target.record_finding(ONLY_BLOCK, (got, refused) == expected, words)


@case(OVERDRAWN, BLOCKS, needs=FULL)
def test_who_sends_without_credit_is_taken_and_harms_nobody(target: Bench) -> None:
    """A producer sends to a full address without requesting credit. Every message is queued in
    order, other clients are served, and afterwards the address grants credit again."""
    peer = target.core()
    name = queue(target, peer, target.full_address("block"))
    count = 3 * limit_of(target) // 1000
    with bystander(target) as other:
        for number in range(count):
            peer.publish(sized(name, number, 1000), proves=OVERDRAWN)
        over_by = core_credit.overdrawn(target.events, peer.conn)
        detail = f"the producer sent {over_by} bytes beyond its credit"
        target.control(over_by >= 1000 * count, detail)
        plain = queue(target, other)
        other.request_credits(plain, 500)
        got = grants(target, other, 1)
        detail = f"another address granted {sum(got)} of 500 credits meanwhile"
        target.record_finding(OVERDRAWN, got == [500], detail)
        peer.request_credits(name, 700)
        got = grants(target, peer, 0)
        words = f"the address is full; {sum(got) or 'no'} credits were granted"
        target.record_finding(BLOCKS, not got, words)
    received = [number_of(body) for body in drain(target, name, count)]
    judge_arrivals(target, OVERDRAWN, received, count, "accepted")
    got = grants(target, peer, 1)
    detail = f"once there was room again, the credits granted were {shown(got)}; expected 700"
    target.record_finding(BLOCKS, sum(got) == 700, detail)
