"""Invalid frames: missing fields, wrong types, impossible sizes, ids and windows, unknown handles
and channels. Whatever the broker ends, it ends with an error; other connections still work."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import strategies as st

from brokerproof.harness.protocols.amqp10 import codec, messages, types
from brokerproof.harness.protocols.amqp10.tables import COMPOSITES
from brokerproof.harness.protocols.amqp10.types import Raw
from brokerproof.suites.amqp10.steps import (
    QUIET,
    bodies,
    bystander,
    collect,
    granted,
    judge_flawless,
    little_credit,
    numbered,
    reaction,
    ready_sender,
)
from brokerproof.suites.amqp10.wrapping_ids import NEAR_WRAP
from brokerproof.suites.api import RECONFIGURABLE, Bench, Match, Target, Where, case, listed, over
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

FRAME_FIELDS = "AMQP10-FRAME-08"
BAD_FIELDS = "AMQP10-READING-FIELDS-01"
SESSION_ERROR_ENDS = "AMQP10-SESS-03"
CLOSE_WRITTEN = "AMQP10-CLOSE-01"
WINDOW_VIOLATION = "AMQP10-WIN-09"

TROUBLE: Match[Frame] = either(ending("detach"), ending("end"), ending("close"))
"""The end of a link, a session or the connection, with an error."""

RIGHT: Mapping[str, Mapping[str, Any]] = {
    "begin": {"next-outgoing-id": 0, "incoming-window": 10, "outgoing-window": 10},
    "attach": {
        "name": "liar",
        "handle": 7,
        "role": RECEIVER,
        "source": codec.composite("source", address="lies"),
        "target": codec.composite("target"),
    },
    "flow": {
        "next-incoming-id": 0,
        "incoming-window": 10,
        "next-outgoing-id": 0,
        "outgoing-window": 10,
    },
    "transfer": {"handle": 0, "delivery-id": 0, "delivery-tag": b"t", "message-format": 0},
    "disposition": {"role": RECEIVER, "first": 0},
    "detach": {"handle": 0},
}
"""A valid frame of each kind."""
WRONG = types.string("a text where none belongs")
NUMBER = types.uint(5)
MISSING = sorted(
    (name, field.name)
    for name in RIGHT
    for field in COMPOSITES[name].fields
    if field.mandatory and field.name in RIGHT[name]
)
TYPED = sorted(
    (name, field.name)
    for name in RIGHT
    for field in COMPOSITES[name].fields
    if field.name in RIGHT[name]
)


def _always(target: Target) -> list[dict[str, Any]]:
    """For each kind of frame, one without a mandatory field and one with a field of the wrong
    type."""
    return [{"field_of": field_of, "missing": True} for field_of in MISSING[::3]] + [
        {"field_of": field_of, "missing": False} for field_of in TYPED[::4]
    ]


@case(BAD_FIELDS, CLOSE_WRITTEN, needs={"amqp"})
@over(always=_always, examples=30, field_of=st.sampled_from(TYPED), missing=st.booleans())
def test_a_frame_without_its_fields_is_an_error(
    target: Bench, field_of: tuple[str, str], missing: bool
) -> None:
    """A frame lacks a mandatory field, or has a field of a wrong type. The broker ends the link,
    the session or the connection with an error; it ends the connection only after a close that
    gives the reason. Another connection still works."""
    name, field = field_of
    missing = missing and field_of in MISSING
    with bystander(target):
        peer = target.amqp()
        ready_sender(target, peer, target.node())
        value = (
            None
            if missing
            else NUMBER
            if field in ("name", "delivery-tag", "source", "target")
            else WRONG
        )
        peer.send(name, {**RIGHT[name], field: value}, channel=1 if name == "begin" else 0)
        what = f"{name} {'without' if missing else 'with a wrong'} {field}"
        answer = peer.watch_for(TROUBLE)
        observed = reaction(peer, answer)
        words = f"after {what}: {observed}; expected an error"
        target.record_finding(BAD_FIELDS, answer is not None, words)
        words = f"after {what}: {'the connection stays open' if peer.ended is None else observed}"
        target.record_finding(CLOSE_WRITTEN, answer is not None or peer.ended is None, words)


WRONG_OPENS: Mapping[str, dict[str, Any]] = {
    "without container-id": {"container-id": None},
    "with a wrong container-id": {"container-id": NUMBER},
    "with a wrong max-frame-size": {"max-frame-size": WRONG},
    "with a wrong channel-max": {"channel-max": WRONG},
    "with a wrong idle-time-out": {"idle-time-out": WRONG},
}


@case(BAD_FIELDS, CLOSE_WRITTEN, needs={"amqp"})
@pytest.mark.parametrize("wrong", list(WRONG_OPENS))
def test_an_open_without_its_fields_is_an_error(target: Bench, wrong: str) -> None:
    """An open lacks its container-id, or has a field of a wrong type. The broker ends the
    connection, after a close with an error; another connection still works."""
    with bystander(target):
        peer = target.amqp_peer()
        peer.authenticate(target.target.identity.login, target.target.identity.passcode)
        peer.open(answered=False, **WRONG_OPENS[wrong])
        answer = peer.watch_for(ending("close"))
        observed = reaction(peer, answer)
        words = f"after an open {wrong}: {observed}; expected an error"
        target.record_finding(BAD_FIELDS, answer is not None, words)
        kept = "the connection stays open" if peer.ended is None else observed
        words = f"after an open {wrong}: {kept}"
        target.record_finding(CLOSE_WRITTEN, answer is not None or peer.ended is None, words)


@case(FRAME_FIELDS, needs={"amqp"})
@over(
    examples=16,
    start=NEAR_WRAP,
    count=st.integers(1, 5),
    size=st.sampled_from([0, 600]),
    credit=st.integers(1, 8),
)
def test_the_brokers_frames_have_their_fields(
    target: Bench, start: int, count: int, size: int, credit: int
) -> None:
    """A client sends, receives, drains, settles in all ways, detaches and ends. Every frame of the
    broker has its mandatory fields, and every field its defined type."""
    node = target.node()
    peer = target.amqp(begin=False, max_frame_size=512, idle_time_out=2000)
    peer.begin(next_outgoing_id=start)
    frames: list[Frame] = []
    sender = peer.sender(node)
    for body in numbered(count, size):
        granted(target, peer, sender)
        peer.publish(sender, body)
    receiver = peer.receiver(node)
    peer.flow(receiver, link_credit=credit, drain=True)
    got = collect(target, peer, receiver, min(count, credit))
    frames += [transfer for delivery in got for transfer in delivery.frames]
    outcomes = ["accepted", "released"]
    if "amqp-modified" in target.capabilities:
        outcomes.append("modified")
    for number, delivery in enumerate(got):
        outcome = outcomes[number % len(outcomes)]
        peer.disposition(delivery, outcome, settled=number % 2 == 0)
    target.advance(QUIET)
    for answer in (peer.detach(receiver), peer.end(), peer.close()):
        frames += [] if answer is None else [answer]
    frames += [reply for reply in peer.inbox if reply.name in COMPOSITES]
    frames += [
        answer for answer in (peer.opened, receiver.answer, sender.answer) if answer is not None
    ]
    judge_flawless(target, FRAME_FIELDS, frames)


MUCH = 5000
"""The most credit that a case can use up; some brokers grant tens of thousands."""
NESTED = "three hundred lists in one another"
BOMBS: Mapping[str, bytes] = {
    "a binary of 2 GiB": b"\xb0\x80\x00\x00\x00",
    "a string of 4 GiB": b"\xb1\xff\xff\xff\xff",
    "a list of 2 GiB": b"\xd0\x80\x00\x00\x00\x00\x00\x00\x01",
    "a list of 2^32 - 1 items": b"\xd0\x00\x00\x00\x05\xff\xff\xff\xff\x40",
    "a map of 2^31 items": b"\xd1\x00\x00\x00\x04\x80\x00\x00\x00",
    "an array of 2^32 - 1 nulls": b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40",
    "an array of 2^32 - 1 empty lists": b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x45",
    NESTED: b"",
    "an unknown constructor": b"\x3f",
}
"""Values that announce more than they contain."""


def bomb(name: str) -> Raw:
    data = BOMBS[name]
    if not data:
        data = b"\x40"
        for _ in range(300):
            data = b"\xd0" + (len(data) + 4).to_bytes(4) + b"\0\0\0\1" + data
    return Raw(data)


@case(BAD_FIELDS, needs={"amqp"})
@over(
    always=lambda target: [{"name": name, "field": "properties"} for name in sorted(BOMBS)],
    examples=12,
    name=st.sampled_from(sorted(BOMBS)),
    field=st.sampled_from(["properties", "source", "name", "unsettled"]),
)
def test_a_value_that_says_more_than_it_has_is_an_error(
    target: Bench, name: str, field: str
) -> None:
    """In a short attach frame, a field announces gigabytes or billions of items, or nests hundreds
    of lists. Without waiting for more bytes, the broker ends the connection, the session or the
    link with an error, or refuses the link; it may accept nested lists as link properties, since
    they are valid. Another connection still works."""
    with bystander(target):
        peer = target.amqp()
        peer.send("attach", {**RIGHT["attach"], field: bomb(name)})
        answer = peer.watch_for(either(TROUBLE, frame("attach")))
        if (
            answer is not None
            and answer.name == "attach"
            and not (name == NESTED and field == "properties")
        ):
            answer = peer.watch_for(TROUBLE)
        observed = reaction(peer, answer)
        words = f"after {name} as {field}: {observed}; expected an error"
        target.record_finding(BAD_FIELDS, answer is not None, words)


def strange(peer: AmqpPeer, link: Link, kind: str) -> None:
    """Send a transfer on a link that does not exist or on which only the broker sends."""
    payload = messages.message(b"strange")
    match kind:
        case "a transfer for a link that does not exist":
            peer.send("transfer", {**RIGHT["transfer"], "handle": 99}, payload)
        case "a transfer on a link whose sender is the broker":
            receiver = peer.receiver(peer_node(link))
            peer.send("transfer", {**RIGHT["transfer"], "handle": receiver.handle}, payload)


def peer_node(link: Link) -> Node:
    assert link.answer is not None
    terminus = link.answer.part("target")
    return Node(str(terminus["address"]), tuple(terminus.get("capabilities") or ()))


STRANGE = (
    "a transfer for a link that does not exist",
    "a transfer on a link whose sender is the broker",
)


@case(SESSION_ERROR_ENDS, CLOSE_WRITTEN, needs={"amqp"})
@over(
    always=lambda target: [{"kind": kind} for kind in STRANGE],
    examples=10,
    kind=st.sampled_from(STRANGE),
)
def test_a_transfer_for_nothing_ends_in_an_error(target: Bench, kind: str) -> None:
    """A transfer is for a link that does not exist, or for one on which only the broker sends. The
    link, the session or the connection ends with an error; another connection still works."""
    with bystander(target):
        peer = target.amqp()
        link = ready_sender(target, peer, target.node())
        strange(peer, link, kind)
        answer = peer.watch_for(TROUBLE)
        observed = reaction(peer, answer)
        detail = f"after {kind}: {observed}; expected an error"
        target.record_finding(SESSION_ERROR_ENDS, answer is not None, detail)
        detail = f"after {kind}: {observed}"
        target.record_finding(CLOSE_WRITTEN, answer is not None or peer.ended is None, detail)


DOUBTFUL = (
    "a detach for a link that does not exist",
    "a flow on a channel without a session",
    "an attach on a channel without a session",
    "an end on a channel without a session",
    "a second begin on the channel of a session",
    "an attach without an initial-delivery-count",
    "a delivery without a delivery-id",
    "a delivery without a delivery-tag",
    "a next-incoming-id above every transfer sent",
    "a delivery-count above every delivery sent",
    "a delivery-id that skips numbers",
    "a disposition whose last is below its first",
    "a delivery-count beyond the credit",
    "a transfer beyond the credit",
)


def impossible(peer: AmqpPeer, link: Link, receiver: Link, kind: str, by: int) -> None:
    """Send something impossible, or omit something mandatory."""
    session, payload = link.session, messages.message(b"strange")
    match kind:
        case "a next-incoming-id above every transfer sent":
            peer.flow(
                session=session, next_incoming_id=((session.next_incoming_id or 0) + by) % 2**32
            )
        case "a delivery-count above every delivery sent":
            peer.flow(
                receiver, delivery_count=(receiver.delivery_count + by) % 2**32, link_credit=1
            )
        case "a delivery-id that skips numbers":
            peer.publish(link, b"one")
            peer.transfer(link, messages.message(b"two"), delivery_id=session.next_delivery_id + by)
        case "a disposition whose last is below its first":
            peer.send("disposition", {"role": RECEIVER, "first": by, "last": 0, "settled": True})
        case "a delivery-count beyond the credit":
            peer.flow(link, delivery_count=(link.delivery_count + link.credit + by) % 2**32)
        case "an attach on a channel without a session":
            peer.send("attach", RIGHT["attach"], channel=9)
        case "a flow on a channel without a session":
            peer.send("flow", RIGHT["flow"], channel=9)
        case "a detach for a link that does not exist":
            peer.send("detach", {"handle": 99, "closed": True})
        case "an end on a channel without a session":
            peer.send("end", channel=9)
        case "a second begin on the channel of a session":
            peer.send("begin", RIGHT["begin"])
        case "an attach without an initial-delivery-count":
            peer.send(
                "attach",
                {
                    **RIGHT["attach"],
                    "role": SENDER,
                    "target": codec.composite("target", address="x"),
                },
            )
        case "a delivery without a delivery-id":
            peer.send(
                "transfer",
                {**RIGHT["transfer"], "handle": link.handle, "delivery-id": None},
                payload,
            )
        case "a delivery without a delivery-tag":
            peer.send(
                "transfer",
                {**RIGHT["transfer"], "handle": link.handle, "delivery-tag": None},
                payload,
            )
        case _:
            for _ in range(min(link.credit, MUCH) + 1):
                peer.transfer(link, messages.message(b"more"), settled=True)


@case(CLOSE_WRITTEN, needs={"amqp"})
@over(
    always=lambda target: [{"kind": kind, "by": 3} for kind in DOUBTFUL],
    examples=16,
    kind=st.sampled_from(DOUBTFUL),
    by=st.sampled_from([1, 3, 1000, 2**31 - 1]),
)
def test_what_cannot_be_ends_in_an_error_or_does_no_harm(target: Bench, kind: str, by: int) -> None:
    """Frames name unknown sessions or links, or their counts and ids run ahead, skip, go backwards
    or are missing. The standard leaves the reaction open: the broker ends the link, the session or
    the connection with an error, or continues. It never ends the connection without a close, and
    another connection works throughout."""
    with bystander(target) as other:
        node = target.node()
        peer = target.amqp(acceptor=little_credit(target))
        link, receiver = peer.sender(node), peer.receiver(target.node())
        granted(target, peer, link)
        impossible(peer, link, receiver, kind, by)
        peer.watch_for(TROUBLE, within=QUIET)
        silent = peer.ended is not None and not any(reply.name == "close" for reply in peer.inbox)
        target.record_finding(CLOSE_WRITTEN, not silent, f"{kind}: {peer.instead()}")
        elsewhere = target.node()
        sender, taker = other.sender(elsewhere), other.receiver(elsewhere, credit=1)
        granted(target, other, sender)
        other.publish(sender, b"meanwhile")
        other.disposition(other.delivery(taker, body=b"meanwhile"))


def closed_windows(target: Target) -> st.SearchStrategy[Where]:
    """A broker whose sessions accept no transfers."""
    return st.just(
        Where(target.identity.default_amqp_acceptor, {"acceptor": {"amqp_incoming_window": 0}})
    )


@case(WINDOW_VIOLATION, SESSION_ERROR_ENDS, needs={"amqp", RECONFIGURABLE})
@over(examples=8, where=closed_windows, settled=st.booleans(), parts=st.integers(1, 3))
def test_a_transfer_beyond_the_brokers_window_ends_the_session(
    target: Bench, where: Where, settled: bool, parts: int
) -> None:
    """The broker's begin has an incoming-window of 0, and a client sends a transfer. The session
    ends with window-violation and the message is in no queue; this connection and another still
    work."""
    with bystander(target):
        node = target.node()
        peer = target.amqp()
        session = peer.session
        assert session.answer is not None
        detail = f"the broker's begin: {session.answer.brief()}"
        target.control(session.answer.get("incoming-window") == 0, detail)
        link = ready_sender(target, peer, node)
        for part in range(parts):
            peer.transfer(link, b"", settled=settled or None, more=part < parts - 1 or None)
        answer = peer.watch_for(either(ending("end"), ending("close")))
        observed = reaction(peer, answer)
        fine = answer is not None and answer.name == "end"
        detail = f"after a transfer into a window of 0: {observed}; expected end"
        target.record_finding(SESSION_ERROR_ENDS, fine, detail)
        target.record_finding(
            WINDOW_VIOLATION,
            fine and answer is not None and answer.condition == "amqp:session:window-violation",
            f"after a transfer into a window of 0: {observed}; expected window-violation",
        )
        if fine:
            peer.end(session, answered=False)
            receiver = peer.receiver(node, session=peer.begin(1), credit=1)
            bodies_kept = bodies(collect(target, peer, receiver, 0))
            words = f"the queue has {listed(bodies_kept)} of the messages beyond the window"
            target.record_finding(SESSION_ERROR_ENDS, not bodies_kept, words)
