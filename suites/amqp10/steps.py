"""Steps shared by AMQP 1.0 cases: fill a queue, collect deliveries, judge traces and closes."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar, cast
from zlib import crc32

from hypothesis import strategies as st

from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.harness.protocols.amqp10.habits import Habits
from brokerproof.harness.protocols.amqp10.trace_recorder import UNREADABLE
from brokerproof.harness.protocols.amqp10.types import Malformed
from brokerproof.suites.api import (
    PATIENCE,
    RECONFIGURABLE,
    Bench,
    Duration,
    Match,
    Target,
    Where,
    ms,
    over,
)
from brokerproof.suites.api.amqp10 import (
    RECEIVER,
    AmqpPeer,
    Delivery,
    Frame,
    Link,
    Node,
    either,
    ending,
    frame,
)
from brokerproof.suites.steps.positive_control import beside

Requirements = tuple[str, ...]

QUIET: Duration = ms(300)
"""Wait this long for a surplus frame after the last expected one."""

LARGEST = 2**32 - 1
"""The max-frame-size of a peer that states none."""

Function = TypeVar("Function", bound=Callable[..., Any])


def over_habits(
    *, always: Callable[[Target], Iterable[Mapping[str, Any]]] = lambda target: [], **options: Any
) -> Callable[[Function], Function]:
    """Make a property of a case, like :func:`over`, whose raw AMQP peers have habits in half of the
    drawn examples. The habits follow from the example, so that it is drawn as without them."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def accustomed(target: Bench, **drawn: Any) -> None:
            if drawn not in list(always(target.target)):
                target.habits = _habits(crc32(repr(sorted(drawn.items())).encode()))
            function(target, **drawn)

        return cast("Function", over(always=always, **options)(accustomed))

    return decorate


def _habits(number: int) -> Habits | None:
    def pick(*options: Any) -> Any:
        nonlocal number
        number, at = divmod(number, len(options))
        return options[at]

    if pick(True, False):
        return None
    stated = {"durable": pick(True, False), "priority": pick(*range(10))}
    stated["ttl"] = pick(600_000, LARGEST)
    return Habits(
        header={name: value for name, value in stated.items() if pick(True, True, False)},
        sends=pick(None, 0, 2),
        receives=pick(None, 0, 2),
        first_handle=pick(0, 1, 255, 256),
        first_count=pick(0, 1, 2**31 - 2, LARGEST - 1),
        pieces=pick(1, 2, 3),
    )


UNREAD = Match[Frame]("bytes that are not a frame", lambda reply: reply.name == UNREADABLE)


def bystander(target: Bench) -> AbstractContextManager[AmqpPeer]:
    """Control for a negative case: another connection works before and after the error."""
    return beside(target.amqp)


def granted(target: Bench, peer: AmqpPeer, link: Link, credit: int = 1) -> None:
    """Wait until ``credit`` messages may be sent. Control: the broker grants some credit."""
    target.wait_until(lambda: link.credit >= credit or peer.ended is not None, PATIENCE)
    if link.credit < credit:
        detail = f"the broker gave {link.credit} credit of the {credit} needed; {peer.instead()}"
        target.control(False, detail, optional=link.credit > 0)


def ready_sender(
    target: Bench, peer: AmqpPeer, node: Node | None, credit: int = 1, **options: Any
) -> Link:
    """Attach a sender and wait until it may send ``credit`` messages. ``options`` are those of
    :meth:`AmqpPeer.sender`."""
    link = peer.sender(node, **options)
    granted(target, peer, link, credit)
    return link


def fill(target: Bench, node: Node, bodies: Sequence[bytes], **sections: Any) -> AmqpPeer:
    """Send messages with these bodies in order over a separate connection; return its peer.
    Control: each message is accepted."""
    peer = target.amqp()
    link = peer.sender(node)
    most = (link.answer and link.answer.get("max-message-size")) or 2**64
    fits = all(len(body) + 500 <= most for body in bodies)
    target.control(fits, f"the broker takes messages of {most} bytes", optional=True)
    waiting = []
    for body in bodies:
        granted(target, peer, link)
        waiting.append(peer.post(link, body, sections=sections))
    for delivery_id in waiting:
        peer.confirmed(link.session, delivery_id)
    return peer


def numbered(count: int, size: int = 0) -> list[bytes]:
    return [b"%d." % number + bytes(max(0, size - len(b"%d." % number))) for number in range(count)]


def collect(
    target: Bench,
    peer: AmqpPeer,
    link: Link,
    count: int,
    *,
    quiet: Duration = QUIET,
    within: Duration = PATIENCE,
) -> list[Delivery]:
    """Return the next ``count`` deliveries of a link (fewer if they are late), and any that arrive
    within ``quiet`` after them."""

    def arrived() -> int:
        return sum(delivery.link is link for delivery in peer.deliveries)

    failed = peer.arrival(peer.fatal)
    target.wait_until(lambda: peer.ended is not None or arrived() >= count or failed(), within)
    if quiet:
        target.wait_until(lambda: peer.ended is not None or arrived() > count, quiet)
    return peer.take_deliveries(link)


def control_whole(target: Bench, peer: AmqpPeer, got: Sequence[Delivery] = ()) -> None:
    """Control: every delivery arrived in one transfer. Windows count transfers, and a broker may
    split a message into any number of them (2.6.14)."""
    in_parts = any(len(delivery.frames) > 1 for delivery in got) or any(
        reply.name == "transfer" and reply.get("more") for reply in peer.inbox
    )
    words = "a short message should arrive in one transfer, as windows count transfers"
    target.control(not in_parts, words, optional=True)


def bodies(deliveries: Sequence[Delivery]) -> list[bytes]:
    """Return the bodies of deliveries in order; a delivery that is not a message is returned
    whole."""
    return [_body(delivery) for delivery in deliveries]


def _body(delivery: Delivery) -> bytes:
    try:
        body: bytes = delivery.message.body
    except Malformed:
        return bytes(delivery.payload)
    return body


def objection(peer: AmqpPeer, within: Duration = QUIET) -> Frame | None:
    """Return the error with which the broker ends a link, the session or the connection; None if it
    ends nothing ``within`` this time."""
    return peer.watch_for(either(ending("detach"), ending("end"), ending("close")), within=within)


def lasting_objection(peer: AmqpPeer) -> Frame | None:
    """Return the error as :func:`objection` does, but wait until the broker has answered a begin,
    because a session that crashed may end the connection later."""
    error = objection(peer)
    return error if error is not None or peer.ended is not None else barrier(peer)


def barrier(peer: AmqpPeer) -> Frame | None:
    """Begin and end a session, as :meth:`AmqpPeer.settle` does. Return the error with which the
    broker ends anything else in the meantime, or None."""
    channel = peer.endpoint.spare_channel()
    if channel is None:
        peer.settle()
        return objection(peer)
    session = peer.begin(channel, answered=False)
    errors = (ending("detach"), ending("end"), ending("close"))
    error = peer.watch_for(either(frame("begin", remote_channel=channel), *errors))
    if error is None or error.name != "begin":
        return error
    peer.end(session, answered=False)
    error = peer.watch_for(either(frame("end", channel=session.theirs), *errors))
    del peer.sessions[channel]
    return None if error is None or error.condition is None else error


def unbroken(
    target: Bench, peer: AmqpPeer, done: Callable[[], bool], sentence: str, stimulus: str
) -> None:
    """Wait until ``done``. A connection that ends earlier without a close, after valid frames,
    breaks requirement ``sentence``."""
    target.wait_until(
        lambda: done() or peer.ended is not None or any(map(peer.fatal, peer.inbox)), PATIENCE
    )
    cut = peer.ended is not None and not any(frame.name == "close" for frame in peer.inbox)
    target.require(sentence, not cut, f"{stimulus}: {peer.instead()}")


def give_cause_to_close(peer: AmqpPeer) -> None:
    """Send the header of an invalid frame: larger than the broker's open allows or, if it allows
    any size, smaller than the frame header. Brokers close with an error."""
    assert peer.opened is not None
    most = peer.endpoint.max_frame_size
    peer.write(codec.encode_frame(b"", size=4 if most == LARGEST else most + 1))


def connection_refused(
    target: Bench,
    peer: AmqpPeer,
    requirements: Requirements,
    why: str,
    conditions: Sequence[str] = (),
    *,
    session_will_do: bool = False,
    closes: Requirements = (),
) -> Frame | None:
    """The broker should close the connection with an error (one of ``conditions``). If
    ``session_will_do``, ending the session is enough.

    ``closes`` is the requirement to send a close before the connection ends. If it is given,
    ``requirements`` concern only the refusal: a connection that ends without a close breaks only
    ``closes``.
    """
    answer = peer.watch_for(
        either(frame("close"), *([ending("end")] if session_will_do else []), UNREAD)
    )
    if answer is None or answer.name == UNREADABLE:
        detail = f"after {why.removesuffix(',')}, no close arrived: {peer.instead()}"
        target.record_finding(requirements, bool(closes) and peer.ended is not None, detail)
        if closes and peer.ended is None:
            target.record_not_applicable(closes, f"the connection did not end: {detail}")
        elif closes:
            target.record_finding(closes, False, detail)
        return None
    fine = answer.condition is not None and (not conditions or answer.condition in conditions)
    expected = " or ".join(conditions) or "an error"
    given = answer.condition or "no error"
    detail = f"{why} was answered with {answer.name} ({given}); expected {expected}"
    target.record_finding(requirements, fine or bool(closes), detail)
    if closes and answer.name == "close":
        target.record_finding(closes, fine, detail)
    elif closes:
        target.record_not_applicable(closes, f"the connection did not end: {detail}")
    if answer.name == "close" and peer.ended is None:
        peer.send("close")
    return answer


def reaction(peer: AmqpPeer, answer: Frame | None) -> str:
    """Return ``answer``, or what arrived without one, as words of a sentence."""
    return peer.instead() if answer is None else f"got {answer.brief()}"


def session_refused(
    target: Bench, peer: AmqpPeer, ends: str, error: str, why: str, condition: str
) -> Frame | None:
    """The broker should end the session with an error (``ends``). The error's condition should be
    ``condition`` (``error``). The connection must stay open."""
    answer = peer.watch_for(either(frame("end"), frame("close")))
    what = peer.instead()
    if answer is not None:
        what = f"got {answer.name} ({answer.condition or 'no error'})"
    given = answer.condition if answer is not None and answer.name == "end" else None
    detail = f"after {why}: {what}; expected end ({condition})"
    target.record_finding(ends, given is not None, detail)
    target.record_finding(error, given == condition, detail)
    return answer


def refused(
    target: Bench,
    peer: AmqpPeer,
    link: Link,
    delivery: int | None,
    requirements: Requirements,
    why: str,
) -> Frame | None:
    """The broker should report an error at any level: end the link, the session or the connection
    with an error, or reject ``delivery``."""

    def rejects(reply: Frame) -> bool:
        if delivery is None or not peer.settled(link.session, delivery).accepts(reply):
            return False
        return reply.kind("state") == "rejected"

    trouble = either(
        ending("detach"), ending("end"), ending("close"), Match("a rejection", rejects), UNREAD
    )
    taken = Match[Frame](
        "a disposition",
        lambda reply: delivery is not None and peer.settled(link.session, delivery).accepts(reply),
    )
    answer = peer.watch_for(either(trouble, taken))
    observed = reaction(peer, answer)
    fine = answer is not None and answer.name != UNREADABLE and trouble.accepts(answer)
    target.record_finding(requirements, fine, f"after {why}: {observed}; expected an error")
    return answer


def judge_flawless(target: Bench, requirement: str, frames: Sequence[Frame]) -> None:
    """Judge whether every frame has its mandatory fields and that every field has the right
    type."""
    wrong = sorted({flaw for received in frames for flaw in codec.flaws(received)})
    kinds = ", ".join(sorted({received.name for received in frames}))
    words = f"faults in {len(frames)} frames ({kinds}): {'; '.join(wrong) or 'none'}"
    target.record_finding(requirement, not wrong, words)


def received(target: Bench, node: Node, count: int) -> tuple[AmqpPeer, Link, list[Delivery]]:
    """Return a receiver with ``count`` unsettled messages and no credit. Control: all arrive."""
    peer = target.amqp()
    link = peer.receiver(node, credit=count)
    got = collect(target, peer, link, count, quiet=0)
    target.control(len(got) == count, f"{len(got)} of {count} messages arrived; {peer.instead()}")
    return peer, link, got


def again(
    target: Bench, peer: AmqpPeer, link: Link, node: Node, count: int, elsewhere: bool = False
) -> tuple[AmqpPeer, Link, list[Delivery]]:
    """Grant ample credit and return the next deliveries, on the same link or another connection."""
    peer.settle()
    former = peer
    if elsewhere:
        peer = target.amqp()
        link = peer.receiver(node)
    peer.flow(link, link_credit=count + 10)
    got = collect(target, peer, link, count)
    peer.flow(link, link_credit=0)
    if elsewhere:
        beyond = len(former.take_deliveries())
        target.control(not beyond, f"{beyond} messages arrived on a link without credit")
    return peer, link, got


def returns_by_default(link: Link) -> bool:
    """True if the default-outcome in the broker's attach returns messages that the link still holds
    when it closes: other links can then receive them."""
    default = link.default_outcome
    back = codec.name_of(default) in ("released", "modified")
    return back and not codec.fields_of(default).get("undeliverable-here")


def is_over(peer: AmqpPeer) -> bool:
    """True if the broker has ended the connection, a session or a link."""
    return peer.ended is not None or any(map(peer.fatal, peer.inbox))


def settled_by_broker(link: Link, delivery: Delivery) -> Match[codec.Frame]:
    def accepts(reply: codec.Frame) -> bool:
        if (
            reply.name != "disposition"
            or reply.channel != link.session.theirs
            or reply.get("role") is RECEIVER
        ):
            return False
        span = (reply.get("last", reply["first"]) - reply["first"]) % 2**32
        return (delivery.id - reply["first"]) % 2**32 <= span and bool(reply.get("settled", False))

    return Match(f"disposition by which the broker settles delivery {delivery.id}", accepts)


def last_flow(peer: AmqpPeer, link: Link) -> codec.Frame | None:
    """Drain, so that the oracles see one more flow of the broker: the answer. A missing answer is
    not judged here."""
    return peer.watch_for(frame("flow", link=link), within=QUIET * 10)


def own_windows(target: Target) -> st.SearchStrategy[Where]:
    """A broker whose sessions accept few transfers at a time, if this can be configured."""
    acceptor = target.identity.default_amqp_acceptor
    if RECONFIGURABLE not in target.identity.capabilities:
        return st.just(Where(acceptor))
    return st.integers(1, 6).map(
        lambda window: Where(acceptor, {"acceptor": {"amqp_incoming_window": window}})
    )


def little_credit(target: Bench) -> str | None:
    """Return an acceptor that grants little credit at a time, if there is one."""
    name = "amqp-credits-10"
    return name if name in target.target.acceptors(target.overrides) else None
