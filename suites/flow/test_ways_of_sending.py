"""The policy of a full address applies to messages sent in any way (ARTEMIS-PAGING-8).

A producer may have the address as its target or name it in each message. It may send in a
transaction, settled or not, over AMQP, STOMP or CORE.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from brokerproof.harness.protocols.amqp10 import messages
from brokerproof.harness.protocols.amqp10.codec import fields_of, name_of
from brokerproof.suites.amqp10 import transaction_steps
from brokerproof.suites.amqp10.steps import collect, ready_sender
from brokerproof.suites.api import Bench, Match, Target, case, either, listed, over
from brokerproof.suites.api.amqp10 import Frame, Node
from brokerproof.suites.api.core import Packet
from brokerproof.suites.api.stomp import ERROR, Destination, frame
from brokerproof.suites.steps import small_addresses
from brokerproof.suites.steps.core import CORE, FIXTURES, sized
from brokerproof.suites.steps.small_addresses import MESSAGES, limit_of, threshold_of

POLICIES = "ARTEMIS-PAGING-8"
REJECTED = "ARTEMIS-FLOW-amqp-4"
THREE = "ARTEMIS-PAGING-13"
IN_PLACE = "ARTEMIS-PAGING-11"
BODY = 4000
"""Bytes of a body: six such messages fill an address."""
EATEN = 2
"""Messages removed from a paging address, so that its memory has room again."""

ANSWERED = Match[Packet]("an answer", lambda reply: reply.name in ("null-response", "exception"))
Send = Callable[[int], str | None]
"""Send the message with that number. Return the broker's answer: "accepted", another, or None."""


@dataclass(frozen=True)
class Way:
    """``open`` connects before the address is full and, if necessary, gets credit."""

    open: Callable[[Bench, Destination], Send]
    needs: frozenset[str] = frozenset({"amqp"})
    by_credit: bool = True
    """True if only AMQP credit holds its producer back."""


def _amqp(*, anonymous: bool = False, settled: bool = False, transacted: bool = False) -> Way:
    def open(target: Bench, to: Destination) -> Send:
        peer, place = target.amqp(), small_addresses.same(to)
        link = ready_sender(target, peer, None if anonymous else place)
        control = transaction_steps.control(target, peer) if transacted else None
        sections: dict[str, Any] = {"properties": {"to": place.address}} if anonymous else {}

        def send(number: int) -> str | None:
            payload = messages.message(small_addresses.body(number, BODY), **sections)
            if control is None:
                delivery = peer.transfer(link, payload, settled=settled or None)
                if settled:
                    peer.settle()
                    return None
                return peer.confirmed(link.session, delivery, None).kind("state")
            id = control.declare()
            state = transaction_steps.within(id)
            delivery = peer.transfer(link, payload, settled=settled or None, state=state)
            answers: list[Frame] = []
            if not settled:
                answers.append(peer.confirmed(link.session, delivery, None))
            answers.append(control.answered(control.say("discharge", txn_id=id, fail=False)))
            outcomes = [_outcome(answer) for answer in answers]
            return "accepted" if set(outcomes) == {"accepted"} else f"{outcomes}"

        return send

    return Way(open)


def _outcome(answer: Frame) -> str | None:
    """Return the outcome in a disposition, whether in a transaction or not."""
    if answer.kind("state") != "transactional-state":
        return answer.kind("state")
    return name_of(fields_of(answer.fields["state"]).get("outcome"))


def _stomp(*, transacted: bool) -> Way:
    def open(target: Bench, to: Destination) -> Send:
        def send(number: int) -> str | None:
            peer = target.stomp()
            more = {"transaction": peer.transaction} if transacted else {}
            if transacted:
                peer.request("BEGIN", more)
            last = peer.next_receipt()
            receipt = {} if transacted else {"receipt": last}
            body = small_addresses.body(number, BODY)
            peer.publish(to, body, {**more, **receipt}, receipt=False)
            if transacted:
                peer.send("COMMIT", {**more, "receipt": last})
            confirmed = frame("RECEIPT", {"receipt-id": last})
            answer = peer.watch_for(either(confirmed, ERROR))
            told = peer.instead() if answer is None else answer.command
            peer.close_socket()
            return "accepted" if told == "RECEIPT" else told

        return send

    return Way(open, frozenset({"stomp-1.2"}), by_credit=False)


def _core() -> Way:
    def open(target: Bench, to: Destination) -> Send:
        peer = target.core()

        def send(number: int) -> str | None:
            fields = {"message": sized(to.name, number, BODY), "requires-response": True}
            peer.send("send", {**fields, "correlation": number})
            answer = peer.watch_for(ANSWERED)
            told = peer.instead() if answer is None else answer.name
            return "accepted" if told == "null-response" else told

        return send

    return Way(open, frozenset({CORE, FIXTURES}), by_credit=False)


WAYS: Mapping[str, Way] = {
    "to its target": _amqp(),
    "settled": _amqp(settled=True),
    "without a target": _amqp(anonymous=True),
    "settled, without a target": _amqp(anonymous=True, settled=True),
    "in a transaction": _amqp(transacted=True),
    "in a transaction, without a target": _amqp(anonymous=True, transacted=True),
    "by SEND": _stomp(transacted=False),
    "by SEND in a transaction": _stomp(transacted=True),
    "over CORE": _core(),
}
FAIL, DROP, PAGE, REJECT = "fail", "drop", "page", "reject"
KINDS = (FAIL, DROP, PAGE, REJECT, "limited.fail", "limited.drop")


def ways(target: Target) -> list[str]:
    capabilities = target.identity.capabilities
    return [name for name, way in WAYS.items() if way.needs <= capabilities]


def _full(target: Bench, place: Node, kind: str) -> int:
    """Fill an address, beyond its threshold if it has one; return how many messages it keeps."""
    peer, link = small_addresses.producer(target, place)
    size = threshold_of(target) if kind == REJECT else limit_of(target)
    most = MESSAGES if kind.startswith("limited") else -(-size // BODY)
    count = 0
    while count < most:
        body = small_addresses.body(count, BODY)
        if small_addresses.send(target, peer, link, body) != "accepted":
            break  # the broker decides what a message is charged besides its body
        count += 1
    peer.close_socket()
    return count


def _eaten(target: Bench, place: Node) -> None:
    """Consume the oldest messages."""
    peer = target.amqp()
    link = peer.receiver(place, credit=EATEN)
    got = collect(target, peer, link, EATEN)
    target.control(len(got) == EATEN, f"{len(got)} messages arrived; {peer.instead()}")
    for delivery in got:
        peer.disposition(delivery)
    peer.settle()
    peer.close_socket()


@case(POLICIES, REJECTED, THREE, IN_PLACE, needs={"amqp", "address-full"})
@over(
    examples=10,
    always=lambda target: [
        *({"kind": kind, "by": ways(target), "eaten": False} for kind in KINDS),
        {"kind": PAGE, "by": ways(target), "eaten": True},
    ],
    situations=lambda target: (*KINDS, *ways(target)),
    kind=st.sampled_from(KINDS),
    by=lambda target: st.lists(st.sampled_from(ways(target)), min_size=1, max_size=4),
    eaten=st.booleans(),
)
def test_the_policy_counts_however_a_message_comes(
    target: Bench, kind: str, by: list[str], eaten: bool
) -> None:
    """Messages are sent to a full address in several ways. Under FAIL and above a reject threshold
    each is refused and not queued, and its producer is informed if it asks. Under DROP each is
    accepted and dropped. Under PAGE all arrive, after the earlier ones, even if the address's
    memory has room again. One scenario: each example judges one policy."""
    to = small_addresses.destination(target, kind)
    place = small_addresses.same(to)
    senders = [
        (name, WAYS[name].open(target, to)) for name in by if kind != REJECT or WAYS[name].by_credit
    ]
    judged = [REJECTED if kind == REJECT else POLICIES]
    judged += [THREE] if kind.startswith("limited") else []
    judged += [IN_PLACE] if kind == PAGE else []
    count = _full(target, place, kind)
    target.reached(kind)
    if eaten and kind == PAGE:
        _eaten(target, place)
    kept = list(range(EATEN if eaten and kind == PAGE else 0, count))
    refuses = kind == REJECT or kind.endswith(FAIL)
    unconfirmed = set()
    for number, (name, send) in enumerate(senders, count):
        told = send(number)
        target.reached(name)
        if "settled" in name:
            unconfirmed.add(number)
        else:
            fine = (told != "accepted") is refuses
            what = "refused" if refuses else "accepted"
            detail = f"address full ({kind}): a message {name} was {told}; expected {what}"
            target.record_finding(tuple(judged), fine, detail)
        if kind == PAGE:
            kept.append(number)
    # Under DROP the last of the messages that fill the address may already be lost: do not wait
    # long for them.
    certain = len(kept) - (kind == DROP)
    received = small_addresses.drain_queue(target, place, certain)
    if kind == DROP and 0 < len(received) < count:
        kept = kept[: len(received)]
    names = ", ".join(name for name, _ in senders)
    detail = f"address full ({kind}), then sends {names}: {listed(received)} arrived; expected"
    detail += f" {listed(kept)}"
    as_sent = sorted(received) == kept and not any(
        # Messages sent later by another connection may overtake unconfirmed ones.
        later < earlier and later not in unconfirmed
        for earlier, later in itertools.combinations(received, 2)
    )
    target.record_finding(tuple(judged), as_sent, detail)
