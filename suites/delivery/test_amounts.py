"""Requirements on messages hold for any number of messages.

The cases vary the number of waiting messages, of messages per settlement, transaction or write, and
of consumers, subscriptions, links, channels or redeliveries
(:mod:`brokerproof.suites.steps.amounts`).
"""

from collections import Counter
from functools import partial

from hypothesis import strategies as st

from brokerproof.suites.amqp091.steps import Kind, exchange_of
from brokerproof.suites.amqp10.steps import collect
from brokerproof.suites.amqp10.transaction_steps import control, post
from brokerproof.suites.api import (
    NS_PER_S,
    PATIENCE,
    Bench,
    ControlFailed,
    RoutingType,
    Target,
    case,
    listed,
    over,
)
from brokerproof.suites.api.amqp091 import method
from brokerproof.suites.api.stomp import StompPeer, frame
from brokerproof.suites.delivery.amount_steps import (
    AMQP091,
    ARTEMIS,
    BYTES,
    OPENWIRE,
    judge_connections,
    judge_width,
    judge_windows,
    most_amqp,
)
from brokerproof.suites.steps import amounts
from brokerproof.suites.steps.queue_clients import (
    CLIENTS,
    Amqp091QueueClient,
    Arrived,
    StompQueueClient,
)
from brokerproof.suites.steps.queue_model import MEMORY, place_names
from brokerproof.suites.steps.queues import QUIET
from brokerproof.suites.steps.whole_histories import (
    corners,
    course,
    history_of,
    over_courses,
    positions,
)

PREFETCH = {"rabbitmq": "RABBITMQ-STOMP-prefetch-1", "activemq": "OPENWIRE-PREFETCH-1"}
"""The requirement on the prefetch of a STOMP subscription, by family."""
PROTOCOLS = ("stomp", "amqp", "core")
"""Protocols over which clients of Artemis share a queue."""


def artemis_protocols(target: Target) -> list[str]:
    """Return the protocols that can use a queue of the target."""
    return [name for name in PROTOCOLS if name in target.identity.capabilities]


@case(*ARTEMIS.ids, needs={"queue-semantics"})
@over_courses(
    20,
    corners(artemis_protocols, 2),
    ends=lambda target: st.tuples(
        st.sampled_from(artemis_protocols(target)), st.sampled_from(artemis_protocols(target))
    ),
    place=lambda target: st.sampled_from([MEMORY, *place_names(target)]),
)
def test_a_history_of_any_length_is_conserved(
    target: Bench,
    position: int,
    stride: int,
    comers: int,
    lost: bool,
    narrow: bool,
    ends: tuple[str, str],
    place: str,
) -> None:
    """Any number of messages pass through a queue, from one protocol to another, in one write and
    in transactions, while consumers settle any number of them at a time and leave while they hold
    more. Each arrives once, in its producer's order. One scenario: the requirements constrain one
    history."""
    most = None if place == MEMORY else 150
    plan = course(target, position, stride, comers, lost, narrow, most)
    history_of(target, ARTEMIS, ends, plan, place)


def amqp091_kinds(target: Target) -> list[str]:
    return [kind.type for kind in Kind.each(target)]


def amqp091_corners(target: Target) -> list[dict[str, object]]:
    """The histories of a classic queue, and the first of them of each other kind."""
    plans = corners(lambda target: ["amqp091"], 0, kind="classic")(target)
    return [*({**plans[0], "kind": kind} for kind in amqp091_kinds(target)[1:]), *plans]


@case(*AMQP091.ids, needs={"amqp091"})
@over_courses(15, amqp091_corners, kind=lambda target: st.sampled_from(amqp091_kinds(target)))
def test_a_history_of_amqp091_of_any_length_is_conserved(
    target: Bench, position: int, stride: int, comers: int, lost: bool, narrow: bool, kind: str
) -> None:
    """Any number of messages pass through a classic or quorum queue of AMQP 0-9-1, with confirms if
    supported, and in transactions, while consumers acknowledge with multiple and leave. Each
    arrives once and in its channel's order, marked if it returned. One scenario: the requirements
    constrain one history."""
    plan = course(target, position, stride, comers, lost, narrow)
    history_of(target, AMQP091, ("amqp091", "amqp091"), plan, kind=kind)


@case(*OPENWIRE.ids, needs={"openwire"})
@over_courses(
    15,
    corners(lambda target: ["openwire"], 0, producer="openwire"),
    producer=st.sampled_from(["openwire", "stomp"]),
)
def test_a_history_of_openwire_of_any_length_is_conserved(
    target: Bench, position: int, stride: int, comers: int, lost: bool, narrow: bool, producer: str
) -> None:
    """Any number of messages pass through an ActiveMQ queue while consumers acknowledge ranges of
    messages and leave. Each is delivered until it is acknowledged, in its producer's order."""
    plan = course(target, position, stride, comers, lost, narrow)
    history_of(target, OPENWIRE, (producer, "openwire"), plan)


# --- windows --------------------------------------------------------------------------------------


@case("AMQP091-QOS-01", "AMQP091-QOS-02", needs={"amqp091"})
@amounts.over_amounts()
def test_a_prefetch_of_any_size_is_filled_again(target: Bench, position: int) -> None:
    """A consumer gets as many messages as its prefetch allows, acknowledges all, and gets as many
    again."""
    window = amounts.at(target, position, least=1, most=2**16 - 1)
    judge_windows(target, "amqp091", window, ("AMQP091-QOS-01", "AMQP091-QOS-02"))


@case("OPENWIRE-PREFETCH-1", "OPENWIRE-PREFETCH-2", needs={"openwire"})
@amounts.over_amounts()
def test_an_openwire_prefetch_of_any_size_is_filled_again(target: Bench, position: int) -> None:
    """A consumer gets as many messages as its prefetch limit, acknowledges all of them, and gets as
    many again."""
    # Three rounds of decoded messages are kept in memory.
    most = 2**15 - 1 if target.virtual else 2000
    window = amounts.at(target, position, least=1, most=most)
    judge_windows(target, "openwire", window, ("OPENWIRE-PREFETCH-1", "OPENWIRE-PREFETCH-2"))


@case(*PREFETCH.values(), needs={"transactions", "stomp-1.2", "anycast"})
@over(
    examples=6,
    always=lambda target: [{"position": amounts.SOME, "mode": "client-individual"}],
    position=positions,
    mode=st.sampled_from(["client", "client-individual"]),
)
def test_a_prefetch_is_filled_again_with_each_commit(
    target: Bench, position: int, mode: str
) -> None:
    """A STOMP consumer gets as many messages as its prefetch allows, acknowledges them in a
    transaction, and gets as many again when the transaction is committed."""
    rule = PREFETCH.get(target.profile.name, "")
    others = tuple(set(PREFETCH.values()) - {rule})
    target.record_not_applicable(others, "that prefetch is another broker's")
    if rule:
        window = amounts.at(target, position, least=1, most=200)
        judge_windows(target, "stomp", window, (rule, rule), mode=mode, commits=True)


WIDTH = {**PREFETCH, "artemis": BYTES}


@case(*WIDTH.values(), needs={"transactions", "stomp-1.2", "anycast"})
@over(
    examples=6,
    always=lambda target: [{"window": 3, "ends": ["ABORT", "COMMIT", "ABORT"]}],
    window=st.integers(1, 5),
    ends=st.lists(st.sampled_from(["ABORT", "COMMIT"]), min_size=1, max_size=4),
)
def test_a_prefetch_is_as_wide_after_aborted_acknowledgements(
    target: Bench, window: int, ends: list[str]
) -> None:
    """A STOMP consumer acknowledges everything that it holds in successive transactions, some of
    which are aborted, and finally without a transaction. Then as many messages as its prefetch
    allows arrive again."""
    rule = WIDTH.get(target.profile.name, "")
    target.record_not_applicable(tuple({*WIDTH.values()} - {rule}), "another broker's prefetch")
    for patience in (QUIET, PATIENCE) if rule else ():
        client, doubtful = StompQueueClient(target, target.fresh_name()), list[Arrived]()
        try:
            judge_width(target, rule, client, window, ends, patience, doubtful)
            return
        except ControlFailed:
            if not doubtful or client.peer.take(frame("ERROR")) is None:
                raise
    if rule:
        detail = f"of a prefetch of {window}, an ACK is refused for messages that an ABORT should"
        detail += f" have given back, but none arrived for {PATIENCE // NS_PER_S} s"
        target.record_finding(rule, False, detail)


def arrived_at(consumer: StompPeer, count: int) -> bool:
    """True if ``count`` messages have arrived at ``consumer`` since it connected."""
    return consumer.messages_seen >= count


@case("ARTEMIS-STOMP-window-3", needs={"consumer-window", "queue-semantics", "stomp-1.2"})
@amounts.over_amounts()
def test_a_window_of_any_size_opens_again_as_wide(target: Bench, position: int) -> None:
    """Messages arrive until their bytes reach the window; one cumulative ACK settles them all, and
    as many bytes arrive again."""
    messages = amounts.at(target, position, least=1)
    to = target.destination()
    producer, consumer, probe = target.stomp(), target.stomp(), target.destination()
    producer.publish(probe, b"%07d" % 0)
    consumer.subscribe(probe, "probe", ack="client")
    size = consumer.message().size
    window = messages * size
    with producer.in_one_write():
        for number in range(4 * messages + 8):
            producer.publish(to, b"%07d" % number, receipt=False)
    producer.settle()
    consumer.subscribe(to, ack="client", headers={"consumer-window-size": str(window)})
    seen = 1
    target.used_amount("messages in a window", messages)
    for number in range(3):
        target.wait_until(partial(arrived_at, consumer, seen + messages), PATIENCE)
        target.advance(QUIET)
        frames = consumer.take_messages()
        seen += len(frames)
        total = sum(frame.size for frame in frames)
        arrived = f"{len(frames)} messages ({total} bytes) arrived"
        detail = f"in round {number + 1} with a window of {window} bytes, {arrived}"
        last = frames[-1].size if frames else 0
        target.require("ARTEMIS-STOMP-window-3", total >= window and total - last < window, detail)
        consumer.ack(frames[-1], receipt=True)


@case("ARTEMIS-STOMP-window-3", needs={"consumer-window", "queue-semantics", "stomp-1.2"})
@amounts.over_amounts(examples=5)
def test_a_window_is_as_wide_after_any_number_of_settlements(target: Bench, position: int) -> None:
    """A consumer settles any number of messages one by one. Then messages arrive until their bytes
    reach the window, as at first."""
    settlements = amounts.at(target, position, least=1)
    to, peer = target.destination(), target.stomp()
    peer.publish(to, b"%07d" % 0)
    peer.subscribe(to, "probe", ack="client")
    size = peer.message().size
    peer.request("UNSUBSCRIBE", {"id": "probe"})
    window = 3 * size + 1
    peer.subscribe(to, ack="client-individual", headers={"consumer-window-size": str(window)})
    peer.ack(peer.message(), receipt=True)
    for number in range(settlements):
        peer.publish(to, b"%07d" % number, receipt=False)
        peer.ack(peer.message(), receipt=False)
    peer.settle()
    target.used_amount("settlements of a window", settlements)
    for number in range(8):
        peer.publish(to, b"%07d" % number)
    target.advance(QUIET)
    frames = peer.take_messages()
    total, last = sum(frame.size for frame in frames), frames[-1].size if frames else 0
    is_filled = total >= window and total - last < window
    detail = f"after {settlements} settlements, {len(frames)} messages ({total} bytes) arrived"
    target.record_finding(
        "ARTEMIS-STOMP-window-3", is_filled, f"{detail}; the window is {window} bytes"
    )


# --- crowds ---------------------------------------------------------------------------------------


@case("AMQP10-TXN-06", needs={"amqp-transactions"})
@amounts.over_amounts(examples=10)
def test_any_number_of_amqp_transactions_is_open(target: Bench, position: int) -> None:
    """Any number of transactions are open at a time, with one message each. Every other one is
    committed and the rest are rolled back. Exactly the messages of the committed ones arrive."""
    count = amounts.at(target, position, least=2, most=600)
    peer, node = target.amqp(), target.node()
    coordinator, link = control(target, peer), peer.sender(node)
    ids = []
    for number in range(count):
        ids.append(coordinator.declare())
        post(target, peer, link, ids[-1], b"%d" % number)
        peer.inbox.clear()  # each wait looks at all of it
    for number, id in enumerate(ids):
        coordinator.discharge(id, fail=bool(number % 2))
        peer.inbox.clear()
    target.used_amount("open transactions", count)
    reader = target.amqp()
    expected = (count + 1) // 2
    got = collect(target, reader, reader.receiver(node, credit=count), expected)
    numbers = [int(bytes(delivery.message.body)) for delivery in got]
    detail = f"{expected} of {count} transactions were committed; {listed(numbers)} arrived"
    target.record_finding("AMQP10-TXN-06", not any(number % 2 for number in numbers), detail)
    target.control(set(numbers) >= set(range(0, count, 2)), detail)


@case("ARTEMIS-CONCEPTS-topic-1", "ARTEMIS-GROUPING-fifo-1", needs={"queue-semantics", "amqp"})
@over(
    examples=10,
    always=lambda target: [
        {"position": position, "stride": amounts.SOME} for position in (amounts.FEW, 0)
    ],
    position=positions,
    stride=positions,
)
def test_a_subscription_lags_by_any_number_of_messages(
    target: Bench, position: int, stride: int
) -> None:
    """Two subscriptions of a topic grant no credit while any number of messages are sent, and later
    grant some at a time. Each gets all messages in order."""
    count, step = amounts.at(target, position, least=1), amounts.at(target, stride, least=20)
    node, peer, producer = target.node(RoutingType.MULTICAST), target.amqp(), target.amqp()
    links = [peer.receiver(node) for _ in range(2)]
    sender = CLIENTS["amqp"](target, "")
    sender.peer, sender.node = producer, node  # type: ignore[attr-defined]
    sent = [b"%d" % number for number in range(count)]
    sender.send(sent)
    target.used_amount("messages that a subscription lags by", count)
    for link in links:
        got: list[bytes] = []
        while len(got) < count:
            peer.flow(link, link_credit=step)
            more = collect(target, peer, link, min(step, count - len(got)), quiet=0)
            if not more:
                break
            got += [bytes(delivery.message.body) for delivery in more]
            peer.disposition(more[0], "accepted", last=more[-1].id)
        detail = f"of {count} messages sent {step} at a time, {len(got)} arrived"
        target.record_finding("ARTEMIS-CONCEPTS-topic-1", sorted(got) == sorted(sent), detail)
        target.record_finding("ARTEMIS-GROUPING-fifo-1", got == sorted(got, key=int), detail)


@case(
    "ARTEMIS-CONCEPTS-queue-1",
    "ARTEMIS-FLOW-consumer-3",
    needs={"queue-semantics", "consumer-window", "stomp-1.2"},
)
@amounts.over_amounts(examples=10)
def test_any_number_of_consumers_shares_a_queue(target: Bench, position: int) -> None:
    """Any number of consumers with windows wait at a queue for three messages each. Each message
    arrives once, and the consumers take turns; in real time a busy connection may miss some
    turns."""
    count = amounts.at(target, position, least=2, most=2000)
    to, peer, producer = target.destination(), target.stomp(), target.stomp()
    with peer.in_one_write():
        for number in range(count):
            window = {"consumer-window-size": "100000"}
            peer.subscribe(to, str(number), ack="client", headers=window, receipt=False)
    peer.settle()
    target.used_amount("consumers of a queue", count)
    total = 3 * count
    with producer.in_one_write():
        for number in range(total):
            producer.publish(to, b"%d" % number, receipt=False)
    producer.settle()
    target.wait_until(lambda: peer.messages_seen >= total, PATIENCE)
    target.advance(QUIET)
    messages = peer.take_messages()
    times = Counter(message.body for message in messages)
    wrong = [number for number in range(total) if times[b"%d" % number] != 1]
    detail = f"{count} consumers and {total} messages: {len(messages)} arrived"
    words = f"{detail}; not exactly once: {listed(wrong)}"
    target.record_finding("ARTEMIS-CONCEPTS-queue-1", not wrong, words)
    shares = Counter(message.get("subscription") for message in messages)
    most, least = max(shares.values(), default=0), min(shares.values(), default=0)
    fair = len(shares) == count and most - least <= (1 if target.virtual else 3)
    detail += f"at {len(shares)} consumers, {least} to {most} each"
    target.record_finding("ARTEMIS-FLOW-consumer-3", fair, detail)


@case("AMQP091-EXCH-03", "AMQP091-EXCH-04", "AMQP091-EXCH-05", needs={"amqp091"})
@over(
    examples=10,
    always=lambda target: [{"position": 0, "kind": kind} for kind in ("topic", "fanout")],
    position=positions,
    kind=st.sampled_from(["direct", "fanout", "topic"]),
)
def test_a_message_passes_to_any_number_of_queues(target: Bench, position: int, kind: str) -> None:
    """Any number of queues are bound to an exchange by one key. A message arrives in each, once."""
    count = amounts.at(target, position, least=1, most=1100)
    peer = target.amqp091()
    exchange, queues = exchange_of(target, peer, kind), [target.fresh_name() for _ in range(count)]
    with peer.in_one_write():
        for queue in queues:
            fields = {"queue": queue, "exclusive": True, "no-wait": True}
            peer.send("queue.declare", fields, channel=1)
            fields = {"queue": queue, "exchange": exchange, "routing-key": "key", "no-wait": True}
            peer.send("queue.bind", fields, channel=1)
    peer.settle()
    target.used_amount("queues of an exchange", count)
    peer.publish(b"for all", "key", exchange=exchange)
    peer.settle()
    with peer.in_one_write():
        for queue in queues:
            peer.send("basic.get", {"queue": queue, "no-ack": True}, channel=1)
    peer.settle()
    got = sum(item.name == "basic.get-ok" for item in peer.inbox)
    rule = {"direct": "AMQP091-EXCH-03", "fanout": "AMQP091-EXCH-04", "topic": "AMQP091-EXCH-05"}
    detail = f"of {count} queues bound to a {kind} exchange, {got} got the message"
    target.record_finding(rule[kind], got == count, detail)


@case(AMQP091.once, needs={"amqp091"})
@amounts.over_amounts(4)
def test_any_number_of_amqp091_connections_is_served(target: Bench, position: int) -> None:
    """Any number of connections are open at a time, and the message that each publishes arrives."""
    judge_connections(target, Amqp091QueueClient, position, most_amqp(target), AMQP091.once)


@case("AMQP091-QOS-01", "AMQP091-QOS-02", needs={"amqp091"})
@amounts.over_amounts(examples=10)
def test_any_number_of_channels_has_a_prefetch(target: Bench, position: int) -> None:
    """Any number of channels each have a consumer of the same queue, with a prefetch of one. Twice
    as many messages are sent. Each consumer gets one, and another after its acknowledgement."""
    tuned = target.amqp091()
    assert tuned.tuned is not None
    most = (tuned.tuned["channel-max"] or 2047) - 1
    count = amounts.at(target, position, least=1, most=most)
    peer = target.amqp091(channels=count)
    queue = target.fresh_name()
    tuned.declare(queue)
    with peer.in_one_write():
        for channel in range(1, count + 1):
            peer.send("basic.qos", {"prefetch-count": 1}, channel=channel)
            peer.send("basic.consume", {"queue": queue}, channel=channel)
    for channel in (1, count):
        peer.settle(channel)
    with tuned.in_one_write():
        for number in range(2 * count):
            tuned.publish(b"%d" % number, queue)
    tuned.settle()
    target.used_amount("channels of a connection", count)
    arrived = Counter[int]()
    deliver = method("basic.deliver")
    for turn in (1, 2):
        target.wait_until(
            lambda: sum(deliver.accepts(item) for item in peer.inbox) >= count, PATIENCE
        )
        target.advance(QUIET)
        deliveries = [item for item in peer.inbox if deliver.accepts(item)]
        peer.inbox = [item for item in peer.inbox if not deliver.accepts(item)]
        arrived.update(item.channel for item in deliveries)
        detail = f"{count} channels with a prefetch of one got {len(deliveries)} in round {turn}"
        target.record_finding("AMQP091-QOS-01", max(arrived.values(), default=0) <= turn, detail)
        target.record_finding("AMQP091-QOS-02", len(deliveries) == count, detail)
        with peer.in_one_write():
            for item in deliveries:
                peer.ack(item["delivery-tag"], channel=item.channel)


@case("ARTEMIS-CONCEPTS-queue-1", needs={"queue-semantics", "amqp"})
@over(
    examples=10,
    always=lambda target: [{"position": 0, "by": by, "credit": 3} for by in ("links", "sessions")],
    position=positions,
    by=st.sampled_from(["links", "sessions"]),
    credit=st.integers(1, 3),
)
def test_any_number_of_amqp_links_shares_a_queue(
    target: Bench, position: int, by: str, credit: int
) -> None:
    """Any number of links, in one session or in separate sessions, have some credit. As many
    messages are sent as there is credit in total. Each link gets its share."""
    peer, node = target.amqp(), target.node()
    assert peer.opened is not None
    most = 600 if by == "links" else min(600, peer.opened.get("channel-max", 65535))
    count = amounts.at(target, position, least=1, most=most)
    links = []
    for number in range(count):
        session = peer.session if by == "links" else peer.begin(number + 1)
        links.append(peer.receiver(node, session=session, credit=credit))
        peer.inbox.clear()  # each wait looks at all of it
    target.used_amount(f"{by} of a connection", count)
    producer = CLIENTS["amqp"](target, "")
    producer.node = node  # type: ignore[attr-defined]
    total = count * credit
    producer.send([b"%d" % number for number in range(total)])
    target.wait_until(lambda: len(peer.deliveries) >= total, PATIENCE)
    target.advance(QUIET)
    got = peer.take_deliveries()
    times = Counter(id(delivery.link) for delivery in got)
    wrong = sum(times[id(link)] != credit for link in links)
    detail = f"{count} {by} with a credit of {credit} and {total} messages: {len(got)} arrived, and"
    detail += f" {wrong} links did not get as many as their credit"
    target.record_finding("ARTEMIS-CONCEPTS-queue-1", not wrong, detail)


# --- redeliveries ---------------------------------------------------------------------------------


@case("AMQP091-REJ-01", "AMQP091-QOS-02", "RABBITMQ-AMQP091-NACK-02", needs={"amqp091"})
@amounts.over_amounts(examples=10)
def test_a_message_is_requeued_any_number_of_times(target: Bench, position: int) -> None:
    """The first of two messages is rejected with requeue any number of times, next to consumers
    that are at their prefetch. It is delivered again each time, before the second.

    The specification's XML forbids delivering it again on the same channel. A broker that obeys
    keeps it for another channel and delivers the second message.
    """
    count = amounts.at(target, position, least=1)
    peer, queue = target.amqp091(), target.fresh_name()
    peer.declare(queue)
    for _ in range(3):
        full = target.amqp091()
        full.call("basic.qos", {"prefetch-count": 1})
        full.consume(queue)
        peer.publish(b"held", queue)
        full.delivery()
    peer.call("basic.qos", {"prefetch-count": 1})
    for body in (b"first", b"second"):
        peer.publish(body, queue)
    peer.consume(queue)
    target.used_amount("redeliveries", count)
    delivery = peer.delivery()
    for number in range(1, count + 1):
        fields = {"delivery-tag": delivery["delivery-tag"], "requeue": True}
        peer.send("basic.reject", fields, channel=1)
        again = peer.watch_for(method("basic.deliver", channel=1), within=PATIENCE)
        got = "nothing" if again is None else repr(again.body)
        detail = f"after {number} rejections, {got} is delivered"
        is_first = again is not None and again.body == b"first"
        target.record_finding("RABBITMQ-AMQP091-NACK-02", is_first, detail)
        if again is None or not is_first:
            left = target.amqp091().get(queue).body
            detail += f", and another channel gets {listed([left])}"
            behind = again or peer.watch_for(method("basic.deliver", channel=1), within=PATIENCE)
            is_late = again is None and behind is not None and behind.body == b"first"
            target.control(not is_late, f"{detail}; the first was delivered late")
            target.record_finding("AMQP091-REJ-01", left == b"first", detail)
            if left == b"first":
                got = "nothing" if behind is None else repr(behind.body)
                detail += f"; then {got} is delivered"
                target.record_finding("AMQP091-QOS-02", behind is not None, detail)
            return
        delivery = again
    held = ("AMQP091-REJ-01", "AMQP091-QOS-02")
    target.record_held(held, delivery, f"it is delivered again {count} times")


@case("AMQP10-OUT-08", "AMQP10-OUT-09", needs={"amqp-redelivery"})
@amounts.over_amounts(examples=10)
def test_a_message_is_released_any_number_of_times(target: Bench, position: int) -> None:
    """A message is released any number of times. It can be received again each time, unchanged and
    with the same delivery-count."""
    # Each release is a round trip: on a real broker more would take too long for a case.
    count = amounts.at(target, position, least=1, most=None if target.virtual else 1000)
    name = target.fresh_name()
    producer, peer = CLIENTS["amqp"](target, name), target.amqp()
    producer.send([b"the one"])
    link = peer.receiver(target.node(name=name))
    target.used_amount("redeliveries", count)
    for number in range(count + 1):
        peer.flow(link, link_credit=1)
        is_here = target.wait_until(lambda: bool(peer.deliveries), PATIENCE)
        detail = f"after {number} releases, the message {'is' if is_here else 'is not'} delivered"
        target.require("AMQP10-OUT-09", is_here, detail)
        message = (delivery := peer.delivery(link)).message
        counted = message.fields("header").get("delivery-count", 0) or 0
        detail = f"after {number} releases, the delivery-count is {counted}"
        target.require("AMQP10-OUT-08", counted == 0, detail)
        if number < count:
            peer.disposition(delivery, "released")


@case(ARTEMIS.back, "ARTEMIS-GROUPING-fifo-1", needs={"queue-semantics"})
@over(
    examples=6,
    always=lambda target: [
        {"position": position, "ends": "cab", "lost": lost, "spoken": spoken}
        for spoken in artemis_protocols(target)
        for position, lost in ((amounts.FEW, False), (amounts.SOME, True))
    ],
    position=positions,
    ends=st.permutations("abc"),
    lost=st.booleans(),
    spoken=lambda target: st.sampled_from(artemis_protocols(target)),
)
def test_any_number_of_messages_returns_to_its_place(
    target: Bench, position: int, ends: str, lost: bool, spoken: str
) -> None:
    """Three consumers, served in turn, each hold any number of a queue's messages, and more
    messages wait. The consumers leave in any order, or are lost. The next consumer gets all
    messages in the order of sending."""
    count, name = amounts.at(target, position, least=1, most=300), target.fresh_name()
    producer, *consumers = (CLIENTS[spoken](target, name) for _ in range(4))
    for consumer in consumers:
        consumer.join(count)
    sent = [b"%05d" % number for number in range(5 * count)]
    producer.send(sent)
    shares = [len(consumer.receive(count // 2)) for consumer in consumers]
    target.advance(QUIET)
    target.used_amount("returned messages", sum(shares))
    for end in ends:
        consumers["abc".index(end)].leave(lost)
    words = f"{spoken}: {listed(shares)} of {len(sent)} were held and {'lost' if lost else 'given'}"
    (heir := CLIENTS[spoken](target, name)).join()
    got = heir.receive(len(sent))
    detail = f"{words} back in the order {''.join(ends)}; {len(got)} arrived"
    target.record_finding(ARTEMIS.back, sorted(got) == sent, detail)
    if lost and got != sent:  # the broker may notice only now that they are gone
        heir.leave(False)
        (heir := CLIENTS[spoken](target, name)).join()
        got = heir.receive(len(sent))
    late = [int(one) for one, due in zip(got, sent, strict=False) if one != due]
    target.record_finding("ARTEMIS-GROUPING-fifo-1", not late, f"{detail}, late: {listed(late)}")
