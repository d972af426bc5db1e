"""STOMP at the exact byte at which an address is full (ARTEMIS-PAGING-8).

The charge for a SEND depends on its headers and on the broker's accounting. So each case first
finds, on other addresses, a body that fills the remaining bytes. The broker's management reports
how many bytes the address holds before the judged SEND.
"""

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from brokerproof.harness.clients.artemis_management import Admin
from brokerproof.suites.api import PATIENCE, Bench, Target, case, either, listed, over
from brokerproof.suites.api.stomp import ERROR, Destination, StompPeer, frame
from brokerproof.suites.steps import small_addresses
from brokerproof.suites.steps.queues import QUIET, bodies, collect
from brokerproof.suites.steps.refusals import bystander, refusal
from brokerproof.suites.steps.small_addresses import MESSAGES, MULTICAST, limit_of

POLICIES = "ARTEMIS-PAGING-8"
BLOCKS = "ARTEMIS-FLOW-block-1"
ONLY_BLOCK = "ARTEMIS-FLOW-block-3"
THREE = "ARTEMIS-PAGING-13"
ENDS_WITH_CONNECTION = "ARTEMIS-CONCEPTS-topic-2"
BY_NAME = "UNSUBSCRIBE by name"
"""Ends a durable subscription."""
ENDINGS = {
    "UNSUBSCRIBE": POLICIES,
    "DISCONNECT": ENDS_WITH_CONNECTION,
    "a closed socket": ENDS_WITH_CONNECTION,
    BY_NAME: POLICIES,
}
"""Each way to end a subscription, with the requirement that nothing is kept for it afterwards."""
GAPS = (-1, 0, 1)
fillings = st.lists(st.sampled_from([2, 300, 1000, 4000]), max_size=3)


def corners(target: Target) -> list[dict[str, Any]]:
    return [{"gap": gap, "sizes": [1000, 300]} for gap in GAPS]


def told(target: Target) -> list[dict[str, Any]]:
    return [{**corner, "receipt": True} for corner in corners(target)]


def filled(
    target: Bench,
    admin: Admin,
    to: Destination,
    total: int,
    sizes: Sequence[int],
    *,
    proves: str = POLICIES,
) -> tuple[StompPeer, int, int]:
    """Fill an address to ``total`` bytes, or as nearly as the broker's accounting allows. Return
    the producer, the number of messages, and the bytes held."""
    peer = target.stomp()
    for number, size in enumerate(sizes):
        peer.publish(to, small_addresses.body(number, size), proves=proves)
    scale, count = small_addresses.Scale(target, admin, to), len(sizes)
    while (left := total - (admin.size(to.name) if count else 0)) >= scale.weight(2):
        # One after another: the charge may differ by a few bytes from that at other addresses.
        peer.publish(to, small_addresses.body(count, scale.sizes(left)[0]), proves=proves)
        count += 1
    held = admin.size(to.name)
    over = f"{held - limit_of(target):+d} from its limit and {held - total:+d} from the aim"
    target.record_note(f"the address holds {held} bytes, {over}")
    return peer, count, held


def refused(target: Bench, peer: StompPeer, to: Destination, number: int, *, receipt: bool) -> None:
    """Judge whether a SEND to a full address under FAIL gets an ERROR and no RECEIPT."""
    name = peer.next_receipt()
    headers = [("destination", to.name), *to.send_headers, ("content-length", "2")]
    peer.send(
        "SEND",
        [*headers, *([("receipt", name)] if receipt else [])],
        small_addresses.body(number, 2),
    )
    confirmed = frame("RECEIPT", {"receipt-id": name})
    answer = peer.watch_for(either(confirmed, ERROR))
    what = peer.instead() if answer is None else answer.brief()
    words = f"a SEND to a full address got {what}"
    target.record_finding(POLICIES, answer is not None and answer.command == "ERROR", words)


@case(POLICIES, needs={"stomp-1.2", "address-full", "admin"})
@over(examples=8, always=told, gap=st.sampled_from(GAPS), sizes=fillings, receipt=st.booleans())
def test_fail_refuses_from_the_very_octet(
    target: Bench, gap: int, sizes: list[int], receipt: bool
) -> None:
    """SENDs fill an address under FAIL to its limit or one byte below or above. Below the limit it
    accepts one more SEND; from the limit on it answers SEND with ERROR and drops the message."""
    to, admin = small_addresses.destination(target, "fail"), target.admin()
    with bystander(target, "1.2"):
        peer, count, held = filled(target, admin, to, limit_of(target) + gap, sizes)
        kept = count
        while admin.size(to.name) < limit_of(target):
            peer.publish(to, small_addresses.body(kept, 2), proves=POLICIES)
            kept += 1
        refused(target, peer, to, kept, receipt=receipt)
    received = small_addresses.drain_queue(target, small_addresses.same(to), kept)
    words = f"{held} bytes were there before; the queue has {listed(received)}"
    target.record_finding(POLICIES, received == list(range(kept)), words)
    small_addresses.room_again(target, to.name)
    target.stomp().publish(to, small_addresses.body(0, 2), proves=POLICIES)


@case(POLICIES, needs={"stomp-1.2", "address-full", "admin"})
@over(examples=8, always=told, gap=st.sampled_from(GAPS), sizes=fillings, receipt=st.booleans())
def test_drop_loses_from_the_very_octet(
    target: Bench, gap: int, sizes: list[int], receipt: bool
) -> None:
    """SENDs fill an address under DROP to its limit or one byte below or above. Every SEND is
    confirmed, and exactly the messages sent to the full address are lost."""
    to, admin = small_addresses.destination(target, "drop"), target.admin()
    peer, count, held = filled(target, admin, to, limit_of(target) + gap, sizes)
    kept = number = count
    while number < kept + 3:
        room = admin.size(to.name) < limit_of(target)
        peer.publish(
            to,
            small_addresses.body(number, 2),
            receipt=receipt,
            proves=POLICIES if receipt else None,
        )
        peer.settle()
        number += 1
        kept += room
    received = small_addresses.drain_queue(target, small_addresses.same(to), kept)
    words = f"{held} bytes were there before; the queue has {listed(received)}"
    target.record_finding(POLICIES, received == list(range(kept)), words)


@case(THREE, POLICIES, needs={"stomp-1.2", "address-full"})
@over(
    examples=4,
    always=lambda target: [{"kind": "fail"}, {"kind": "drop"}],
    kind=st.sampled_from(["fail", "drop"]),
)
def test_messages_count_whatever_their_size(target: Bench, kind: str) -> None:
    """An address with max-size-messages accepts that many SENDs; the next is answered with ERROR
    under FAIL; under DROP its message is lost."""
    to = small_addresses.destination(target, f"limited.{kind}")
    peer = target.stomp()
    for number, size in zip(range(MESSAGES), (10, 20_000, 300), strict=True):
        peer.publish(to, small_addresses.body(number, size), proves=THREE)
    if kind == "fail":
        refused(target, peer, to, MESSAGES, receipt=True)
    else:
        peer.publish(to, small_addresses.body(MESSAGES, 2), proves=POLICIES)
    received = small_addresses.drain_queue(target, small_addresses.same(to), MESSAGES)
    words = f"{MESSAGES} SENDs were accepted; the queue has {listed(received)}"
    target.record_finding(THREE, received == list(range(MESSAGES)), words)


@case(POLICIES, needs={"stomp-1.2", "address-full", "transactions"})
@over(examples=6, kind=st.sampled_from(["fail", "drop"]), end=st.sampled_from(["COMMIT", "ABORT"]))
def test_a_transaction_does_not_get_past_a_full_address(target: Bench, kind: str, end: str) -> None:
    """A SEND in a transaction to a full address is refused under FAIL, immediately or at COMMIT,
    and lost under DROP. No message of the transaction is queued."""
    to = small_addresses.destination(target, f"limited.{kind}")
    filler = target.stomp()
    for number in range(MESSAGES):
        filler.publish(to, small_addresses.body(number, 10))
    peer = target.stomp()
    peer.request("BEGIN", {"transaction": peer.transaction})
    peer.publish(
        to, small_addresses.body(MESSAGES, 10), {"transaction": peer.transaction}, receipt=False
    )
    receipt = peer.next_receipt()
    peer.send(end, {"transaction": peer.transaction, "receipt": receipt})
    answer = peer.watch_for(either(frame("RECEIPT", {"receipt-id": receipt}), ERROR))
    what = peer.instead() if answer is None else answer.brief()
    if kind == "drop":
        words = f"under DROP, the {end} got {what}"
        target.record_finding(POLICIES, answer is not None and answer.command == "RECEIPT", words)
    elif end == "COMMIT":
        words = f"under FAIL, the {end} got {what}"
        target.record_finding(POLICIES, answer is not None and answer.command == "ERROR", words)
    received = small_addresses.drain_queue(target, small_addresses.same(to), MESSAGES)
    words = f"the queue has {listed(received)} after the {end}"
    target.record_finding(POLICIES, received == list(range(MESSAGES)), words)


@case(ONLY_BLOCK, needs={"stomp-1.2", "address-full"})
@over(
    examples=4,
    always=lambda target: [{"kind": policy} for policy in ("page", "drop")],
    kind=st.just("page"),
)
def test_no_stomp_producer_waits_under_another_policy(target: Bench, kind: str) -> None:
    """Under PAGE and DROP a producer sends more than twice the limit. Each SEND is confirmed."""
    to = small_addresses.destination(target, kind)
    peer = target.stomp()
    for number in range(3 * limit_of(target) // 2000):
        peer.publish(to, small_addresses.body(number, 2000), proves=ONLY_BLOCK)


@case(BLOCKS, needs={"stomp-1.2", "address-full"})
@over(examples=4, producers=st.integers(1, 3), receipts=st.booleans())
def test_nothing_is_lost_under_block_over_stomp(
    target: Bench, producers: int, receipts: bool
) -> None:
    """Producers send twice the capacity of an address under BLOCK while a consumer receives
    everything. Every message arrives once, in its producer's order. One scenario: producers and a
    consumer use one address concurrently."""
    to = small_addresses.destination(target, "block")
    peers = [target.stomp() for _ in range(producers)]
    per_producer = 2 * limit_of(target) // 2000 // producers
    for number in range(per_producer):
        for who, peer in enumerate(peers):
            receipt = {"receipt": peer.next_receipt()} if receipts else {}
            data = small_addresses.body(who * 1000 + number, 2000)
            peer.send(
                "SEND",
                [
                    ("destination", to.name),
                    *to.send_headers,
                    ("content-length", "2000"),
                    *receipt.items(),
                ],
                data,
            )
    target.advance(QUIET)
    consumer = target.stomp()
    consumer.subscribe(to)
    received = [
        small_addresses.number_of(data)
        for data in bodies(collect(target, consumer, per_producer * producers))
    ]
    expected = [list(range(who * 1000, who * 1000 + per_producer)) for who in range(producers)]
    by_producer = [
        [number for number in received if number // 1000 == who] for who in range(producers)
    ]
    detail = f"each producer sent {per_producer}; {'; '.join(map(listed, by_producer))} arrived"
    target.record_finding(BLOCKS, by_producer == expected, detail)
    if receipts:
        for peer in peers:
            target.wait_until(_has_receipts(peer, per_producer), PATIENCE)
        counts = [_receipts(peer) for peer in peers]
        words = f"each asked for {per_producer} receipts; {listed(counts)} arrived"
        target.record_finding(BLOCKS, counts == [per_producer] * producers, words)


def _has_receipts(peer: StompPeer, count: int) -> Callable[[], bool]:
    return lambda: _receipts(peer) >= count or peer.ended is not None


def _receipts(peer: StompPeer) -> int:
    return sum(received.command == "RECEIPT" for received in peer.inbox)


def endings(target: Target) -> list[dict[str, Any]]:
    durable = "durable-subscriptions" in target.identity.capabilities
    return [
        {"ending": ending, "size": 1000, "held": held}
        for ending in ENDINGS
        if durable or ending != BY_NAME
        for held in (0, 9)
    ]


@case(POLICIES, ENDS_WITH_CONNECTION, needs={"stomp-1.2", "address-full", "multicast"})
@over(
    examples=6,
    always=endings,
    ending=st.sampled_from([ending for ending in ENDINGS if ending != BY_NAME]),
    size=st.integers(500, 4000),
    held=st.integers(0, 2),
)
def test_a_subscription_that_ended_takes_no_room(
    target: Bench, ending: str, size: int, held: int
) -> None:
    """The only subscription of a topic under FAIL ends, with or without waiting messages. Once the
    broker notices, the topic accepts twice its limit. A topic whose subscription acknowledges
    nothing refuses as much."""
    topic, full = (small_addresses.destination(target, "fail", MULTICAST) for _ in range(2))
    count = 2 * limit_of(target) // size + 1
    standing = target.stomp()
    standing.subscribe(full, "standing", ack="client")
    named = {"durable-subscription-name": "s"} if ending == BY_NAME else {}
    subscriber = target.stomp(headers={"client-id": target.fresh_name()} if named else {})
    subscriber.subscribe(topic, "ending", ack="client", headers=named)
    for number in range(held):
        standing.publish(topic, small_addresses.body(number, size))
    if ending.startswith("UNSUBSCRIBE"):
        subscriber.request("UNSUBSCRIBE", {"id": "ending", **named})
    else:
        if ending == "DISCONNECT":
            subscriber.request("DISCONNECT")
        subscriber.close_socket()
    got = _first_refusal(target, topic, count, size)
    if not ending.startswith("UNSUBSCRIBE"):
        # No document says how soon a broker notices that a connection has ended.
        until = target.now() + PATIENCE
        while got is not None and target.now() < until:
            target.advance(QUIET)
            got = _first_refusal(target, topic, count, size)
    target.record_finding(
        ENDINGS[ending],
        got is None,
        f"of {count} messages of {size} bytes to a topic whose subscription ended by {ending}"
        + (f" while {held} messages waited for it" if held else "")
        + (" all were accepted" if got is None else f" one got {got}"),
    )
    other = target.stomp()
    for number in range(count):
        other.publish(full, small_addresses.body(number, size), receipt=False)
    target.control(
        other.watch_for(ERROR) is not None,
        f"{count} messages of {size} bytes do not fill an address with a subscription",
    )


def _first_refusal(target: Bench, to: Destination, count: int, size: int) -> str | None:
    """Send ``count`` messages, each after the previous one was confirmed. Return the answer to the
    first message that was not accepted; None if all were accepted."""
    peer = target.stomp()
    for number in range(count):
        receipt = peer.next_receipt()
        peer.publish(to, small_addresses.body(number, size), {"receipt": receipt}, receipt=False)
        if (got := refusal(peer, receipt)) is not None:
            return got
    return None
