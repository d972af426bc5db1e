"""Channels (class channel, 4.3, 4.5, 4.8)."""

from hypothesis import strategies as st

from brokerproof.suites.amqp091.steps import (
    ARGUMENTS,
    CHANNEL,
    CONFIRMS,
    CONNECTION,
    CONSUMER_PREFETCH,
    QUIET,
    Kind,
    arrive,
    bodies,
    drained,
    eventually,
    fill,
    offers,
    queue_of,
    record_close,
)
from brokerproof.suites.amqp091.test_confirms import answers
from brokerproof.suites.api import PATIENCE, Bench, case, listed, over, shown
from brokerproof.suites.api.amqp091 import Amqp091Peer, either, method

CHANNEL_OPENED_TWICE = "AMQP091-CHAN-01"
CHANNEL_NOT_OPEN = "AMQP091-CHAN-03"
OTHER_CHANNELS_CONTINUE = "AMQP091-CHAN-02"
CHANNEL_MAX_EXCEEDED = "AMQP091-TUNE-06"
CLOSED_CHANNEL_REDELIVERS = "AMQP091-CHAN-04"
REDELIVERED_FLAG = "AMQP091-RED-01"
REQUEUE_POSITION = "RABBITMQ-AMQP091-NACK-02"
CHANNEL_FLOW = "AMQP091-CHAN-05"
MESSAGES_WHOLE = "AMQP091-CONTENT-03"
NOTHING_BEFORE_OK = "AMQP091-CONS-06"
NOTHING_AFTER_CANCEL = "AMQP091-CONS-03"
TAGS = "AMQP091-TAG-01"
LIMITS_STAY = "RABBITMQ-AMQP091-LEN-01"
CONFIRM_NUMBERS = "RABBITMQ-AMQP091-CONF-01"
PREFETCH = "RABBITMQ-AMQP091-QOS-01"
BODY_FRAME = 8
"""Bytes of a frame besides its payload."""


@case(CHANNEL_OPENED_TWICE, needs={"amqp091"})
def test_a_channel_is_opened_once(target: Bench) -> None:
    """A second channel.open on an open channel closes the connection with 504 CHANNEL_ERROR."""
    peer = target.amqp091()
    peer.send("channel.open", channel=1)
    peer.refused(CONNECTION, 504, proves=CHANNEL_OPENED_TWICE)


@case(CHANNEL_NOT_OPEN, needs={"amqp091"})
@over(
    examples=6,
    always=lambda target: [{"name": "queue.declare", "closed": False}],
    name=st.sampled_from(["basic.qos", "queue.declare", "basic.get", "tx.select"]),
    closed=st.booleans(),
)
def test_a_method_on_a_channel_that_is_not_open_is_an_error(
    target: Bench, name: str, closed: bool
) -> None:
    """A method on a channel that was never opened or has been closed closes the connection with 504
    CHANNEL_ERROR."""
    peer = target.amqp091(channels=2)
    if closed:
        peer.close_channel(2)
    peer.send(name, {}, channel=2 if closed else 9)
    if name == "queue.declare":
        record_close(target, peer, "amqp091.channel-not-open")
    peer.refused(CONNECTION, 504, proves=CHANNEL_NOT_OPEN)


def missing_exchange(target: Bench, peer: Amqp091Peer, channel: int = 1) -> None:
    """Name an exchange that does not exist, which closes the channel. An unknown queue would not
    do: some brokers create any queue that is named."""
    missing = {"exchange": target.fresh_name(), "passive": True}
    peer.send("exchange.declare", missing, channel=channel)


@case(OTHER_CHANNELS_CONTINUE, needs={"amqp091"})
def test_other_channels_go_on(target: Bench) -> None:
    """A channel exception closes one channel; another one still publishes and consumes."""
    peer = target.amqp091(channels=2)
    queue = queue_of(peer, channel=2)
    peer.consume(queue, channel=2, no_ack=True)
    missing_exchange(target, peer)
    peer.refused(CHANNEL, 404, channel=1)
    peer.publish(b"after", queue, channel=2)
    delivery = peer.delivery(channel=2, proves=OTHER_CHANNELS_CONTINUE)
    words = f"channel 2 delivered {delivery.brief()}"
    target.record_finding(OTHER_CHANNELS_CONTINUE, delivery.body == b"after", words)


@case(CHANNEL_MAX_EXCEEDED, needs={"amqp091"})
@over(examples=3, most=st.sampled_from([1, 2, 5]))
def test_more_channels_than_agreed_are_refused(target: Bench, most: int) -> None:
    """As many channels as channel-max allows can be opened, and opened again once closed. One more
    closes the connection."""
    peer = target.amqp091(channels=most, channel_max=most)
    for _ in range(most + 1):
        peer.close_channel(most)
        peer.open_channel(most, proves=CHANNEL_MAX_EXCEEDED)
    peer.send("channel.open", channel=most + 1)
    peer.expect(method("connection.close", channel=0), proves=CHANNEL_MAX_EXCEEDED)


@case(CLOSED_CHANNEL_REDELIVERS, REDELIVERED_FLAG, REQUEUE_POSITION, needs={"amqp091"})
@over(
    examples=4,
    always=lambda target: [
        {"way": "exception", "transacts": True, "kind": kind} for kind in Kind.each(target)
    ],
    way=st.sampled_from(["channel.close", "exception", "connection.close", "gone"]),
    transacts=st.booleans(),
    kind=Kind.any,
)
def test_what_a_closed_channel_had_is_delivered_again(
    target: Bench, kind: Kind, way: str, transacts: bool
) -> None:
    """Of three delivered messages one is acknowledged; then the channel or its connection is
    closed, cleanly or not. Another consumer gets the other two with redelivered set, or all three
    if the acknowledgement was in an open transaction, and a new message."""
    owner = target.amqp091()
    name, peer = kind.queue(target, owner, exclusive=False), target.amqp091()
    peer.properties = owner.properties
    fill(peer, name, [b"1", b"2", b"3"])
    peer.consume(name)
    first = arrive(peer, 3)
    target.control(bodies(first) == [b"1", b"2", b"3"], "three messages should arrive")
    if transacts:
        peer.call("tx.select")
        peer.publish(b"4", name)
    peer.ack(first[0]["delivery-tag"])
    peer.settle()
    match way:
        case "channel.close":
            peer.close_channel()
        case "exception":
            missing_exchange(target, peer)
            peer.refused(CHANNEL, 404)
        case "connection.close":
            peer.close()
        case "gone":
            peer.close_socket()
    owner.consume(name, no_ack=True)
    due = [b"1", b"2", b"3"] if transacts else [b"2", b"3"]
    deliveries = arrive(owner, len(due))
    detail = f"after the channel was closed, {listed(bodies(deliveries))} arrived;"
    detail += f" expected {listed(due)}"
    target.record_finding(CLOSED_CHANNEL_REDELIVERS, sorted(bodies(deliveries)) == due, detail)
    if kind.keeps_places:
        target.record_finding(REQUEUE_POSITION, bodies(deliveries) == due, detail)
    flags = [delivery["redelivered"] for delivery in deliveries]
    words = f"after the channel was closed, redelivered is {shown(flags)}; expected true"
    target.record_finding(REDELIVERED_FLAG, flags == [True] * len(deliveries), words)
    owner.call("queue.delete", {"queue": name})


MEANWHILE = ("publish", "ack", "requeue", "qos", "consume", "another queue")
"""Actions of a client on a channel whose flow is stopped."""


@case(CHANNEL_FLOW, needs={"amqp091"})
@over(
    examples=6,
    always=lambda target: [{"steps": []}, {"steps": [*MEANWHILE]}],
    steps=st.lists(st.sampled_from(MEANWHILE), unique=True, max_size=4),
)
def test_the_flow_of_content_can_be_stopped(target: Bench, steps: list[str]) -> None:
    """channel.flow with active=false is answered with flow-ok, and no delivery follows, even if the
    client settles deliveries, begins consumers and so on. active=true alone makes the broker
    deliver the waiting message."""
    peer = target.amqp091()
    queue = queue_of(peer)
    peer.call("basic.qos", {"prefetch-count": 3})
    peer.consume(queue)
    for body in (b"held", b"held too"):
        peer.publish(body, queue)
    held = [delivery["delivery-tag"] for delivery in arrive(peer, 2)]
    target.control(len(held) == 2, f"{len(held)} of 2 messages arrived")
    answer = peer.call("channel.flow", {"active": False}, proves=CHANNEL_FLOW)
    target.record_finding(
        CHANNEL_FLOW,
        answer["active"] is False,
        f"channel.flow-ok has active={shown(answer['active'])}; expected false",
    )
    peer.publish(b"later", queue)
    for step in steps:
        match step:
            case "publish":
                peer.publish(b"later", queue)
            case "ack":
                peer.ack(held[0])
            case "requeue":
                fields = {"delivery-tag": held[1], "requeue": True}
                peer.send("basic.reject", fields, channel=1)
            case "qos":
                peer.call("basic.qos", {"prefetch-count": 0})
            case "consume":
                peer.consume(queue, no_ack=True)
            case _:
                peer.consume(other := queue_of(peer), no_ack=True)
                peer.publish(b"later", other)
    peer.expect_nothing(
        for_=QUIET, of=method("basic.deliver"), proves=CHANNEL_FLOW, why="the flow is stopped"
    )
    peer.call("channel.flow", {"active": True}, proves=CHANNEL_FLOW)
    delivery = peer.delivery(proves=CHANNEL_FLOW)
    target.record_finding(
        CHANNEL_FLOW,
        delivery.body in (b"later", b"held too"),
        f"once the flow was on again, {delivery.brief()} arrived",
    )


LENGTH = 2
"""x-max-length in the conflicting declaration of the queue."""
NOT_REFUSED = PATIENCE // 4
"""Wait this long for an exception that the broker need not raise."""
BROKEN, NEIGHBOUR = 1, 2
"""Channels: the one that breaks a rule, and one that does not."""


class Shared:
    """A queue shared by two channels of a connection, and the mistakes that one channel makes."""

    def __init__(self, target: Bench) -> None:
        self.target = target
        self.peer = target.amqp091(channels=2)
        self.limited = offers(target.target, ARGUMENTS)
        limits = {"arguments": {"x-max-length": LENGTH}} if self.limited else {}
        self.queue = queue_of(self.peer, channel=NEIGHBOUR, **limits)
        self.other = queue_of(self.peer, channel=NEIGHBOUR)

    def mistake(self, kind: str) -> bool:
        """Break a rule on one channel. Return True if the broker closes the channel. Some brokers
        tolerate some mistakes; other cases judge that."""
        send = self.peer.send
        match kind:
            case "an unknown exchange":
                missing_exchange(self.target, self.peer, BROKEN)
            case "other arguments":
                fields: dict[str, object] = {"queue": self.queue, "exclusive": True}
                fields |= (
                    {"arguments": {"x-max-length": 5}} if self.limited else {"auto-delete": True}
                )
                send("queue.declare", fields, channel=BROKEN)
            case "exclusive use":
                self.peer.consume(self.other, "first", channel=NEIGHBOUR, no_ack=True)
                send("basic.consume", {"queue": self.other, "exclusive": True}, channel=BROKEN)
            case "an unknown tag":
                send("basic.ack", {"delivery-tag": 99}, channel=BROKEN)
        closes = either(method("channel.close", channel=BROKEN), method("connection.close"))
        close = self.peer.watch_for(closes, within=NOT_REFUSED)
        if close is None or close.name == "connection.close":
            return False
        self.peer.send("channel.close-ok", channel=BROKEN)
        return True

    def works(self) -> None:
        """Judge whether both queues work as before."""
        proves = OTHER_CHANNELS_CONTINUE
        self.peer.consume(self.other, "second", channel=NEIGHBOUR, proves=proves, no_ack=True)
        if not self.limited:
            return
        for number in range(LENGTH + 2):
            self.peer.publish(b"%d" % number, self.queue, channel=NEIGHBOUR)
        self.peer.settle(NEIGHBOUR)
        kept = bodies(drained(self.peer, self.queue, channel=NEIGHBOUR))
        expected = [b"%d" % number for number in range(2, LENGTH + 2)]
        self.target.record_finding(
            LIMITS_STAY,
            kept == expected,
            f"a queue of at most {LENGTH} messages has {listed(kept)}; expected {listed(expected)}",
        )


MISTAKES = ("an unknown exchange", "other arguments", "exclusive use", "an unknown tag")
MIDST = ("a content", "a transaction", "deliveries", "nothing")


@case(
    OTHER_CHANNELS_CONTINUE,
    LIMITS_STAY,
    CONFIRM_NUMBERS,
    PREFETCH,
    MESSAGES_WHOLE,
    needs={"amqp091"},
)
@over(
    examples=8,
    always=lambda target: [
        {"kind": kind, "midst": midst} for kind, midst in zip(MISTAKES, MIDST, strict=True)
    ],
    situations=(*MISTAKES, *MIDST),
    kind=st.sampled_from(MISTAKES),
    midst=st.sampled_from(MIDST),
)
def test_a_mistake_on_one_channel_touches_nothing_else(
    target: Bench, kind: str, midst: str
) -> None:
    """A channel with a prefetch and in confirm mode breaks a rule while another is in the middle of
    a content or a transaction, or has deliveries. The other channel continues unharmed, the queues
    are unchanged, and the first channel has no old state when opened again. One scenario: an
    exception must not affect any of these."""
    shared = Shared(target)
    peer, place = shared.peer, queue_of(shared.peer, channel=NEIGHBOUR)
    confirms = offers(target.target, CONFIRMS)
    if confirms:
        peer.call("confirm.select", channel=BROKEN)
    # In the specification "global" means the connection, in RabbitMQ the channel.
    for wide in (False, True) if offers(target.target, CONSUMER_PREFETCH) else (False,):
        peer.call("basic.qos", {"prefetch-count": 1, "global": wide}, channel=BROKEN)
    own = queue_of(peer, channel=BROKEN)
    peer.publish(b"confirmed", own, channel=BROKEN)
    if confirms:
        answers(peer, 1, channel=BROKEN)
    else:
        peer.settle(BROKEN)
    tags: list[int] = []
    rest = b""
    match midst:
        case "a content":
            data = peer.publication(b"whole", place, channel=NEIGHBOUR)
            begun = len(data) - len(b"whole") - BODY_FRAME
            rest = data[begun:]
            peer.write(data[:begun])
        case "a transaction":
            peer.call("tx.select", channel=NEIGHBOUR)
            peer.publish(b"whole", place, channel=NEIGHBOUR)
        case "deliveries":
            fill(peer, place, [b"whole"], channel=NEIGHBOUR)
            tags = [peer.get(place, channel=NEIGHBOUR)["delivery-tag"]]
    if midst == "a content" and kind == "exclusive use":
        kind = "an unknown exchange"  # a method may not interrupt a content
    if not shared.mistake(kind):
        return
    target.reached(kind)
    target.reached(midst)
    match midst:
        case "a content":
            peer.write(rest)
        case "a transaction":
            peer.call("tx.commit", channel=NEIGHBOUR, proves=OTHER_CHANNELS_CONTINUE)
        case "deliveries":
            fields = {"delivery-tag": tags[0], "requeue": True}
            peer.send("basic.reject", fields, channel=NEIGHBOUR)
    error = peer.watch_for(
        either(method("connection.close"), method("channel.close")), within=QUIET
    )
    observed = "nothing" if error is None else error.brief()
    detail = f"{kind} on another channel in the middle of {midst} was followed by {observed}"
    target.require(OTHER_CHANNELS_CONTINUE, error is None and peer.ended is None, detail)
    if midst != "nothing":
        eventually(peer, lambda: peer.count(place, channel=NEIGHBOUR) == 1)
        got = bodies(drained(peer, place, channel=NEIGHBOUR))
        target.record_finding(
            MESSAGES_WHOLE if midst == "a content" else OTHER_CHANNELS_CONTINUE,
            got == [b"whole"],
            f"{listed(got)} arrived; expected 'whole'; with {kind} on another channel in the middle"
            f" of {midst}",
        )
    if midst != "a transaction":
        shared.works()
    _is_new(target, peer, own)


def _is_new(target: Bench, peer: Amqp091Peer, queue: str) -> None:
    """Judge whether a reopened channel has lost its prefetch and its confirm mode."""
    peer.open_channel(BROKEN)
    confirms = offers(target.target, CONFIRMS)
    if confirms:
        peer.call("confirm.select", channel=BROKEN)
    for body in (b"1", b"2"):
        peer.publish(body, queue, channel=BROKEN)
    if confirms:
        answered, wrong = answers(peer, 2, channel=BROKEN)
        target.record_finding(
            CONFIRM_NUMBERS,
            sorted(answered) == [1, 2] and not wrong,
            f"the first two messages of a reopened channel were answered with {shown(answered)}",
        )
    peer.consume(queue, channel=BROKEN)
    got = bodies(arrive(peer, 3, channel=BROKEN))
    if offers(target.target, CONSUMER_PREFETCH):
        words = f"a reopened channel, without a prefetch, got {listed(got)} of 3 messages"
        target.record_finding(PREFETCH, got == [b"confirmed", b"1", b"2"], words)


@case(NOTHING_BEFORE_OK, NOTHING_AFTER_CANCEL, OTHER_CHANNELS_CONTINUE, TAGS, needs={"amqp091"})
def test_a_consumer_has_a_beginning_and_an_end(target: Bench) -> None:
    """On a channel with a consumer, a second one starts on a queue with messages. consume-ok
    arrives before its deliveries. After basic.recover no delivery tag is reused. After cancel-ok
    the consumer is not notified when its queue is deleted, and after channel.close nothing arrives
    on the channel. One scenario: the life of a consumer."""
    peer, other = target.amqp091(), target.amqp091()
    quiet, deep = queue_of(peer), queue_of(peer)
    fill(peer, deep, [b"1", b"2", b"3"])
    peer.consume(quiet, "quiet", no_ack=True)
    peer.send("basic.consume", {"queue": deep, "consumer-tag": "deep"}, channel=1)
    first = peer.watch_for(either(method("basic.consume-ok"), method("basic.deliver")))
    observed = peer.instead() if first is None else first.brief()
    fine = first is not None and first.name == "basic.consume-ok"
    target.require(NOTHING_BEFORE_OK, fine, f"the first answer to basic.consume was {observed}")
    tags = [delivery["delivery-tag"] for delivery in arrive(peer, 3)]
    peer.call("basic.recover", {"requeue": True}, channel=1)
    tags += [delivery["delivery-tag"] for delivery in arrive(peer, 3)]
    words = f"with basic.recover in between, the tags are {shown(tags)}"
    target.record_finding(TAGS, len(set(tags)) == len(tags) == 6, words)
    peer.call("basic.cancel", {"consumer-tag": "deep"}, channel=1)
    peer.call("queue.delete", {"queue": deep}, channel=1)
    told = peer.watch_for(method("basic.cancel"), within=QUIET)
    late = "nothing" if told is None else told.brief()
    words = f"after cancel-ok, the queue was deleted; then {late} arrived"
    target.record_finding(NOTHING_AFTER_CANCEL, told is None, words)
    shared = target.fresh_name()
    other.declare(shared, auto_delete=False)
    peer.consume(shared, "broken", no_ack=True)
    missing_exchange(target, peer)
    closed = peer.watch_for(method("channel.close"))
    target.control(closed is not None, f"after a publish to an unknown exchange: {peer.instead()}")
    other.publish(b"for nobody", shared)
    other.settle()
    delivery = peer.watch_for(method("basic.deliver"), within=QUIET)
    late = "nothing" if delivery is None else delivery.brief()
    detail = f"after channel.close, {late} arrived on the channel"
    target.record_finding(OTHER_CHANNELS_CONTINUE, delivery is None, detail)
    peer.send("channel.close-ok", channel=1)
    other.call("queue.delete", {"queue": shared}, channel=1)
