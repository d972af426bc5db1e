"""Links (2.6): attach and detach, link credit, drain, echo, and delivery-counts that wrap."""

from dataclasses import dataclass

from hypothesis import strategies as st

from brokerproof.harness.oracles import amqp_credit, amqp_deliveries
from brokerproof.suites.amqp10.steps import (
    QUIET,
    bodies,
    collect,
    fill,
    granted,
    little_credit,
    numbered,
    over_habits,
    reaction,
    ready_sender,
)
from brokerproof.suites.amqp10.wrapping_ids import NEAR_WRAP, WRAP, at_the_end, wrapping
from brokerproof.suites.api import PATIENCE, Bench, Where, case, over, shown
from brokerproof.suites.api.amqp10 import RECEIVER, SENDER, either, frame
from brokerproof.suites.steps import amounts
from brokerproof.suites.steps.strategies import near
from brokerproof.suites.steps.traces import judge_trace

LINK_NAME = "AMQP10-LINK-01"
DETACH_ANSWERED = "AMQP10-LINK-08"
INITIAL_DELIVERY_COUNT = "AMQP10-LINK-13"
RECEIVERS_INITIAL_COUNT_IGNORED = "AMQP10-LINK-14"
NEW_LINK_HAS_NO_CREDIT = "AMQP10-CREDIT-14"
NO_TRANSFER_WITHOUT_CREDIT = "AMQP10-CREDIT-09"
CREDIT_FORMULA = "AMQP10-CREDIT-03"
CREDIT_LOWERED_BY_DELIVERY = "AMQP10-CREDIT-05"
CREDIT_SET_BY_RECEIVER = "AMQP10-CREDIT-02"
DRAIN_ANSWERED = "AMQP10-CREDIT-12"
DRAIN_IS_PROMPT = "AMQP10-CREDIT-24"
SENDERS_DELIVERY_COUNT = "AMQP10-CREDIT-16"
DRAIN_SET_BY_RECEIVER = "AMQP10-CREDIT-11"
ECHO_ANSWERED = "AMQP10-CREDIT-22"
CREDIT_WITHDRAWN = "AMQP10-CREDIT-25"
CREDIT_WITHOUT_DELIVERY_COUNT = "AMQP10-CREDIT-04"
DELIVERY_COUNT_WRAPS = "AMQP10-CREDIT-13"
RECEIVERS_DELIVERY_COUNT = "AMQP10-CREDIT-17"
DELIVERY_COUNT_SET_BY_SENDER = "AMQP10-CREDIT-01"
SETTLED = "AMQP10-XFER-14"
AVAILABLE_SET_BY_SENDER = "AMQP10-CREDIT-06"
FIRST_DELIVERY_ID = "AMQP10-XFER-01"
FIRST_DELIVERY_TAG = "AMQP10-XFER-04"
DELIVERY_TAG_LENGTH = "AMQP10-XFER-05"
DELIVERY_TAG_UNIQUE = "AMQP10-XFER-06"
MESSAGE_FORMAT = "AMQP10-XFER-07"
DELIVERY_ID_WRAPS = "AMQP10-DISP-06"

# --- attach and detach ----------------------------------------------------------------------------


@case(LINK_NAME, needs={"amqp"})
def test_a_sender_and_a_receiver_may_share_a_name(target: Bench) -> None:
    """A sender and a receiver with the same name are attached in one session. Both work."""
    node = target.node()
    peer = target.amqp()
    sender = peer.attach(SENDER, node, name="both", proves=LINK_NAME)
    receiver = peer.attach(RECEIVER, node, name="both", proves=LINK_NAME)
    granted(target, peer, sender)
    peer.publish(sender, b"by name", proves=LINK_NAME)
    peer.flow(receiver, link_credit=1)
    peer.delivery(receiver, body=b"by name", proves=LINK_NAME)


@case(LINK_NAME, needs={"amqp"})
def test_links_of_one_name_in_two_containers_keep_apart(target: Bench) -> None:
    """Two containers attach a sender and a receiver each, all with the same name. No link is
    detached, and each receiver gets the message of its own container's sender."""
    name, nodes = target.fresh_name(), [target.node(), target.node()]
    peers = [target.amqp(), target.amqp()]
    senders, receivers = (
        [
            peer.attach(role, node, name=name, proves=LINK_NAME)
            for peer, node in zip(peers, nodes, strict=True)
        ]
        for role in (SENDER, RECEIVER)
    )
    target.advance(QUIET)
    ends = [link.detached.brief() for link in (*senders, *receivers) if link.detached is not None]
    ends += [peer.instead() for peer in peers if peer.ended is not None]
    apart = not ends
    words = (
        f"of four links with one name in two containers, these ended: {'; '.join(ends) or 'none'}"
    )
    target.record_finding(LINK_NAME, apart, words)
    if not apart:
        return
    for number, (peer, sender, receiver) in enumerate(zip(peers, senders, receivers, strict=True)):
        granted(target, peer, sender)
        peer.publish(sender, b"%d" % number, proves=LINK_NAME)
        peer.flow(receiver, link_credit=1)
        peer.delivery(receiver, body=b"%d" % number, proves=LINK_NAME)


@case(DETACH_ANSWERED, needs={"amqp"})
@over_habits(examples=12, role=st.booleans(), used=st.booleans(), error=st.booleans())
def test_a_closing_detach_is_answered_with_one(
    target: Bench, role: bool, used: bool, error: bool
) -> None:
    """A client detaches a link with closed set, with an error or without, used or not. The broker's
    detach has closed set too, and name and handle can be reused."""
    node = target.node()
    peer = target.amqp()
    if used:
        fill(target, node, [b"m"])
    link = peer.attach(role, node, name="again")
    if used and role is RECEIVER:
        peer.flow(link, link_credit=1)
        peer.disposition(peer.delivery(link))
    detach = peer.detach(
        link,
        error=("amqp:internal-error", "the client gives up") if error else None,
        proves=DETACH_ANSWERED,
    )
    assert detach is not None
    words = f"a closing detach was answered with {detach.brief()}"
    target.record_finding(DETACH_ANSWERED, detach.get("closed") is True, words)
    reattached = peer.attach(role, node, name="again", handle=link.handle, answered=False)
    answer = peer.watch_for(
        either(frame("attach", name=reattached.name, role=not role), frame("close"))
    )
    if error and answer is not None and answer.name == "close":
        # No requirement says that a connection survives an error on one of its links.
        target.record_not_applicable(DETACH_ANSWERED, "the broker closed the connection then")
        return
    target.record_finding(
        DETACH_ANSWERED,
        answer is not None and answer.name == "attach",
        f"an attach with the name and the handle of the closed link: {peer.instead()}"
        if answer is None
        else f"an attach with the name and the handle of the closed link got {answer.brief()}",
    )


@case(INITIAL_DELIVERY_COUNT, needs={"amqp"})
def test_the_attach_of_a_sender_has_its_first_delivery_count(target: Bench) -> None:
    """When the client attaches as a receiver, the broker's attach has an initial-delivery-count."""
    peer = target.amqp()
    link = peer.receiver(target.node())
    assert link.answer is not None
    has = link.answer.get("initial-delivery-count") is not None
    begin = link.session.answer
    assert begin is not None
    for field, answer in (
        ("handle-max", begin),
        ("incoming-window", begin),
        ("max-message-size", peer.sender(target.node()).answer),
    ):
        target.record_behaviour(f"amqp.{field}", None if answer is None else answer.get(field))
    detail = f"the broker's attach as a sender: {link.answer.brief()}"
    target.record_finding(INITIAL_DELIVERY_COUNT, has, detail)


@case(RECEIVERS_INITIAL_COUNT_IGNORED, needs={"amqp"})
@over(examples=8, given=st.sampled_from([1, 7, WRAP - 1]))
def test_a_delivery_count_of_a_receivers_attach_is_ignored(target: Bench, given: int) -> None:
    """A receiver's attach has an initial-delivery-count, which only a sender sets. Credit is
    counted from the sender's count."""
    node = target.node()
    fill(target, node, numbered(4))
    peer = target.amqp()
    link = peer.attach(RECEIVER, node, initial_delivery_count=given)
    peer.flow(link, link_credit=2)
    got = collect(target, peer, link, 2)
    words = f"{len(got)} of 4 messages arrived for 2 credits"
    target.record_finding(RECEIVERS_INITIAL_COUNT_IGNORED, len(got) == 2, words)


# --- credit to receive ----------------------------------------------------------------------------


@case(NEW_LINK_HAS_NO_CREDIT, NO_TRANSFER_WITHOUT_CREDIT, needs={"amqp"})
def test_nothing_comes_before_the_first_credit(target: Bench) -> None:
    """A receiver is attached to a queue with messages and grants no credit. Nothing arrives. Then
    it grants two credits and gets two messages."""
    node = target.node()
    fill(target, node, numbered(3))
    peer = target.amqp()
    link = peer.receiver(node)
    peer.expect_nothing(
        for_=QUIET, of=frame("transfer"), proves=NEW_LINK_HAS_NO_CREDIT, why="no credit was given"
    )
    peer.flow(link, link_credit=2)
    got = collect(target, peer, link, 2)
    detail = f"{len(got)} of 3 messages arrived for 2 credits"
    target.record_finding(NO_TRANSFER_WITHOUT_CREDIT, len(got) == 2, detail)


@dataclass(frozen=True)
class Grant:
    """One flow: the new credit, and whether the client settles its deliveries first."""

    credit: int
    settle: bool


@case(
    CREDIT_FORMULA,
    CREDIT_LOWERED_BY_DELIVERY,
    NO_TRANSFER_WITHOUT_CREDIT,
    CREDIT_SET_BY_RECEIVER,
    needs={"amqp"},
)
@over_habits(
    where=wrapping,
    examples=60,
    count=st.integers(0, 12),
    grants=st.lists(
        st.builds(Grant, near([0, 1, 5], low=0), st.booleans()), min_size=1, max_size=6
    ),
)
def test_exactly_as_many_messages_come_as_the_credit_allows(
    target: Bench, where: Where, count: int, grants: list[Grant]
) -> None:
    """A receiver sets its credit repeatedly: more, less, the same. After each flow exactly as many
    messages have arrived as the credit allows, or all of them, whether settled or not.

    One scenario: the four requirements are one equation.
    """
    node = target.node()
    fill(target, node, numbered(count))
    peer = target.amqp()
    link = peer.receiver(node)
    left = count
    for grant in grants:
        peer.flow(link, link_credit=grant.credit)
        expected = min(grant.credit, left)
        got = collect(target, peer, link, expected, quiet=QUIET if expected < left else 0)
        left -= len(got)
        target.record_finding(
            (CREDIT_FORMULA, CREDIT_LOWERED_BY_DELIVERY, CREDIT_SET_BY_RECEIVER),
            len(got) == expected,
            f"{len(got)} messages arrived for {grant.credit} credits; expected {expected}",
        )
        if grant.settle:
            for delivery in got:
                peer.disposition(delivery)
        peer.settle()
    judge_trace(target, peer, amqp_credit.credit)
    if not any(grant.credit for grant in grants) or not count:
        words = f"without credit or messages to send, {count - left} messages arrived"
        target.record_finding(NO_TRANSFER_WITHOUT_CREDIT, left == count, words)


@case(
    DRAIN_ANSWERED, DRAIN_IS_PROMPT, SENDERS_DELIVERY_COUNT, DRAIN_SET_BY_RECEIVER, needs={"amqp"}
)
@over_habits(
    where=wrapping,
    examples=60,
    always=lambda target: [
        {"where": at_the_end(target), "count": count, "credit": 5, "then": 2, "others": others}
        for count, others in ((2, 1), (0, 0))
    ],
    count=st.integers(0, 6),
    credit=near([1, 6, 100], low=1),
    then=st.integers(0, 3),
    others=st.integers(0, 2),
)
def test_a_drain_uses_the_credit_up(
    target: Bench, where: Where, count: int, credit: int, then: int, others: int
) -> None:
    """A receiver grants credit and drains; other receivers of its queue may have no credit. Waiting
    messages arrive, and a flow uses up the remaining credit by advancing delivery-count. The next
    flow resets drain, and later messages need new credit.

    One scenario: the four requirements describe one answer.
    """
    node = target.node()
    filler = fill(target, node, numbered(count))
    peer = target.amqp()
    for _ in range(others):
        filler.receiver(node)
    link = peer.receiver(node)
    peer.flow(link, link_credit=credit, drain=True)
    expected = min(count, credit)
    got = collect(target, peer, link, expected, quiet=0)
    target.wait_until(lambda: link.credit <= 0 or peer.ended is not None, PATIENCE)
    drained = target.record_finding(
        (DRAIN_ANSWERED, DRAIN_IS_PROMPT),
        len(got) == expected and link.credit == 0,
        f"after a drain of {credit} credits with {count} messages waiting, {len(got)} arrived;"
        f" credit left: {link.credit}",
    )
    flows = [reply for reply in peer.inbox if frame("flow", link=link).accepts(reply)]
    if credit <= count:
        target.record_not_applicable(DRAIN_SET_BY_RECEIVER, "the credit was used up by messages")
    elif flows:
        detail = f"the drain was answered with {flows[-1].brief()}"
        target.record_finding(DRAIN_SET_BY_RECEIVER, flows[-1].get("drain") is True, detail)
    else:
        target.record_not_applicable(DRAIN_SET_BY_RECEIVER, "no flow answered the drain")
    judge_trace(target, peer, amqp_credit.counts, amqp_credit.drains)
    if not drained:
        return
    left = count - len(got)
    sender = ready_sender(target, filler, node)
    filler.publish(sender, b"later")
    peer.expect_nothing(
        for_=QUIET, of=frame("transfer"), proves=DRAIN_IS_PROMPT, why="the credit was drained"
    )
    peer.flow(link, link_credit=then, drain=False)
    more = collect(target, peer, link, min(then, left + 1))
    words = f"{len(more)} of {left + 1} messages arrived for {then} credits after the drain"
    target.record_finding(DRAIN_IS_PROMPT, len(more) == min(then, left + 1), words)


@case(ECHO_ANSWERED, SENDERS_DELIVERY_COUNT, needs={"amqp"})
@over(
    where=wrapping,
    examples=12,
    credit=st.integers(0, 5),
    count=st.integers(0, 3),
    ours=st.booleans(),
)
def test_a_flow_that_asks_for_an_echo_is_answered(
    target: Bench, where: Where, credit: int, count: int, ours: bool
) -> None:
    """A client sends a flow with echo set for one of its links, a sender or a receiver. The broker
    should answer with a flow of that link; if the broker is the link's sender, its flow has the
    correct delivery-count."""
    node = target.node()
    fill(target, node, numbered(count))
    peer = target.amqp()
    link = peer.sender(node) if ours else peer.receiver(node)
    if ours:
        granted(target, peer, link)
    else:
        peer.flow(link, link_credit=credit)
        collect(target, peer, link, min(credit, count))
    peer.inbox = [reply for reply in peer.inbox if reply.name != "flow"]
    peer.flow(link, echo=True)
    answer = peer.watch_for(frame("flow", link=link), within=QUIET * 10)
    target.record_behaviour("amqp.echo", "ignores" if answer is None else "answers")
    target.record_finding(
        ECHO_ANSWERED,
        answer is not None,
        f"after a flow with echo=true for a link: {reaction(peer, answer)}; expected flow",
    )
    if answer is None:
        reason = "a flow with echo=true is not answered, so no count is visible"
        target.record_not_applicable(SENDERS_DELIVERY_COUNT, reason)
    judge_trace(target, peer, amqp_credit.counts)


@case(CREDIT_WITHDRAWN, CREDIT_SET_BY_RECEIVER, needs={"amqp"})
@over_habits(examples=20, credit=st.integers(1, 5), count=st.integers(0, 4))
def test_a_link_that_was_stopped_stays_still(target: Bench, credit: int, count: int) -> None:
    """A receiver withdraws its credit and waits until the broker has read the flow. No message
    arrives, not even a new one, until the receiver grants credit again."""
    node = target.node()
    filler = fill(target, node, numbered(count))
    peer = target.amqp()
    link = peer.receiver(node, credit=credit)
    first = collect(target, peer, link, min(credit, count), quiet=0)
    peer.flow(link, link_credit=0)
    peer.settle()
    first += peer.take_deliveries(link)
    sender = ready_sender(target, filler, node)
    filler.publish(sender, b"new")
    peer.expect_nothing(
        for_=QUIET, of=frame("transfer"), proves=CREDIT_WITHDRAWN, why="the credit was taken back"
    )
    peer.flow(link, link_credit=count + 1)
    rest = collect(target, peer, link, count + 1 - len(first))
    target.record_finding(
        CREDIT_SET_BY_RECEIVER,
        len(first) + len(rest) == count + 1,
        f"of {count + 1} messages, {len(first)} arrived before the change of credit and {len(rest)}"
        " after it",
    )


@case(CREDIT_WITHOUT_DELIVERY_COUNT, needs={"amqp"})
@over_habits(
    where=wrapping,
    examples=30,
    count=st.integers(0, 8),
    credits=st.lists(st.integers(0, 6), min_size=1, max_size=3).map(sorted),
)
def test_credit_without_a_count_is_from_the_start(
    target: Bench, where: Where, count: int, credits: list[int]
) -> None:
    """Before the broker's attach arrives, the client sends an attach and one to three flows without
    delivery-count, each with at least the credit of the previous one. As many messages arrive as
    the last flow allows, counted from the broker's initial-delivery-count."""
    node = target.node()
    fill(target, node, numbered(count))
    peer = target.amqp()
    link = peer.receiver(node, answered=False)
    for credit in credits:
        peer.flow(link, delivery_count=None, link_credit=credit)
    peer.settle()
    expected = min(count, credits[-1])
    got = collect(target, peer, link, expected)
    context = f"credits of {shown(credits)} in flows without delivery-count, {count} messages"
    words = f"{context}: {len(got)} arrived; expected {expected}"
    target.record_finding(CREDIT_WITHOUT_DELIVERY_COUNT, len(got) == expected, words)


# --- credit to send -------------------------------------------------------------------------------


@case(
    DELIVERY_COUNT_WRAPS,
    RECEIVERS_DELIVERY_COUNT,
    DELIVERY_COUNT_SET_BY_SENDER,
    SETTLED,
    needs={"amqp"},
)
@over(
    examples=30,
    always=lambda target: [{"start": WRAP - 3, "count": 0}],
    start=NEAR_WRAP,
    count=st.integers(1, 30),
)
def test_the_delivery_count_of_a_sender_may_run_over_the_end(
    target: Bench, start: int, count: int
) -> None:
    """The client's sender begins its delivery-count near 2^32. The broker continues to grant credit
    when the count wraps, and every message is accepted. A ``count`` of 0 means more than twice the
    broker's credit, if the run's effort allows so many. One scenario: the broker must keep count of
    the messages it accepts."""
    node = target.node()
    peer = target.amqp(acceptor=little_credit(target))
    link = peer.attach(SENDER, node, initial_delivery_count=start)
    granted(target, peer, link)
    count = count or min(2 * link.credit + 2, amounts.at(target, 0, most=1_000))
    for number in range(count):
        ready = target.wait_until(lambda: link.credit > 0 or peer.ended is not None, PATIENCE)
        detail = f"message {number} of {count}, begun at {start}: {link.credit} credit"
        target.require(DELIVERY_COUNT_WRAPS, ready and link.credit > 0, detail)
        peer.publish(link, b"%d" % number, proves=SETTLED)
    flows = [reply for reply in peer.inbox if frame("flow", link=link).accepts(reply)]
    told_counts = [(flow.get("delivery-count"), flow.brief()) for flow in flows]
    ahead = [text for at, text in told_counts if at is not None and (at - start) % WRAP > count]
    wrong = ahead + [text for at, text in told_counts if at is None]
    words = f"of {len(flows)} flows, those with a missing or wrong delivery-count:"
    faults = "; ".join(wrong) or "none"
    target.record_finding(RECEIVERS_DELIVERY_COUNT, not wrong, f"{words} {faults}")
    words = f"of {len(flows)} flows, those with a delivery-count above {start} + {count}:"
    faults = "; ".join(ahead) or "none"
    target.record_finding(DELIVERY_COUNT_SET_BY_SENDER, not ahead, f"{words} {faults}")
    got = collect(target, peer, peer.receiver(node, credit=count), count)
    target.record_finding(
        DELIVERY_COUNT_WRAPS,
        bodies(got) == [b"%d" % number for number in range(count)],
        f"{len(got)} of {count} messages returned",
    )


@case(AVAILABLE_SET_BY_SENDER, needs={"amqp"})
@over(
    examples=16,
    announced=st.lists(st.sampled_from([0, 1, 7, 2**32 - 1]), max_size=2),
    sent=st.integers(0, 8),
)
def test_a_receiver_tells_nothing_available_of_its_own(
    target: Bench, announced: list[int], sent: int
) -> None:
    """A producer sends messages and may announce how many it has available. The field available in
    the broker's flows, if any, is the producer's last value, minus at most the number sent
    since."""
    peer = target.amqp(acceptor=little_credit(target))
    link = peer.sender(target.node())
    for available in announced:
        peer.flow(link, available=available)
    peer.settle()
    peer.inbox = [reply for reply in peer.inbox if reply.name != "flow"]
    for _ in range(sent):
        granted(target, peer, link)
        peer.publish(link, b"x")
    peer.flow(link, echo=True)
    peer.settle()
    known = announced[-1] if announced else 0
    flows = [reply for reply in peer.inbox if frame("flow", link=link).accepts(reply)]
    values = [flow.get("available") for flow in flows if flow.get("available") is not None]
    fine = all(max(0, known - sent) <= available_then <= known for available_then in values)
    words = f"the producer announced {shown(announced)} as available and sent {sent};"
    words += f" {len(flows)} flows report {shown(values)} as available"
    target.record_finding(AVAILABLE_SET_BY_SENDER, fine, words)


# --- deliveries -----------------------------------------------------------------------------------


@case(
    FIRST_DELIVERY_ID,
    FIRST_DELIVERY_TAG,
    DELIVERY_TAG_LENGTH,
    DELIVERY_TAG_UNIQUE,
    MESSAGE_FORMAT,
    DELIVERY_ID_WRAPS,
    needs={"amqp"},
)
@over_habits(
    where=wrapping,
    examples=20,
    count=st.integers(1, 20),
    size=st.sampled_from([0, 600, 3000]),
    links=st.integers(1, 3),
)
def test_deliveries_are_named_as_they_should_be(
    target: Bench, where: Where, count: int, size: int, links: int
) -> None:
    """Messages of one or several frames arrive over one to three links of a session. The first
    transfer of each has delivery-id, delivery-tag and message-format. Ids are consecutive in the
    session, and tags differ on a link.

    One scenario: six requirements on the fields of the same transfers, judged by one oracle.
    """
    peer = target.amqp(max_frame_size=512)
    for _ in range(links):
        node = target.node()
        fill(target, node, numbered(count, size))
        got = collect(target, peer, peer.receiver(node, credit=count), count, quiet=0)
        target.control(len(got) == count, f"{len(got)} of {count} messages arrived")
    judge_trace(target, peer, amqp_deliveries.delivery_ids)
    if links * count == 1:
        target.record_not_applicable(DELIVERY_ID_WRAPS, "one delivery has no successor")
