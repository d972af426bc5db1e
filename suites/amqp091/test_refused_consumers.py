"""A refused basic.consume changes nothing about its queue."""

from typing import Any

from hypothesis import strategies as st

from brokerproof.suites.amqp091.steps import (
    ARGUMENTS,
    EXCEPTION,
    arrive,
    bodies,
    drained,
    eventually,
    fill,
)
from brokerproof.suites.api import Bench, Target, case, listed, over
from brokerproof.suites.api.amqp091 import Amqp091Peer, Method

ALONE = "AMQP091-CONS-02"
COUNTED = "AMQP091-QUEUE-12"
NOT_DELETED = "AMQP091-QUEUE-06"
REDELIVERED = "AMQP091-CHAN-04"

TAG, BESIDE, ASKS_ALONE, ARGUMENT = (
    "a tag in use",
    "beside an exclusive one",
    "exclusive beside another",
    "an impossible argument",
)


def kinds(target: Target) -> list[str]:
    has_arguments = ARGUMENTS in target.identity.capabilities
    return [TAG, BESIDE, ASKS_ALONE, *([ARGUMENT] if has_arguments else [])]


def _consume(target: Bench, peer: Amqp091Peer, queue: str, kind: str) -> None:
    """Consume from ``queue`` with the mistake. Control: the broker refuses."""
    fields: dict[str, Any] = {"queue": queue, "consumer-tag": "refused"}
    if kind == TAG:
        elsewhere = str(peer.declare(exclusive=True)["queue"])
        peer.consume(elsewhere, "refused")
    elif kind == ASKS_ALONE:
        fields["exclusive"] = True
    elif kind == ARGUMENT:
        fields["arguments"] = {"x-priority": "high"}
    peer.send("basic.consume", fields, channel=1)
    peer.refused(EXCEPTION)


@case(ALONE, COUNTED, NOT_DELETED, REDELIVERED, needs={"amqp091"})
@over(
    examples=4,
    always=lambda target: [
        {"kind": kind, "deletes": deletes} for kind in kinds(target) for deletes in (False, True)
    ],
    kind=lambda target: st.sampled_from(kinds(target)),
    deletes=st.booleans(),
)
def test_a_refused_consumer_never_was(target: Bench, kind: str, deletes: bool) -> None:
    """Messages wait in a queue, auto-delete or not, and one consumer may hold one of them. A
    basic.consume with a mistake is refused. The queue keeps its consumers and messages; once its
    consumer has ended, an exclusive one can begin. One scenario: a refused consumer must leave no
    trace."""
    owner, queue = target.amqp091(channels=2), target.fresh_name()
    options: dict[str, Any] = {"auto-delete": deletes}
    owner.declare(queue, **options)
    fill(owner, queue, [b"1", b"2", b"3"])
    present = kind in (BESIDE, ASKS_ALONE)
    held: list[Method] = []
    if present:
        owner.call("basic.qos", {"prefetch-count": 1}, channel=2)
        owner.consume(queue, "first", channel=2, exclusive=kind == BESIDE)
        held = [owner.delivery(channel=2)]
    peer = target.amqp091()
    _consume(target, peer, queue, kind)
    again = {"queue": queue, "passive": True}
    owner.call("queue.declare", again, proves=NOT_DELETED)
    eventually(owner, lambda: owner.count(queue) == 3 - present)
    told = owner.call("queue.declare", again, proves=NOT_DELETED)
    words = f"a consumer was refused ({kind})"
    target.record_finding(
        COUNTED,
        (told["consumer-count"], told["message-count"]) == (present, 3 - present),
        f"{words}; the queue reports {told['consumer-count']} consumers and"
        f" {told['message-count']} messages; expected {int(present)} and {3 - present}",
    )
    if not present:
        got = bodies(drained(owner, queue))
    elif deletes:  # the queue is deleted with its last, perhaps its only, consumer
        for _ in range(2):
            owner.ack(held[-1]["delivery-tag"], channel=2)
            held += arrive(owner, 1, channel=2)
        got = bodies(held)
    else:
        owner.close_channel(2)
        owner.open_channel(2)
        owner.consume(queue, "second", channel=2, exclusive=True, proves=ALONE)
        got = bodies(arrive(owner, 3, channel=2))
    detail = f"{words}; {listed(got)} could be fetched; expected 1, 2, 3"
    target.record_finding(REDELIVERED, sorted(got) == [b"1", b"2", b"3"], detail)
    owner.call("queue.delete", {"queue": queue})
