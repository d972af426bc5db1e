"""Peers that stop reading during a plan and resume later.

First a filler, a separate queue with large bodies, fills the link of each peer. So no message of
the plan is in transit during the stall, and a model need not know who will receive it: deliveries
become due when the peers read again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from brokerproof.harness.protocols.conversation import Conversation
from brokerproof.suites.api import PATIENCE, Bench, Duration, Requirements, listed, ms
from brokerproof.suites.api.amqp091 import Amqp091Peer, method
from brokerproof.suites.api.amqp10 import AmqpPeer
from brokerproof.suites.api.core import CorePeer, delivery
from brokerproof.suites.api.openwire import OpenWirePeer, dispatch, queue
from brokerproof.suites.api.stomp import StompPeer
from brokerproof.suites.steps.core import sized

STALLED = "consumers do not read while messages and settlements go on"
LARGE, SOME = 60_000, 4
"""Size of a body in bytes, and how many such messages fill a link in virtual time."""
FILLER = "filler"
STEP: Duration = ms(20)
"""Long enough for anything to reach the broker."""
CHANNEL, CONSUMER = 9, 99
"""Channel and consumer of a filler in AMQP, and in CORE."""


@contextmanager
def _not_reading(
    target: Bench,
    peers: Sequence[Conversation[Any]],
    fill: Callable[[int], None],
    arrived: Callable[[int], int],
    proves: Requirements,
) -> Iterator[list[Any]]:
    """Let ``peers`` read nothing inside the block; remove peers that disconnect from the list.
    ``fill`` publishes to the peer at an index; ``arrived`` counts the filler messages it got."""
    target.record_note("the consumers stop reading")
    for place, peer in enumerate(peers):
        peer.channel.hold_reading(True)
        fill(place)
    target.advance(STEP)
    target.reached(STALLED)
    reading = list(peers)
    yield reading
    target.advance(STEP)
    target.record_note("the consumers read again")
    for peer in reading:
        peer.channel.hold_reading(False)
    places = [place for place, peer in enumerate(peers) if peer in reading]
    target.wait_until(lambda: all(arrived(place) >= SOME for place in places), PATIENCE)
    counts = [arrived(place) for place in places]
    detail = f"of {SOME} messages each, the consumers got {listed(counts)} once they read again"
    target.require(proves, min(counts, default=SOME) >= SOME, detail)


@contextmanager
def stomp(
    target: Bench, peers: Sequence[StompPeer], proves: Requirements
) -> Iterator[list[StompPeer]]:
    """Let STOMP peers read nothing inside the block; remove peers that disconnect."""
    producer, fillers = target.stomp(), [target.destination() for _ in peers]
    for peer, to in zip(peers, fillers, strict=True):
        peer.subscribe(to, FILLER, headers={"consumer-window-size": "-1"})

    def fill(place: int) -> None:
        for _ in range(SOME):
            producer.publish(fillers[place], bytes(LARGE))

    def arrived(place: int) -> int:
        inbox = peers[place].inbox
        return sum(frame.get("subscription") == FILLER for frame in inbox)

    with _not_reading(target, peers, fill, arrived, proves) as reading:
        yield reading
    for peer in reading:
        peer.inbox = [frame for frame in peer.inbox if frame.get("subscription") != FILLER]
        peer.request("UNSUBSCRIBE", {"id": FILLER})


@contextmanager
def amqp(target: Bench, peer: AmqpPeer, proves: Requirements) -> Iterator[None]:
    """Let an AMQP 1.0 peer read nothing inside the block."""
    producer, node = target.amqp(), target.node()
    session = peer.begin(CHANNEL)
    link, sender = peer.receiver(node, session=session, credit=SOME), producer.sender(node)

    def fill(place: int) -> None:
        for _ in range(SOME):
            producer.publish(sender, bytes(LARGE))

    def arrived(place: int) -> int:
        return sum(received.link is link for received in peer.deliveries)

    with _not_reading(target, [peer], fill, arrived, proves):
        yield
    for received in peer.take_deliveries(link):
        peer.disposition(received)
    peer.end(session)
    del peer.sessions[CHANNEL]


@contextmanager
def amqp091(target: Bench, peer: Amqp091Peer, proves: Requirements) -> Iterator[None]:
    """Let an AMQP 0-9-1 peer read nothing inside the block."""
    producer = target.amqp091()
    name = target.fresh_name()
    producer.declare(name)
    peer.open_channel(CHANNEL)
    tag = peer.consume(name, channel=CHANNEL, no_ack=True)

    def fill(place: int) -> None:
        for _ in range(SOME):
            producer.publish(bytes(LARGE), name)
        producer.settle()

    def arrived(place: int) -> int:
        expected = method("basic.deliver", channel=CHANNEL)
        return sum(expected.accepts(received) for received in peer.inbox)

    with _not_reading(target, [peer], fill, arrived, proves):
        yield
    peer.deliveries(CHANNEL)
    peer.call("basic.cancel", {"consumer-tag": tag}, channel=CHANNEL)
    peer.close_channel(CHANNEL)


@contextmanager
def openwire(target: Bench, peers: Sequence[OpenWirePeer], proves: Requirements) -> Iterator[None]:
    """Let OpenWire peers read nothing inside the block."""
    producer, places = target.openwire(), [queue(target.fresh_name()) for _ in peers]
    consumers = [
        peer.open_consumer(place, prefetch=2 * SOME)
        for peer, place in zip(peers, places, strict=True)
    ]

    def fill(place: int) -> None:
        id = producer.open_producer(places[place])
        for _ in range(SOME):
            message = producer.message(id, places[place], bytes(LARGE))
            producer.answered(producer.publish(message, response=True))

    def arrived(place: int) -> int:
        expected = dispatch(consumers[place])
        return sum(expected.accepts(received) for received in peers[place].inbox)

    with _not_reading(target, peers, fill, arrived, proves):
        yield
    for peer, consumer in zip(peers, consumers, strict=True):
        for dispatched in peer.dispatched(consumer):
            peer.ack(dispatched)
        peer.remove(consumer)


@contextmanager
def core(target: Bench, peers: Sequence[CorePeer], proves: Requirements) -> Iterator[None]:
    """Let CORE peers read nothing inside the block. Their filler queue is not used again."""
    producer, names = target.core(), [target.fresh_name() for _ in peers]
    for peer, name in zip(peers, names, strict=True):
        producer.create_queue(name)
        peer.create_consumer(name, CONSUMER)
        peer.credit(-1, CONSUMER)

    def fill(place: int) -> None:
        for number in range(SOME):
            producer.publish(sized(names[place], number, LARGE))

    def arrived(place: int) -> int:
        expected = delivery(CONSUMER)
        return sum(expected.accepts(received) for received in peers[place].inbox)

    with _not_reading(target, peers, fill, arrived, proves):
        yield
    for peer in peers:
        peer.delivered(CONSUMER)
        peer.close_consumer(CONSUMER)
