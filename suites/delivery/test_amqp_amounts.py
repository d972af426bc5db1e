"""AMQP 1.0's own requirements on a queue hold for any number of messages, on any broker.

The cases vary the number of waiting messages, of deliveries in flight or settled in any way, and of
receivers. The amounts are those of :mod:`brokerproof.suites.steps.amounts`.
"""

from collections import Counter

from hypothesis import strategies as st

from brokerproof.suites.amqp10.steps import (
    bodies,
    collect,
    fill,
    granted,
    is_over,
    numbered,
    over_habits,
    returns_by_default,
)
from brokerproof.suites.api import PATIENCE, Bench, case, listed
from brokerproof.suites.api.amqp10 import SENDER
from brokerproof.suites.delivery.amount_steps import judge_connections, most_amqp
from brokerproof.suites.steps import amounts
from brokerproof.suites.steps.queue_clients import AmqpQueueClient, wait_while_frames_come
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
SESSIONS, LINKS, SETTLES = "AMQP10-SESS-02", "AMQP10-LINK-12", "AMQP10-XFER-14"
DEFAULT, CLOSED = "AMQP10-OUT-03", "AMQP10-READING-OUT-01"
MOST_AT_ONCE = 1_000
"""Sessions, or links of a session: a broker may limit either to a few."""
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
"""What AMQP 1.0 itself requires: no order, and redeliveries only of messages seen before."""
UNSETTLED = 0


@case(*AMQP.ids, needs={"amqp"})
@over_courses(5, corners(lambda target: ["amqp"], 0))
def test_a_history_of_amqp_of_any_length_is_conserved(
    target: Bench, position: int, stride: int, comers: int, lost: bool, narrow: bool
) -> None:
    """Any number of messages pass through a queue, also in transactions, while receivers accept
    any number of them with one disposition and leave. Each arrives, and not again once it is
    accepted. One scenario: the requirements constrain one history."""
    # Messages that a broker sent settled may be lost with their connection.
    lost &= "amqp-redelivery" in target.target.identity.capabilities
    plan = course(target, position, stride, comers, lost, narrow)
    history_of(target, AMQP, ("amqp", "amqp"), plan)


@case(RETIRED, KEPT, RELEASED, needs={"amqp", "amqp-redelivery"})
@over_habits(
    examples=6,
    always=lambda target: [
        {"position": position, "period": 3, "backwards": True, "told_first": False}
        for position in (amounts.FEW, 0)
    ],
    position=st.integers(0, amounts.POSITIONS),
    period=st.integers(1, 7),
    backwards=st.booleans(),
    told_first=st.booleans(),
)
def test_any_number_of_deliveries_is_settled_one_by_one(
    target: Bench, position: int, period: int, backwards: bool, told_first: bool
) -> None:
    """A receiver holds any number of deliveries, releases some and accepts the rest, each by its
    own disposition, in either order, either settled or first unsettled and then settled. Another
    receiver gets exactly the released messages, once. One scenario: a message is consumed, or it
    can be received again."""
    count = amounts.at(target, position, least=1)
    node, sent = target.node(), numbered(count)
    fill(target, node, sent)
    peer, other = target.amqp(), target.amqp()
    link = peer.receiver(node, credit=count, snd_settle_mode=UNSETTLED)
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
        f"{len(held)} of {count} messages were held and {len(back)} of them released; {len(got)}"
        " arrived afterwards"
    )
    target.record_finding(RELEASED, set(back) <= set(got), detail)
    target.record_finding(KEPT, {*sent} - seen <= set(got), detail)
    target.record_finding(RETIRED, set(got) <= due, detail)
    target.record_finding(RETIRED, max(times.values(), default=0) <= 1, detail)


@case(ACQUIRED, KEPT, needs={"amqp"})
@over_habits(
    examples=4,
    always=lambda target: [{"position": 0, "connections": 3, "credit": 2}],
    position=st.integers(0, amounts.POSITIONS),
    connections=st.integers(1, 5),
    credit=st.integers(1, 20),
)
def test_any_number_of_receivers_shares_a_queue(
    target: Bench, position: int, connections: int, credit: int
) -> None:
    """Any number of receivers on a few connections hold credit for a few messages each. No message
    goes to two of them, and undelivered messages are available once the receivers have left. One
    scenario: held and remaining messages must add up to all."""
    node = target.node()
    peers = [target.amqp() for _ in range(connections)]
    begun = peers[0].session.answer
    links_of_session = 64 if begun is None else min(64, begun.get("handle-max", 63) + 1)
    count = amounts.at(target, position, least=2, most=links_of_session * connections)
    sent = numbered(count * credit + 5)
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
    detail = f"{len(links)} receivers with credit {credit}: {listed(twice)} of {len(sent)}"
    target.record_finding(ACQUIRED, not twice, f"{detail} went to two receivers")
    for peer in peers:
        peer.settle()
        peer.close()
    reader = target.amqp()
    due = {*sent} - {*held}
    rest = bodies(collect(target, reader, reader.receiver(node, credit=len(sent)), len(due)))
    lost = due - {*rest}
    detail = f"{len(sent)} messages; {listed(sorted(lost))} went to nobody"
    target.record_finding(KEPT, not lost, detail)


@case(DEFAULT, CLOSED, needs={"amqp", "amqp-redelivery"})
@over_habits(
    examples=6,
    always=lambda target: [
        {"position": amounts.MORE, "accepted": 0, "how": "end"},
        {"position": 0, "accepted": 1, "how": "detach"},
    ],
    position=st.integers(0, amounts.POSITIONS),
    accepted=st.integers(0, 3),
    how=st.sampled_from(["detach", "end"]),
)
def test_what_a_link_held_returns_while_its_connection_goes_on(
    target: Bench, position: int, accepted: int, how: str
) -> None:
    """A receiver holds any number of deliveries, accepts the first few and closes its link or ends
    its session; its connection stays. If the default-outcome of the broker's attach is released or
    modified, another link gets the remaining deliveries."""
    count = amounts.at(target, position, least=1)
    node, sent = target.node(), numbered(count)
    fill(target, node, sent)
    peer, other = target.amqp(), target.amqp()
    session = peer.begin(1)
    link = peer.receiver(node, session=session, credit=count, snd_settle_mode=UNSETTLED)
    held = collect(target, peer, link, count)
    target.control(len(held) > 0, f"no message arrived; {peer.instead()}")
    target.control(not any(delivery.settled for delivery in held), "messages are sent settled")
    target.used_amount("unsettled messages", len(held))
    for delivery in held[:accepted]:
        peer.disposition(delivery, "accepted")
    peer.settle()
    if how == "detach":
        peer.detach(link)
    else:
        peer.end(session)
    due = {*bodies(held[accepted:])}
    receiver = other.receiver(node, credit=count + 10)
    got = {*bodies(collect(target, other, receiver, count - len(held[:accepted])))}
    detail = (
        f"after {how} with {len(due)} of {count} messages unsettled, {len(got & due)} of them"
        " arrived on another connection"
    )
    target.record_finding(CLOSED, due <= got, detail)
    if returns_by_default(link):
        target.record_finding(DEFAULT, due <= got, detail)
    else:
        target.record_not_applicable(DEFAULT, "the link's default-outcome returns no messages")


@case(SESSIONS, needs={"amqp"})
@amounts.over_amounts(4)
def test_any_number_of_sessions_is_begun(target: Bench, position: int) -> None:
    """A client begins as many sessions as the broker's channel-max allows, up to a large number.
    Each is answered on its own channel, unless an end or close gives a reason, and so is a new
    session on the channel of an ended one."""
    peer = target.amqp(begin=False)
    assert peer.opened is not None
    most = peer.opened.get("channel-max", 65535)
    count = amounts.at(target, position, least=1, most=min(most, MOST_AT_ONCE))
    for channel in dict.fromkeys((0, count)):
        peer.end(peer.begin(channel))
        del peer.sessions[channel]
    sessions = [peer.begin(channel, answered=False) for channel in range(count + 1)]
    target.used_amount("sessions", count)
    unanswered = sessions

    def answered() -> bool:
        nonlocal unanswered
        unanswered = [session for session in unanswered if session.answer is None]
        return not unanswered or is_over(peer)

    wait_while_frames_come(target, peer, answered)
    if is_over(peer):
        why = f"the broker does not accept so many: {peer.instead()}"
        target.record_not_applicable(SESSIONS, why)
        return
    channels = [session.channel for session in unanswered]
    words = listed(channels or ["(none)"])
    detail = f"{len(channels)} of {len(sessions)} begins got no answer; their channels: {words}"
    target.record_finding(SESSIONS, not channels, detail)


@case(KEPT, needs={"amqp"})
@amounts.over_amounts(4)
def test_any_number_of_amqp_connections_is_served(target: Bench, position: int) -> None:
    """Any number of connections are open at a time, and the message that each sends arrives."""
    judge_connections(target, AmqpQueueClient, position, most_amqp(target), KEPT)


@case(LINKS, SETTLES, needs={"amqp"})
@amounts.over_amounts(4)
def test_any_number_of_links_is_attached(target: Bench, position: int) -> None:
    """A client attaches as many links in one session as the broker's handle-max allows, up to a
    large number. Each is answered by an attach, unless an end or close gives a reason, and the
    broker settles a message on the last link. One scenario: an answered link must work."""
    peer, node = target.amqp(), target.node()
    assert peer.session.answer is not None
    most = peer.session.answer.get("handle-max", 2**32 - 1)
    count = amounts.at(target, position, least=1, most=min(most, MOST_AT_ONCE))
    links = [peer.attach(SENDER, node, answered=False) for _ in range(count)]
    target.used_amount("links of a session", count)
    wait_while_frames_come(
        target, peer, lambda: all(link.answer is not None for link in links) or is_over(peer)
    )
    if is_over(peer):
        why = f"the broker does not accept so many: {peer.instead()}"
        target.record_not_applicable((LINKS, SETTLES), why)
        return
    names = [link.name for link in links if link.answer is None]
    words = ", ".join(names[:5]) or "none"
    detail = f"{len(names)} of {count} attaches got no answer; their links: {words}"
    target.require(LINKS, not names, detail)
    target.wait_until(lambda: links[-1].credit > 0 or is_over(peer), PATIENCE)
    target.control(links[-1].credit > 0, f"the last link has no credit; {peer.instead()}")
    peer.publish(links[-1], b"by the last", proves=SETTLES)


@case(SETTLES, KEPT, needs={"amqp"})
@amounts.over_amounts(4)
def test_any_number_of_messages_is_settled_for_their_sender(target: Bench, position: int) -> None:
    """A client sends any number of messages on one link of rcv-settle-mode first, as credit and
    window allow. The broker settles each of them, and delivers each that it accepted. One scenario:
    accepted messages must arrive."""
    count = amounts.at(target, position, least=2, piped=True)
    peer, node = target.amqp(), target.node()
    link = peer.sender(node)
    assert link.answer is not None
    if link.answer.get("rcv-settle-mode", 0):
        target.record_not_applicable((SETTLES, KEPT), "the link has rcv-settle-mode second")
        return
    sent: list[int] = []
    while len(sent) < count:
        granted(target, peer, link)
        sent.append(peer.post(link, b"%d" % len(sent)))
    target.used_amount("messages of a link", count)
    peer.watch_for(peer.settled(link.session, sent[-1]))
    outcomes = link.session.outcomes
    target.control(outcomes[sent[0]] is not None, "the first message got no outcome")
    without = [delivery for delivery in sent if outcomes[delivery] is None]
    words = listed(without or ["(none)"])
    detail = f"of {count} messages, those without an outcome: {words}"
    target.record_finding(SETTLES, not without, f"{detail}; {peer.instead()}")
    reader = target.amqp()
    taking = reader.receiver(node, credit=2 * count, snd_settle_mode=UNSETTLED)
    got = {*bodies(collect(target, reader, taking, count - len(without), quiet=0))}
    told = {id: reply.kind("state") for id, reply in outcomes.items() if reply is not None}
    accepted = [number for number, id in enumerate(sent) if told.get(id) == "accepted"]
    lost = [number for number in accepted if b"%d" % number not in got]
    words = listed(lost or ["(none)"])
    detail = f"of {count} messages, those accepted but not delivered: {words}"
    target.record_finding(KEPT, not lost, f"{detail}; {reader.instead()}")
