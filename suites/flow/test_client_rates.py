"""Clients that limit their rates and windows, and what such clients require of the broker.

The manual relies on Artemis's client library; here the harness's own clients replace it
(:mod:`brokerproof.harness.clients.rate_and_window_clients`), over STOMP and AMQP. As a control, an
oracle that sees only frames judges that they keep their rate and window. Of the broker, the cases
require that a slow consumer's messages wait and are not lost, that a window is filled but not
exceeded at any rate, and that no message waits behind a consumer that requests one at a time.
"""

from collections.abc import Sequence

from hypothesis import strategies as st

from brokerproof.harness.clients.flow_uri_options import FlowOptions
from brokerproof.harness.clients.rate_and_window_clients import (
    AmqpConsumer,
    AmqpProducer,
    StompConsumer,
    StompProducer,
    drive,
)
from brokerproof.harness.oracles import rates
from brokerproof.suites.amqp10 import steps
from brokerproof.suites.api import (
    NS_PER_S,
    PATIENCE,
    Bench,
    Duration,
    case,
    listed,
    ms,
    over,
    shown,
)
from brokerproof.suites.api.amqp10 import Node
from brokerproof.suites.api.stomp import Destination
from brokerproof.suites.steps.queues import bodies as bodies_of
from brokerproof.suites.steps.queues import numbered, publish_all, receive

RATE = "ARTEMIS-FLOW-consumer-rate-1"
BUFFERS = "ARTEMIS-FLOW-consumer-rate-2"
PRODUCES = "ARTEMIS-FLOW-producer-rate-1"
NOTHING_WAITS = "ARTEMIS-FLOW-consumer-2"
SAME_COURSE = "ARTEMIS-FLOW-consumer-4"
STOMP, AMQP = {"stomp-1.2", "consumer-window"}, {"amqp"}
RATES = st.sampled_from([10, 30, 200, 1000])
COUNTS = st.integers(2, 20)
WINDOWS = st.sampled_from([-1, 0, 700, 10_000])
SIZES = st.sampled_from([0, 100, 600])
SPARE = PATIENCE // NS_PER_S + 4
"""More messages than a consumer with a rate of 1 consumes during the wait."""


def sized(count: int, size: int) -> list[bytes]:
    """Bodies of ``size`` bytes or slightly more, each with its number."""
    return [message.ljust(size, b".") for message in numbered(count)]


def takes(count: int, rate: int) -> Duration:
    """Return the shortest time for ``count`` messages at this rate; the first needs none."""
    return (count - 1) * NS_PER_S // rate


def stomp_queue(target: Bench, bodies: Sequence[bytes]) -> Destination:
    queue = target.destination()
    publish_all(target.stomp(), queue, bodies)
    return queue


def amqp_queue(target: Bench, bodies: Sequence[bytes]) -> Node:
    node = target.node()
    steps.fill(target, node, bodies)
    return node


def of_stomp(consumer: StompConsumer) -> list[bytes]:
    return bodies_of(consumer.consumed)


def of_amqp(consumer: AmqpConsumer) -> list[bytes]:
    return steps.bodies(consumer.consumed)


def keeps_its_rate(target: Bench, conn: int, rate: int) -> None:
    """Control: no interval has too many settlements. A settled message counts as consumed."""
    crowd = rates.crowd(rates.instants(rates.received(target.events, conn), ended=True), rate)
    target.control(crowd is None, f"our own consumer, with a rate of {rate}, consumed {crowd}")


def everything_comes(
    target: Bench,
    consumer: StompConsumer | AmqpConsumer,
    sent: Sequence[bytes],
    options: FlowOptions,
) -> None:
    """Judge whether all ``sent`` messages arrive in order, as quickly as the consumer consumes
    them."""
    rate, began = options.consumer_max_rate, target.now()
    drive(
        target.world,
        [consumer],
        lambda: len(consumer.consumed) >= len(sent),
        takes(len(sent), rate) + PATIENCE,
    )
    keeps_its_rate(target, consumer.peer.conn, rate)
    took = target.now() - began
    received = of_stomp(consumer) if isinstance(consumer, StompConsumer) else of_amqp(consumer)
    detail = (
        f"at {rate} messages a second and a window of {options.consumer_window_size}, a consumer"
        f" got {listed(received)}"
    )
    words = f"{detail} of {len(sent)}; {consumer.peer.instead()}"
    target.record_finding(RATE, received == list(sent), words)
    target.control(
        took >= takes(len(sent), rate), f"our own consumer took {took} ns for {len(sent)} at {rate}"
    )


@case(RATE, needs=STOMP)
@over(examples=20, rate=RATES, count=COUNTS, window=WINDOWS, size=SIZES)
def test_a_consumer_with_a_rate_gets_everything_at_that_rate(
    target: Bench, rate: int, count: int, window: int, size: int
) -> None:
    """A consumer with consumerMaxRate and consumerWindowSize consumes a queue's messages. It gets
    all of them in order, and never exceeds its rate."""
    sent = sized(count, size)
    options = FlowOptions(consumer_window_size=window, consumer_max_rate=rate)
    consumer = StompConsumer(target.stomp(), stomp_queue(target, sent), options)
    everything_comes(target, consumer, sent, options)


@case(RATE, needs=AMQP)
@over(examples=20, rate=RATES, count=COUNTS, window=WINDOWS, size=SIZES)
def test_a_receiver_with_a_rate_gets_everything_at_that_rate(
    target: Bench, rate: int, count: int, window: int, size: int
) -> None:
    """An AMQP receiver with consumerMaxRate, whose window is its credit, consumes a queue's
    messages. It gets all of them in order, and never exceeds its rate."""
    sent = sized(count, size)
    options = FlowOptions(consumer_window_size=window, consumer_max_rate=rate)
    consumer = AmqpConsumer(target.amqp(), amqp_queue(target, sent), options)
    everything_comes(target, consumer, sent, options)


def buffer_fills(
    target: Bench, consumer: StompConsumer | AmqpConsumer, window: int, *, to_the_byte: bool
) -> None:
    """Judge whether the buffer is soon as full as the window allows, although the rate is low."""

    def least() -> int:
        # The waiting messages show how much one occupies.
        return (
            window
            if to_the_byte
            else window - max((size for _, size in consumer.flow.waiting), default=0)
        )

    drive(
        target.world,
        [consumer],
        lambda: bool(consumer.consumed) and consumer.flow.size >= least(),
        PATIENCE,
    )
    drive(target.world, [consumer], lambda: False, ms(100))
    keeps_its_rate(target, consumer.peer.conn, 1)
    course = rates.received(target.events, consumer.peer.conn)
    # The client computed its credit from the size of the first message. Later ones may be larger,
    # by the digits of their ids.
    sizes = [step.size for step in course if not step.ended]
    larger = 0 if to_the_byte else sum(max(0, size - sizes[0]) for size in sizes)
    wrong = rates.overrun(course, window + larger)
    words = f"at one message a second and a window of {window}: {wrong or 'no overrun'}"
    target.record_finding(BUFFERS, wrong is None, words)
    held, taken = rates.peak(course), len(consumer.consumed)
    detail = (
        f"at one message a second, {taken} were consumed and up to {held} bytes waited, with a"
        f" window of {window}"
    )
    words = f"{detail}; expected at least {least()}; {consumer.peer.instead()}"
    target.record_finding(BUFFERS, held >= least(), words)


@case(BUFFERS, needs=STOMP)
@over(examples=12, window=st.integers(1000, 20_000), size=st.sampled_from([100, 600, 3000]))
def test_at_a_low_rate_the_buffer_fills_to_the_window(
    target: Bench, window: int, size: int
) -> None:
    """A consumer consumes one message a second from a queue that exceeds its window. Its window is
    filled immediately and not overrun."""
    queue = stomp_queue(target, sized(window // size + SPARE, size))
    options = FlowOptions(consumer_window_size=window, consumer_max_rate=1)
    buffer_fills(target, StompConsumer(target.stomp(), queue, options), window, to_the_byte=True)


@case(BUFFERS, needs=AMQP)
@over(examples=12, window=st.integers(1000, 20_000), size=st.sampled_from([100, 600, 3000]))
def test_at_a_low_rate_a_receiver_buffers_what_it_gave_credit_for(
    target: Bench, window: int, size: int
) -> None:
    """An AMQP receiver consumes one message a second and grants credit for its window. All messages
    of that credit arrive immediately."""
    node = amqp_queue(target, sized(window // size + SPARE, size))
    options = FlowOptions(consumer_window_size=window, consumer_max_rate=1)
    buffer_fills(target, AmqpConsumer(target.amqp(), node, options), window, to_the_byte=False)


def everything_arrives(
    target: Bench,
    producer: StompProducer | AmqpProducer,
    sent: Sequence[bytes],
    options: FlowOptions,
) -> None:
    """Judge whether all messages are sent at the rate and within the window, and are accepted."""
    rate, window = options.producer_max_rate, options.producer_window_size
    for body in sent:
        producer.offer(body)
    done = drive(
        target.world,
        [producer],
        lambda: producer.confirmed == len(sent),
        takes(len(sent), rate) + PATIENCE,
    )
    course = rates.sent(target.events, producer.peer.conn)
    crowd = rates.crowd(rates.instants(course, ended=False), rate)
    target.control(crowd is None, f"our own producer, with a rate of {rate}, sent {crowd}")
    wrong = rates.beyond(course, window) if window > 0 else None
    target.control(wrong is None, f"our own producer, with a window of {window}: {wrong}")
    detail = (
        f"{producer.confirmed} of {len(sent)} messages sent at {rate} a second, {window} bytes"
        " in flight, were consumed"
    )
    target.record_finding(PRODUCES, done, f"{detail}; {producer.peer.instead()}")


@case(PRODUCES, needs=STOMP)
@over(
    examples=20, rate=RATES, count=COUNTS, window=st.sampled_from([-1, 1, 500, 65_536]), size=SIZES
)
def test_a_producer_with_a_rate_gets_rid_of_everything(
    target: Bench, rate: int, count: int, window: int, size: int
) -> None:
    """A producer with producerMaxRate and producerWindowSize sends messages. The broker accepts all
    of them in order, and the rate is never exceeded."""
    queue, sent = target.destination(), sized(count, size)
    options = FlowOptions(producer_window_size=window, producer_max_rate=rate)
    everything_arrives(target, StompProducer(target.stomp(), queue, options), sent, options)
    taker = target.stomp()
    taker.subscribe(queue)
    received = bodies_of(receive(target, taker, count))
    words = f"of {count} messages sent at {rate} a second, {listed(received)} arrived"
    target.record_finding(PRODUCES, received == sent, words)


@case(PRODUCES, needs=AMQP)
@over(
    examples=20, rate=RATES, count=COUNTS, window=st.sampled_from([-1, 1, 500, 65_536]), size=SIZES
)
def test_a_sender_with_a_rate_gets_rid_of_everything(
    target: Bench, rate: int, count: int, window: int, size: int
) -> None:
    """An AMQP sender with producerMaxRate sends messages within the broker's credit. The broker
    accepts all of them in order, and the rate is never exceeded."""
    node, sent = target.node(), sized(count, size)
    options = FlowOptions(producer_window_size=window, producer_max_rate=rate)
    everything_arrives(target, AmqpProducer(target.amqp(), node, options), sent, options)
    taker = target.amqp()
    received = steps.bodies(
        steps.collect(target, taker, taker.receiver(node, credit=count), count, quiet=0)
    )
    words = f"of {count} messages sent at {rate} a second, {listed(received)} arrived"
    target.record_finding(PRODUCES, received == sent, words)


def nothing_is_stranded(
    target: Bench,
    slow: StompConsumer | AmqpConsumer,
    fast: StompConsumer | AmqpConsumer,
    sent: Sequence[bytes],
) -> None:
    """Judge whether the fast consumer gets all other messages before the slow one gets a second."""
    drive(
        target.world,
        [slow, fast],
        lambda: len(slow.consumed) + len(fast.consumed) >= len(sent),
        PATIENCE,
    )
    keeps_its_rate(target, slow.peer.conn, 1)
    drive(target.world, [slow, fast], lambda: False, ms(100))
    got = {who: len(consumer.consumed) for who, consumer in (("slow", slow), ("fast", fast))}
    waits = slow.flow.size
    received = [
        of_stomp(consumer) if isinstance(consumer, StompConsumer) else of_amqp(consumer)
        for consumer in (slow, fast)
    ]
    detail = (
        f"of {len(sent)} messages, the slow consumer got {got['slow']} and the fast one"
        f" {got['fast']}; {waits} bytes wait"
    )
    whole = sorted([*received[0], *received[1]]) == sorted(sent) and received[1] == [
        body for body in sent if body in received[1]
    ]
    target.record_finding(NOTHING_WAITS, whole and not waits, detail)


@case(NOTHING_WAITS, needs=STOMP)
@over(examples=10, count=st.integers(4, 16), size=SIZES)
def test_nothing_waits_behind_a_consumer_with_a_low_rate(
    target: Bench, count: int, size: int
) -> None:
    """Two consumers of a queue have a consumerWindowSize of 0; one has a consumerMaxRate of 1. The
    fast one gets all remaining messages in order; none waits for the slow one."""
    queue, sent = target.destination(), sized(count, size)
    slow = StompConsumer(
        target.stomp(), queue, FlowOptions(consumer_window_size=0, consumer_max_rate=1)
    )
    fast = StompConsumer(target.stomp(), queue, FlowOptions(consumer_window_size=0))
    publish_all(target.stomp(), queue, sent)
    nothing_is_stranded(target, slow, fast, sent)


@case(NOTHING_WAITS, needs=AMQP)
@over(examples=10, count=st.integers(4, 16), size=SIZES)
def test_nothing_waits_behind_a_receiver_with_a_low_rate(
    target: Bench, count: int, size: int
) -> None:
    """Two AMQP receivers of a queue grant one credit at a time, one of them at a low rate. The fast
    one gets all remaining messages in order."""
    node, sent = target.node(), sized(count, size)
    slow = AmqpConsumer(
        target.amqp(), node, FlowOptions(consumer_window_size=0, consumer_max_rate=1)
    )
    fast = AmqpConsumer(target.amqp(), node, FlowOptions(consumer_window_size=0))
    steps.fill(target, node, sent)
    nothing_is_stranded(target, slow, fast, sent)


@case(SAME_COURSE, needs=STOMP)
@over(examples=8, speeds=st.sampled_from([(7, 3), (3, 7), (5, 3)]), count=st.integers(4, 10))
def test_rates_alone_decide_who_gets_what_at_a_window_of_zero(
    target: Bench, speeds: tuple[int, int], count: int
) -> None:
    """Two consumers with a consumerWindowSize of 0 and different rates share a queue's messages,
    twice. Each gets the same messages both times. The chapter only permits this, so a difference is
    not a violation. Over real sockets the rates differ so much that a slow host changes nothing."""
    if not target.virtual:
        speeds = (1000, 1) if speeds[0] > speeds[1] else (1, 1000)
    first, second = (_shared(target, speeds, numbered(count)) for _ in range(2))
    shares, again = ("; ".join(map(listed, course)) for course in (first, second))
    words = f"the consumers got {shares} the first time, then {again}"
    detail = f"at {shown(speeds)} messages a second, {words}"
    target.record_finding(
        SAME_COURSE, first == second, detail, uncertain="the chapter says that it can be so"
    )


def _shared(target: Bench, speeds: tuple[int, int], sent: list[bytes]) -> list[list[bytes]]:
    queue = stomp_queue(target, sent)
    consumers = [
        StompConsumer(
            target.stomp(), queue, FlowOptions(consumer_window_size=0, consumer_max_rate=speed)
        )
        for speed in speeds
    ]
    drive(
        target.world,
        consumers,
        lambda: sum(len(consumer.consumed) for consumer in consumers) >= len(sent),
        PATIENCE,
    )
    for consumer, rate in zip(consumers, speeds, strict=True):
        keeps_its_rate(target, consumer.peer.conn, rate)
    got = [of_stomp(consumer) for consumer in consumers]
    detail = f"two consumers got {listed(got[0])} and {listed(got[1])} of {len(sent)} messages"
    target.control(sorted([*got[0], *got[1]]) == sorted(sent), detail)
    return got
