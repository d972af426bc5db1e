"""A CORE acknowledgement that names no message of its consumer removes no message."""

from typing import Any

from hypothesis import strategies as st

from brokerproof.suites.api import Bench, Match, case, listed, over
from brokerproof.suites.api.core import Packet
from brokerproof.suites.steps.core import CORE, numbers, publish, queue, take

BACK = "ARTEMIS-REDELIVERY-back-1"
GONE = "ARTEMIS-CONCEPTS-queue-2"

NO_MESSAGE, NO_CONSUMER = "no such message", "no such consumer"
OTHERS, AGAIN = "another consumer's message", "a message that is acknowledged"
FAULTS = (NO_MESSAGE, NO_CONSUMER, OTHERS, AGAIN)
ANSWER = Match[Packet]("an answer", lambda packet: packet.name in ("null-response", "exception"))


def wrong(fault: str, held: list[Packet], other: Packet) -> dict[str, Any]:
    message = {NO_MESSAGE: 2**40, OTHERS: other.message.id, AGAIN: held[0].message.id}
    consumer = 77 if fault == NO_CONSUMER else held[0]["consumer"]
    return {"consumer": consumer, "message": message.get(fault, held[1].message.id)}


@case(BACK, GONE, needs={CORE})
@over(
    examples=8,
    always=lambda target: [
        {"fault": fault, "one": one, "transacted": transacted}
        for fault in FAULTS
        for one in (False, True)
        for transacted in (False, True)
    ],
    fault=st.sampled_from(FAULTS),
    one=st.booleans(),
    transacted=st.booleans(),
)
def test_a_refused_acknowledgement_settles_nothing(
    target: Bench, fault: str, one: bool, transacted: bool
) -> None:
    """Two consumers of a session each hold messages of a queue, and the first message is
    acknowledged, in a transaction or not. Then an acknowledgement names an unknown consumer or
    message, a message of the other consumer, or a settled one. It is refused; the session continues
    or ends. Another session gets all other messages, and the first one unless its acknowledgement
    took effect."""
    peer = target.core(auto_commit_acks=not transacted)
    names = [queue(target, peer) for _ in range(2)]
    held: list[list[Packet]] = []
    for consumer, name in enumerate(names):
        publish(peer, name, [0] * 3)
        peer.create_consumer(name, consumer)
        peer.credit(-1, consumer)
        held.append(take(target, peer, 3, consumer))
        target.control(len(held[-1]) == 3, f"3 messages should arrive; {peer.instead()}")
    mine, others = held
    peer.acknowledge(mine[0])
    fields = {**wrong(fault, mine, others[1]), "requires-response": True}
    peer.send("acknowledge-one" if one else "acknowledge", fields)
    told = peer.watch_for(ANSWER)
    counts = not transacted
    if transacted and peer.ended is None:
        peer.send("commit")
        committed = peer.watch_for(ANSWER)
        counts = committed is not None and committed.name == "null-response"
    peer.close_socket()
    words = f"an ack of {fault} was answered with {told.brief() if told else peer.instead()}"
    for name, acknowledged in zip(names, (counts, False), strict=True):
        heir = target.core()
        heir.create_consumer(name)
        heir.credit(-1)
        due = [1, 2] if acknowledged else [0, 1, 2]
        got = sorted(numbers(take(target, heir, len(due))))
        detail = f"{words}; {listed(got)} arrived; expected {listed(due)}"
        target.record_finding(BACK, set(due) <= set(got), detail)
        target.record_finding(GONE, set(got) <= set(due), detail)
