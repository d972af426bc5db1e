"""A client that stops reading delays only its own traffic.

Unread data fills the buffers between the stalled client and the broker. Until the client reads
again, only its own messages wait; publishers are confirmed, other queues are served, and the
client's heartbeats keep it alive. Then it gets all its messages, once.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import strategies as st

from brokerproof.suites.api import Bench, case, ms, over, seconds
from brokerproof.suites.api.stomp import Destination, StompPeer, frame
from brokerproof.suites.steps.queue_model import IN_VIRTUAL_TIME
from brokerproof.suites.steps.queues import INDIVIDUAL, left_in, receive, receive_and_acknowledge
from brokerproof.suites.steps.traces import beats_received

DELIVERED = "STOMP12-SUB-02"
ANSWERED = "STOMP12-HDR-17"
SIGNS_OF_LIFE = "STOMP12-HB-08"
ONE_COPY = "ARTEMIS-CONCEPTS-queue-1"
SIGNS_EXPECTED = "STOMP12-HB-09"
GIVEN_UP = "ARTEMIS-STOMP-ttl-3"

LARGE = 16_384
SOME, MANY = 16, 600
"""Numbers of messages that fill the buffers of a virtual link, and of a real one on this
machine."""
NO_WINDOW = {"consumer-window-size": "-1"}
"""Removes the window. Brokers that do not know this header have a large enough prefetch."""
BEAT = ms(500)


def overflow(target: Bench) -> int:
    """Return enough messages to fill the link of a client that does not read."""
    return SOME if target.virtual else MANY


def numbered_body(number: int) -> bytes:
    return (b"%d." % number).ljust(LARGE, b"x")


@contextmanager
def stalled(target: Bench, peer: StompPeer) -> Iterator[None]:
    """Keep ``peer`` from reading inside the block."""
    target.record_note(f"connection {peer.conn} stops reading")
    peer.channel.hold_reading(True)
    yield
    target.record_note(f"connection {peer.conn} reads again")
    peer.channel.hold_reading(False)


def send(producer: StompPeer, to: Destination, count: int) -> tuple[int, str]:
    """Send ``count`` large messages one by one. Stop if one is not confirmed soon, because a full
    place may make its producers wait. Return their number, and the missing receipt."""
    for number in range(count):
        receipt = producer.next_receipt()
        producer.publish(to, numbered_body(number), {"receipt": receipt}, receipt=False)
        if producer.watch_for(frame("RECEIPT", {"receipt-id": receipt})) is None:
            return number + 1, receipt
    return count, ""


@case(DELIVERED, ANSWERED, needs={"stomp-1.2"})
@pytest.mark.parametrize("ack", ["auto", INDIVIDUAL["1.2"]])
def test_a_client_that_does_not_read_holds_up_nobody(target: Bench, ack: str) -> None:
    """A consumer stops reading while more is sent to its queue than its link holds. At another
    queue the publisher gets its receipts and the consumer its messages. When the first consumer
    reads again, it gets every message once, and a publisher that waited for room gets its
    receipt."""
    count, crowded, other = overflow(target), target.destination(), target.destination()
    consumer, producer, neighbour = target.stomp(), target.stomp(), target.stomp()
    publisher = target.stomp()
    consumer.subscribe(crowded, ack=ack, headers=NO_WINDOW)
    neighbour.subscribe(other)
    with stalled(target, consumer):
        count, due = send(producer, crowded, count)
        for body in (b"first", b"second"):
            publisher.publish(other, body, proves=ANSWERED)
            neighbour.message(body=body, proves=DELIVERED)
    take = receive if ack == "auto" else receive_and_acknowledge
    messages = take(target, consumer, count)
    numbers = [int(message.body.partition(b".")[0]) for message in messages]
    target.record_finding(
        DELIVERED,
        sorted(numbers) == list(range(count)),
        f"{count} messages waited for a reader; it got {len(numbers)},"
        f" {len(set(numbers))} of them different; {consumer.instead()}",
    )
    if due:
        producer.expect(frame("RECEIPT", {"receipt-id": due}), proves=ANSWERED)
    if consumer.ended is None:
        consumer.settle()


@case(ONE_COPY, needs={"stomp-1.2", "anycast"})
@over(examples=6, taken=st.integers(0, 4))
def test_a_stalled_client_that_leaves_keeps_nothing(target: Bench, taken: int) -> None:
    """A consumer that acknowledges each message receives some, stops reading, and disconnects when
    its link is full. Another consumer gets every unacknowledged message, once."""
    count, queue = overflow(target), target.destination()
    consumer, producer = target.stomp(), target.stomp()
    consumer.subscribe(queue, ack=INDIVIDUAL["1.2"], headers=NO_WINDOW)
    for number in range(taken):
        producer.publish(queue, numbered_body(number))
        consumer.ack(consumer.message(), receipt=True)
    consumer.channel.hold_reading(True)
    for number in range(taken, count):
        producer.publish(queue, numbered_body(number))
    consumer.close_socket()
    left = [int(body.partition(b".")[0]) for body in left_in(target, queue, "1.2", count - taken)]
    target.record_finding(
        ONE_COPY,
        sorted(left) == list(range(taken, count)),
        f"{count} messages were sent and {taken} acknowledged; the next consumer got {len(left)},"
        f" {len(set(left))} of them different",
    )


@case(SIGNS_OF_LIFE, DELIVERED, needs={"stomp-1.2", "connection-ttl", "heart-beat"})
def test_a_client_that_beats_and_does_not_read_lives(target: Bench) -> None:
    """A consumer sends heartbeats as promised and reads nothing for several times its TTL, while
    the broker has more for it than its link holds. It is not disconnected, and gets every message
    when it reads."""
    count, queue = overflow(target), target.destination()
    consumer = target.stomp(heart_beat=f"{BEAT // ms(1) * 2},0")
    producer = target.stomp()
    consumer.subscribe(queue, headers=NO_WINDOW)
    with stalled(target, consumer):
        for number in range(count):
            producer.publish(queue, numbered_body(number))
            if target.now() - (consumer.spoke_at or 0) >= BEAT:
                consumer.beat()
        for _ in range(20):
            consumer.beat()
            target.advance(BEAT)
    numbers = [int(message.body.partition(b".")[0]) for message in receive(target, consumer, count)]
    detail = f"it sent a heartbeat every 500 ms without reading for 10 s; {consumer.instead()}"
    overdue = consumer.overdue(2 * BEAT)
    target.record_finding(SIGNS_OF_LIFE, consumer.ended is None, detail, uncertain=overdue)
    target.record_finding(
        DELIVERED,
        sorted(numbers) == list(range(count)),
        f"{count} messages were sent and {len(numbers)} arrived; {detail}",
        uncertain=overdue,
    )


@case(
    SIGNS_EXPECTED, GIVEN_UP, needs={"stomp-1.2", "connection-ttl", "heart-beat", IN_VIRTUAL_TIME}
)
def test_a_stall_changes_nothing_about_heartbeats(target: Bench) -> None:
    """A client with heartbeats in both directions does not read for a while. When it reads again,
    the server's heartbeats arrive as agreed. When it neither reads nor sends, it is disconnected
    after its TTL, and its messages are redelivered. One scenario: both begin with a full link."""
    count, queue = overflow(target), target.destination()
    consumer, producer = target.stomp(heart_beat="1000,1000"), target.stomp()
    consumer.subscribe(queue, ack=INDIVIDUAL["1.2"], headers=NO_WINDOW)
    with stalled(target, consumer):
        for number in range(count):
            producer.publish(queue, numbered_body(number))
        for _ in range(8):
            consumer.beat()
            target.advance(BEAT)
    receive(target, consumer, count)
    since = target.now()
    for _ in range(12):
        consumer.beat()
        target.advance(BEAT)
    beats = beats_received(target, consumer, since)
    period, late = ms(1000), target.punctuality(ms(1000))
    target.require(SIGNS_EXPECTED, len(beats) > 3, f"{len(beats)} heartbeats arrived in 6 s")
    target.judge_period(SIGNS_EXPECTED, "between two heartbeats", beats, (0, period + late))
    for number in range(count):
        producer.publish(queue, numbered_body(count + number))
    consumer.channel.hold_reading(True)
    for number in range(count):
        producer.publish(queue, numbered_body(2 * count + number))
    heir = target.stomp()
    bounds = target.silence_interval(target.negotiated((1000, 1000)).ttl_ms)
    target.advance(bounds[1] + seconds(3))
    heir.subscribe(queue, headers=NO_WINDOW)
    got = len(receive(target, heir, 3 * count))
    detail = f"{got} of {3 * count} messages of a client that neither read nor spoke went to others"
    target.record_finding(GIVEN_UP, got == 3 * count, detail)
