"""Queues with limits: which messages are kept, refused or dead-lettered (RabbitMQ: maxlength, dlx).

The arithmetic was measured on 3.10.8 and read in its source. Limits are inclusive and apply to the
number of waiting messages or to the bytes of their bodies. With drop-head the queue removes its
oldest messages until it is within the limit; with reject-publish it refuses a message that would
exceed the limit.
"""

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from brokerproof.suites.amqp091.steps import (
    ARGUMENTS,
    CONFIRMS,
    Kind,
    bind,
    bodies,
    drained,
    eventually,
    exchange_of,
    fill,
    holds,
    queue_of,
)
from brokerproof.suites.amqp091.test_confirms import answers
from brokerproof.suites.api import Bench, case, listed, ms, over, shown
from brokerproof.suites.api.amqp091 import Amqp091Peer

QUEUE_LENGTH_LIMIT = "RABBITMQ-AMQP091-LEN-01"
REJECT_PUBLISH = "RABBITMQ-AMQP091-LEN-02"
OVERFLOW_DEAD_LETTERS = "RABBITMQ-AMQP091-LEN-03"
EVERY_QUEUE = "AMQP091-EXCH-04"

SIZES = st.lists(st.sampled_from([0, 1, 10, 50, 99, 100, 101, 200]), min_size=1, max_size=10)


def expected(
    sizes: list[int], length: int | None, max_bytes: int | None, rejects: bool
) -> tuple[list[int], list[bool]]:
    """Return the indexes of the kept messages, and for each message whether it is accepted."""
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


@case(QUEUE_LENGTH_LIMIT, REJECT_PUBLISH, needs={"amqp091", ARGUMENTS, CONFIRMS})
@over(
    examples=40,
    always=lambda target: [
        *(
            {"sizes": [100] * 4, "length": None, "max_bytes": 300, "overflow": overflow}
            for overflow in (None, "reject-publish")
        ),
        *(
            {"sizes": [100, 1], "length": most, "max_bytes": most, "overflow": "drop-head"}
            for most in (2**31, 2**32, 2**63 - 1)
        ),
    ],
    sizes=SIZES,
    length=st.sampled_from([None, 0, 1, 3, 2**31 - 1, 2**32 + 1]),
    max_bytes=st.sampled_from([None, 0, 100, 101, 300, 2**31, 2**62]),
    overflow=st.sampled_from([None, "drop-head", "reject-publish"]),
)
def test_a_queue_keeps_what_its_limits_say(
    target: Bench, sizes: list[int], length: int | None, max_bytes: int | None, overflow: str | None
) -> None:
    """Messages of different sizes are published in one write, with confirms, to a queue with
    x-max-length or x-max-length-bytes; nobody consumes. With drop-head the broker acknowledges all
    and keeps the newest; with reject-publish it answers those above the limit with basic.nack and
    keeps the rest."""
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
    publications = (
        peer.publication(
            b"%03d" % place + b"x" * (size - 3) if size >= 3 else b"y" * size,
            queue,
            properties={"priority": place},
        )
        for place, size in enumerate(sizes)
    )
    peer.write(b"".join(publications))  # one answer may then cover several messages
    answer_by_number, _ = answers(peer, len(sizes))
    kept, taken = expected(sizes, length, max_bytes, rejects)
    confirms = [answer_by_number.get(at + 1) for at in range(len(sizes))]
    context = f"with {shown(arguments)} and the sizes {shown(sizes)}"
    expected_confirms = ["basic.ack" if accepted else "basic.nack" for accepted in taken]
    detail = f"the answers are {shown(confirms)}; expected {shown(expected_confirms)}; {context}"
    target.record_finding(REJECT_PUBLISH, confirms == expected_confirms, detail)
    left = [message["priority"] for message in drained(peer, queue)]
    words = f"{listed(left)} were kept; expected {listed(kept)}; {context}"
    target.record_finding(QUEUE_LENGTH_LIMIT, left == kept, words)


@case(QUEUE_LENGTH_LIMIT, needs={"amqp091", ARGUMENTS, CONFIRMS})
def test_what_is_with_a_consumer_does_not_count(target: Bench) -> None:
    """A consumer holds two unacknowledged messages of a queue with a limit of 2. Two more can wait,
    and a third drops the oldest waiting one."""
    peer = target.amqp091(channels=2)
    queue = queue_of(peer, arguments={"x-max-length": 2})
    for at in range(2):
        peer.publish(b"%d" % at, queue)
        peer.settle()
        target.control(
            peer.get(queue, channel=2).body == b"%d" % at,
            "each message should be available at once",
        )
    for at in range(2, 5):
        peer.publish(b"%d" % at, queue)
    peer.settle()
    received = bodies(drained(peer, queue))
    words = f"the queue kept {listed(received)}; expected the last two"
    target.record_finding(QUEUE_LENGTH_LIMIT, received == [b"3", b"4"], words)


class _Used:
    """A queue with room for three messages of :data:`BYTES` bytes, and ways to send and remove
    messages. Channel 2 consumes; channel 3 has transactions."""

    BYTES = 100
    FULL = 3
    LIVES_MS = 50

    def __init__(self, target: Bench, arguments: dict[str, Any]) -> None:
        self.target = target
        self.peer: Amqp091Peer = target.amqp091(channels=3)
        self.peer.call("tx.select", channel=3)
        self.queue = queue_of(self.peer, arguments=arguments)

    def send(self, count: int, **properties: Any) -> None:
        """Publish messages that contain their numbers."""
        for at in range(count):
            body = b"%d." % at
            self.peer.publish(body.ljust(self.BYTES, b"."), self.queue, properties=properties)
        self.peer.settle()

    def held(self, *, channel: int = 2) -> list[int]:
        """Fill the queue and get all the messages; return their tags."""
        self.send(self.FULL)
        return [
            self.peer.get(self.queue, channel=channel)["delivery-tag"] for _ in range(self.FULL)
        ]

    def give_back(self, tags: list[int], *, channel: int = 2, requeue: bool = True) -> None:
        """Requeue or refuse deliveries one by one."""
        for tag in tags:
            fields = {"delivery-tag": tag, "requeue": requeue}
            self.peer.send("basic.reject", fields, channel=channel)
        self.peer.settle(channel=channel)

    def requeue(self) -> None:
        """Requeue the last message, then the first, then the one between them."""
        first, second, third = self.held()
        self.give_back([third, first, second])
        holds(self.peer, self.queue, self.FULL)

    def leave(self) -> None:
        """Close a channel that holds messages."""
        self.held()
        self.peer.close_channel(2)
        self.peer.open_channel(2)
        holds(self.peer, self.queue, self.FULL)

    def roll_back(self) -> None:
        """Roll back acknowledgements, then requeue the messages."""
        tags = self.held(channel=3)
        self.peer.ack(tags[-1], multiple=True, channel=3)
        self.peer.call("tx.rollback", channel=3)
        self.give_back(tags, channel=3)
        self.peer.call("tx.commit", channel=3)
        holds(self.peer, self.queue, self.FULL)

    def expire(self) -> None:
        self.send(self.FULL, expiration=str(self.LIVES_MS))
        self.target.advance(ms(2 * self.LIVES_MS))

    def purge(self) -> None:
        self.send(self.FULL)
        self.peer.call("queue.purge", {"queue": self.queue})

    def empty(self) -> list[int]:
        """Remove the waiting messages and return their numbers."""
        return [int(body.partition(b".")[0]) for body in bodies(drained(self.peer, self.queue))]


WAYS: Mapping[str, Callable[[_Used], object]] = {
    "requeued": _Used.requeue,
    "rejected": lambda used: used.give_back(used.held(), requeue=False),
    "left with a channel": _Used.leave,
    "acknowledged and rolled back": _Used.roll_back,
    "expired": _Used.expire,
    "purged": _Used.purge,
    "too many": lambda used: used.send(5),
}


@case(QUEUE_LENGTH_LIMIT, needs={"amqp091", ARGUMENTS, CONFIRMS})
@over(
    examples=6,
    always=lambda target: [
        {"limit": limit, "rejects": rejects, "ways": list(WAYS)}
        for limit in (("x-max-length", 3), ("x-max-length-bytes", 300))
        for rejects in (False, True)
    ],
    situations=tuple(WAYS),
    limit=st.sampled_from([("x-max-length", 3), ("x-max-length-bytes", 300)]),
    rejects=st.booleans(),
    ways=st.lists(st.sampled_from(list(WAYS)), min_size=1, max_size=4),
)
def test_a_used_queue_keeps_as_much_as_a_fresh_one(
    target: Bench, limit: tuple[str, int], rejects: bool, ways: list[str]
) -> None:
    """Messages are added to a queue with a limit of three and all removed again, in several ways.
    Of five further messages the queue keeps three, as a fresh one does."""
    overflow = "reject-publish" if rejects else "drop-head"
    used = _Used(target, {limit[0]: limit[1], "x-overflow": overflow})
    should = [0, 1, 2] if rejects else [2, 3, 4]
    for way in ("fresh", *ways):
        if way in WAYS:
            WAYS[way](used)
            target.reached(way)
        used.empty()
        used.send(5)
        kept = used.empty()
        target.require(
            QUEUE_LENGTH_LIMIT,
            kept == should,
            f"{listed(kept)} of five messages were kept; expected {listed(should)}; with"
            f" {limit[0]} {limit[1]}, {overflow}, after messages were {way}",
        )
    used.peer.close()


@case(OVERFLOW_DEAD_LETTERS, needs={"amqp091", ARGUMENTS, CONFIRMS})
@over(
    examples=6,
    overflow=st.sampled_from(["drop-head", "reject-publish", "reject-publish-dlx"]),
    key=st.booleans(),
)
def test_dead_letters_get_what_a_queue_does_not_keep(
    target: Bench, overflow: str, key: bool
) -> None:
    """Five messages are published to a queue of at most two with a dead letter exchange. With
    drop-head the first three are dead-lettered, with reject-publish-dlx the last three, with
    reject-publish none. Dead letters have the configured routing key or their own, and x-death
    gives the reason maxlen."""
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
        f"with overflow {overflow}, the dead letters are {listed(bodies(letters))}; expected"
        f" {listed(expected_letters)}",
    )
    reasons = [
        (letter["headers"]["x-death"][0]["reason"], letter["headers"]["x-death"][0]["queue"])
        for letter in letters
    ]
    target.record_finding(
        OVERFLOW_DEAD_LETTERS,
        reasons == [("maxlen", queue)] * len(letters),
        f"with overflow {overflow}, the x-death entries are {shown(reasons)}",
    )


@case(OVERFLOW_DEAD_LETTERS, QUEUE_LENGTH_LIMIT, needs={"amqp091", ARGUMENTS, CONFIRMS})
@over(
    examples=4,
    always=lambda target: [{"kind": kind, "small": 3} for kind in Kind.each(target)],
    kind=Kind.any,
    small=st.integers(2, 6),
)
def test_what_one_message_drops_is_dead_lettered_from_the_front(
    target: Bench, kind: Kind, small: int
) -> None:
    """A queue with drop-head is full of small messages, and a message arrives that needs the whole
    limit. The small ones are dead-lettered, oldest first, whatever the type of the queue."""
    peer = target.amqp091()
    dead = queue_of(peer)
    arguments = {
        "x-max-length-bytes": 10 * small,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead,
    }
    queue = kind.queue(target, peer, arguments)
    peer.call("confirm.select")
    sent = [b"%010d" % at for at in range(small)]
    for body in (*sent, b"." * 10 * small):
        peer.publish(body, queue)
    answers(peer, small + 1)
    eventually(peer, lambda: peer.count(dead) == small)
    letters = bodies(drained(peer, dead))
    words = f"in a {kind} queue, {shown(sent)} were dropped for one message"
    detail = f"{words}; the dead letters are {shown(letters)}"
    target.record_finding(OVERFLOW_DEAD_LETTERS, sorted(letters) == sent, detail)
    target.record_finding(QUEUE_LENGTH_LIMIT, letters == sent, detail)


@case(REJECT_PUBLISH, EVERY_QUEUE, needs={"amqp091", ARGUMENTS, CONFIRMS})
@over(
    examples=8,
    always=lambda target: [{"full": [True, False]}, {"full": [False, True, False]}],
    full=st.lists(st.booleans(), min_size=1, max_size=4),
)
def test_one_full_queue_of_several_refuses_for_itself(target: Bench, full: list[bool]) -> None:
    """A message is routed to several queues with reject-publish, some of them full. It gets
    basic.nack if any is full, else basic.ack, and every queue with room gets it."""
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
    detail = f"a message for {len(full)} queues, of which {sum(full)} were full"
    answer = shown([*told.values()])
    target.record_finding(REJECT_PUBLISH, told == expected, f"{detail}, was answered with {answer}")
    kept = [bodies(drained(peer, queue)) for queue in queues]
    due = [[b"first"] if is_full else [b"for all"] for is_full in full]
    words = f"{detail}: now they have {'; '.join(map(listed, kept))}"
    target.record_finding(EVERY_QUEUE, kept == due, words)
