"""Faults of queues: order, loss, duplicates, and fairness."""

from collections import OrderedDict
from typing import Any
from unittest import mock

from brokerproof.reference_broker.kernel.address import Address
from brokerproof.reference_broker.kernel.address_book import AddressBook
from brokerproof.reference_broker.kernel.large_body import LargeBodySlice
from brokerproof.reference_broker.kernel.message import LargeMessage, Message
from brokerproof.reference_broker.kernel.queue import Queue, ReadyEntries, RoundRobin
from brokerproof.reference_broker.kernel.router import Router
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group, breaks

queues = Group("queues")

ORDER = "ARTEMIS-GROUPING-fifo-1"
ONE = "ARTEMIS-CONCEPTS-queue-1"
COPIES = "ARTEMIS-CONCEPTS-topic-1"
KEPT = "STOMP11-RCPT-01 STOMP12-RCPT-01 STOMP12-RCPT-03"


@queues.override(Queue, "enqueue", breaks=ORDER)
def last_in_first_out(original, reached, self, message, *rest):
    """The newest message is delivered first."""
    waiting = len(self._ready)
    original(self, message, *rest)
    if reached(waiting and len(self._ready) > waiting):
        self._ready.appendleft(self._ready.pop())


@queues.override(Queue, "enqueue", breaks=ORDER)
def short_ones_first(original, reached, self, message, *rest):
    """A short message overtakes long ones that wait."""
    waiting = len(self._ready)
    original(self, message, *rest)
    if reached(
        waiting
        and len(self._ready) > waiting
        and len(self._ready[-2].message.body) > 500 > len(message.body)
    ):
        self._ready.insert(waiting - 1, self._ready.pop())


@queues.override(Queue, "enqueue", breaks=ORDER)
def overtaken_by_what_arrives(original, reached, self, message, *rest):
    """A message that arrives while others wait goes to the second place, not the last."""
    waiting = len(self._ready)
    original(self, message, *rest)
    if reached(waiting > 1 and len(self._ready) > waiting):
        self._ready.insert(1, self._ready.pop())


def many_returned_go_first(original, reached, self, back):
    """More than sixteen messages that return go to the head, before older ones that wait."""
    if reached(len(back) > 16 and self and self[0].order < back[-1].order):
        self.extendleft(reversed(back))
    else:
        original(self, back)


queues.override(ReadyEntries, "put_back", breaks=ORDER)(many_returned_go_first)


@queues.override(Queue, "enqueue", breaks=ONE)
def two_consumers_get_it(original, reached, self, message, *rest):
    """If a queue has several consumers, a message goes to two of them."""
    original(self, message, *rest)
    if reached(len(self._dispatcher) > 1):
        original(self, message, *rest)


@queues.override(Queue, "enqueue", breaks=f"{ONE} {KEPT}")
def every_eighth_lost(original, reached, self, message, *rest):
    """Every eighth message to a queue is lost."""
    if self._order % 8 == 7:
        self._order += 1
        reached()
        return
    original(self, message, *rest)


@queues.skips(Queue, "enqueue")
@breaks("ARTEMIS-CONCEPTS-queue-1 STOMP11-RCPT-01 STOMP12-RCPT-01 ARTEMIS-STOMP-routing-5")
def lost_without_consumers(self, message, *rest):
    """A message to a queue that nobody consumes is lost."""
    return self.routing.value == "ANYCAST" and not len(self._dispatcher)


@queues.override(RoundRobin, "pick", breaks=ONE)
def a_full_consumer_stops_all(original, reached, self):
    """A consumer without room blocks the queue when its turn comes, although others have room."""
    consumer = next(iter(self._turns), None)
    if consumer is None or consumer.has_room():
        return original(self)
    reached(self.with_room())
    return None


@queues.before(AddressBook, "tidy", breaks="ARTEMIS-CONCEPTS-queue-1 ARTEMIS-REDELIVERY-back-1")
def deleted_with_its_last_consumer(reached, self, queue):
    """A queue created on demand is deleted with its last consumer, whatever it still contains."""
    if reached(not len(queue._dispatcher) and queue in self.on_demand and queue.in_use):
        queue._ready.clear()
        queue.unsettled = 0


@queues.override(Router, "publish")
@breaks(f"{COPIES} ARTEMIS-STOMP-routing-1 ARTEMIS-STOMP-routing-4 ARTEMIS-STOMP-routing-2")
def topics_share(original, reached, self, message):
    """A topic's message goes to one of its subscriptions, in turn."""
    envelope = message.envelope
    address = self._addresses.get(envelope.address)
    if reached(address is not None and len(address.multicast) > 1):
        address.multicast.move_to_end(next(iter(address.multicast)))
        one = OrderedDict({next(iter(address.multicast)): None})
        with mock.patch.object(address, "multicast", one):
            return original(self, message)
    return original(self, message)


@queues.override(Queue, "enqueue")
@breaks(f"{ONE} ARTEMIS-STOMP-routing-1 ARTEMIS-STOMP-routing-2 ARTEMIS-STOMP-routing-4")
def every_consumer_gets_a_copy(original, reached, self, message, *rest):
    """Every consumer of a queue gets each message."""
    original(self, message, *rest)
    for _ in range(len(self._dispatcher) - 1):
        reached()
        original(self, message, *rest)


@queues.mutant("ARTEMIS-CONCEPTS-topic-2 ARTEMIS-STOMP-routing-5 ARTEMIS-CONCEPTS-topic-1")
def topics_remember(patch, reached):
    """A new topic subscription gets the last message sent before it."""
    last: dict[str, Message] = {}

    @patch.after(Router)
    def publish(self, message):
        last[message.envelope.address] = message

    @patch.result(Router)
    def subscription(queue, self, name, *rest):
        if reached(queue.routing.value == "MULTICAST" and name in last):
            queue.enqueue(last[name])
        return queue


@queues.mutant("ARTEMIS-CONCEPTS-topic-2")
def subscriptions_outlive_connections(patch, reached):
    """A new topic subscription gets messages sent after its predecessor ended."""
    orphans: dict[str, list[Queue]] = {}

    @patch.override(AddressBook)
    def tidy(original, self, queue):
        if reached(queue.routing.value == "MULTICAST" and not len(queue._dispatcher)):
            orphans.setdefault(self.on_demand[queue].name, []).append(queue)
        else:
            original(self, queue)

    @patch.override(Router)
    def subscription(original, self, name, *rest):
        if orphans.get(name):
            return orphans[name].pop()
        return original(self, name, *rest)


@queues.mutant("ARTEMIS-CONCEPTS-topic-2 ARTEMIS-PAGING-8")
def subscriptions_leave_their_queues(patch, reached):
    """The queue of a subscription stays when the subscription ends, and keeps receiving
    messages."""

    @patch.override(AddressBook)
    def tidy(original, self, queue):
        if queue.routing.value == "MULTICAST" and not len(queue._dispatcher):
            reached()
        else:
            original(self, queue)


def _spoilt(message: Message) -> Message:
    """Return the message with other bytes at its end."""
    body: Any = message.body
    if isinstance(body, LargeBodySlice):  # it is not in memory: its end equals its beginning
        last, end = body.ranges[-1]
        ranges = (
            *body.ranges[:-1],
            (last, end - 1000),
            (body.ranges[0][0], body.ranges[0][0] + 1000),
        )
        return LargeMessage(message.number, message.envelope, LargeBodySlice(body.whole, ranges))
    return Message(message.number, message.envelope, body[:-1024] + bytes(1024))


@queues.mutant(COPIES, recreates="ARTEMIS-5054")
def large_copies_spoilt(patch, reached):
    """A body of 100 KiB or more that several subscriptions read is damaged in every copy but the
    first."""
    read: set[int] = set()

    @patch.before(Subscription)
    def deliver(self, entry):
        message = entry.message
        if len(message.body) >= 102_400:
            if reached(message.number in read):
                entry.message = _spoilt(message)
            read.add(message.number)


@queues.override(Router, "publish", breaks="ARTEMIS-STOMP-routing-7", recreates="ARTEMIS-5717")
def lost_where_both_kinds_meet(original, reached, self, message):
    """Addresses used with both routing types lose MULTICAST messages."""
    envelope = message.envelope
    address = self._addresses.get(envelope.address)
    routing = envelope.routing
    if reached(
        address is not None
        and address.anycast
        and routing is not None
        and routing.value == "MULTICAST"
    ):
        return True
    return original(self, message)


@queues.override(Queue, "enqueue", breaks=f"{ONE} {KEPT} {ORDER} STOMP11-SUB-07 STOMP12-SUB-08")
def every_hundredth_lost(original, reached, self, message, *rest):
    """Every hundredth message to a queue is lost."""
    if self._order % 100 == 99:
        self._order += 1
        reached()
        return
    original(self, message, *rest)


@queues.override(Queue, "enqueue", breaks=ORDER)
def order_lost_when_many_wait(original, reached, self, message, *rest):
    """With more than thirty-two waiting messages, the last two are swapped."""
    waiting = len(self._ready)
    original(self, message, *rest)
    if reached(len(self._ready) > waiting >= 32):
        last = self._ready.pop()
        self._ready.insert(len(self._ready) - 1, last)


@queues.mutant(COPIES)
def the_lost_take_a_message_along(patch, reached):
    """The first message to a topic after a subscriber was lost reaches nobody."""
    lost = set()

    @patch.before(StompConnection)
    def on_peer_gone(self):
        lost.update(subscription.destination for subscription in self.subscriptions.values())

    @patch.override(Address)
    def route(original, self, *rest):
        was_lost = self.name in lost and bool(self.multicast)
        lost.discard(self.name)
        return reached(was_lost) or original(self, *rest)
