"""Messages in and out: publish, return, consume, cancel, get (class basic, 4.6, 4.7)."""

import re
from typing import Any

from hypothesis import strategies as st

from brokerproof.suites.amqp091.steps import (
    CHANNEL,
    CONNECTION,
    EXCEPTION,
    QUIET,
    Kind,
    arrive,
    bodies,
    drained,
    eventually,
    exchange_of,
    fill,
    queue_of,
    record_close,
)
from brokerproof.suites.api import PATIENCE, Bench, case, listed, over, shown
from brokerproof.suites.api.amqp091 import Amqp091Peer, Method, Typed, method
from brokerproof.suites.steps.queues import patterned

PUBLISH_EXCHANGE_MISSING = "AMQP091-PUB-01"
PUBLISH_EXCHANGE_INTERNAL = "AMQP091-PUB-02"
IMMEDIATE_NOT_IMPLEMENTED = "RABBITMQ-AMQP091-PUB-01"
PREFETCH_SIZE_NOT_IMPLEMENTED = "RABBITMQ-AMQP091-QOS-02"
MANDATORY_RETURNED = "AMQP091-PUB-03"
SUCCESS = 200
BODY_UNCHANGED = "AMQP091-CONTENT-04"
PROPERTIES_UNCHANGED = "AMQP091-CONTENT-05"
PUBLISH_ORDER = "AMQP091-PUB-04"
DELIVERY_TAGS = "AMQP091-TAG-01"
CONSUMER_TAG_IN_USE = "AMQP091-CONS-01"
EXCLUSIVE_CONSUMER = "AMQP091-CONS-02"
NO_DELIVERY_AFTER_CANCEL_OK = "AMQP091-CONS-03"
CANCEL_LEAVES_DELIVERIES = "AMQP091-CONS-07"
CANCEL_OF_UNKNOWN_TAG = "AMQP091-CONS-05"
NO_DELIVERY_BEFORE_CONSUME_OK = "AMQP091-CONS-06"
NO_ACK_REMOVES = "AMQP091-CONS-04"
TAG_OF_THE_SERVER = "AMQP091-CONS-08"
GET = "AMQP091-GET-01"
REDELIVERED_FLAG = "AMQP091-RED-01"


@case(PUBLISH_EXCHANGE_MISSING, needs={"amqp091", "amqp091-undeclared"})
def test_an_unknown_exchange_takes_no_messages(target: Bench) -> None:
    """basic.publish to an unknown exchange closes the channel with 404 NOT_FOUND."""
    peer = target.amqp091(channels=2)
    peer.publish(b"x", "k", exchange=target.fresh_name(), channel=2)
    peer.refused(CHANNEL, 404, channel=2, proves=PUBLISH_EXCHANGE_MISSING)


@case(PUBLISH_EXCHANGE_INTERNAL, needs={"amqp091", "amqp091-internal-exchanges"})
def test_an_internal_exchange_takes_no_messages(target: Bench) -> None:
    """basic.publish to an internal exchange closes the channel with 403 ACCESS_REFUSED."""
    peer = target.amqp091(channels=2)
    name = target.fresh_name()
    peer.call("exchange.declare", {"exchange": name, "type": "fanout", "internal": True})
    peer.publish(b"x", "k", exchange=name, channel=2)
    peer.refused(CHANNEL, 403, channel=2, proves=PUBLISH_EXCHANGE_INTERNAL)
    peer.call("exchange.delete", {"exchange": name})


@case(IMMEDIATE_NOT_IMPLEMENTED, PREFETCH_SIZE_NOT_IMPLEMENTED, needs={"amqp091"})
@over(
    examples=2,
    always=lambda target: [{"immediate": immediate} for immediate in (False, True)],
    immediate=st.booleans(),
)
def test_what_is_not_implemented_is_told(target: Bench, immediate: bool) -> None:
    """basic.publish with immediate, or basic.qos with a prefetch-size, closes the connection with
    540 NOT_IMPLEMENTED."""
    peer = target.amqp091()
    if immediate:
        peer.publish(b"x", queue_of(peer), immediate=True)
        record_close(target, peer, "amqp091.immediate")
        peer.refused(CONNECTION, 540, proves=IMMEDIATE_NOT_IMPLEMENTED)
    else:
        peer.send("basic.qos", {"prefetch-size": 1000}, channel=1)
        record_close(target, peer, "amqp091.prefetch-size")
        peer.refused(CONNECTION, 540, proves=PREFETCH_SIZE_NOT_IMPLEMENTED)


@case(MANDATORY_RETURNED, needs={"amqp091"})
@over(examples=6, size=st.sampled_from([0, 5, 5000]), mandatory=st.booleans())
def test_a_mandatory_message_that_nobody_gets_is_returned(
    target: Bench, size: int, mandatory: bool
) -> None:
    """A mandatory message without a route is returned whole, with a reply code other than success.
    A message that is not mandatory, or has a route, is not returned."""
    peer = target.amqp091(frame_max=4096)
    queue, key = queue_of(peer), target.fresh_name()
    body = patterned(size)
    peer.publish(b"goes", queue, mandatory=True)
    peer.publish(
        body, key, exchange="amq.direct", mandatory=mandatory, properties={"message-id": "m1"}
    )
    if mandatory:
        returned = peer.expect(method("basic.return", channel=1), proves=MANDATORY_RETURNED)
        code = returned["reply-code"]
        returned_fields = (
            returned["exchange"],
            returned["routing-key"],
            returned.get("message-id"),
        )
        target.record_finding(
            MANDATORY_RETURNED,
            code != SUCCESS and returned_fields == ("amq.direct", key, "m1"),
            f"basic.return has reply-code {code} and {shown(returned_fields)}",
        )
        words = f"of {size} bytes, {len(returned.body)} returned"
        target.record_finding(MANDATORY_RETURNED, returned.body == body, words)
    peer.settle()
    more = len(peer.taken("basic.return"))
    target.record_finding(MANDATORY_RETURNED, not more, f"{more} more messages were returned")
    target.control(
        bodies(drained(peer, queue)) == [b"goes"], "the routable message should have been queued"
    )


TEXT = st.text("abcdefgh é", max_size=20)
HEADERS: Any = st.dictionaries(
    st.text("abcxyz", min_size=1, max_size=8),
    st.one_of(
        st.booleans(),
        st.integers(-(2**31), 2**31 - 1),
        st.integers(2**40, 2**41),
        TEXT,
        st.lists(st.integers(0, 100), max_size=3),
        st.just({"inner": 1}),
        st.just(None),
        st.sampled_from(
            [
                Typed("b", -3),
                Typed("s", -300),
                Typed("f", 0.5),
                Typed("T", 1000),
                Typed("x", b"\0\xff"),
            ]
        ),
    ),
    max_size=4,
)
PROPERTIES: Any = st.fixed_dictionaries(
    {},
    optional={
        "content-type": TEXT,
        "content-encoding": TEXT,
        "headers": HEADERS,
        "delivery-mode": st.sampled_from([1, 2]),
        "priority": st.integers(0, 9),
        "correlation-id": TEXT,
        "reply-to": TEXT,
        "message-id": TEXT,
        "timestamp": st.integers(0, 2**33),
        "type": TEXT,
        "app-id": TEXT,
    },
)


def _plain(value: Any) -> Any:
    if isinstance(value, Typed):
        return value.value
    return (
        {name: _plain(item) for name, item in value.items()} if isinstance(value, dict) else value
    )


@case(BODY_UNCHANGED, PROPERTIES_UNCHANGED, needs={"amqp091"})
@over(
    examples=60,
    always=lambda target: [
        {"properties": {"message-id": "m", "headers": {"a": 1}}, "body": b"b", "get": get}
        | {"again": 2}
        for get in (False, True)
    ],
    properties=PROPERTIES,
    body=st.binary(max_size=300),
    get=st.booleans(),
    again=st.integers(0, 2),
)
def test_messages_arrive_as_they_were_sent(
    target: Bench, properties: dict[str, Any], body: bytes, get: bool, again: int
) -> None:
    """A message arrives, by delivery or basic.get, with the properties and body that its producer
    gave, even when it is redelivered after a requeue."""
    peer = target.amqp091()
    queue = queue_of(peer)
    peer.publish(body, queue, properties=properties)
    peer.settle()
    if not get:
        peer.consume(queue)
    for left in range(again, -1, -1):
        message = peer.get(queue) if get else peer.delivery()
        if left:
            fields = {"delivery-tag": message["delivery-tag"], "requeue": True}
            peer.send("basic.reject", fields, channel=1)
    target.record_finding(
        BODY_UNCHANGED, message.body == body, f"{body!r} arrived as {message.body!r}"
    )
    expected = {name: _plain(value) for name, value in properties.items()}
    received = {name: message.get(name) for name in expected}
    words = f"{shown(expected)} arrived as {shown(received)}"
    target.record_finding(PROPERTIES_UNCHANGED, received == expected, words)


@case(PUBLISH_ORDER, DELIVERY_TAGS, needs={"amqp091"})
@over(
    examples=10,
    always=lambda target: [
        {"count": 10, "ways": 2, "limit": 1, "kind": kind} for kind in Kind.each(target)
    ],
    count=st.sampled_from([1, 10, 200]),
    ways=st.sampled_from([1, 2]),
    limit=st.sampled_from([0, 1, 7]),
    kind=Kind.any,
)
def test_messages_arrive_in_order(
    target: Bench, kind: Kind, count: int, ways: int, limit: int
) -> None:
    """Messages of one or two channels go through one queue to one consumer. Those of each channel
    arrive in order, and all delivery tags differ."""
    peer = target.amqp091(channels=3)
    queue = kind.queue(target, peer)
    for at in range(count):
        peer.publish(b"%d %d" % (at % ways, at), queue, channel=2 + at % ways)
    peer.call("basic.qos", {"prefetch-count": limit})
    peer.consume(queue)
    deliveries = arrive(peer, min(count, limit) if limit else count)
    while deliveries and len(deliveries) < count:
        peer.ack(deliveries[-1]["delivery-tag"], multiple=True)
        more = _some(target, peer)
        if not more:
            break
        deliveries += more
    for way in range(ways):
        mine = [
            int(body.split()[1]) for body in bodies(deliveries) if body.startswith(b"%d " % way)
        ]
        words = f"of the messages from channel {2 + way}, {listed(mine)} arrived"
        target.record_finding(PUBLISH_ORDER, mine == list(range(way, count, ways)), words)
    numbers = [delivery["delivery-tag"] for delivery in deliveries]
    target.record_finding(
        DELIVERY_TAGS,
        0 not in numbers and len(set(numbers)) == len(numbers),
        f"the delivery-tags are {shown(numbers[:20])}; expected different ones above 0",
    )


def _some(target: Bench, peer: Amqp091Peer) -> list[Method]:
    """Return the next deliveries as soon as any arrive."""
    match_delivery = method("basic.deliver", channel=1)
    target.wait_until(lambda: any(match_delivery.accepts(reply) for reply in peer.inbox), PATIENCE)
    return peer.deliveries()


@case(CONSUMER_TAG_IN_USE, needs={"amqp091"})
def test_a_consumer_tag_is_used_once(target: Bench) -> None:
    """basic.consume with a tag in use on its channel closes the connection with 530 NOT_ALLOWED. On
    another channel the same tag is accepted."""
    peer = target.amqp091(channels=2)
    queue = queue_of(peer)
    peer.consume(queue, "mine")
    peer.consume(queue, "mine", channel=2)
    peer.send("basic.consume", {"queue": queue, "consumer-tag": "mine"}, channel=1)
    peer.refused(CONNECTION, 530, proves=CONSUMER_TAG_IN_USE)


@case(TAG_OF_THE_SERVER, needs={"amqp091"})
@over(
    examples=4,
    always=lambda target: [{"tags": [("", 1), ("2", 1), ("", 1), ("", 2), ("", 1)]}],
    tags=st.lists(
        st.tuples(st.sampled_from(["", "", "next", *"0123"]), st.integers(1, 2)), max_size=9
    ),
)
def test_the_server_names_consumers(target: Bench, tags: list[tuple[str, int]]) -> None:
    """Consumers begin on two channels, some without a tag, others with small numbers or the
    successor of a server-generated tag. consume-ok has a tag that no other consumer of its channel
    has."""
    peer = target.amqp091(channels=2)
    queue, used, last = queue_of(peer), set[tuple[str, int]](), ""
    for tag, channel in [*tags, ("", 1), ("", 2)]:
        given = re.sub(r"\d+$", lambda end: str(int(end[0]) + 1), last) if tag == "next" else tag
        if given and (given, channel) in used:
            continue
        got = peer.consume(
            queue, given, channel=channel, proves=None if given else TAG_OF_THE_SERVER
        )
        words = f"a consumer without a tag got {got!r} on channel {channel}, with {shown(used)}"
        if not given:
            last, is_new = got, bool(got) and (got, channel) not in used
            target.record_finding(TAG_OF_THE_SERVER, is_new, words)
        used.add((got, channel))


@case(EXCLUSIVE_CONSUMER, needs={"amqp091"})
@over(examples=2, first=st.booleans())
def test_an_exclusive_consumer_is_alone(target: Bench, first: bool) -> None:
    """Two consumers are on separate connections, and one is exclusive. The second basic.consume is
    refused with 403 ACCESS_REFUSED; after the first is cancelled, an exclusive one is accepted."""
    peer, other = target.amqp091(), target.amqp091()
    queue = target.fresh_name()
    peer.declare(queue)
    tag = peer.consume(queue, exclusive=first)
    other.send("basic.consume", {"queue": queue, "exclusive": not first}, channel=1)
    other.refused(EXCEPTION, 403, proves=EXCLUSIVE_CONSUMER)
    peer.call("basic.cancel", {"consumer-tag": tag})
    peer.consume(queue, exclusive=True, proves=EXCLUSIVE_CONSUMER)
    peer.call("queue.delete", {"queue": queue})


@case(
    NO_DELIVERY_AFTER_CANCEL_OK,
    CANCEL_OF_UNKNOWN_TAG,
    NO_DELIVERY_BEFORE_CONSUME_OK,
    needs={"amqp091"},
)
def test_consumers_begin_and_end_with_their_answers(target: Bench) -> None:
    """No delivery precedes consume-ok and none follows cancel-ok. basic.cancel of an unknown tag is
    answered with cancel-ok."""
    peer = target.amqp091(channels=2)
    queue = queue_of(peer)
    fill(peer, queue, [b"%d" % at for at in range(20)])
    peer.send("basic.consume", {"queue": queue, "consumer-tag": "c", "no-ack": True}, channel=1)
    target.wait_until(lambda: len(peer.inbox) >= 2, QUIET)
    first = next(
        (reply.name for reply in peer.inbox if reply.name in ("basic.consume-ok", "basic.deliver")),
        "nothing",
    )
    target.record_finding(
        NO_DELIVERY_BEFORE_CONSUME_OK,
        first == "basic.consume-ok",
        f"{first} arrived first; expected basic.consume-ok",
    )
    peer.send("basic.cancel", {"consumer-tag": "c"}, channel=1)
    peer.watch_for(method("basic.cancel-ok", channel=1))
    peer.deliveries()
    peer.publish(b"late", queue, channel=2)
    peer.settle(channel=2)
    peer.expect_nothing(
        for_=QUIET,
        of=method("basic.deliver", channel=1),
        proves=NO_DELIVERY_AFTER_CANCEL_OK,
        why="the consumer was cancelled",
    )
    peer.call("basic.cancel", {"consumer-tag": target.fresh_name()}, proves=CANCEL_OF_UNKNOWN_TAG)
    left = bodies(drained(peer, queue))
    words = f"{listed(left)} remained in the queue; expected 'late'"
    target.record_finding(NO_DELIVERY_AFTER_CANCEL_OK, left == [b"late"], words)


@case(CANCEL_LEAVES_DELIVERIES, needs={"amqp091"})
@over(
    examples=8,
    always=lambda target: [
        {"held": 3, "settled": 1, "multiple": False, "rival": True, "kind": Kind()}
    ],
    held=st.integers(1, 20),
    settled=st.integers(0, 20),
    multiple=st.booleans(),
    rival=st.booleans(),
    kind=Kind.any,
)
def test_cancelling_leaves_what_was_delivered(
    target: Bench, kind: Kind, held: int, settled: int, multiple: bool, rival: bool
) -> None:
    """A consumer is cancelled while the channel holds its deliveries. No other consumer gets them,
    they can be acknowledged, and the unacknowledged ones return to the queue when the channel
    closes."""
    peer = target.amqp091(channels=2)
    queue = kind.queue(target, peer, channel=2)
    sent = [b"%d" % number for number in range(held)]
    fill(peer, queue, sent, channel=2)
    peer.consume(queue, "leaver")
    tags = [delivery["delivery-tag"] for delivery in arrive(peer, held)]
    target.control(len(tags) == held, f"{len(tags)} of {held} messages were delivered")
    peer.call("basic.cancel", {"consumer-tag": "leaver"})
    if rival:
        peer.consume(queue, "rival", channel=2)
        peer.expect_nothing(
            for_=QUIET,
            of=method("basic.deliver", channel=2),
            proves=CANCEL_LEAVES_DELIVERIES,
            why="the messages were delivered before their consumer was cancelled",
        )
        peer.call("basic.cancel", {"consumer-tag": "rival"}, channel=2)
    chosen = tags[:settled]
    for tag in chosen[-1:] if multiple else chosen:
        peer.ack(tag, multiple=multiple)
    peer.call("basic.qos", proves=CANCEL_LEAVES_DELIVERIES)
    peer.close_channel(1)
    due = sent[len(chosen) :]
    eventually(peer, lambda: peer.count(queue, channel=2) == len(due), within=QUIET * 4)
    left = bodies(drained(peer, queue, channel=2))
    detail = (
        f"{len(chosen)} of {held} messages were acknowledged; {listed(left)} remained in the queue"
    )
    target.record_finding(CANCEL_LEAVES_DELIVERIES, sorted(left) == sorted(due), detail)


@case(NO_ACK_REMOVES, needs={"amqp091"})
@over(examples=3, kind=Kind.any)
def test_without_acknowledgement_messages_are_gone(target: Bench, kind: Kind) -> None:
    """A no-ack consumer gets two messages and its channel closes. The queue is empty."""
    peer = target.amqp091(channels=2)
    queue = kind.queue(target, peer)
    fill(peer, queue, [b"1", b"2"])
    peer.consume(queue, channel=2, no_ack=True)
    received = bodies(arrive(peer, 2, channel=2))
    target.record_finding(
        NO_ACK_REMOVES, received == [b"1", b"2"], f"{listed(received)} arrived; expected 1, 2"
    )
    peer.close_channel(2)
    target.wait_until(lambda: False, QUIET)
    target.record_finding(
        NO_ACK_REMOVES, peer.count(queue) == 0, f"{peer.count(queue)} messages wait afterwards"
    )


@case(GET, REDELIVERED_FLAG, needs={"amqp091"})
@over(examples=3, kind=Kind.any)
def test_messages_can_be_got_one_by_one(target: Bench, kind: Kind) -> None:
    """basic.get returns the oldest message and the number left, without redelivered set. On an
    empty queue it is answered with get-empty."""
    peer = target.amqp091()
    queue, exchange = kind.queue(target, peer), exchange_of(target, peer, "direct")
    peer.call("queue.bind", {"queue": queue, "exchange": exchange, "routing-key": "k"})
    for at in range(3):
        peer.publish(b"%d" % at, "k", exchange=exchange)
    peer.settle()
    for at in range(3):
        answer = peer.get(queue, proves=GET)
        fields = (
            answer.body,
            answer.get("message-count"),
            answer.get("exchange"),
            answer.get("routing-key"),
        )
        detail = f"get-ok number {at} has {shown(fields)}"
        target.record_finding(GET, fields == (b"%d" % at, 2 - at, exchange, "k"), detail)
        words = f"a message not yet delivered has redelivered={shown(answer.get('redelivered'))}"
        target.record_finding(REDELIVERED_FLAG, answer.get("redelivered") is False, words)
    answer = peer.get(queue, proves=GET)
    target.record_finding(
        GET,
        answer.name == "basic.get-empty",
        f"with all messages delivered and none acknowledged, the broker sent {answer.brief()}",
    )
