"""In the ActiveMQ family, a used and emptied destination has as much room as a fresh one.

(ActiveMQ documentation, producer flow control; fixtures/brokers/activemq.) Messages enter and leave
a queue and a topic in several ways. Once no message is left, the broker's statistics report no
memory in use, and the destination accepts exactly as many messages up to its limit as a fresh one.
"""

from collections.abc import Callable, Mapping

from hypothesis import strategies as st

from brokerproof.suites.api import Bench, CloseHow, RoutingType, case, ms, over
from brokerproof.suites.api.openwire import dispatch
from brokerproof.suites.api.openwire import queue as openwire_queue
from brokerproof.suites.api.stomp import frame
from brokerproof.suites.openwire.steps import COMMIT, ROLLBACK, begin, transact
from brokerproof.suites.steps.producer_flow import (
    QUIET,
    OpenWireProducer,
    Place,
    StompConsumer,
    StompProducer,
    filled,
    place,
)
from brokerproof.suites.steps.small_addresses import body

ROOM_AGAIN = "ACTIVEMQ-PFC-2"
NEEDS = {"stomp-1.2", "openwire", "statistics", "producer-flow-control"}

SIZE = 1000
SOME = 3
SHORT_MS = 1000
"""The lifetime of messages that expire."""


class Used:
    """A queue or topic with flow control, and ways for messages to enter and leave it."""

    def __init__(self, target: Bench, routing: RoutingType) -> None:
        self.target = target
        self.statistics = target.statistics()
        self.to: Place = place(target, "vm", routing)

    def take(self) -> None:
        producer, consumer = StompProducer(self.target), StompConsumer(self.target, self.to)
        for number in range(SOME):
            producer.send(self.to, body(number, SIZE))
        consumer.take(SOME)
        consumer.peer.close_socket()

    def leave(self, how: str) -> None:
        """End a consumer by ``how`` after it has received one of several waiting messages."""
        consumer = StompConsumer(self.target, self.to, prefetch=1)
        producer = StompProducer(self.target)
        for number in range(SOME):
            producer.send(self.to, body(number, SIZE))
        if how == "UNSUBSCRIBE":
            consumer.peer.request("UNSUBSCRIBE", {"id": "0"})
        consumer.peer.close_socket(CloseHow.RESET if how == "RESET" else CloseHow.EOF)

    def transact(self, end: int | None) -> None:
        """Send messages in a transaction that ``end`` ends; None: close the connection."""
        peer, name = self.target.openwire(), openwire_queue(self.to.name)
        transaction = begin(peer, 1)
        producer = peer.open_producer(name)
        for at in range(SOME):
            message = peer.message(producer, name, body(at, SIZE), transactionId=transaction)
            peer.answered(peer.publish(message, response=True))
        if end is not None:
            transact(peer, transaction, end)
        peer.close_socket()

    def settle(self, command: str, end: str = "") -> None:
        """A consumer settles each message by ``command``, in a transaction if ``end`` names its
        end, and leaves."""
        consumer, producer = StompConsumer(self.target, self.to), StompProducer(self.target)
        peer, named = consumer.peer, {"transaction": consumer.peer.transaction} if end else {}
        if end:
            peer.request("BEGIN", named)
        for number in range(SOME):
            producer.send(self.to, body(number, SIZE))
            message = peer.expect(frame("MESSAGE"))
            settles = peer.ack if command == "ACK" else peer.nack
            settles(message, named, receipt=True)
        if end:
            peer.request(end, named)
        peer.close_socket()

    def expire(self, *, held: bool) -> None:
        """Let messages expire while they wait or (``held``) at a consumer that then leaves."""
        peer, name = self.target.openwire(), openwire_queue(self.to.name)
        producer, consumer = peer.open_producer(name), peer.open_consumer(name)
        instant = 0
        for _ in range(1 + SOME):
            data = body(0, SIZE)
            message = peer.message(producer, name, data, expiration=instant and instant + SHORT_MS)
            peer.answered(peer.publish(message, response=True))
            if not instant:  # the first message shows the broker's clock
                first = peer.expect(dispatch(consumer))
                instant = first["message"]["brokerInTime"]
                peer.ack(first)
                if not held:
                    peer.remove(consumer)
        self.target.advance(ms(2 * SHORT_MS))
        peer.close_socket()

    def empty(self, after: str) -> None:
        """Consume everything. After that, no memory may be in use."""
        if self.to.routing is RoutingType.ANYCAST:
            consumer = StompConsumer(self.target, self.to)
            while consumer.next(QUIET) is not None:
                pass
            consumer.peer.close_socket()
        usage, free = self.statistics.until(
            self.to.name, lambda usage: usage.memory.used == 0, self.to.routing
        )
        detail = (
            f"{self.to.routing.name}: after messages were {after} and none is left,"
            f" {usage.memory.used} bytes of memory are in use"
        )
        self.target.require(ROOM_AGAIN, free, detail)

    def capacity(self) -> int:
        """Return how many messages the queue accepts up to its limit; then empty it again."""
        producer = OpenWireProducer(self.target)
        count = filled(self.target, producer, self.statistics, self.to, SIZE)
        producer.peer.close_socket()
        self.empty("sent to the limit")
        return count


WAYS: Mapping[str, Callable[[Used], object]] = {
    "taken": Used.take,
    "left by UNSUBSCRIBE": lambda used: used.leave("UNSUBSCRIBE"),
    "left by an end": lambda used: used.leave("EOF"),
    "left by a reset": lambda used: used.leave("RESET"),
    "sent and rolled back": lambda used: used.transact(ROLLBACK),
    "sent and committed": lambda used: used.transact(COMMIT),
    "sent and left": lambda used: used.transact(None),
    "refused by NACK": lambda used: used.settle("NACK"),
    "acknowledged and aborted": lambda used: used.settle("ACK", "ABORT"),
    "acknowledged and committed": lambda used: used.settle("ACK", "COMMIT"),
    "expired where they waited": lambda used: used.expire(held=False),
    "expired with a consumer": lambda used: used.expire(held=True),
}
OF_TOPICS = tuple(WAYS)[:4]


@case(ROOM_AGAIN, needs=NEEDS)
@over(
    examples=4,
    always=lambda target: [{"ways": list(WAYS)}],
    situations=tuple(WAYS),
    ways=st.lists(st.sampled_from(list(WAYS)), min_size=1, max_size=4),
)
def test_a_used_queue_has_as_much_room_as_a_fresh_one(target: Bench, ways: list[str]) -> None:
    """Messages enter and leave a queue in several ways until none is left. No memory is in use, and
    the queue accepts as many messages up to its limit as a fresh one."""
    fresh = Used(target, RoutingType.ANYCAST).capacity()
    used = Used(target, RoutingType.ANYCAST)
    for way in ways:
        WAYS[way](used)
        target.reached(way)
        used.empty(way)
    again = used.capacity()
    words = f"after messages were {', '.join(ways)}, {again} fill a queue; {fresh} fill a fresh one"
    target.record_finding(ROOM_AGAIN, again == fresh, words)


@case(ROOM_AGAIN, needs=NEEDS)
@over(
    examples=3,
    always=lambda target: [{"ways": list(OF_TOPICS)}],
    situations=OF_TOPICS,
    ways=st.lists(st.sampled_from(OF_TOPICS), min_size=1, max_size=3),
)
def test_a_used_topic_has_all_of_its_room(target: Bench, ways: list[str]) -> None:
    """Messages of a topic are consumed, or wait for a subscriber whose connection ends. Each time,
    no memory is in use afterwards."""
    used = Used(target, RoutingType.MULTICAST)
    for way in ways:
        WAYS[way](used)
        target.reached(way)
        used.empty(way)
