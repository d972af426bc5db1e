"""Frames that cannot be processed: what must come back, what may, and what proves that nobody else
was harmed.

The specifications differ in how much they promise. After a failed SEND or SUBSCRIBE, 1.1 and 1.2
demand an ERROR and the end of the connection (STOMP11-SEND-07, STOMP12-SEND-07, …). For every other
frame ERROR is a MAY; what stays firm is that a frame which was not processed is not confirmed
(STOMP11-RCPT-01, STOMP12-RCPT-01). Where a reset may have swallowed the ERROR (STOMP11-CONNECT-05,
STOMP12-LINGER-02) the bench holds nothing against the broker.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.model.time import ms
from brokerproof.harness.protocols.conversation import PATIENCE, Match
from brokerproof.harness.protocols.stomp.codec import Frame, HeadersLike, header_list
from brokerproof.harness.protocols.stomp.raw_peer import ERROR, StompPeer, frame
from brokerproof.suites.steps.positive_control import beside

Requirements = tuple[str, ...]

QUIET = ms(300)
"""How long something that must not come is waited for, behind an answer that shows that the broker
has gone on."""


def bystander(target: Bench, version: str) -> AbstractContextManager[StompPeer]:
    """The control around a negative case: another connection works before it and still does
    afterwards."""
    return beside(lambda: target.stomp(version))


def offend(peer: StompPeer, command: str, headers: HeadersLike = (), body: bytes = b"") -> str:
    """Send a frame that should fail, with a receipt header; returns the receipt id that must not
    come back."""
    receipt = peer.next_receipt()
    peer.send(command, (*header_list(headers), ("receipt", receipt)), body)
    return receipt


def refused(
    target: Bench,
    peer: StompPeer,
    command: str,
    headers: HeadersLike = (),
    body: bytes = b"",
    *,
    refuses: Requirements,
    answers: Requirements = (),
) -> None:
    """Send a frame that cannot be processed and judge what comes.

    ``refuses`` are the requirements that hold when the frame is not confirmed; ``answers`` those
    that also ask for an ERROR and for the end of the connection. Without ``answers`` silence is
    legal, so a frame that has to be answered follows: what is behind it was handled after it.
    """
    receipt = offend(peer, command, headers, body)
    confirmed = frame("RECEIPT", {"receipt-id": receipt})
    if answers:
        _answered(target, peer, command, receipt, refuses, answers)
        return
    probe = peer.next_receipt()
    peer.send("BEGIN", {"transaction": f"probe-{probe}", "receipt": probe})
    went_on = frame("RECEIPT", {"receipt-id": probe})
    came = peer.watch_for(either(confirmed, ERROR, went_on))
    if came is not None and went_on.accepts(came):
        target.wait_until(
            lambda: peer.ended is not None or any(map(confirmed.accepts, peer.inbox)), QUIET
        )
        came = peer.take(confirmed) or came
    if came is None and peer.ended is None:
        target.record_finding(
            refuses,
            False,
            f"after a {command} that should fail nothing came, nor for the BEGIN behind it",
        )
        return
    target.record_finding(
        refuses, came is None or not confirmed.accepts(came), _what(peer, command, came, receipt)
    )


def _answered(
    target: Bench,
    peer: StompPeer,
    command: str,
    receipt: str,
    refuses: Requirements,
    answers: Requirements,
) -> None:
    confirmed = frame("RECEIPT", {"receipt-id": receipt})
    came = peer.watch_for(either(confirmed, ERROR))
    what = _what(peer, command, came, receipt)
    if came is None and peer.ended is None:
        target.record_finding((*refuses, *answers), False, what)
        return
    target.record_finding(refuses, came is None or not confirmed.accepts(came), what)
    if came is not None and came.command == "ERROR":
        closed = target.wait_until(lambda: peer.ended is not None, PATIENCE)
        target.record_finding(
            answers,
            closed,
            f"{what}, {'and closed' if closed else 'but did not close within 10 s'}",
        )
    else:
        target.record_finding(answers, False, what)


def either(*matches: Match[Frame]) -> Match[Frame]:
    """Matches what any of ``matches`` does."""
    return Match(
        " or ".join(map(str, matches)),
        lambda candidate: any(each.accepts(candidate) for each in matches),
    )


def _what(peer: StompPeer, command: str, came: Frame | None, receipt: str) -> str:
    if came is not None and came.get("receipt-id") == receipt and came.command == "RECEIPT":
        return f"the broker confirmed the {command} that should fail: {came.brief()}"
    if came is not None and came.command == "ERROR":
        return f"the broker refused the {command} with {came.brief()}"
    if came is not None:
        return f"the broker did not confirm the {command} and went on"
    if peer.ended is not None:
        return (
            f"the broker ended the connection ({peer.ended.how}) without an ERROR for the {command}"
        )
    return f"the {command} that should fail was neither refused nor confirmed within 10 s"
