"""A full queue with reject-publish answers publishers of every protocol.

(RabbitMQ: maxlength, reject-publish.) Over AMQP 0-9-1 the answer is basic.nack, for publishers in
confirm mode (``test_overflow.py``). In STOMP it is an ERROR instead of a RECEIPT, and in AMQP 1.0
the rejected outcome.
"""

from functools import partial

from hypothesis import strategies as st

from brokerproof.suites.amqp091.steps import ARGUMENTS, CONFIRMS, QUIET, bodies, drained, eventually
from brokerproof.suites.amqp10.steps import granted
from brokerproof.suites.api import PATIENCE, Bench, Target, case, listed, over, shown
from brokerproof.suites.api.amqp091 import Amqp091Peer
from brokerproof.suites.api.amqp10 import AmqpPeer, Link, Node
from brokerproof.suites.api.stomp import ERROR, Destination, frame

REJECT_PUBLISH = "RABBITMQ-AMQP091-LEN-02"
QUEUE_LENGTH_LIMIT = "RABBITMQ-AMQP091-LEN-01"
AMQP_SENDER_LEARNS = "RABBITMQ-AMQP091-READING-LEN-01"
CLOSE_WRITTEN = "AMQP10-CLOSE-01"
STOMP_RECEIPT = "STOMP12-RCPT-01"
STOMP_SEND_ERROR = "STOMP12-SEND-07"

LIMIT = 3


def both(target: Target) -> list[dict[str, str]]:
    return [{"overflow": overflow} for overflow in ("drop-head", "reject-publish")]


def full_queue(target: Bench, overflow: str) -> tuple[Amqp091Peer, str]:
    """Declare a queue that holds at most three messages; return its owner and its name."""
    owner = target.amqp091()
    name = target.fresh_name()
    owner.declare(name, arguments={"x-max-length": LIMIT, "x-overflow": overflow})
    return owner, name


def kept(owner: Amqp091Peer, queue: str) -> list[bytes]:
    """Wait until the queue is full; then return its messages and delete it."""
    eventually(owner, lambda: owner.count(queue) == LIMIT)
    received = bodies(drained(owner, queue))
    owner.call("queue.delete", {"queue": queue})
    return received


@case(
    REJECT_PUBLISH,
    QUEUE_LENGTH_LIMIT,
    STOMP_RECEIPT,
    STOMP_SEND_ERROR,
    needs={"amqp091", ARGUMENTS, CONFIRMS},
)
@over(examples=1, always=both, overflow=st.just("reject-publish"))
def test_a_stomp_client_learns_that_its_message_was_refused(target: Bench, overflow: str) -> None:
    """Five messages with receipts go to a queue of at most 3 over STOMP. With reject-publish the
    first three are confirmed and kept, and the fourth is answered with ERROR and never with
    RECEIPT. With drop-head all are confirmed and the last three are kept.

    One scenario: the answer to the fourth SEND involves four requirements.
    """
    owner, queue = full_queue(target, overflow)
    peer = target.stomp()
    to = Destination(f"/amq/queue/{queue}")
    for at in range(LIMIT):
        peer.publish(to, b"%d" % at, proves=REJECT_PUBLISH)
    if overflow == "drop-head":
        for at in (3, 4):
            peer.publish(to, b"%d" % at, proves=QUEUE_LENGTH_LIMIT)
        received = kept(owner, queue)
        detail = f"with overflow {overflow}, {listed(received)} were kept; expected the last three"
        target.record_finding(QUEUE_LENGTH_LIMIT, received == [b"2", b"3", b"4"], detail)
        return
    receipt = peer.next_receipt()
    peer.publish(to, b"3", {"receipt": receipt}, receipt=False)
    error = peer.watch_for(ERROR)
    confirmed = peer.take(frame("RECEIPT", {"receipt-id": receipt})) is not None
    words = f"the queue refused the fourth message; {'a' if confirmed else 'no'} RECEIPT arrived"
    target.record_finding(STOMP_RECEIPT, not confirmed, words)
    observed = "an ERROR" if error is not None else peer.instead()
    if confirmed or error is not None or peer.ended is not None:
        answer = "confirms" if confirmed else "refuses"
        target.record_behaviour("stomp.send-to-full-queue", answer)
    detail = f"expected ERROR for the refused fourth message, but {observed}"
    target.record_finding(STOMP_SEND_ERROR, error is not None, detail)
    received = kept(owner, queue)
    detail = f"with overflow {overflow}, {listed(received)} were kept; expected the first three"
    target.record_finding(REJECT_PUBLISH, received == [b"0", b"1", b"2"], detail)


def _has_outcome(peer: AmqpPeer, link: Link, delivery: int) -> bool:
    return bool(link.session.outcomes.get(delivery)) or peer.ended is not None


def _sent(target: Bench, peer: AmqpPeer, link: Link, count: int) -> list[str]:
    """Send messages one by one; return their outcomes."""
    outcomes = []
    for at in range(count):
        granted(target, peer, link)
        delivery = peer.post(link, b"%d" % at)
        target.wait_until(partial(_has_outcome, peer, link, delivery), PATIENCE)
        outcome = link.session.outcomes.get(delivery)
        outcomes.append(peer.instead() if outcome is None else str(outcome.kind("state")))
        if outcome is None:
            break
    return outcomes


@case(
    REJECT_PUBLISH,
    AMQP_SENDER_LEARNS,
    QUEUE_LENGTH_LIMIT,
    CLOSE_WRITTEN,
    needs={"amqp091", ARGUMENTS, CONFIRMS, "amqp"},
)
@over(examples=1, always=both, overflow=st.just("reject-publish"))
def test_an_amqp_client_learns_that_its_message_was_refused(target: Bench, overflow: str) -> None:
    """Five messages go to a queue of at most 3 over AMQP 1.0. With reject-publish the first three
    are accepted and kept and the rest rejected; the link stays attached, and messages are accepted
    again once the queue has room. With drop-head all are accepted and the last three are kept.

    One scenario: the sender's outcomes must match the messages that the queue keeps.
    """
    owner, queue = full_queue(target, overflow)
    parameters = target.profile.parameters
    peer = target.amqp()
    link = peer.sender(Node(str(parameters["declared_node"]).format(name=queue)))
    outcomes = _sent(target, peer, link, 5)
    if overflow == "drop-head":
        detail = f"with overflow {overflow}, the outcomes are {shown(outcomes)}; expected accepted"
        target.record_finding(QUEUE_LENGTH_LIMIT, outcomes == ["accepted"] * 5, detail)
        received = kept(owner, queue)
        words = f"with overflow {overflow}, {listed(received)} were kept; expected the last three"
        target.record_finding(QUEUE_LENGTH_LIMIT, received == [b"2", b"3", b"4"], words)
        return
    expected = ["accepted"] * 3 + ["rejected"] * 2
    detail = (
        f"with overflow {overflow}, the outcomes are {shown(outcomes)}; expected {shown(expected)}"
    )
    target.record_finding(AMQP_SENDER_LEARNS, outcomes == expected, detail)
    closed = any(reply.name == "close" for reply in peer.inbox)
    detail = f"with overflow {overflow}, after a message was refused: {peer.instead()}"
    target.record_finding(CLOSE_WRITTEN, peer.ended is None or closed, detail)
    eventually(owner, lambda: owner.count(queue) == LIMIT)
    received = bodies(drained(owner, queue))
    words = f"with overflow {overflow}, {listed(received)} were kept; expected the first three"
    target.record_finding(REJECT_PUBLISH, received == [b"0", b"1", b"2"], words)
    if outcomes == expected:
        target.wait_until(lambda: peer.ended is not None, QUIET)
        again = _sent(target, peer, link, 1)
        detail = f"once the queue had room again, the outcome was {shown(again)}"
        target.record_finding(AMQP_SENDER_LEARNS, again == ["accepted"], detail)
    owner.call("queue.delete", {"queue": queue})
