"""Frames that cannot be processed: required and allowed answers, and no harm to others.

The requirements differ. After a failed SEND or SUBSCRIBE, 1.1 and 1.2 demand an ERROR and a close
(STOMP11-SEND-07, STOMP12-SEND-07, …). For every other frame an ERROR is a MAY, but a frame that was
not processed must not be confirmed (STOMP11-RCPT-01, STOMP12-RCPT-01). If a reset may have
discarded the ERROR (STOMP11-CONNECT-05, STOMP12-LINGER-02), the bench reports no violation.
"""

from contextlib import AbstractContextManager

from brokerproof.harness.protocols.stomp.codec import header_list
from brokerproof.suites.api import PATIENCE, Bench, Requirements, either, ms
from brokerproof.suites.api.stomp import ERROR, Frame, HeadersLike, StompPeer, frame
from brokerproof.suites.steps.positive_control import beside

QUIET = ms(300)
"""Wait this long for a forbidden answer, once the broker has answered later frames."""


def bystander(target: Bench, version: str) -> AbstractContextManager[StompPeer]:
    """Control for a negative case: another connection works before and after it."""
    return beside(lambda: target.stomp(version))


def offend(peer: StompPeer, command: str, headers: HeadersLike = (), body: bytes = b"") -> str:
    """Send a frame that should fail. Return its receipt id, which must not be confirmed."""
    receipt = peer.next_receipt()
    peer.send(command, (*header_list(headers), ("receipt", receipt)), body)
    return receipt


def refusal(peer: StompPeer, receipt: str) -> str | None:
    """Return the answer to a frame with this receipt; None if it is the RECEIPT."""
    answer = peer.watch_for(either(frame("RECEIPT", {"receipt-id": receipt}), ERROR))
    if answer is None:
        return peer.instead()
    return answer.brief() if answer.command == "ERROR" else None


def refused(
    target: Bench,
    peer: StompPeer,
    command: str,
    headers: HeadersLike = (),
    body: bytes = b"",
    *,
    refuses: Requirements,
    answers: Requirements = (),
    behaviour: str = "",
) -> bool:
    """Send a frame that cannot be processed and judge the answer. Return True if the broker
    confirmed it. ``behaviour`` is the behaviour under which the reaction is recorded.

    ``refuses`` are the requirements that hold if the frame is not confirmed. ``answers`` require an
    ERROR and a close after a frame that the broker cannot process, so they require nothing of a
    broker that processed it. Without ``answers`` silence is legal, so a frame that must be answered
    follows: its answer shows that the broker has handled the first.
    """
    receipt = offend(peer, command, headers, body)
    confirmed = frame("RECEIPT", {"receipt-id": receipt})
    if answers:
        processed = _answered(target, peer, command, receipt, refuses, answers)
        if behaviour and (processed or peer.ended is not None):
            target.record_behaviour(behaviour, "confirms" if processed else "refuses")
        return processed
    probe = peer.next_receipt()
    peer.send("BEGIN", {"transaction": f"{peer.transaction}-{probe}", "receipt": probe})
    probe_confirmed = frame("RECEIPT", {"receipt-id": probe})
    answer = peer.watch_for(either(confirmed, ERROR, probe_confirmed))
    if answer is not None and probe_confirmed.accepts(answer):
        target.wait_until(
            lambda: peer.ended is not None or any(map(confirmed.accepts, peer.inbox)), QUIET
        )
        answer = peer.take(confirmed) or answer
    if answer is None and peer.ended is None:
        target.record_finding(
            refuses,
            False,
            f"neither the {command}, which should fail, nor the BEGIN after it was answered",
        )
        return False
    target.record_finding(
        refuses,
        answer is None or not confirmed.accepts(answer),
        _describe(peer, command, answer, receipt),
    )
    processed = answer is not None and confirmed.accepts(answer)
    if behaviour:
        ignored = answer is not None and probe_confirmed.accepts(answer)
        reaction = "confirms" if processed else "ignores" if ignored else "refuses"
        target.record_behaviour(behaviour, reaction)
    return processed


def _answered(
    target: Bench,
    peer: StompPeer,
    command: str,
    receipt: str,
    refuses: Requirements,
    answers: Requirements,
) -> bool:
    confirmed = frame("RECEIPT", {"receipt-id": receipt})
    answer = peer.watch_for(either(confirmed, ERROR))
    detail = _describe(peer, command, answer, receipt)
    if answer is None and peer.ended is None:
        target.record_finding((*_ids(refuses), *_ids(answers)), False, detail)
        return False
    target.record_finding(refuses, answer is None or not confirmed.accepts(answer), detail)
    if answer is not None and confirmed.accepts(answer):
        target.record_not_applicable(
            answers,
            f"no ERROR is due for the {command}, which the broker processed: {answer.brief()}",
        )
        return True
    if answer is None or answer.command != "ERROR":
        target.record_finding(answers, False, detail)
        return False
    closed = target.wait_until(lambda: peer.ended is not None, PATIENCE)
    kept = "closed the connection" if closed else "did not close the connection within 10 s"
    words = f"{detail}, {'and' if closed else 'but'} {kept}"
    target.record_finding(answers, closed, words)
    return False


def _ids(requirements: Requirements) -> tuple[str, ...]:
    return (requirements,) if isinstance(requirements, str) else requirements


def error_from(peer: StompPeer) -> Frame | None:
    """Return the ERROR that answers the last frame. None if the broker ends the connection without
    an ERROR, answers a later frame, or stops answering."""
    error = peer.watch_for(ERROR, within=QUIET)
    if error is not None or peer.ended is not None:
        return error
    # A busy broker takes longer, but answers frames in order.
    probe = peer.next_receipt()
    peer.send("BEGIN", {"transaction": f"{peer.transaction}-{probe}", "receipt": probe})
    answer = peer.watch_for(either(ERROR, frame("RECEIPT", {"receipt-id": probe})))
    return answer if answer is not None and ERROR.accepts(answer) else None


def is_too_large(target: Bench, version: str, size: int) -> bool:
    """True if a plain body of ``size`` bytes is refused: a server MAY limit the size of bodies."""
    peer, to = target.stomp(version), target.destination()
    peer.send("SEND", (("destination", to.name), *to.send_headers), b"b" * size)
    return error_from(peer) is not None


def _describe(peer: StompPeer, command: str, answer: Frame | None, receipt: str) -> str:
    if answer is not None and answer.get("receipt-id") == receipt and answer.command == "RECEIPT":
        return f"expected the {command} to be refused, but got {answer.brief()}"
    if answer is not None and answer.command == "ERROR":
        return f"the broker refused the {command} with {answer.brief()}"
    if answer is not None:
        return f"the broker did not confirm the {command} and went on"
    if peer.ended is not None:
        return (
            f"the broker ended the connection ({peer.ended.how}) without an ERROR for the {command}"
        )
    return f"the {command} that should fail was neither refused nor confirmed within 10 s"
