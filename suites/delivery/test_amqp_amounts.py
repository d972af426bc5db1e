"""AMQP 1.0's own promises about a queue apply to any number, on any broker: of waiting messages, of
deliveries in flight and how they are settled, and of receivers.

The amounts are those of :mod:`brokerproof.suites.steps.amounts`.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st

from brokerproof.suites.amqp10.steps import bodies, collect, fill, numbered
from brokerproof.suites.api import PATIENCE, Bench, case, over
from brokerproof.suites.steps import amounts
from brokerproof.suites.steps.queues import QUIET
from brokerproof.suites.steps.whole_histories import (
    Sentences,
    corners,
    course,
    history_of,
    over_courses,
)

ACQUIRED, RETIRED, KEPT = "AMQP10-NODE-01", "AMQP10-NODE-02", "AMQP10-NODE-03"
RELEASED = "AMQP10-OUT-09"
AMQP = Sentences(
    once=KEPT,
    gone=RETIRED,
    order=None,
    unordered="amqp.order-of-a-queue",
    back="AMQP10-OUT-03",
    order_after_return=False,
    atomic="AMQP10-TXN-06",
    shared=ACQUIRED,
    returns=False,
)
"""What AMQP 1.0 itself requires: no order, and a redelivery only where one was seen."""


@case(*AMQP.ids, needs={"amqp"})
@over_courses(5, corners(lambda target: ["amqp"], 0))
def test_a_history_of_amqp_of_any_length_is_conserved(
    target: Bench, position: int, stride: int, comers: int, lost: bool, narrow: bool
) -> None:
    """Any number of messages goes through a queue, also in transactions, while receivers accept any
    number of them by one disposition and leave. Each arrives, and not again once it is accepted.
    One scenario: the sentences constrain one history."""
    plan = course(target, position, stride, comers, lost, narrow)
    history_of(target, AMQP, ("amqp", "amqp"), plan)


@case(RETIRED, KEPT, RELEASED, needs={"amqp", "amqp-redelivery"})
@over(
    examples=6,
    always=lambda target: [{"position": 0, "period": 3, "backwards": True, "told_first": False}],
    position=st.integers(0, amounts.POSITIONS),
    period=st.integers(1, 7),
    backwards=st.booleans(),
    told_first=st.booleans(),
)
def test_any_number_of_deliveries_is_settled_one_by_one(
    target: Bench, position: int, period: int, backwards: bool, told_first: bool
) -> None:
    """A receiver holds any number of deliveries, releases some and accepts the others, each by its
    own disposition, in either order, perhaps first unsettled and then settled. Another receiver
    gets the released ones, once, and nothing else. One scenario: a message is consumed, or it can
    be received again."""
    count = amounts.at(target, position, least=1)
    node, sent = target.node(), numbered(count)
    fill(target, node, sent)
    peer, other = target.amqp(), target.amqp()
    link = peer.receiver(node, credit=count)
    held = collect(target, peer, link, count)
    seen = {bytes(delivery.message.body) for delivery in held}
    target.control(len(held) > 0, "no message arrived")
    target.used_amount("unsettled messages", len(held))
    back = [bytes(delivery.message.body) for delivery in held[::period]]
    outcomes = [
        (delivery, "accepted" if number % period else "released")
        for number, delivery in enumerate(held)
    ]
    with peer.in_one_write():
        for settled in (False, True) if told_first else (True,):
            for delivery, outcome in reversed(outcomes) if backwards else outcomes:
                peer.disposition(delivery, outcome, settled=settled)
    peer.settle()
    peer.close()
    due = {*back, *sent} - (seen - {*back})
    got = bodies(collect(target, other, other.receiver(node, credit=count + 10), len(due)))
    times = Counter(got)
    detail = (
        f"of {count} messages {len(held)} were held, {len(back)} of them released: afterwards"
        f" {len(got)} arrived"
    )
    target.record_finding(RELEASED, set(back) <= set(got), detail)
    target.record_finding(KEPT, {*sent} - seen <= set(got), detail)
    target.record_finding(RETIRED, set(got) <= due, detail)
    target.record_finding(RETIRED, max(times.values(), default=0) <= 1, detail)


@case(ACQUIRED, KEPT, needs={"amqp"})
@over(
    examples=4,
    always=lambda target: [{"position": 0, "connections": 3, "credit": 2}],
    position=st.integers(0, amounts.POSITIONS),
    connections=st.integers(1, 5),
    credit=st.integers(1, 20),
)
def test_any_number_of_receivers_shares_a_queue(
    target: Bench, position: int, connections: int, credit: int
) -> None:
    """Any number of receivers on a few connections holds credit for a few messages each. No message
    goes to two of them, and messages that none was sent are available when they have gone. One
    scenario: the messages held and those left are all messages."""
    most = 64 * connections  # links of a session
    count = amounts.at(target, position, least=2, most=most)
    node = target.node()
    sent = numbered(count * credit + 5)
    peers = [target.amqp() for _ in range(connections)]
    links = [
        (peers[number % connections], peers[number % connections].receiver(node, credit=credit))
        for number in range(count)
    ]
    target.used_amount("receivers of a queue", count)
    fill(target, node, sent)
    target.wait_until(lambda: sum(len(p.deliveries) for p in peers) >= count * credit, PATIENCE)
    target.advance(QUIET)
    held: Counter[bytes] = Counter()
    for peer in peers:
        for delivery in peer.take_deliveries():
            held[bytes(delivery.message.body)] += 1
            peer.disposition(delivery, "accepted")
    twice = [body for body, times in held.items() if times > 1]
    detail = f"{len(links)} receivers with credit {credit}: of {len(sent)} messages"
    target.record_finding(ACQUIRED, not twice, f"{detail} {twice[:5]} went to two")
    for peer in peers:
        peer.settle()
        peer.close()
    reader = target.amqp()
    due = {*sent} - {*held}
    rest = bodies(collect(target, reader, reader.receiver(node, credit=len(sent)), len(due)))
    lost = due - {*rest}
    target.record_finding(KEPT, not lost, f"{detail} {sorted(lost)[:5]} went to nobody")
