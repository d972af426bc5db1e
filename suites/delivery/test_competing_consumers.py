"""Distribution of messages to one consumer of a queue, or to every subscription of a topic."""

from collections import Counter

from hypothesis import strategies as st

from brokerproof.suites.amqp10.steps import fill
from brokerproof.suites.api import PATIENCE, Bench, CloseHow, RoutingType, case, listed, over
from brokerproof.suites.api.stomp import StompPeer
from brokerproof.suites.steps.queues import (
    QUIET,
    bodies,
    collect,
    expected_arrivals,
    expected_remainder,
    expected_shares,
    left_in,
    numbered,
    publish_all,
    receive,
)

ONE_CONSUMER = "ARTEMIS-CONCEPTS-queue-1"
GONE_WHEN_ACKNOWLEDGED = "ARTEMIS-CONCEPTS-queue-2"
COPY_FOR_EACH = "ARTEMIS-CONCEPTS-topic-1"
ENDS_WITH_CONNECTION = "ARTEMIS-CONCEPTS-topic-2"
SOME = 3
"""Messages in each of several queues."""
ENDS: dict[str, dict[str, str]] = {"UNSUBSCRIBE": {"id": "0"}, "DISCONNECT": {}}
"""Frames by which a consumer ends cleanly."""


def all_of(target: Bench, peers: list[StompPeer], count: int) -> list[list[bytes]]:
    """Wait until ``count`` messages have arrived in total, and QUIET longer. Return the bodies that
    each of ``peers`` has received since it connected.

    Control: all peers stay connected, because a lost consumer's messages go to another one. On a
    busy host, a short TTL may disconnect a client that sends late.
    """
    target.wait_until(lambda: sum(peer.messages_seen for peer in peers) >= count, PATIENCE)
    target.advance(QUIET)
    for peer in peers:
        target.control(peer.ended is None, f"consumer {peer.conn} was lost: {peer.instead()}")
    return [bodies(peer.take_messages()) for peer in peers]


@case(ONE_CONSUMER, needs={"queue-semantics"})
@over(examples=40, several=st.integers(2, 5), count=st.integers(1, 40), auto=st.booleans())
def test_one_and_only_one_consumer_gets_a_message(
    target: Bench, several: int, count: int, auto: bool
) -> None:
    """Several consumers wait on one queue. Each message arrives at exactly one of them."""
    queue, producer = target.destination(), target.stomp("1.2")
    consumers = [target.stomp("1.2") for _ in range(several)]
    for consumer in consumers:
        consumer.subscribe(queue, ack="auto" if auto else "client-individual")
    sent = numbered(min(count, 15 * several))
    publish_all(producer, queue, sent)
    arrived = all_of(target, consumers, len(sent))
    times = Counter(body for received in arrived for body in received)
    wrong = {body: times[body] for body in {*sent, *times} if times[body] != 1 or body not in sent}
    target.record_finding(
        ONE_CONSUMER,
        not wrong,
        f"{len(sent)} messages and {several} consumers, who got"
        f" {listed(map(len, arrived))}; not exactly once: {listed(sorted(wrong))}",
        expectation=expected_shares(consumers, arrived, sent),
    )


@case(ONE_CONSUMER, GONE_WHEN_ACKNOWLEDGED, needs={"queue-semantics"})
def test_when_a_consumer_is_lost_the_others_take_over(target: Bench) -> None:
    """Three consumers share twelve messages: one acknowledges, one is lost and one stays. The
    acknowledged messages are consumed, and the one that stayed gets those of the lost consumer."""
    queue, producer = target.destination(), target.stomp("1.2")
    steady, lost, staying = consumers = [target.stomp("1.2") for _ in range(3)]
    for consumer in consumers:
        consumer.subscribe(queue, ack="client")
    publish_all(producer, queue, numbered(12))
    target.wait_until(lambda: sum(consumer.messages_seen for consumer in consumers) >= 12, PATIENCE)
    shares = [consumer.take_messages() for consumer in consumers]
    detail = f"twelve messages were sent; the shares are {listed(map(len, shares))}"
    target.control(sum(map(len, shares)) == 12, detail)
    if shares[0]:
        steady.ack(shares[0][-1], receipt=True)
    steady.request("UNSUBSCRIBE", {"id": "0"})
    lost.close_socket(CloseHow.RESET)
    received = bodies(collect(target, staying, len(shares[1])))
    settled, orphaned = bodies(shares[0]), bodies(shares[1])
    words = (
        f"one consumer settled {listed(settled)} and another was lost with {listed(orphaned)}; the"
        f" remaining one got {listed(received)}"
    )
    target.record_finding(
        ONE_CONSUMER,
        sorted(received) == sorted(orphaned),
        words,
        expectation=expected_arrivals(staying, received, orphaned, "in any order"),
    )
    target.record_finding(GONE_WHEN_ACKNOWLEDGED, not set(received) & set(settled), words)


@case(ONE_CONSUMER, needs={"queue-semantics", "consumer-window"})
def test_a_consumer_that_takes_nothing_more_stops_nobody(target: Bench) -> None:
    """Of two consumers of a queue, one holds a single message and acknowledges nothing. The other
    consumer gets the remaining nine."""
    queue, full, free = target.destination(), target.stomp("1.2"), target.stomp("1.2")
    full.subscribe(queue, ack="client", headers={"consumer-window-size": "0"})
    free.subscribe(queue, ack="auto")
    sent = numbered(10)
    publish_all(target.stomp("1.2"), queue, sent)
    arrived = all_of(target, [full, free], 10)
    shares = [len(received) for received in arrived]
    detail = f"a window of 0 should let one message out; {shares[0]} were sent"
    target.control(shares[0] <= 1, detail)
    target.record_finding(
        ONE_CONSUMER,
        sorted(arrived[0] + arrived[1]) == sent,
        f"a consumer with room for one message and one with room for all ten got {listed(shares)}",
    )


@case(GONE_WHEN_ACKNOWLEDGED, needs={"queue-semantics"})
def test_what_was_acknowledged_is_gone_for_good(target: Bench) -> None:
    """A consumer empties a queue in auto or client mode and leaves. A later one gets nothing."""
    for ack in ("auto", "client"):
        queue, consumer = target.destination(), target.stomp("1.2")
        publish_all(consumer, queue, numbered(5))
        consumer.subscribe(queue, ack=ack)
        messages = receive(target, consumer, 5)
        target.control(len(messages) == 5, f"five messages were sent; {len(messages)} arrived")
        if ack == "client":
            consumer.ack(messages[-1], receipt=True)
        consumer.request("DISCONNECT")
        consumer.close_socket()
        left = left_in(target, queue, "1.2", 0)
        target.record_finding(
            GONE_WHEN_ACKNOWLEDGED,
            not left,
            f"in mode {ack}, five messages were acknowledged; {listed(left)} arrived again",
            expectation=expected_remainder(()),
        )


@case(COPY_FOR_EACH, needs={"queue-semantics", "multicast"})
@over(examples=30, several=st.integers(1, 5), count=st.integers(1, 30), together=st.booleans())
def test_every_subscription_of_a_topic_gets_every_message(
    target: Bench, several: int, count: int, together: bool
) -> None:
    """A topic has several subscriptions, on one connection or more. Each gets each message once."""
    topic, producer = target.destination(RoutingType.MULTICAST), target.stomp("1.2")
    distinct = [target.stomp("1.2") for _ in range(1 if together else several)]
    for number in range(several):
        distinct[number % len(distinct)].subscribe(topic, f"s{number}")
    sent = numbered(count)
    publish_all(producer, topic, sent)
    each_gets = count * several // len(distinct)
    messages = [
        message for peer in distinct for message in collect(target, peer, each_gets, quiet=0)
    ]
    target.advance(QUIET)
    messages += [message for peer in distinct for message in peer.take_messages()]
    copies = [
        bodies(message for message in messages if message.get("subscription") == f"s{number}")
        for number in range(several)
    ]
    target.record_finding(
        COPY_FOR_EACH,
        all(sorted(copy) == sorted(sent) for copy in copies),
        f"{count} messages and {several} subscriptions on {'one' if together else 'as many'}"
        f" connection{'' if together else 's'}; copies received: {listed(map(len, copies))}",
    )


@case(COPY_FOR_EACH, needs={"queue-semantics", "multicast"})
@over(examples=6, size=st.sampled_from([1, 65_536, 102_399, 102_400, 250_000]))
def test_large_copies_are_alike(target: Bench, size: int) -> None:
    """A body of up to 250,000 bytes is sent to a topic with four subscriptions. Each copy has the
    same bytes."""
    topic, producer = target.destination(RoutingType.MULTICAST), target.stomp("1.2")
    listeners = [target.stomp("1.2") for _ in range(4)]
    for listener in listeners:
        listener.subscribe(topic)
    body = bytes(number % 251 for number in range(size))
    producer.publish(topic, body)
    received = [bodies(receive(target, listener, 1)) for listener in listeners]
    wrong = [number for number, payload in enumerate(received) if payload != [body]]
    target.record_finding(
        COPY_FOR_EACH,
        not wrong,
        f"{size} bytes were sent to four subscriptions; missing or damaged at {wrong or 'none'}",
    )


@case(COPY_FOR_EACH, ENDS_WITH_CONNECTION, needs={"queue-semantics", "multicast"})
@over(
    examples=1,
    always=lambda target: [{"how": how} for how in (*CloseHow, *ENDS)],
    how=st.sampled_from([*CloseHow, *ENDS]),
)
def test_a_subscription_gets_what_is_sent_while_it_stands(target: Bench, how: str) -> None:
    """A subscriber of a topic leaves or is lost, and returns. It gets only the messages sent while
    it is subscribed; a subscriber that stays gets all."""
    topic, producer = target.destination(RoutingType.MULTICAST), target.stomp("1.2")
    staying, first = target.stomp("1.2"), target.stomp("1.2")
    staying.subscribe(topic)
    producer.publish(topic, b"before")
    first.subscribe(topic)
    producer.publish(topic, b"during")
    messages = bodies(receive(target, first, 1))
    if how in ENDS:
        first.request(how, ENDS[how])
    first.close_socket(CloseHow.EOF if how in ENDS else CloseHow(how))
    producer.publish(topic, b"meanwhile")
    second = target.stomp("1.2")
    second.subscribe(topic)
    producer.publish(topic, b"after")
    later = bodies(collect(target, second, 1))
    everything = bodies(collect(target, staying, 4))
    for rule, whose, peer, got, due in (
        (COPY_FOR_EACH, "that stayed", staying, everything, "before during meanwhile after"),
        (COPY_FOR_EACH, "in between", first, messages, "during"),
        (ENDS_WITH_CONNECTION, "that returned", second, later, "after"),
    ):
        expected = due.encode().split()
        words = f"the subscription {whose} got {listed(got)}"
        expectation = expected_arrivals(peer, got, expected)
        target.record_finding(rule, got == expected, words, expectation=expectation)


@case(ONE_CONSUMER, needs={"amqp", "queue-semantics"})
@over(
    examples=4,
    always=lambda target: [{"links": 3, "window": 1}],
    links=st.integers(2, 4),
    window=st.integers(0, 3),
)
def test_all_links_go_on_when_their_session_opens_its_window(
    target: Bench, links: int, window: int
) -> None:
    """Several links of a session, each at its own queue, have credit, but the session's window is
    too small for their messages. One flow opens the window, and all messages of all links
    arrive."""
    nodes = [target.node() for _ in range(links)]
    for node in nodes:
        fill(target, node, numbered(SOME))
    peer = target.amqp()
    session = peer.begin(1, incoming_window=window)
    taking = [peer.receiver(node, session=session) for node in nodes]
    for link in taking:
        peer.flow(link, link_credit=SOME, incoming_window=window)
    target.advance(QUIET)
    early = len(peer.deliveries)
    target.control(early < links * SOME, f"a window of {window} let {early} messages out")
    peer.flow(session=session, incoming_window=1000)
    due = links * SOME
    target.wait_until(lambda: len(peer.deliveries) >= due or peer.ended is not None, PATIENCE)
    shares = [len(peer.take_deliveries(link)) for link in taking]
    target.record_finding(
        ONE_CONSUMER,
        shares == [SOME] * links,
        f"{listed(shares)} of {SOME} messages arrived from each of {links} queues, for a window of"
        f" {window} and then of 1000",
    )


@case(ONE_CONSUMER, needs={"queue-semantics"})
@over(
    examples=2,
    always=lambda target: [{"several": 3, "size": 65_536, "count": 70}],
    several=st.integers(2, 3),
    size=st.sampled_from([16_384, 65_536]),
    count=st.just(70),
)
def test_all_deep_queues_are_emptied(target: Bench, several: int, size: int, count: int) -> None:
    """Several queues hold many large messages, and a consumer of each starts at the same moment.
    Each consumer gets its whole queue, in order, without further action."""
    queues = [target.destination() for _ in range(several)]
    sent = [body.ljust(size, b".") for body in numbered(count)]
    for queue in queues:
        publish_all(target.stomp("1.2"), queue, sent)
    consumers = [target.stomp("1.2") for _ in queues]
    for consumer, queue in zip(consumers, queues, strict=True):
        consumer.subscribe(queue, receipt=False)
    due = several * count
    target.wait_until(
        lambda: sum(consumer.messages_seen for consumer in consumers) >= due, PATIENCE
    )
    arrived = [bodies(consumer.take_messages()) for consumer in consumers]
    target.record_finding(
        ONE_CONSUMER,
        all(received == sent for received in arrived),
        f"{listed(map(len, arrived))} of {count} messages of {size} bytes arrived from each of"
        f" {several} queues",
    )


@case(ONE_CONSUMER, needs={"queue-semantics", "selectors"})
@over(
    examples=6,
    always=lambda target: [{"back": back, "held": 3} for back in (*ENDS, "the end")],
    back=st.sampled_from([*ENDS, "the end"]),
    held=st.integers(1, 5),
)
def test_what_comes_back_reaches_who_has_looked_past_it(
    target: Bench, back: str, held: int
) -> None:
    """A consumer holds messages while another, with a selector that they match, gets newer ones.
    When the first consumer leaves, the other gets its messages."""
    queue, producer = target.destination(), target.stomp("1.2")
    first, choosy = target.stomp("1.2"), target.stomp("1.2")
    first.subscribe(queue, ack="client-individual")
    sent = numbered(held)
    for body in sent:
        producer.publish(queue, body, {"colour": "red"})
    messages = receive(target, first, held)
    target.control(len(messages) == held, f"{held} messages were sent; {len(messages)} arrived")
    choosy.subscribe(queue, headers={"selector": "colour = 'red'"})
    younger: list[bytes] = []
    for _ in range(3):  # consumers take turns; the broker chooses the first
        producer.publish(queue, b"younger", {"colour": "red"})
        younger += bodies(collect(target, choosy, 0))
    target.control(bool(younger), "the consumer with a selector should get one of three messages")
    if back in ENDS:
        first.request(back, ENDS[back])
    else:
        first.close_socket()
    got = bodies(collect(target, choosy, held))
    lost = [body for body in sent if body not in got]
    target.record_finding(
        ONE_CONSUMER,
        not lost,
        f"{held} messages were returned by {back}; the consumer with a selector got {listed(got)}",
    )
