"""Consumers and their credit (2.6.7, 2.6.10, 3.5.2): credit that changes during deliveries, slow
consumers beside fast ones, the available field, and browsing links."""

from collections.abc import Iterator
from itertools import cycle
from typing import Any

from hypothesis import strategies as st

from brokerproof.harness.oracles import amqp_credit, amqp_deliveries
from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.suites.amqp10.steps import (
    QUIET,
    bodies,
    collect,
    fill,
    granted,
    numbered,
    over_habits,
)
from brokerproof.suites.amqp10.wrapping_ids import WRAP, wrapping
from brokerproof.suites.api import (
    PATIENCE,
    RECONFIGURABLE,
    Bench,
    Target,
    Where,
    case,
    listed,
    shown,
)
from brokerproof.suites.api.amqp10 import AmqpPeer, Delivery, Link, Node, frame
from brokerproof.suites.steps.strategies import near
from brokerproof.suites.steps.traces import judge_trace

CREDIT_FORMULA = "AMQP10-CREDIT-03"
CREDIT_LOWERED_BY_DELIVERY = "AMQP10-CREDIT-05"
NO_TRANSFER_WITHOUT_CREDIT = "AMQP10-CREDIT-09"
AVAILABLE = "AMQP10-CREDIT-26"
ACCEPTED_NOT_RESENT = "AMQP10-TERM-08"
DISTRIBUTION_MODE = "AMQP10-TERM-04"


def withdrawals(target: Target) -> Iterator[dict[str, Any]]:
    """Yield examples that lower, raise and withdraw credit while messages are in flight, at the
    usual serial numbers and where they wrap."""
    acceptor = target.identity.default_amqp_acceptor
    places = [Where(acceptor)]
    if RECONFIGURABLE in target.identity.capabilities:
        places.append(Where(acceptor, {"acceptor": {"amqp_first_delivery_count": WRAP - 2}}))
    for where in places:
        yield {"where": where, "count": 30, "credits": [10, 1, 10, 0, 5], "pauses": [False]}
        yield {"where": where, "count": 30, "credits": [5, 4, 3, 8, 1], "pauses": [False, True]}


@case(CREDIT_FORMULA, CREDIT_LOWERED_BY_DELIVERY, NO_TRANSFER_WITHOUT_CREDIT, needs={"amqp"})
@over_habits(
    where=wrapping,
    examples=40,
    always=withdrawals,
    count=st.integers(1, 40),
    credits=st.lists(near([0, 1, 10], low=0), min_size=1, max_size=8),
    pauses=st.lists(st.booleans(), min_size=1, max_size=4),
)
def test_credit_may_be_withdrawn_while_messages_are_under_way(
    target: Bench, where: Where, count: int, credits: list[int], pauses: list[bool]
) -> None:
    """A receiver raises and lowers its credit without waiting for an answer. No message exceeds the
    highest credit that may have been in force; once there is enough credit, all arrive once, in
    order."""
    node, sent = target.node(), numbered(count)
    fill(target, node, sent)
    peer = target.amqp()
    link = peer.receiver(node)
    for credit, pause in zip(credits, cycle(pauses), strict=False):
        peer.flow(link, link_credit=credit)
        if pause:
            target.wait_until(lambda: peer.ended is not None or link.credit <= 0, QUIET // 10)
    peer.flow(link, link_credit=0)
    target.wait_until(
        lambda: peer.ended is not None or any(map(peer.fatal, peer.inbox)), QUIET // 10
    )
    fine = peer.ended is None and not any(map(peer.fatal, peer.inbox))
    words = f"flows with credits of {shown(credits)}: {'accepted' if fine else peer.instead()}"
    target.require(CREDIT_FORMULA, fine, words)
    peer.settle()
    early = peer.take_deliveries(link)
    detail = f"with credits of {listed(credits)}, {len(early)} of {count} messages arrived"
    target.record_finding(CREDIT_LOWERED_BY_DELIVERY, len(early) <= count, detail)
    peer.flow(link, link_credit=count + 1)
    late = collect(target, peer, link, count - len(early))
    whole = bodies(early + late) == sent
    target.record_finding(
        (CREDIT_FORMULA, CREDIT_LOWERED_BY_DELIVERY),
        whole,
        f"{len(early)} of {count} messages arrived with credits of {shown(credits)} and"
        f" {len(late)} with plenty, {'' if whole else 'not '}as they were sent",
    )
    judge_trace(target, peer, amqp_credit.credit, amqp_deliveries.settlement)


@case(NO_TRANSFER_WITHOUT_CREDIT, CREDIT_FORMULA, needs={"amqp"})
@over_habits(
    examples=24, prefetch=st.integers(1, 6), count=st.integers(1, 30), batch=st.integers(1, 4)
)
def test_a_slow_consumer_holds_its_prefetch_and_no_more(
    target: Bench, prefetch: int, count: int, batch: int
) -> None:
    """Two consumers of a queue have the same prefetch. One settles and renews its credit; the other
    never does. The slow one gets no more than its prefetch, the fast one gets the rest, and no
    message arrives twice."""
    node, sent = target.node(), numbered(count)
    slow, fast = target.amqp(), target.amqp()
    held, taking = slow.receiver(node, credit=prefetch), fast.receiver(node, credit=prefetch)
    slow.settle()
    fast.settle()
    fill(target, node, sent)
    got: list[Delivery] = []
    unsettled: list[Delivery] = []

    def arrived() -> int:
        return len(got) + len(fast.deliveries) + len(slow.deliveries)

    while arrived() < count:
        batch_size = min(batch, prefetch, count - arrived())
        target.wait_until(
            lambda: len(fast.deliveries) > 0 or arrived() >= count or fast.ended is not None,
            PATIENCE,
        )
        came_now = fast.take_deliveries(taking)
        got += came_now
        unsettled += came_now
        if not unsettled and arrived() < count:
            break
        if len(unsettled) >= batch_size:
            for delivery in unsettled:
                fast.disposition(delivery)
            unsettled = []
            fast.flow(taking, link_credit=prefetch)
    got += fast.take_deliveries(taking)
    mine = bodies(slow.take_deliveries(held))
    detail = f"the slow consumer holds {len(mine)} messages with a prefetch of {prefetch}"
    target.record_finding(NO_TRANSFER_WITHOUT_CREDIT, len(mine) <= prefetch, detail)
    arrived_bodies = sorted(bodies(got) + mine)
    target.record_finding(
        CREDIT_FORMULA,
        arrived_bodies == sorted(sent),
        f"of {count} messages, {len(got)} reached the fast consumer and {len(mine)} the slow one",
    )
    judge_trace(target, slow, amqp_credit.credit)
    judge_trace(target, fast, amqp_credit.credit)


@case(AVAILABLE, needs={"amqp"})
@over_habits(
    examples=24,
    count=st.integers(0, 10),
    credit=st.integers(0, 6),
    copy=st.booleans(),
    more=st.integers(0, 2),
)
def test_what_is_said_to_be_available_is_there(
    target: Bench, count: int, credit: int, copy: bool, more: int
) -> None:
    """A receiver moves or copies some messages of a queue and requests the flow state; more
    messages are sent, and it requests the state again. The field available, if the broker's flow
    has it, is the number of messages left."""
    node = target.node()
    filler = fill(target, node, numbered(count))
    peer = target.amqp()
    link = (
        looking(peer, node) if copy and "amqp-copy" in target.capabilities else peer.receiver(node)
    )
    peer.flow(link, link_credit=credit)
    taken_count = len(collect(target, peer, link, min(count, credit)))
    there = count - taken_count
    peer.flow(link, link_credit=0)
    for added in (0, more):
        sender = filler.sender(node)
        for _ in range(added):
            granted(target, filler, sender)
            filler.publish(sender, b"later")
        there += added
        peer.settle()
        peer.inbox = [reply for reply in peer.inbox if reply.name != "flow"]
        peer.flow(link, link_credit=0, echo=True)
        answer = peer.watch_for(frame("flow", link=link))
        if answer is None:
            target.record_not_applicable(
                AVAILABLE, "the broker did not answer a flow with echo=true (see AMQP10-CREDIT-22)"
            )
            return
        available = answer.get("available")
        detail = f"{there} messages are left; the broker reports {available} as available"
        target.record_finding(AVAILABLE, available in (None, there), detail)


def looking(peer: AmqpPeer, node: Node) -> Link:
    fields = {
        "address": node.address,
        "capabilities": node.capabilities or None,
        "distribution-mode": "copy",
    }
    return peer.receiver(node, source=codec.composite("source", fields))


@case(
    NO_TRANSFER_WITHOUT_CREDIT, ACCEPTED_NOT_RESENT, DISTRIBUTION_MODE, needs={"amqp", "amqp-copy"}
)
@over_habits(
    examples=24,
    count=st.integers(1, 8),
    credits=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    settle=st.booleans(),
    others=st.integers(1, 2),
)
def test_who_looks_sees_each_message_once_and_takes_none(
    target: Bench, count: int, credits: list[int], settle: bool, others: int
) -> None:
    """One or two links of distribution-mode copy browse a queue with limited credit, settling or
    not. Each sees all messages once, in order, within its credit; then a consumer gets all."""
    node, sent = target.node(), numbered(count)
    fill(target, node, sent)
    for _ in range(others):
        peer = target.amqp()
        link = looking(peer, node)
        assert link.answer is not None
        distribution_mode = link.answer.part("source").get("distribution-mode")
        target.record_finding(
            DISTRIBUTION_MODE,
            distribution_mode == "copy",
            f"asked for copy, the broker answered with the distribution-mode {distribution_mode}",
        )
        seen: list[bytes] = []
        for credit in [*credits, count]:
            expected = min(credit, count - len(seen))
            peer.flow(link, link_credit=credit)
            got = collect(target, peer, link, expected, quiet=QUIET // 3)
            seen += bodies(got)
            words = f"with {credit} credits, {len(got)} messages arrived; expected {expected}"
            target.record_finding(NO_TRANSFER_WITHOUT_CREDIT, len(got) == expected, words)
            for delivery in got if settle else []:
                peer.disposition(delivery)
        target.record_finding(
            ACCEPTED_NOT_RESENT,
            seen == sent,
            f"{len(seen)} of {count} messages were seen, {'' if seen == sent else 'not '}in order",
        )
    other = target.amqp()
    taken = bodies(collect(target, other, other.receiver(node, credit=count + 1), count))
    words = f"after {others} had browsed, a consumer got {len(taken)} of {count} messages"
    target.record_finding(DISTRIBUTION_MODE, taken == sent, words)
