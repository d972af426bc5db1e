"""Steps that AMQP cases share: fill a queue, take what comes, judge a trace by oracles, and judge
how something ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.model.finding import Finding, combine
from brokerproof.harness.model.time import Duration, ms
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.harness.protocols.amqp10.codec import Frame
from brokerproof.harness.protocols.amqp10.endpoint_state import Delivery, Link
from brokerproof.harness.protocols.amqp10.raw_peer import AmqpPeer, Node, either, ending, frame
from brokerproof.harness.protocols.amqp10.trace_recorder import UNREADABLE
from brokerproof.harness.protocols.conversation import PATIENCE, Match
from brokerproof.harness.trace.events import Event
from brokerproof.suites.steps.positive_control import beside

Oracle = Callable[[Sequence[Event], int], list[Finding]]
Requirements = tuple[str, ...]

QUIET: Duration = ms(300)
"""How long a surplus frame is waited for, behind the last one that should come."""

LARGEST = 2**32 - 1
"""The max-frame-size of a peer that names none."""

UNREAD = Match[Frame]("octets that are no frame", lambda reply: reply.name == UNREADABLE)


def bystander(target: Bench) -> AbstractContextManager[AmqpPeer]:
    """The control around a negative case: another connection works before it and still does
    afterwards."""
    return beside(target.amqp)


def granted(target: Bench, peer: AmqpPeer, link: Link, credit: int = 1) -> None:
    """Wait until we may send ``credit`` messages. That the broker gives so much is a control."""
    target.wait_until(lambda: link.credit >= credit or peer.ended is not None, PATIENCE)
    target.control(
        link.credit >= credit,
        f"the broker gave {link.credit} credit of {credit} wanted; {peer.instead()}",
    )


def fill(target: Bench, node: Node, bodies: Sequence[bytes]) -> AmqpPeer:
    """Messages with these bodies, accepted, in this order, from a connection of their own. That it
    works is a control."""
    peer = target.amqp()
    link = peer.sender(node)
    waiting = []
    for body in bodies:
        granted(target, peer, link)
        waiting.append(peer.post(link, body))
    for delivery_id in waiting:
        peer.confirmed(link.session, delivery_id)
    return peer


def numbered(count: int, size: int = 0) -> list[bytes]:
    """``count`` bodies that tell their number, of at least ``size`` octets."""
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
    """The next ``count`` deliveries of a link, fewer when they do not come, and what comes
    ``quiet`` longer besides."""

    def arrived() -> int:
        return sum(delivery.link is link for delivery in peer.deliveries)

    def enough() -> bool:
        return peer.ended is not None or arrived() >= count or any(map(peer.fatal, peer.inbox))

    target.wait_until(enough, within)
    if quiet:
        target.wait_until(lambda: peer.ended is not None or arrived() > count, quiet)
    return peer.take_deliveries(link)


def bodies(deliveries: Sequence[Delivery]) -> list[bytes]:
    """What they carry, in order."""
    return [delivery.message.body for delivery in deliveries]


def judge_trace(target: Bench, peer: AmqpPeer, *oracles: Oracle) -> None:
    """Judge the trace of ``peer`` so far. What an oracle says of requirements that the case does
    not cite is left out."""
    for oracle in oracles:
        for finding in combine(oracle(target.events, peer.conn)):
            if finding.requirement in target.cited and finding.seen is not Seen.NEVER_REACHED:
                target.record_finding(
                    finding.requirement, finding.seen is Seen.HELD, finding.detail
                )


def objection(peer: AmqpPeer, within: Duration = QUIET) -> Frame | None:
    """The error by which the broker ends a link, the session or the connection; None when none
    comes ``within`` that time."""
    return peer.watch_for(either(ending("detach"), ending("end"), ending("close")), within=within)


def give_cause_to_close(peer: AmqpPeer) -> None:
    """The header of a frame that nobody has to take: larger than the broker's open allows, or
    smaller than itself where it allows any. Brokers answer it with a close that carries an
    error."""
    assert peer.opened is not None
    most = peer.opened.get("max-frame-size", LARGEST)
    peer.write(codec.encode_frame(b"", size=4 if most == LARGEST else most + 1))


def connection_refused(
    target: Bench,
    peer: AmqpPeer,
    requirements: Requirements,
    why: str,
    conditions: Sequence[str] = (),
    *,
    session_will_do: bool = False,
) -> Frame | None:
    """The broker should give the connection up, or if that will do a session: with an error (one of
    ``conditions``)."""
    answer = peer.watch_for(
        either(frame("close"), *([ending("end")] if session_will_do else []), UNREAD)
    )
    if answer is None or answer.name == UNREADABLE:
        target.record_finding(requirements, False, f"after {why} no close came, {peer.instead()}")
        return None
    fine = answer.condition is not None and (not conditions or answer.condition in conditions)
    expected = " or ".join(conditions) or "an error"
    target.record_finding(
        requirements,
        fine,
        f"{why} was answered with {answer.name} ({answer.condition}), should be {expected}",
    )
    if answer.name == "close" and peer.ended is None:
        peer.send("close")
    return answer


def session_refused(
    target: Bench, peer: AmqpPeer, requirements: Requirements, why: str, conditions: Sequence[str]
) -> Frame | None:
    """The broker should end the session with one of ``conditions``; the connection has to stay."""
    answer = peer.watch_for(either(frame("end"), frame("close")))
    what = peer.instead() if answer is None else f"{answer.name} ({answer.condition})"
    fine = answer is not None and answer.name == "end" and answer.condition in conditions
    target.record_finding(
        requirements,
        fine,
        f"{why} was answered with {what}, should be end ({' or '.join(conditions)})",
    )
    return answer


def refused(
    target: Bench,
    peer: AmqpPeer,
    link: Link,
    delivery: int | None,
    requirements: Requirements,
    why: str,
) -> Frame | None:
    """The broker should say that something is wrong, at whatever scope: end the link, the session
    or the connection with an error, or reject ``delivery``."""

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
    observed = peer.instead() if answer is None else answer.brief()
    fine = answer is not None and answer.name != UNREADABLE and trouble.accepts(answer)
    target.record_finding(
        requirements, fine, f"{why} was answered with {observed}, should be an error"
    )
    return answer


def judge_flawless(target: Bench, requirement: str, frames: Sequence[Frame]) -> None:
    """Every frame has its mandatory fields, and every field its type."""
    wrong = sorted({flaw for received in frames for flaw in codec.flaws(received)})
    kinds = ", ".join(sorted({received.name for received in frames}))
    target.record_finding(
        requirement,
        not wrong,
        f"{len(frames)} frames ({kinds}): {'; '.join(wrong) or 'without a flaw'}",
    )
