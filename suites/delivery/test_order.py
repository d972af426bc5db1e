"""The order of a queue: first in, first out, for each producer and each consumer."""

from hypothesis import strategies as st

from brokerproof.suites.api import Bench, RoutingType, case, listed, over
from brokerproof.suites.steps.queues import (
    bodies,
    collect,
    expected_arrivals,
    numbered,
    publish_all,
    receive,
)

FIFO = "ARTEMIS-GROUPING-fifo-1"


@case(FIFO, needs={"queue-semantics"})
@over(
    examples=60,
    always=lambda target: [
        {
            "plan": [(0, 2, 3000), (0, 2, 0), (1, 1, 1500), (0, 1, 3000), (0, 1, 10)],
            "before": False,
        },
        {"plan": [(0, 6, 10)] * 8, "before": False},
    ],
    plan=st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 6), st.integers(0, 3000)),
        min_size=1,
        max_size=8,
    ),
    before=st.booleans(),
)
def test_each_producer_keeps_its_order(
    target: Bench, plan: list[tuple[int, int, int]], before: bool
) -> None:
    """Three producers send runs of messages of many sizes without waiting for each other. The
    consumer gets each producer's messages in the order of sending."""
    queue = target.destination()
    producers = [target.stomp("1.2") for _ in range(3)]
    consumer = target.stomp("1.2")
    if before:
        consumer.subscribe(queue)
    sent: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    for who, count, size in plan:
        for _ in range(count):
            body = f"{who}/{len(sent[who])}/".encode().ljust(size, b".")
            producers[who].publish(queue, body, receipt=False)
            sent[who].append(body)
    for producer in producers:
        producer.settle()
    if not before:
        consumer.subscribe(queue)
    total = sum(map(len, sent.values()))
    received = bodies(receive(target, consumer, total))
    got = {who: [body for body in received if body.startswith(b"%d/" % who)] for who in sent}
    wrong = [who for who in sent if got[who] != sent[who]]
    who = (*wrong, 0)[0]
    numbers = [body.split(b"/")[1] for body in got[who]]
    words = (
        f"of {len(sent[who])} messages of producer {who}, {listed(numbers)} arrived, in this order"
    )
    target.record_finding(FIFO, not wrong, words)


@case(FIFO, needs={"queue-semantics"})
def test_what_waited_comes_before_what_is_sent_now(target: Bench) -> None:
    """A consumer receives waiting messages while the same producer sends more. All arrive in the
    order of sending."""
    queue, producer, consumer = target.destination(), target.stomp("1.2"), target.stomp("1.2")
    publish_all(producer, queue, numbered(10, "old"))
    consumer.subscribe(queue, ack="client-individual")
    received = []
    for body in numbered(10, "new"):
        message = consumer.message()
        received.append(message.body)
        producer.publish(queue, body)
        consumer.ack(message, receipt=True)
    received += bodies(receive(target, consumer, 10))
    expected = numbered(10, "old") + numbered(10, "new")
    detail = f"{listed(expected)} were sent; {listed(received)} arrived"
    target.record_finding(FIFO, received == expected, detail)


@case(FIFO, needs={"queue-semantics", "transactions"})
def test_a_transaction_takes_its_place_at_its_commit(target: Bench) -> None:
    """Messages are sent in a transaction, then others outside it, then COMMIT. The messages of the
    transaction arrive after the others, in their order."""
    queue, producer, consumer = target.destination(), target.stomp("1.2"), target.stomp("1.2")
    producer.request("BEGIN", {"transaction": producer.transaction})
    for body in numbered(3, "in"):
        producer.publish(queue, body, {"transaction": producer.transaction})
    publish_all(producer, queue, numbered(3, "out"))
    producer.request("COMMIT", {"transaction": producer.transaction})
    consumer.subscribe(queue)
    received = bodies(receive(target, consumer, 6))
    expected = numbered(3, "out") + numbered(3, "in")
    target.record_finding(
        FIFO,
        received == expected,
        f"the consumer got {listed(received)}; expected {listed(expected)}",
        expectation=expected_arrivals(consumer, received, expected),
    )


@case(FIFO, needs={"queue-semantics", "multicast"})
def test_every_subscription_of_a_topic_gets_the_same_order(target: Bench) -> None:
    """Three subscriptions of a topic each get thirty messages of one producer in the order of
    sending."""
    topic = target.destination(RoutingType.MULTICAST)
    producer, listeners = target.stomp("1.2"), [target.stomp("1.2") for _ in range(3)]
    for listener in listeners:
        listener.subscribe(topic)
    sent = numbered(30)
    publish_all(producer, topic, sent)
    arrived = [bodies(collect(target, listener, 30, quiet=0)) for listener in listeners]
    detail = f"m0 to m29 were sent; the subscriptions got {'; '.join(map(listed, arrived))}"
    target.record_finding(FIFO, all(received == sent for received in arrived), detail)
