"""Queues with limits: which messages are kept, which are refused, and where the others go
(RabbitMQ: maxlength, dlx).

The arithmetic, measured on 3.10.8 and read in its source: limits are inclusive and count waiting
messages, and the bytes of their bodies. With drop-head the oldest leave until the sum is not above
the limit; with reject-publish a message is refused if the sum would be above it.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case, over
from brokerproof.harness.targets.target import RECONFIGURABLE
from brokerproof.suites.amqp091.steps import (
    bind,
    bodies,
    drained,
    eventually,
    exchange_of,
    fill,
    queue_of,
)
from brokerproof.suites.amqp091.test_confirms import answers

QUEUE_LENGTH_LIMIT = "RABBITMQ-AMQP091-LEN-01"
REJECT_PUBLISH = "RABBITMQ-AMQP091-LEN-02"
OVERFLOW_DEAD_LETTERS = "RABBITMQ-AMQP091-LEN-03"
EVERY_QUEUE = "AMQP091-EXCH-04"

SIZES = st.lists(st.sampled_from([0, 1, 10, 50, 99, 100, 101, 200]), min_size=1, max_size=10)


def expected(
    sizes: list[int], length: int | None, max_bytes: int | None, rejects: bool
) -> tuple[list[int], list[bool]]:
    """Return which messages are kept, by their index, and for each message whether it is
    accepted."""
    kept: list[int] = []
    taken: list[bool] = []

    def above(places: list[int]) -> bool:
        most = sum(sizes[at] for at in places)
        return (length is not None and len(places) > length) or (
            max_bytes is not None and most > max_bytes
        )

    for place in range(len(sizes)):
        if rejects:
            taken.append(not above([*kept, place]))
            kept += [place] if taken[-1] else []
            continue
        taken.append(True)
        kept.append(place)
        while kept and above(kept):
            kept.pop(0)
    return kept, taken


@case(QUEUE_LENGTH_LIMIT, REJECT_PUBLISH, needs={"amqp091"})
@over(
    examples=40,
    always=lambda target: [
        {"sizes": [100] * 4, "length": None, "max_bytes": 300, "overflow": overflow}
        for overflow in (None, "reject-publish")
    ],
    sizes=SIZES,
    length=st.sampled_from([None, 0, 1, 3]),
    max_bytes=st.sampled_from([None, 0, 100, 101, 300]),
    overflow=st.sampled_from([None, "drop-head", "reject-publish"]),
)
def test_a_queue_keeps_what_its_limits_say(
    target: Bench, sizes: list[int], length: int | None, max_bytes: int | None, overflow: str | None
) -> None:
    """Messages of different sizes are published with confirms to a queue with x-max-length or
    x-max-length-bytes; nobody consumes. With drop-head all are acknowledged and the newest kept;
    with reject-publish those above the limit get basic.nack and the others are kept."""
    given: dict[str, Any] = {
        "x-max-length": length,
        "x-max-length-bytes": max_bytes,
        "x-overflow": overflow,
    }
    arguments = {name: value for name, value in given.items() if value is not None}
    rejects = overflow == "reject-publish"
    peer = target.amqp091()
    queue = queue_of(peer, arguments=arguments)
    peer.call("confirm.select")
    for place, size in enumerate(sizes):
        peer.publish(
            b"%03d" % place + b"x" * (size - 3) if size >= 3 else b"y" * size,
            queue,
            properties={"priority": place},
        )
    answer_by_number, _ = answers(peer, len(sizes))
    kept, taken = expected(sizes, length, max_bytes, rejects)
    confirms = [answer_by_number.get(at + 1) for at in range(len(sizes))]
    expected_confirms = ["basic.ack" if accepted else "basic.nack" for accepted in taken]
    target.record_finding(
        REJECT_PUBLISH,
        confirms == expected_confirms,
        f"{arguments}, sizes {sizes}: the answers are {confirms}, should be {expected_confirms}",
    )
    left = [message["priority"] for message in drained(peer, queue)]
    target.record_finding(
        QUEUE_LENGTH_LIMIT,
        left == kept,
        f"{arguments}, sizes {sizes}: messages {left} are kept, should be {kept}",
    )


@case(QUEUE_LENGTH_LIMIT, needs={"amqp091"})
def test_what_is_with_a_consumer_does_not_count(target: Bench) -> None:
    """Two messages of a queue of at most 2 are with a consumer, unacknowledged. Two more can wait,
    and a third drops the oldest of those that wait."""
    peer = target.amqp091(channels=2)
    queue = queue_of(peer, arguments={"x-max-length": 2})
    for at in range(2):
        peer.publish(b"%d" % at, queue)
        peer.settle()
        target.control(
            peer.get(queue, channel=2).body == b"%d" % at, "each message should be got at once"
        )
    for at in range(2, 5):
        peer.publish(b"%d" % at, queue)
    peer.settle()
    received = bodies(drained(peer, queue))
    target.record_finding(
        QUEUE_LENGTH_LIMIT, received == [b"3", b"4"], f"{received} waited, should be the last two"
    )


@case(OVERFLOW_DEAD_LETTERS, needs={"amqp091"})
@over(
    examples=6,
    overflow=st.sampled_from(["drop-head", "reject-publish", "reject-publish-dlx"]),
    key=st.booleans(),
)
def test_dead_letters_get_what_a_queue_does_not_keep(
    target: Bench, overflow: str, key: bool
) -> None:
    """Five messages are published to a queue of at most 2 with a dead letter exchange. With
    drop-head the first three are dead-lettered, with reject-publish-dlx the last three, with
    reject-publish none. They have the configured routing key or their own, and x-death gives the
    reason maxlen."""
    peer = target.amqp091()
    dead = queue_of(peer)
    route = target.fresh_name()
    arguments: dict[str, Any] = {
        "x-max-length": 2,
        "x-overflow": overflow,
        "x-dead-letter-exchange": "amq.direct",
    }
    if key:
        arguments["x-dead-letter-routing-key"] = route
    queue = queue_of(peer, arguments=arguments)
    bind(peer, dead, "amq.direct", route if key else queue)
    peer.call("confirm.select")
    for at in range(5):
        peer.publish(b"%d" % at, queue)
    answers(peer, 5)
    expected_letters = {
        "drop-head": [b"0", b"1", b"2"],
        "reject-publish": [],
        "reject-publish-dlx": [b"2", b"3", b"4"],
    }[overflow]
    eventually(peer, lambda: peer.count(dead) == len(expected_letters))
    letters = drained(peer, dead)
    target.record_finding(
        OVERFLOW_DEAD_LETTERS,
        bodies(letters) == expected_letters,
        f"{overflow}: the dead letters are {bodies(letters)}, should be {expected_letters}",
    )
    reasons = [
        (letter["headers"]["x-death"][0]["reason"], letter["headers"]["x-death"][0]["queue"])
        for letter in letters
    ]
    target.record_finding(
        OVERFLOW_DEAD_LETTERS,
        reasons == [("maxlen", queue)] * len(letters),
        f"{overflow}: they report {reasons}",
    )


@case(REJECT_PUBLISH, EVERY_QUEUE, needs={"amqp091", RECONFIGURABLE})
@over(
    examples=8,
    always=lambda target: [{"full": [True, False]}, {"full": [False, True, False]}],
    full=st.lists(st.booleans(), min_size=1, max_size=4),
)
def test_one_full_queue_of_several_refuses_for_itself(target: Bench, full: list[bool]) -> None:
    """A message is for several queues with reject-publish, some of which are full. It gets
    basic.nack if any is and basic.ack otherwise, and all that have room get it."""
    peer = target.amqp091()
    exchange = exchange_of(target, peer, "fanout")
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    queues = [queue_of(peer, arguments=arguments) for _ in full]
    for queue, is_full in zip(queues, full, strict=True):
        if is_full:
            fill(peer, queue, [b"first"])
        bind(peer, queue, exchange)
    peer.call("confirm.select", channel=1)
    peer.publish(b"for all", "", exchange=exchange)
    told, _ = answers(peer, 1)
    expected = {1: "basic.nack" if any(full) else "basic.ack"}
    detail = f"of queues that are full or not ({full})"
    target.record_finding(REJECT_PUBLISH, told == expected, f"{detail} a message was told {told}")
    kept = [bodies(drained(peer, queue)) for queue in queues]
    due = [[b"first"] if is_full else [b"for all"] for is_full in full]
    target.record_finding(EVERY_QUEUE, kept == due, f"{detail} have {kept}, should be {due}")
