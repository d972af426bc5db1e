"""Acknowledgements that name no message, or a wrong one, change nothing."""

from typing import Any

from hypothesis import strategies as st

from brokerproof.harness.protocols.openwire.raw_peer import DELIVERED, INDIVIDUAL, STANDARD, answer
from brokerproof.suites.api import Bench, case, listed, over
from brokerproof.suites.api.openwire import OpenWirePeer, Structure
from brokerproof.suites.openwire.steps import OPENWIRE, fresh_queue, number_of, publish, take

LIMIT = "OPENWIRE-PREFETCH-1"
STANDARD_ACK = "OPENWIRE-MSGACK-2"
INDIVIDUAL_ACK = "OPENWIRE-MSGACK-3"

TYPES = {"STANDARD": STANDARD, "INDIVIDUAL": INDIVIDUAL, "DELIVERED": DELIVERED}
NO_MESSAGE, NO_CONSUMER = "no such message", "no such consumer"
NO_TRANSACTION, OTHERS = "no such transaction", "another consumer's message"
BACKWARDS, NO_FIRST, AGAIN = "a first after the last", "no such first message", "one more time"
FAULTS = (NO_MESSAGE, NO_CONSUMER, NO_TRANSACTION, OTHERS, BACKWARDS, NO_FIRST, AGAIN)
NAMES_NOTHING = (NO_MESSAGE, NO_CONSUMER, AGAIN)
HELD, SENT = 4, 11


def faulty(peer: OpenWirePeer, fault: str, held: list[Structure], other: Structure) -> Any:
    """Return the fields of an ack of the last message in ``held``, with this fault."""
    id = held[0]["message"]["messageId"].fields
    nowhere = Structure("MessageId", {**id, "producerSequenceId": 99, "brokerSequenceId": 0})
    match fault:
        case "no such message":
            return {"lastMessageId": nowhere}
        case "no such first message":
            return {"firstMessageId": nowhere}
        case "no such consumer":
            return {
                "consumerId": Structure("ConsumerId", {**other["consumerId"].fields, "value": 99})
            }
        case "no such transaction":
            fields = {"value": 99, "connectionId": peer.connection}
            return {"transactionId": Structure("LocalTransactionId", fields)}
        case "another consumer's message":
            return {"lastMessageId": other["message"]["messageId"]}
        case "a first after the last":
            ids = [dispatched["message"]["messageId"] for dispatched in held]
            return {"firstMessageId": ids[-1], "lastMessageId": ids[0], "messageCount": 2}
    return {}


@case(LIMIT, STANDARD_ACK, INDIVIDUAL_ACK, needs={OPENWIRE})
@over(
    examples=8,
    always=lambda target: [{"fault": fault, "kind": kind} for fault in FAULTS for kind in TYPES],
    fault=st.sampled_from(FAULTS),
    kind=st.sampled_from(list(TYPES)),
)
def test_an_ack_that_is_refused_changes_nothing(target: Bench, fault: str, kind: str) -> None:
    """Two consumers have acknowledged a message each and are at their limits. One of them sends an
    ack that names no message, an invalid range, or an unknown transaction. If the ack is refused,
    or names nothing, no further message arrives, held messages can be acknowledged, and another
    consumer gets the rest. One scenario: the requirements concern the same ack."""
    peer, place = target.openwire(), fresh_queue(target)
    one, two = (peer.open_consumer(place, prefetch=HELD) for _ in range(2))
    publish(peer, place, SENT)
    held, others = (take(target, peer, HELD, consumer) for consumer in (one, two))
    for mine in (held, others):
        target.control(len(mine) == HELD, f"{HELD} messages should arrive; {len(mine)} did")
    settled = held.pop(0)
    peer.ack(settled)
    held += take(target, peer, 1, one)
    named = settled if fault == AGAIN else held[1]
    fields = faulty(peer, fault, held, others[0])
    first = held[0] if kind == "STANDARD" and fault not in (AGAIN, NO_MESSAGE) else None
    wrong = {
        "destination": place,
        "consumerId": one,
        "ackType": TYPES[kind],
        "firstMessageId": None if first is None else first["message"]["messageId"],
        "lastMessageId": named["message"]["messageId"],
        "messageCount": 2 if first is not None else 1,
        **fields,
    }
    told = peer.watch_for(answer(peer.send("MessageAck", wrong, response=True)))
    words = f"a {kind} ack with {fault} was answered with {told.brief() if told else 'nothing'}"
    target.control(told is not None, f"{words}; {peer.instead()}")
    assert told is not None
    if told.name != "ExceptionResponse" and fault not in NAMES_NOTHING:
        target.record_not_applicable(target.cited, f"the broker accepts it: {words}")
        return
    surplus = [number_of(dispatched) for dispatched in take(target, peer, 0)]
    target.record_finding(LIMIT, not surplus, f"{words}; {listed(surplus)} arrived")
    proves = INDIVIDUAL_ACK if kind == "INDIVIDUAL" else STANDARD_ACK
    peer.ack(held[-1], first=held[0], count=HELD, proves=proves)
    rest = sorted(set(range(SENT)) - {number_of(dispatched) for dispatched in (settled, *held)})
    for consumer in (one, two):
        peer.remove(consumer)
    heir = target.openwire()
    got = sorted(map(number_of, take(target, heir, len(rest), heir.open_consumer(place))))
    detail = f"{words}: {listed(got)} arrived; expected {listed(rest)}"
    target.record_finding(proves, got == rest, detail)
