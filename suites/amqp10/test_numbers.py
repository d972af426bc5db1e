"""Boundary values of every number in the frames and sections that an AMQP 1.0 client sends.

Each value is tried on its own connection, in a whole conversation: open, begin, sender, receiver,
credit, a message each way, outcomes, detach, end. The fields are taken from the codec's table.
"""

from collections.abc import Callable
from typing import Any

import pytest

from brokerproof.harness.protocols.amqp10 import codec, messages
from brokerproof.harness.protocols.amqp10.tables import COMPOSITES
from brokerproof.harness.worlds.bounds import LimitReached
from brokerproof.suites.amqp10.steps import QUIET, bystander, control_whole
from brokerproof.suites.api import PATIENCE, Bench, Match, case
from brokerproof.suites.api.amqp10 import AmqpPeer, Frame, Link, Node, either, ending, frame
from brokerproof.suites.steps.boundaries import (
    RANGES,
    Outcome,
    Replaced,
    around,
    fields,
    over_boundaries,
)

SESSION_ERROR_ENDS = "AMQP10-SESS-03"
OPEN_SENT = "AMQP10-OPEN-01"
CLOSE_WRITTEN = "AMQP10-CLOSE-01"
CREDIT_FORMULA = "AMQP10-CREDIT-03"
WINDOW_FORMULA = "AMQP10-WIN-07"
HANDLE_ABOVE_MAX = "AMQP10-CHMAX-05"
IDLE_TIMEOUT_REFUSED = "AMQP10-IDLE-09"

SENT = (
    "open",
    "begin",
    "attach",
    "flow",
    "transfer",
    "disposition",
    "detach",
    "received",
    "source",
    "target",
    "header",
    "properties",
)
"""The frames and sections with numbers that clients send."""
FIELDS = {
    str(field): field
    for name in SENT
    for field in fields(name, ((part.name, part.type) for part in COMPOSITES[name].fields), RANGES)
}
GIVES_LEAVE = frozenset({"flow.link-credit", "flow.incoming-window"})
"""Numbers that let the broker send; other cases judge them by formulas."""
LEAST_FRAME = 512
"""A client with less breaks AMQP10-MFS-04, and the standard leaves the broker's reaction open."""
MAX_FRAME_SIZE = "open.max-frame-size"
OCCUPYING = frozenset({"disposition.first", "disposition.last", MAX_FRAME_SIZE})
"""Brokers count up to these numbers, or split frames by them, in a thread that also serves other
connections."""
HANDLE = "attach.handle"
IDLE_TIMEOUT = "open.idle-time-out"
SENDER_HANDLE, RECEIVER_HANDLE = 3, 5
CREDIT = 10
BODY = b"a body"
SHORTEST_PAUSE_MS = 10
"""To honour a shorter time-out, a broker would send empty frames as fast as it can."""
LARGEST_MESSAGE = 1000
"""Larger than any message of these conversations, whatever the broker adds."""
SOON_MS = 2**15 - 1
"""A message with this lifetime has not expired if it is consumed immediately."""
FAR_MS = 2**53 - 1
"""A time in the future for any broker's clock."""


class _Answered(Exception):
    """The conversation ended early; ``due`` is the frame that did not arrive."""

    def __init__(self, outcome: Outcome, words: str, due: str = "") -> None:
        super().__init__(words)
        self.outcome = outcome
        self.words = words
        self.due = due


SETTLED = 1
"""The snd-settle-mode of a sender that settles everything it sends."""


def silence_is_right(replaced: Replaced) -> bool:
    """True if the requirement about this number allows that no message arrives."""
    value = replaced.value
    match str(replaced.field):
        case "flow.link-credit" | "flow.incoming-window":
            return value == 0  # AMQP10-CREDIT-09, AMQP10-WIN-02
        case "flow.delivery-count":  # AMQP10-CREDIT-03, with the sender's own at 0
            return not 0 < (value + CREDIT) % 2**32 < 2**31
        case "flow.next-incoming-id" | "flow.handle":
            return True  # an outdated window; credit for the client's own sender
        case "attach.max-message-size":
            return 0 < value < LARGEST_MESSAGE  # AMQP10-LINK-15
        case "header.ttl":
            return value < SOON_MS
        case "properties.absolute-expiry-time":
            return value < FAR_MS
    return False


def converse(target: Bench, replaced: Replaced) -> tuple[Outcome, str, str]:
    """Play the conversation with one number replaced; return the outcome, a description, and the
    answer that was due."""
    node = target.node()  # some brokers need seconds to create it, but wait less for an open
    peer = target.amqp_peer()
    peer.authenticate(target.target.identity.login, target.target.identity.passcode)
    try:
        _play(target, peer, node, replaced)
    except _Answered as end:
        return end.outcome, end.words, end.due
    except LimitReached as flood:
        if str(replaced.field) == IDLE_TIMEOUT and 0 < replaced.value < SHORTEST_PAUSE_MS:
            return Outcome.FLOODED, str(flood), ""
        raise
    finally:
        peer.close_socket()
    return Outcome.WORKED, str(Outcome.WORKED), ""


def _play(target: Bench, peer: AmqpPeer, node: Node, replaced: Replaced) -> None:
    peer.open(answered=False, **replaced.inside("open"))
    _await(peer, frame("open"))
    peer.keeps_alive = True  # closing a silent connection does not refuse the number
    peer.keep_alive()
    session = peer.begin(answered=False, **replaced.inside("begin"))
    _await(peer, frame("begin"))
    sender = _attach(peer, peer.sender, node, replaced, SENDER_HANDLE, codec.SENDER)
    receiver = _attach(peer, peer.receiver, node, replaced, RECEIVER_HANDLE, codec.RECEIVER)
    if not target.wait_until(lambda: sender.credit > 0 or _over(peer), PATIENCE):
        raise _Answered(Outcome.SILENT, "the sender got no credit")
    # A sender of that mode sends only settled deliveries, which get no disposition.
    settled = str(replaced.field) == "attach.snd-settle-mode" and replaced.value == SETTLED
    delivery = peer.transfer(
        sender, _message(replaced), **{"settled": settled or None, **replaced.inside("transfer")}
    )
    answered = settled or target.wait_until(
        lambda: any(_is_about(reply, delivery) for reply in peer.inbox) or _over(peer), PATIENCE
    )
    if _over(peer):
        raise _ended(target, peer)
    if not answered:
        raise _Answered(Outcome.SILENT, f"delivery {delivery} got no disposition")
    outcome = session.outcomes.get(delivery)
    if outcome is not None and outcome.kind("state") != "accepted":
        raise _Answered(Outcome.REFUSED, f"got {outcome.brief()}")
    peer.flow(
        receiver, **replaced.inside("flow", {"incoming-window": CREDIT, "link-credit": CREDIT})
    )
    came = target.wait_until(
        lambda: bool(peer.deliveries) or _over(peer),
        QUIET if silence_is_right(replaced) else PATIENCE,
    )
    if _over(peer):
        raise _ended(target, peer)
    if not came and not silence_is_right(replaced):
        control_whole(target, peer)
        how = "sent settled" if outcome is None else "accepted"
        raise _Answered(Outcome.SILENT, f"the message was {how} but never arrived")
    if came:
        _settle(peer, replaced)
    for link in (sender, receiver):
        peer.detach(link, answered=False, **replaced.inside("detach", {"handle": link.handle}))
    peer.end(session, answered=False)
    _await(peer, frame("end"))


def _attach(
    peer: AmqpPeer,
    attach: Callable[..., Link],
    node: Node,
    replaced: Replaced,
    handle: int,
    role: bool,
) -> Link:
    """Attach a link. If the number is a field of a terminus, set it in the link's own terminus. A
    number that limits deliveries to a receiver is set only on the receiving link."""
    there = {"address": node.address, "capabilities": node.capabilities or None}
    source, to = ({}, there) if role is codec.SENDER else (there, {})
    given: dict[str, Any] = {
        "handle": handle,
        "source": codec.composite("source", replaced.inside("source", source)),
        "target": codec.composite("target", replaced.inside("target", to)),
    }
    if role is codec.RECEIVER or replaced.field.name != "max-message-size":
        given = replaced.inside("attach", given)
    if role is codec.RECEIVER and replaced.field.name == "handle":
        given["handle"] = handle
    link = attach(node, answered=False, **given)
    _await(peer, frame("attach", name=link.name))
    return link


def _message(replaced: Replaced) -> bytes:
    sections = {
        name: replaced.inside(name) for name in ("header", "properties") if replaced.inside(name)
    }
    return messages.message(BODY, **sections)


def _settle(peer: AmqpPeer, replaced: Replaced) -> None:
    """Report how much of the delivery was received, then accept it."""
    delivery = peer.deliveries[0]
    received = codec.composite(
        "received", replaced.inside("received", {"section-number": 0, "section-offset": 0})
    )
    peer.disposition(delivery, received, settled=False)
    right = {"first": delivery.id, "last": delivery.id}
    peer.disposition(delivery, **replaced.inside("disposition", right))


TROUBLE: Match[Frame] = either(ending("detach"), ending("end"), ending("close"))


def _over(peer: AmqpPeer) -> bool:
    return peer.ended is not None or any(map(TROUBLE.accepts, peer.inbox))


def _ended(target: Bench, peer: AmqpPeer) -> _Answered:
    error = peer.take(TROUBLE)
    if error is not None:
        return _Answered(Outcome.REFUSED, f"got {error.brief()}")
    return _Answered(Outcome.CUT, f"expected an error, but {peer.instead()}")


def _await(peer: AmqpPeer, answer: Match[Frame]) -> None:
    """Wait for ``answer`` or for an error."""
    reply = peer.watch_for(either(answer, TROUBLE))
    if reply is None:
        outcome = Outcome.SILENT if peer.ended is None else Outcome.CUT
        raise _Answered(outcome, f"expected {answer}, but {peer.instead()}", str(answer))
    if TROUBLE.accepts(reply):
        raise _Answered(Outcome.REFUSED, f"got {reply.brief()}")


def _is_about(reply: Frame, delivery: int) -> bool:
    if reply.name != "disposition" or not reply.get("role"):
        return False
    first = reply["first"]
    return bool((delivery - first) % 2**32 <= (reply.get("last", first) - first) % 2**32)


def judge(
    target: Bench,
    replaced: Replaced,
    works_or_ends: str = SESSION_ERROR_ENDS,
    ends_with_reason: str = CLOSE_WRITTEN,
) -> Outcome:
    """Play the conversation; judge and return its outcome. Silence breaks ``works_or_ends`` or, if
    no open arrived, the requirement for an open. A connection that ends without an error breaks
    ``ends_with_reason``."""
    with bystander(target):
        outcome, words, due = converse(target, replaced)
        detail = f"{replaced}: {words}"
        silent = outcome is Outcome.SILENT
        unfit = str(replaced.field) == MAX_FRAME_SIZE and replaced.value < LEAST_FRAME
        if outcome is Outcome.FLOODED or (silent and unfit):
            cited = (OPEN_SENT, works_or_ends, ends_with_reason)
            target.record_not_applicable(cited, detail)
            return outcome
        target.record_finding(OPEN_SENT, not silent or due != "open", detail)
        target.record_finding(works_or_ends, not silent or due == "open", detail)
        target.record_finding(ends_with_reason, outcome is not Outcome.CUT, detail)
    return outcome


@case(SESSION_ERROR_ENDS, OPEN_SENT, CLOSE_WRITTEN, needs={"amqp"})
@pytest.mark.parametrize(
    "field", sorted(FIELDS.keys() - {HANDLE, IDLE_TIMEOUT} - GIVES_LEAVE - OCCUPYING)
)
@over_boundaries
def test_a_number_works_or_is_refused(target: Bench, field: str, position: int) -> None:
    """One number of an AMQP 1.0 conversation is replaced by a boundary value. The broker ends the
    link, the session or the connection with an error, or every frame gets its answer and the
    message arrives; another connection still works."""
    judge(target, FIELDS[field].replaced(position))


@case(
    SESSION_ERROR_ENDS,
    OPEN_SENT,
    CLOSE_WRITTEN,
    needs={"amqp"},
    harm="a thread that counts to 2^31 or cuts frames for ever, and no answer to its connections",
)
@pytest.mark.parametrize("field", sorted(OCCUPYING))
@over_boundaries
def test_a_number_that_keeps_a_broker_busy_works_or_is_refused(
    target: Bench, field: str, position: int
) -> None:
    """A disposition's range or the max-frame-size is a boundary value. It works or is refused."""
    judge(target, FIELDS[field].replaced(position))


@case(SESSION_ERROR_ENDS, OPEN_SENT, IDLE_TIMEOUT_REFUSED, needs={"amqp"})
@over_boundaries
def test_an_idle_time_out_works_or_is_refused(target: Bench, position: int) -> None:
    """A client announces a boundary value as its idle-time-out. The broker closes with an error, or
    every frame gets its answer and the message arrives; another connection still works."""
    judge(target, FIELDS[IDLE_TIMEOUT].replaced(position), ends_with_reason=IDLE_TIMEOUT_REFUSED)


@case(CREDIT_FORMULA, OPEN_SENT, CLOSE_WRITTEN, needs={"amqp"})
@over_boundaries
def test_a_link_credit_works_or_is_refused(target: Bench, position: int) -> None:
    """A receiver grants a boundary value as its link-credit. The broker refuses it with an error,
    or the message arrives unless the credit is 0; another connection still works."""
    judge(target, FIELDS["flow.link-credit"].replaced(position), CREDIT_FORMULA)


@case(WINDOW_FORMULA, OPEN_SENT, CLOSE_WRITTEN, needs={"amqp"})
@over_boundaries
def test_an_incoming_window_works_or_is_refused(target: Bench, position: int) -> None:
    """A receiver states a boundary value as its incoming-window. The broker refuses it with an
    error, or the message arrives unless the window is 0; another connection still works."""
    judge(target, FIELDS["flow.incoming-window"].replaced(position), WINDOW_FORMULA)


@case(
    SESSION_ERROR_ENDS,
    HANDLE_ABOVE_MAX,
    OPEN_SENT,
    CLOSE_WRITTEN,
    needs={"amqp"},
    harm="a thread that reads the same frame for ever, and no answer to the connections it serves",
)
def test_a_handle_works_or_is_refused(target: Bench) -> None:
    """A sender is attached with each boundary value as its handle, the smallest first. The broker
    ends the link, the session or the connection with an error, or a message arrives; another
    connection still works. After a harmful handle no larger one is tried. One scenario: how the
    conversation ends decides which requirement it breaks."""
    field, begun = FIELDS[HANDLE], target.amqp().session.answer
    most = field.high if begun is None else begun.get("handle-max", field.high)
    if most == field.high:
        target.record_not_applicable(HANDLE_ABOVE_MAX, "the broker allows every handle")
    for value in sorted(around(field.low, field.high)):
        sentence = SESSION_ERROR_ENDS if value <= most else HANDLE_ABOVE_MAX
        if judge(target, Replaced(field, value), sentence) in (Outcome.SILENT, Outcome.CUT):
            return
