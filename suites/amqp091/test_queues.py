"""Queues: declaration, names, access, and deletion (class queue)."""

from typing import Any

from hypothesis import strategies as st

from brokerproof.suites.amqp091.steps import (
    ARGUMENTS,
    CHANNEL,
    EXCEPTION,
    QUIET,
    Kind,
    arrive,
    bind,
    bodies,
    drained,
    eventually,
    exchange_of,
    fill,
    queue_of,
    record_close,
)
from brokerproof.suites.api import Bench, case, listed, over, shown
from brokerproof.suites.api.amqp091 import Amqp091Peer, Typed, either, method

SERVER_NAMED_QUEUE = "AMQP091-QUEUE-01"
DECLARE_OK_COUNTS = "AMQP091-QUEUE-12"
QUEUE_MISSING = "AMQP091-QUEUE-02"
QUEUE_REDECLARED = "AMQP091-QUEUE-03"
QUEUE_EXCLUSIVE = "AMQP091-QUEUE-04"
EXCLUSIVE_QUEUE_DELETED = "AMQP091-QUEUE-05"
AUTO_DELETE_QUEUE = "AMQP091-QUEUE-06"
QUEUE_NAME_RESERVED = "AMQP091-QUEUE-07"
PURGE = "AMQP091-QUEUE-08"
QUEUE_IF_UNUSED = "AMQP091-QUEUE-09"
QUEUE_IF_EMPTY = "AMQP091-QUEUE-10"
LAST_DECLARED_QUEUE = "AMQP091-QUEUE-11"
EMPTY_KEY = "AMQP091-QUEUE-14"
QUEUE_ARGUMENT_INVALID = "RABBITMQ-AMQP091-ARG-01"
CONSUMER_CANCEL_NOTIFY = "RABBITMQ-AMQP091-CANCEL-01"


@case(SERVER_NAMED_QUEUE, DECLARE_OK_COUNTS, needs={"amqp091"})
def test_the_server_names_queues(target: Bench) -> None:
    """queue.declare without a name is answered with a new name each time. declare-ok counts waiting
    messages and consumers."""
    peer = target.amqp091()
    names = [peer.declare(exclusive=True, proves=SERVER_NAMED_QUEUE)["queue"] for _ in range(3)]
    target.record_finding(
        SERVER_NAMED_QUEUE, all(names) and len(set(names)) == 3, f"the names are {shown(names)}"
    )
    fill(peer, names[0], [b"1", b"2"])
    peer.consume(names[1])
    counted = [
        (declare_ok["message-count"], declare_ok["consumer-count"])
        for declare_ok in (peer.declare(name, passive=True) for name in names)
    ]
    words = f"declare-ok counts (messages, consumers) {shown(counted)}"
    target.record_finding(DECLARE_OK_COUNTS, counted == [(2, 0), (0, 1), (0, 0)], words)


EXISTS = {True: "exists", False: "does not exist"}


def _exists(target: Bench, name: str) -> bool:
    """Return True if a passive declaration finds the queue, even if it is exclusive to another
    connection; 404 means that there is none."""
    peer = target.amqp091()
    peer.send("queue.declare", {"queue": name, "passive": True}, channel=1)
    answers = either(method("queue.declare-ok", channel=1), method("channel.close", channel=1))
    answer = peer.expect(answers)
    peer.close_socket()
    return bool(answer.get("reply-code") != 404)


@case(QUEUE_MISSING, needs={"amqp091", "amqp091-undeclared"})
def test_a_queue_that_is_not_there_is_told(target: Bench) -> None:
    """A passive declaration of an unknown queue closes the channel with 404 NOT_FOUND and does not
    create the queue."""
    peer = target.amqp091()
    name = target.fresh_name()
    for _ in range(2):
        peer.send("queue.declare", {"queue": name, "passive": True}, channel=1)
        peer.refused(CHANNEL, 404, proves=QUEUE_MISSING)
        peer.open_channel(1)


@case(QUEUE_REDECLARED, needs={"amqp091"})
@over(
    examples=6,
    other=lambda target: st.sampled_from(
        ["", "durable", "auto-delete", "exclusive"]
        + ["x-max-length", "x-message-ttl"] * (ARGUMENTS in target.identity.capabilities)
    ),
)
def test_a_queue_stays_what_it_was_declared(target: Bench, other: str) -> None:
    """Declaring a queue again with the same properties is answered with declare-ok. With one
    property changed, it closes the channel with 406 PRECONDITION_FAILED or 405 RESOURCE_LOCKED."""
    peer = target.amqp091()
    name = target.fresh_name()
    arguments = {"x-max-length": 10} if ARGUMENTS in target.capabilities else {}
    peer.declare(name, durable=True, arguments=arguments)
    changes: dict[str, dict[str, Any]] = {
        "": {},
        "durable": {"durable": False},
        "auto-delete": {"auto-delete": True},
        "exclusive": {"exclusive": True},
        "x-max-length": {"arguments": {"x-max-length": 11}},
        "x-message-ttl": {"arguments": {**arguments, "x-message-ttl": 1000}},
    }
    peer.send(
        "queue.declare",
        {"queue": name, "durable": True, "arguments": arguments, **changes[other]},
        channel=1,
    )
    if other:
        peer.refused(CHANNEL, 406, 405, proves=QUEUE_REDECLARED)
        peer.open_channel(1)
    else:
        peer.expect(method("queue.declare-ok", channel=1), proves=QUEUE_REDECLARED)
    peer.call("queue.delete", {"queue": name})


@case(QUEUE_EXCLUSIVE, EXCLUSIVE_QUEUE_DELETED, needs={"amqp091"})
@over(
    examples=5,
    name=st.sampled_from(
        ["queue.declare", "basic.consume", "basic.get", "queue.purge", "queue.delete"]
    ),
    gone=st.booleans(),
)
def test_exclusive_queues_belong_to_a_connection(target: Bench, name: str, gone: bool) -> None:
    """Use of another connection's exclusive queue is refused with 405 RESOURCE_LOCKED. The queue is
    deleted when its own connection ends, cleanly or not."""
    owner, other = target.amqp091(), target.amqp091()
    queue = target.fresh_name()
    owner.declare(queue, exclusive=True)
    other.send(
        name, {"queue": queue, **({"passive": True} if name == "queue.declare" else {})}, channel=1
    )
    other.refused(EXCEPTION, 405, proves=QUEUE_EXCLUSIVE)
    owner.publish(b"mine", queue)
    owner.settle()
    target.control(owner.count(queue) == 1, "its owner should be able to use it")
    if gone:
        owner.close_socket()
    else:
        owner.close()
    if "amqp091-undeclared" not in target.capabilities:
        reason = "the broker creates the queue when asked, so a deleted one looks the same"
        target.record_not_applicable(EXCLUSIVE_QUEUE_DELETED, reason)
        return
    left = eventually(other, lambda: not _exists(target, queue))
    words = f"after the end of its connection, an exclusive queue {EXISTS[not left]}"
    target.record_finding(EXCLUSIVE_QUEUE_DELETED, left, words)


@case(AUTO_DELETE_QUEUE, needs={"amqp091", "amqp091-undeclared"})
@over(examples=4, way=st.sampled_from(["cancel", "channel", "connection", "gone"]))
def test_an_auto_delete_queue_goes_with_its_last_consumer(target: Bench, way: str) -> None:
    """An auto-delete queue exists before its first consumer and while one of two is left. It is
    deleted when the last consumer is cancelled or its channel or connection ends."""
    peer, watcher = target.amqp091(channels=2), target.amqp091()
    name = target.fresh_name()
    auto_delete: dict[str, Any] = {"auto-delete": True}
    peer.declare(name, **auto_delete)
    there = _exists(target, name)
    words = f"before its first consumer, the queue {EXISTS[there]}"
    target.record_finding(AUTO_DELETE_QUEUE, there, words)
    tags = [peer.consume(name, channel=channel) for channel in (1, 2)]
    peer.call("basic.cancel", {"consumer-tag": tags[0]})
    there = _exists(target, name)
    words = f"with one of two consumers left, the queue {EXISTS[there]}"
    target.record_finding(AUTO_DELETE_QUEUE, there, words)
    match way:
        case "cancel":
            peer.call("basic.cancel", {"consumer-tag": tags[1]}, channel=2)
        case "channel":
            peer.close_channel(2)
        case "connection":
            peer.close()
        case "gone":
            peer.close_socket()
    left = eventually(watcher, lambda: not _exists(target, name))
    words = f"after its last consumer left ({way}), the queue {EXISTS[not left]}"
    target.record_finding(AUTO_DELETE_QUEUE, left, words)


@case(QUEUE_NAME_RESERVED, needs={"amqp091"})
def test_names_that_begin_with_amq_are_reserved(target: Bench) -> None:
    """queue.declare of a new queue named amq.* is refused with 403 ACCESS_REFUSED."""
    peer = target.amqp091()
    peer.send("queue.declare", {"queue": f"amq.{target.fresh_name()}"}, channel=1)
    record_close(target, peer, "amqp091.reserved-queue-name")
    peer.refused(EXCEPTION, 403, proves=QUEUE_NAME_RESERVED)


@case(PURGE, needs={"amqp091"})
@over(examples=3, kind=Kind.any)
def test_a_purge_takes_what_waits(target: Bench, kind: Kind) -> None:
    """Of five messages two are delivered and unacknowledged. purge-ok counts the remaining three,
    and the queue is empty; the two return to it when their channel closes."""
    peer = target.amqp091(channels=2)
    queue = kind.queue(target, peer)
    fill(peer, queue, [b"1", b"2", b"3", b"4", b"5"])
    for _ in range(2):
        target.control(peer.get(queue, channel=2).name == "basic.get-ok", "a message should wait")
    answer = peer.call("queue.purge", {"queue": queue}, proves=PURGE)
    target.record_finding(
        PURGE, answer["message-count"] == 3, f"purge-ok counts {answer['message-count']}"
    )
    left = listed(bodies(drained(peer, queue)))
    words = f"after purge-ok, the queue still had {left}"
    target.record_finding(PURGE, left == listed([]), words)
    peer.close_channel(2)
    target.wait_until(lambda: False, QUIET)
    received = bodies(drained(peer, queue))
    detail = f"1 and 2 were unacknowledged; {listed(received)} arrived"
    target.record_finding(PURGE, sorted(received) == [b"1", b"2"], detail)


@case(QUEUE_IF_UNUSED, QUEUE_IF_EMPTY, needs={"amqp091"})
def test_queues_in_use_or_with_messages_are_kept_if_asked(target: Bench) -> None:
    """queue.delete with if-empty on a queue with messages, or with if-unused on one with a
    consumer, closes the channel with 406 PRECONDITION_FAILED. Otherwise the queue is deleted, and
    delete-ok counts its messages."""
    peer = target.amqp091()
    queue = queue_of(peer)
    fill(peer, queue, [b"1", b"2"])
    peer.send("queue.delete", {"queue": queue, "if-empty": True}, channel=1)
    peer.refused(CHANNEL, 406, proves=QUEUE_IF_EMPTY)
    peer.open_channel(1)
    other = queue_of(peer)
    peer.open_channel(2)
    peer.consume(other, channel=2)
    peer.send("queue.delete", {"queue": other, "if-unused": True}, channel=1)
    peer.refused(CHANNEL, 406, proves=QUEUE_IF_UNUSED)
    peer.open_channel(1)
    peer.call("queue.delete", {"queue": other, "if-empty": True}, proves=QUEUE_IF_EMPTY)
    answer = peer.call("queue.delete", {"queue": queue, "if-unused": True}, proves=QUEUE_IF_UNUSED)
    target.record_finding(
        QUEUE_IF_UNUSED, answer["message-count"] == 2, f"delete-ok counts {answer['message-count']}"
    )


@case(LAST_DECLARED_QUEUE, EMPTY_KEY, needs={"amqp091"})
@over(
    examples=3,
    always=lambda target: [
        {"keyed": keyed, "named": False, "kind": kind}
        for keyed in (False, True)
        for kind in Kind.each(target)
    ],
    keyed=st.booleans(),
    named=st.booleans(),
    kind=Kind.any,
)
def test_a_method_without_a_name_is_about_the_last_queue(
    target: Bench, keyed: bool, named: bool, kind: Kind
) -> None:
    """queue.bind and queue.purge without a name refer to the queue declared last on the channel;
    queue.bind without a name and a key uses that queue's name as its key. On a channel that has
    declared none they are refused with 404 NOT_FOUND."""
    peer = target.amqp091(channels=2)
    queue_of(peer)
    queue, exchange = kind.queue(target, peer), exchange_of(target, peer, "direct")
    key = target.fresh_name() if keyed else ""
    bind(peer, queue if named else "", exchange, key)
    due = key or ("" if named else queue)
    for word in {"", queue, due}:
        peer.publish(b"here", word, exchange=exchange)
    peer.settle()
    eventually(peer, lambda: peer.count(queue) > 0, QUIET * 4)
    got = [message["routing-key"] for message in drained(peer, queue)]
    words = f"after a queue.bind without a name, messages with the keys {shown(got)} arrived"
    target.record_finding(
        LAST_DECLARED_QUEUE if keyed else EMPTY_KEY, got == [due], f"{words}; expected {due!r}"
    )
    peer.call("queue.purge", {}, proves=LAST_DECLARED_QUEUE)
    peer.send("queue.purge", {}, channel=2)
    peer.refused(EXCEPTION, 404, channel=2, proves=LAST_DECLARED_QUEUE)


BAD: list[dict[str, object]] = [
    {"x-max-length": -1},
    {"x-max-length": "many"},
    {"x-max-length-bytes": -5},
    {"x-message-ttl": -1},
    {"x-message-ttl": 1.5},
    {"x-expires": 0},
    {"x-overflow": "drop-tail"},
    {"x-overflow": 5},
    {"x-dead-letter-exchange": 5},
    {"x-dead-letter-routing-key": "k"},
    {"x-max-length": Typed("t", True)},
]


@case(QUEUE_ARGUMENT_INVALID, needs={"amqp091", ARGUMENTS})
@over(examples=12, arguments=st.sampled_from(BAD))
def test_arguments_that_cannot_be_are_refused(target: Bench, arguments: dict[str, object]) -> None:
    """queue.declare with an argument of a wrong type or value closes the channel with 406
    PRECONDITION_FAILED. An unknown argument is ignored."""
    peer = target.amqp091()
    peer.send("queue.declare", {"exclusive": True, "arguments": arguments}, channel=1)
    peer.refused(CHANNEL, 406, proves=QUEUE_ARGUMENT_INVALID)
    peer.open_channel(1)
    peer.declare(exclusive=True, arguments={"x-nobody-knows": 5}, proves=QUEUE_ARGUMENT_INVALID)


@case(QUEUE_ARGUMENT_INVALID, needs={"amqp091", ARGUMENTS})
def test_a_type_of_queue_that_nobody_has_is_refused(target: Bench) -> None:
    """queue.declare with an unknown x-queue-type closes the channel with 406
    PRECONDITION_FAILED."""
    peer = target.amqp091()
    peer.send(
        "queue.declare", {"exclusive": True, "arguments": {"x-queue-type": "nobodys"}}, channel=1
    )
    record_close(target, peer, "amqp091.unknown-queue-type")
    peer.refused(CHANNEL, 406, proves=QUEUE_ARGUMENT_INVALID)


@case(CONSUMER_CANCEL_NOTIFY, needs={"amqp091", "amqp091-cancel-notify"})
@over(examples=2, understands=st.booleans())
def test_a_consumer_is_told_that_its_queue_is_gone(target: Bench, understands: bool) -> None:
    """Another connection deletes a consumer's queue. A client with consumer_cancel_notify gets
    basic.cancel, other clients get nothing; the channel still works."""
    name = target.fresh_name()
    peer = target.amqp091(capabilities={"consumer_cancel_notify": understands})
    other = target.amqp091()
    peer.declare(name)
    tag = peer.consume(name)
    other.call("queue.delete", {"queue": name})
    if understands:
        peer.expect(
            method("basic.cancel", channel=1, consumer_tag=tag), proves=CONSUMER_CANCEL_NOTIFY
        )
    else:
        peer.expect_nothing(
            for_=QUIET,
            of=method("basic.cancel"),
            proves=CONSUMER_CANCEL_NOTIFY,
            why="the client does not understand it",
        )
    _works(target, peer)


def _works(target: Bench, peer: Amqp091Peer) -> None:
    queue = queue_of(peer)
    peer.consume(queue, no_ack=True)
    peer.publish(b"on", queue)
    target.control(bodies(arrive(peer, 1)) == [b"on"], "the channel should work as before")
