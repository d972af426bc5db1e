"""Link errors (2.6.1, 2.6.3, 2.6.5): refused, stolen and detached links; oversized messages."""

from typing import Any

from hypothesis import strategies as st

from brokerproof.harness.oracles import amqp10_aftermath, amqp_conditions
from brokerproof.harness.protocols.amqp10 import codec, messages, types
from brokerproof.suites.amqp10.steps import (
    QUIET,
    bodies,
    bystander,
    collect,
    fill,
    granted,
    numbered,
    reaction,
    ready_sender,
)
from brokerproof.suites.api import (
    PATIENCE,
    RECONFIGURABLE,
    Bench,
    Target,
    Where,
    case,
    listed,
    over,
    shown,
)
from brokerproof.suites.api.amqp10 import (
    RECEIVER,
    SENDER,
    AmqpPeer,
    Frame,
    Link,
    Node,
    either,
    ending,
    frame,
)
from brokerproof.suites.steps.traces import frames_received, judge_trace

REFUSED_ATTACH = "AMQP10-LINK-12"
LINK_ERROR_DETACHES = "AMQP10-LINK-09"
ERRANT_LINK = "AMQP10-SESS-06"
DESTROYED = "AMQP10-LINK-10"
LINK_STOLEN = "AMQP10-LINK-02"
LINK_CONDITIONS = "AMQP10-ERR-04"
UNSETTLED_MAP = "AMQP10-LINK-03"
CLOSE_ANSWERED = "AMQP10-LINK-08"
MAX_MESSAGE_SIZE = "AMQP10-LINK-15"
RESUMED_IGNORED = "AMQP10-XFER-21"
GIVEN_BACK = "AMQP10-READING-OUT-01"
COPIES = "AMQP10-TERM-04"
ONE_CONSUMER = "ARTEMIS-CONCEPTS-queue-1"

LONG_TAG = bytes(33)
"""One byte more than a delivery-tag allows (AMQP10-XFER-05)."""
STATES = {
    None: None,
    "accepted": codec.composite("accepted"),
    "received": codec.composite("received", section_number=0, section_offset=types.ulong(0)),
}
TROUBLE = either(ending("detach"), ending("end"), ending("close"))
STOLEN = "amqp:link:stolen"
TOO_LARGE = "amqp:link:message-size-exceeded"


def trouble(peer: AmqpPeer, link: Link) -> Frame | None:
    """Return how the broker ends the link, its session or the connection."""
    return peer.watch_for(either(frame("detach", link=link), frame("end"), frame("close")))


def impossible(node: Node, kind: str) -> tuple[bool, dict[str, Any]]:
    """Return a role, and the fields of an attach that no broker can grant."""
    capabilities = node.capabilities or None
    match kind:
        case "a source without address":
            return RECEIVER, {"source": codec.composite("source", {"capabilities": capabilities})}
        case "a source that is dynamic and has an address":
            fields = {"address": node.address, "dynamic": True, "capabilities": capabilities}
            return RECEIVER, {"source": codec.composite("source", fields)}
        case "a target that is dynamic and has an address":
            fields = {"address": node.address, "dynamic": True, "capabilities": capabilities}
            return SENDER, {"target": codec.composite("target", fields)}
        case "no source":
            return RECEIVER, {"source": None}
    return SENDER, {"target": None}


def _side(role: bool) -> str:
    return "source" if role is RECEIVER else "target"


IMPOSSIBLE = (
    "a source without address",
    "a source that is dynamic and has an address",
    "a target that is dynamic and has an address",
    "no source",
    "no target",
)


@case(REFUSED_ATTACH, LINK_ERROR_DETACHES, needs={"amqp"})
@over(
    always=lambda target: [{"kind": kind, "again": True} for kind in IMPOSSIBLE],
    examples=16,
    kind=st.sampled_from(IMPOSSIBLE),
    again=st.booleans(),
)
def test_a_link_that_cannot_be_made_is_attached_and_detached(
    target: Bench, kind: str, again: bool
) -> None:
    """A client attaches an impossible link. A broker that refuses it answers with an attach without
    source or target, then a closing detach with an error; the session continues, and the name can
    be reused. A link that was never created has consumed nothing from the node."""
    with bystander(target):
        node = target.node()
        fill(target, node, [b"waits"])
        peer = target.amqp()
        role, fields = impossible(node, kind)
        link = peer.attach(role, node, name="impossible", answered=False, **fields)
        answer = peer.watch_for(
            either(frame("attach", name=link.name), frame("detach"), frame("end"), frame("close"))
        )
        if answer is not None:
            makes = answer.name == "attach" and answer.kind(_side(role)) is not None
            taken = "makes" if makes else {"attach": "detach"}.get(answer.name, answer.name)
            target.record_behaviour(f"amqp.{kind.replace(' ', '-')}", taken)
        if answer is None or answer.name != "attach":
            observed = reaction(peer, answer)
            detail = f"after an attach with {kind}: {observed}; expected attach and detach"
            target.record_finding((REFUSED_ATTACH, LINK_ERROR_DETACHES), False, detail)
            return
        mine = _side(role)
        if answer.kind(mine) is not None:
            target.record_not_applicable(
                (REFUSED_ATTACH, LINK_ERROR_DETACHES),
                f"the broker makes a link with {kind}: {answer.brief()}",
            )
            return
        gone = peer.watch_for(either(frame("detach", link=link), frame("end"), frame("close")))
        observed = reaction(peer, gone)
        fine = gone is not None and gone.name == "detach" and gone.get("closed") is True
        detail = f"after an attach with {kind}: got an attach without {mine}, then {observed}"
        target.record_finding(REFUSED_ATTACH, fine, detail)
        has_condition = gone is not None and gone.condition is not None
        detail = f"after an attach with {kind}: {observed}; expected detach with an error"
        target.record_finding(LINK_ERROR_DETACHES, fine and has_condition, detail)
        if not fine:
            return
        peer.detach(link, answered=False)
        if again:
            peer.sender(node, name="impossible", proves=REFUSED_ATTACH)
        other = target.amqp()
        got = bodies(collect(target, other, other.receiver(node, credit=2), 1))
        detail = f"{kind} was refused; the node has {listed(got)}; expected 'waits'"
        target.record_finding(REFUSED_ATTACH, got == [b"waits"], detail)


@case(LINK_ERROR_DETACHES, ERRANT_LINK, DESTROYED, needs={"amqp"})
@over(
    always=lambda target: [{"behind": behind} for behind in ("transfer", "flow", "nothing")],
    examples=12,
    behind=st.sampled_from(["transfer", "flow", "nothing"]),
)
def test_a_link_that_broke_takes_nothing_but_detach(target: Bench, behind: str) -> None:
    """On a delivery-tag that is too long, the broker detaches only the producer's link, with an
    error, or ends the session or connection with one. No frame of the link follows the detach. The
    client then answers it with a detach, or sends a transfer or flow for that link, which ends the
    session with errant-link. Another connection still works."""
    with bystander(target):
        node = target.node()
        peer = target.amqp()
        link = ready_sender(target, peer, node, 2)
        peer.transfer(link, messages.message(b"wrong"), delivery_tag=LONG_TAG)
        answer = trouble(peer, link)
        observed = reaction(peer, answer)
        if answer is None and peer.ended is None:
            target.record_not_applicable(
                target.cited,
                f"the broker accepted a delivery-tag of {len(LONG_TAG)} bytes: {observed}",
            )
            return
        fine = answer is not None and answer.condition is not None
        if answer is not None and fine and answer.name != "detach":
            target.record_not_applicable(
                target.cited,
                f"the broker treats the delivery-tag as an error of the session: {observed}",
            )
            return
        detail = f"after a delivery-tag of {len(LONG_TAG)} bytes: {observed}; expected an error"
        target.require(LINK_ERROR_DETACHES, fine, detail)
        target.advance(QUIET)
        judge_trace(target, peer, amqp10_aftermath.endings)
        match behind:
            case "transfer":
                peer.transfer(link, messages.message(b"late"))
            case "flow":
                peer.flow(link)
            case _:
                peer.detach(link, answered=False)
                other = ready_sender(target, peer, node, proves=LINK_ERROR_DETACHES)
                peer.publish(other, b"the session goes on", proves=LINK_ERROR_DETACHES)
                return
        end = peer.watch_for(either(frame("end"), frame("close")))
        observed = reaction(peer, end)
        fine = end is not None and end.name == "end" and end.condition == "amqp:session:errant-link"
        words = f"after a {behind} for a link that ended with an error: {observed}"
        detail = f"{words}; expected end (amqp:session:errant-link)"
        target.record_finding(ERRANT_LINK, fine, detail)


@case(LINK_STOLEN, LINK_CONDITIONS, needs={"amqp"})
@over(
    always=lambda target: [{"where": where, "role": SENDER} for where in ("session", "connection")],
    examples=12,
    where=st.sampled_from(["session", "connection"]),
    role=st.sampled_from([SENDER, RECEIVER]),
)
def test_a_link_that_is_attached_again_is_stolen(target: Bench, where: str, role: bool) -> None:
    """The name and direction of an active link are attached again by another session, or by another
    connection of the same container. If that succeeds, the first link is closed with the error
    stolen, and the second works."""
    node = target.node()
    container = f"{target.fresh_name()}-{where}"
    peer = target.amqp(container_id=container)
    link = peer.attach(role, node, name="contested")
    if where == "session":
        other, session = peer, peer.begin(1)
    else:
        other = target.amqp(container_id=container)
        session = other.session
    second = other.attach(role, node, name="contested", session=session, answered=False)
    answer = other.watch_for(
        either(frame("attach", channel=session.theirs), frame("end"), frame("close"))
    )
    target.advance(QUIET)
    terminus = "source" if role is RECEIVER else "target"
    if (
        answer is None
        or answer.name != "attach"
        or answer.kind(terminus) is None
        or second.detached is not None
    ):
        observed = reaction(other, answer)
        target.record_note(f"the second attach did not succeed: {observed}")
        target.record_behaviour(f"amqp.another-{where}", "refuses")
        target.record_not_applicable(LINK_STOLEN, "no second attach of a link's name succeeds")
        return
    gone = peer.watch_for(ending("detach"))
    observed = reaction(peer, gone)
    fine = (
        gone is not None
        and link.is_of(gone)
        and gone.condition == STOLEN
        and gone.get("closed") is True
    )
    effect = "steals" if fine else "keeps-both" if gone is None else "other"
    target.record_behaviour(f"amqp.another-{where}", effect)
    words = f"after a second attach of its name on another {where}, the first link {observed}"
    detail = f"{words}; expected detach ({STOLEN})"
    target.record_finding(LINK_STOLEN, fine, detail)
    if gone is None:
        target.record_not_applicable(LINK_CONDITIONS, "the first link was not ended")
    judge_trace(target, peer, amqp_conditions.conditions)
    if role is SENDER:
        granted(target, other, second)
        other.publish(second, b"by the second", proves=LINK_STOLEN)


@case(UNSETTLED_MAP, needs={"amqp"})
@over(
    examples=10,
    role=st.sampled_from([SENDER, RECEIVER]),
    tags=st.sets(st.binary(min_size=1, max_size=8), min_size=1),
)
def test_a_broker_tells_no_deliveries_that_it_does_not_know(
    target: Bench, role: bool, tags: set[bytes]
) -> None:
    """A client attaches a link as if to resume it, with unsettled deliveries that never existed.
    The broker's attach lists none of them as unsettled, or it refuses with an error."""
    peer = target.amqp()
    unsettled = {tag: codec.composite("accepted") for tag in sorted(tags)}
    link = peer.attach(role, target.node(), unsettled=unsettled, answered=False)
    answer = peer.watch_for(
        either(frame("attach", name=link.name), frame("detach"), frame("end"), frame("close"))
    )
    observed = reaction(peer, answer)
    unsettled_map = {} if answer is None else answer.get("unsettled") or {}
    fine = (
        answer is not None
        and not unsettled_map
        and (answer.name == "attach" or answer.condition is not None)
    )
    target.record_finding(
        UNSETTLED_MAP,
        fine,
        f"the client listed {len(tags)} deliveries that never existed; {observed}",
    )


@case(RESUMED_IGNORED, needs={"amqp"})
@over(examples=6, state=st.sampled_from([None, "accepted", "received"]), settled=st.booleans())
def test_a_resumed_delivery_that_never_was_is_ignored(
    target: Bench, state: str | None, settled: bool
) -> None:
    """On a new link without unsettled deliveries, a client sends a message as the rest of a resumed
    delivery, and then a plain message. Only the plain message is in the queue. If the broker
    refuses the link with an error, the requirement does not apply."""
    node, peer = target.node(), target.amqp()
    link = ready_sender(target, peer, node, 2)
    resumed = messages.message(b"resumed")
    peer.transfer(link, resumed, resume=True, settled=settled, state=STATES[state])
    if (error := peer.watch_for(TROUBLE, within=QUIET)) is not None:
        target.record_not_applicable(RESUMED_IGNORED, f"the delivery was refused: {error.brief()}")
        return
    peer.publish(link, b"plain")
    consumer = target.amqp()
    received = bodies(collect(target, consumer, consumer.receiver(node, credit=10), 1))
    target.control(b"plain" in received, f"{listed(received)} arrived; {consumer.instead()}")
    words = f"a resumed delivery that never existed should be ignored; {listed(received)} arrived"
    target.record_finding(RESUMED_IGNORED, received == [b"plain"], words)


def small_messages(target: Target) -> st.SearchStrategy[Where]:
    """A broker that accepts only small messages."""
    acceptor = target.identity.default_amqp_acceptor
    return st.sampled_from([100, 1000, 5000]).map(
        lambda most: Where(acceptor, {"acceptor": {"amqp_max_message_size": most}})
    )


@case(MAX_MESSAGE_SIZE, LINK_ERROR_DETACHES, needs={"amqp", RECONFIGURABLE})
@over(
    examples=16,
    where=small_messages,
    beyond=st.sampled_from([-1, 0, 1, 2, 600]),
    settled=st.sampled_from([True, None]),
)
def test_a_message_above_the_announced_size_ends_the_link(
    target: Bench, where: Where, beyond: int, settled: bool | None
) -> None:
    """The broker's attach has a max-message-size. A message of up to that size is accepted. A
    larger one ends the link with message-size-exceeded and is in no queue; another connection still
    works."""
    with bystander(target):
        node = target.node()
        peer = target.amqp()
        link = peer.sender(node)
        assert link.answer is not None
        most = link.answer.get("max-message-size", 0)
        target.control(0 < most < 10_000, f"the broker's attach has a max-message-size of {most}")
        granted(target, peer, link)
        payload = sized(most + beyond)
        pieces = [payload[at : at + 400] for at in range(0, len(payload), 400)]
        for at, piece in enumerate(pieces):
            last = at == len(pieces) - 1
            peer.transfer(link, piece, settled=settled, more=not last or None)
        detail = f"a message of {len(payload)} bytes, where {most} are allowed"
        if beyond > 0:
            answer = trouble(peer, link)
            observed = reaction(peer, answer)
            fine = answer is not None and answer.name == "detach" and answer.condition == TOO_LARGE
            words = f"{detail}: {observed}"
            target.record_finding((MAX_MESSAGE_SIZE, LINK_ERROR_DETACHES), fine, words)
        else:
            target.advance(QUIET)
            peer.settle()
            words = f"{detail}: {peer.instead()}"
            target.record_finding(MAX_MESSAGE_SIZE, link.detached is None, words)
        other = target.amqp()
        came_out = len(collect(target, other, other.receiver(node, credit=1), int(beyond <= 0)))
        words = f"{detail}; messages in the queue: {came_out}"
        target.record_finding(MAX_MESSAGE_SIZE, came_out == (beyond <= 0), words)


def sized(size: int) -> bytes:
    """Return a message of ``size`` bytes in total (at least 10), with one data section."""
    body = messages.message(bytes(max(0, size - 8)))
    return body if len(body) == size else messages.message(bytes(max(0, 2 * size - 8 - len(body))))


@case(MAX_MESSAGE_SIZE, needs={"amqp"})
@over(
    examples=8,
    limit=st.sampled_from([None, 0]),
    sizes=st.lists(st.sampled_from([1, 5000, 200_000]), min_size=1, max_size=3),
)
def test_a_receiver_without_a_limit_gets_messages_of_any_size(
    target: Bench, limit: int | None, sizes: list[int]
) -> None:
    """A receiver's attach has no max-message-size, or 0 (none). It gets messages of any size."""
    node = target.node()
    fill(target, node, [bytes(size) for size in sizes])
    peer = target.amqp()
    link = peer.attach(RECEIVER, node, max_message_size=limit)
    peer.flow(link, link_credit=len(sizes))
    got = collect(target, peer, link, len(sizes))
    sizes_received = [len(delivery.message.body) for delivery in got]
    target.record_finding(
        MAX_MESSAGE_SIZE,
        sizes_received == sizes,
        f"max-message-size {shown(limit)}: messages of {listed(sizes_received)} bytes arrived;"
        f" expected {listed(sizes)}",
    )


@case(MAX_MESSAGE_SIZE, CLOSE_ANSWERED, GIVEN_BACK, COPIES, needs={"amqp", "amqp-redelivery"})
@over(
    examples=8,
    # Brokers add annotations: a small message must stay below the limit with them.
    limit=st.sampled_from([500, 1000]),
    before=st.integers(0, 2),
    size=st.sampled_from([3000, 100_000]),
    copies=st.booleans(),
    always=lambda target: [{"limit": 1000, "before": 2, "size": 3000, "copies": True}],
)
def test_a_message_above_the_receivers_size_is_no_delivery(
    target: Bench, limit: int, before: int, size: int, copies: bool
) -> None:
    """A receiver's attach has a max-message-size, and smaller messages and then a larger one are
    due. The smaller ones arrive. Then the broker ends the link with message-size-exceeded; if it
    sends the message nevertheless, the receiver ends the link. Another link gets the large message,
    and any messages that the first link only copied (distribution-mode copy).

    One scenario: the broker's choice decides which requirement the end of the link shows.
    """
    node = target.node()
    sent = [*numbered(before), bytes(size)]
    fill(target, node, sent)
    peer = target.amqp()
    source = {"address": node.address, "capabilities": node.capabilities or None}
    if copied := copies and "amqp-copy" in target.capabilities:
        source["distribution-mode"] = "copy"
    named = codec.composite("source", source)
    link = peer.attach(RECEIVER, node, max_message_size=limit, source=named)
    if before:
        peer.flow(link, link_credit=before)
        small = collect(target, peer, link, before, quiet=0)
        target.control(
            bodies(small) == numbered(before), f"{len(small)} of {before} small messages arrived"
        )
        for delivery in small:
            peer.disposition(delivery)
        peer.settle()
    peer.flow(link, link_credit=1)

    def large() -> bool:
        return any(event.body_size > limit for event in frames_received(target, peer))

    def over() -> bool:
        return (
            link.detached is not None or peer.ended is not None or any(map(peer.fatal, peer.inbox))
        )

    target.wait_until(lambda: large() or over(), PATIENCE)
    target.record_behaviour("amqp.too-large-for-receiver", "refuses" if over() else "sends")
    if not over():
        target.record_note("the broker sends it: the receiver ends the link")
        target.record_not_applicable(MAX_MESSAGE_SIZE, "the broker sent it, so the error is ours")
        ended = peer.detach(link, error=(TOO_LARGE, "it is too large"), proves=CLOSE_ANSWERED)
        target.record_finding(
            CLOSE_ANSWERED,
            ended is not None and ended.get("closed") is True,
            f"after a detach with closed=true: {reaction(peer, ended)}; expected the same",
        )
    else:
        gone = link.detached
        condition = None if gone is None else gone.condition
        words = f"the link ended with {condition or 'no error'}; expected {TOO_LARGE}"
        detail = f"{words}; {peer.instead()}"
        target.record_finding(MAX_MESSAGE_SIZE, condition == TOO_LARGE, detail)
        target.record_not_applicable(CLOSE_ANSWERED, "the broker ended the link itself")
    other = target.amqp()
    due = sent if copied else sent[before:]
    back = bodies(collect(target, other, other.receiver(node, credit=5), len(due)))
    sizes = [shown(list(map(len, of))) for of in (back, due)]
    detail = f"another link got messages of {sizes[0]} bytes; expected {sizes[1]}"
    judged, other_mode = (COPIES, GIVEN_BACK) if copied else (GIVEN_BACK, COPIES)
    target.record_finding(judged, back == due, detail)
    target.record_not_applicable(
        other_mode, f"the link has the mode {'copy' if copied else 'move'}"
    )


@case(LINK_STOLEN, LINK_ERROR_DETACHES, needs={"amqp", RECONFIGURABLE})
@over(
    examples=2,
    always=lambda target: [{"answered": answered} for answered in (True, False)],
    answered=st.booleans(),
)
def test_the_name_of_a_link_that_broke_is_free(target: Bench, answered: bool) -> None:
    """The broker detaches a producer's link because of a delivery-tag that is too long; the client
    may answer. A new link gets the same name: no active link is stolen, so no further detach
    arrives, and the new link works."""
    node, peer = target.node(), target.amqp()
    link = ready_sender(target, peer, node, name="again")
    peer.transfer(link, messages.message(b"wrong"), delivery_tag=LONG_TAG)
    broken = trouble(peer, link)
    if broken is None or broken.name != "detach":
        target.record_not_applicable(target.cited, f"the tag broke no link: {peer.instead()}")
        return
    if answered:
        peer.detach(link, answered=False)
    again = peer.sender(node, name="again", proves=LINK_ERROR_DETACHES)
    other = peer.watch_for(TROUBLE, within=QUIET)
    observed = "nothing" if other is None else other.brief()
    detail = f"after the name of a broken link was attached again, {observed} arrived"
    target.require(LINK_STOLEN, other is None, detail)
    granted(target, peer, again)
    peer.publish(again, b"by the second", proves=LINK_ERROR_DETACHES)


@case(ONE_CONSUMER, needs={"amqp", "queue-semantics"})
def test_a_message_too_large_for_one_receiver_is_there_for_another(target: Bench) -> None:
    """A receiver accepts messages of up to 1000 bytes, and its queue has a message of 5000 bytes.
    The broker may end the link, and a receiver without that limit gets the message."""
    node = target.node()
    fill(target, node, [bytes(5000)])
    small = target.amqp()
    small.flow(small.receiver(node, max_message_size=1000), link_credit=1)
    gone = small.watch_for(TROUBLE, within=QUIET)
    target.record_note(f"the small receiver saw {'nothing' if gone is None else gone.brief()}")
    small.close_socket()
    large = target.amqp()
    got = bodies(collect(target, large, large.receiver(node, credit=1), 1))
    detail = f"afterwards, {len(got)} messages arrived for a receiver without a limit"
    target.record_finding(ONE_CONSUMER, got == [bytes(5000)], detail)
