"""Brokers that make STOMP producers wait under BLOCK: from which byte, and until when.

The Artemis manual describes flow control of producers only for CORE and AMQP, so these cases are
for targets with the ``stomp-blocking`` capability.
"""

from hypothesis import strategies as st

from brokerproof.suites.api import PATIENCE, Bench, case, listed, ms, over
from brokerproof.suites.api.stomp import Destination, StompPeer, frame
from brokerproof.suites.flow.test_address_full_stomp import GAPS, corners, filled, fillings
from brokerproof.suites.steps import small_addresses
from brokerproof.suites.steps.queues import QUIET, bodies, collect, receive
from brokerproof.suites.steps.small_addresses import limit_of
from brokerproof.suites.steps.traces import signs_of_life

BLOCKS = "ARTEMIS-FLOW-block-1"
UNBLOCKS = "ARTEMIS-PAGING-12"
BEATS = "STOMP12-HB-09"
ENDS = "ARTEMIS-STOMP-ttl-3"
NEEDS = {"stomp-1.2", "address-full", "admin", "stomp-blocking"}


def offer(peer: StompPeer, to: Destination, data: bytes) -> str:
    """Send a SEND without waiting for the receipt; return the receipt's id."""
    receipt = peer.next_receipt()
    peer.publish(to, data, {"receipt": receipt}, receipt=False)
    return receipt


def consumer(target: Bench, to: Destination) -> StompPeer:
    """Subscribe in auto mode."""
    peer = target.stomp()
    peer.subscribe(to)
    return peer


@case(BLOCKS, UNBLOCKS, needs=NEEDS)
@over(examples=8, always=corners, gap=st.sampled_from(GAPS), sizes=fillings)
def test_a_producer_waits_from_the_very_octet(target: Bench, gap: int, sizes: list[int]) -> None:
    """A SEND below the limit is confirmed. From the limit on a SEND gets neither RECEIPT nor ERROR
    until a consumer makes room; then it is confirmed and its message arrives in order."""
    to, admin = small_addresses.destination(target, "block"), target.admin()
    peer, count, held = filled(target, admin, to, limit_of(target) + gap, sizes, proves=BLOCKS)
    while held < limit_of(target):
        peer.publish(to, small_addresses.body(count, 2), proves=BLOCKS)
        count, held = count + 1, admin.size(to.name)
    receipt = offer(peer, to, small_addresses.body(count, 3))
    peer.expect_nothing(
        for_=QUIET, proves=BLOCKS, why=f"the address holds {held} bytes of {limit_of(target)}"
    )
    received = [
        small_addresses.number_of(body)
        for body in bodies(collect(target, consumer(target, to), count + 1))
    ]
    peer.expect(frame("RECEIPT", {"receipt-id": receipt}), proves=UNBLOCKS)
    words = f"{count + 1} were sent; {listed(received)} arrived"
    target.record_finding(UNBLOCKS, received == list(range(count + 1)), words)


@case(BLOCKS, UNBLOCKS, needs=NEEDS)
@over(
    examples=8,
    producers=st.integers(1, 4),
    size=st.sampled_from([300, 2000, 9000]),
    receipts=st.booleans(),
)
def test_a_burst_does_not_get_past_the_limit(
    target: Bench, producers: int, size: int, receipts: bool
) -> None:
    """Without waiting, producers send far more than the address can hold. It exceeds its limit by
    at most one message, and every message arrives once, in its producer's order."""
    to, admin = small_addresses.destination(target, "block"), target.admin()
    weight = small_addresses.Scale(target, admin, to).weight(size)
    peers = [target.stomp() for _ in range(producers)]
    per_producer = 3 * limit_of(target) // weight + 2
    for number in range(per_producer):
        for who, peer in enumerate(peers):
            data = small_addresses.body(1000 * who + number, size)
            peer.publish(
                to, data, {"receipt": peer.next_receipt()} if receipts else {}, receipt=False
            )
    state, _ = admin.until(to.name, lambda outcomes: outcomes.size >= limit_of(target))
    target.advance(QUIET)
    state = admin.address(to.name)
    most = limit_of(target) - 1 + weight
    target.judge_count(
        BLOCKS, "bytes at a full address", state.size, (limit_of(target), most), "bytes"
    )
    blocked = [
        small_addresses.number_of(data)
        for data in bodies(collect(target, consumer(target, to), per_producer * producers))
    ]
    by_producer = [
        [number for number in blocked if number // 1000 == who] for who in range(producers)
    ]
    expected = [list(range(1000 * who, 1000 * who + per_producer)) for who in range(producers)]
    words = f"each producer sent {per_producer}; {'; '.join(map(listed, by_producer))} arrived"
    target.record_finding(UNBLOCKS, by_producer == expected, words)


@case(BLOCKS, UNBLOCKS, BEATS, ENDS, needs=NEEDS)
def test_a_producer_that_waits_still_consumes(target: Bench) -> None:
    """A connection has a waiting SEND to a full address; it still gets messages and heartbeats.
    Once another client has made room, this SEND and the next are confirmed. When the client then
    falls silent, it is disconnected after its TTL. One scenario: all of it happens to one waiting
    connection."""
    to, other = small_addresses.destination(target, "block"), target.destination()
    peer = target.stomp(heart_beat="10000,500")
    peer.subscribe(other)
    count = 0
    while target.admin().size(to.name) < limit_of(target) if count else True:
        peer.publish(to, small_addresses.body(count, 4000))
        count += 1
    first, second = (offer(peer, to, small_addresses.body(count + more, 10)) for more in range(2))
    peer.expect_nothing(for_=QUIET, proves=BLOCKS, why="the address is full")
    target.stomp().publish(other, b"meanwhile")
    peer.message(body=b"meanwhile", proves=BLOCKS)
    since = target.now()
    target.advance(ms(3000))
    beats = len(signs_of_life(target, peer, since))
    target.record_finding(BEATS, beats >= 3, f"{beats} heartbeats in 3 s while a SEND waits")
    received = [
        small_addresses.number_of(body)
        for body in bodies(collect(target, consumer(target, to), count + 2))
    ]
    for receipt in (first, second):
        peer.expect(frame("RECEIPT", {"receipt-id": receipt}), proves=UNBLOCKS)
    words = f"{count + 2} were sent; {listed(received)} arrived"
    target.record_finding(UNBLOCKS, received == list(range(count + 2)), words)
    peer.beat()
    target.wait_until(lambda: peer.ended is not None, ms(60_000))
    words = f"a minute after a SEND had waited, a silent client received: {peer.instead()}"
    target.record_finding(ENDS, peer.ended is not None, words)


@case(BLOCKS, UNBLOCKS, needs=NEEDS)
@over(examples=4, queues=st.integers(2, 4))
def test_a_topic_waits_for_its_last_subscription(target: Bench, queues: int) -> None:
    """Several subscriptions of a full address hold their messages. A waiting producer continues
    only when the last of them has acknowledged enough."""
    to = small_addresses.destination(target, "block", small_addresses.MULTICAST)
    holders = []
    for _ in range(queues):
        holder = target.stomp()
        holder.subscribe(to, ack="client", headers={"consumer-window-size": "-1"})
        holders.append(holder)
    peer = target.stomp()
    admin, count = target.admin(), 0
    while admin.size(to.name) < limit_of(target):
        peer.publish(to, small_addresses.body(count, 4000))
        count += 1
    receipt = offer(peer, to, small_addresses.body(count, 10))
    for holder in holders:
        peer.expect_nothing(for_=QUIET, proves=BLOCKS, why="a subscriber has not acknowledged")
        held = receive(target, holder, count)
        detail = f"{count} messages were sent; {len(held)} arrived; {holder.instead()}"
        target.control(len(held) == count, detail)
        holder.ack(held[-1], receipt=True)
    peer.expect(frame("RECEIPT", {"receipt-id": receipt}), within=PATIENCE, proves=UNBLOCKS)
