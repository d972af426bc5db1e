"""Faults of returned messages: place, mark, count, and loss."""

from copy import copy
from itertools import pairwise
from operator import attrgetter
from typing import Any

from brokerproof.harness.model.enums import AckMode, Outcome, RoutingType
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group, breaks
from brokerproof.suites.mutation.stomp.acks import AUTO

redelivery = Group("redelivery")

BACK, MARKED, ORDER = (
    "ARTEMIS-REDELIVERY-back-1",
    "ARTEMIS-REDELIVERY-marked-1",
    "ARTEMIS-GROUPING-fifo-1",
)


@redelivery.override(FrameEncoder, "message", breaks=MARKED)
def topics_mark_nothing(original, reached, self, opening, message, ack, redelivered):
    """Messages that a durable subscription redelivers are not marked (AMQ-7071)."""
    topics = redelivered and message.envelope.routing is RoutingType.MULTICAST
    return original(self, opening, message, ack, redelivered and not reached(topics))


@redelivery.override(Queue, "_take_back", breaks=ORDER)
def at_the_tail(original, reached, self, back):
    """Returned messages go after the waiting ones."""
    reached(back and self._ready)
    self._ready.extend(sorted(back, key=attrgetter("order")))


@redelivery.override(Queue, "_take_back", breaks="STOMP11-SUB-02 STOMP12-SUB-02")
def twice(original, reached, self, back):
    """A returned message is in the queue twice."""
    reached(back)
    original(self, [one for entry in back for one in (entry, copy(entry))])


@redelivery.override(Queue, "_take_back", breaks=ORDER)
def backwards(original, reached, self, back):
    """Returned messages are put at the head one by one, so that the newest is first."""
    reached(len(back) > 1)
    for entry in sorted(back, key=attrgetter("order")):
        self._ready.appendleft(entry)


@redelivery.override(Queue, "_take_back", breaks=ORDER, recreates="ARTEMIS-3093")
def at_the_head_whatever_waits(original, reached, self, back):
    """Messages returned by several consumers go to the head as they arrive, even a newer one before
    an older one."""
    back.sort(key=attrgetter("order"))
    reached(back and self._ready and self._ready[0].order < back[-1].order)
    self._ready.extendleft(reversed(back))


@redelivery.override(Queue, "_take_back", breaks=ORDER, recreates="ARTEMIS-4517")
def in_the_order_of_sending(original, reached, self, back):
    """Returned messages are put at the head in the order in which they were sent, which differs
    from the queue's order if some were in a transaction."""
    back.sort(key=attrgetter("message.number"))
    reached(any(one.order > next.order for one, next in pairwise(back)))
    self._ready.extendleft(reversed(back))


@redelivery.override(FrameEncoder, "message", breaks=MARKED)
def never_marked(original, reached, self, opening, message, ack, redelivered):
    """A redelivered message is not marked as such."""
    return original(self, opening, message, ack, reached.instead(redelivered, False))


@redelivery.override(FrameEncoder, "message", breaks=MARKED)
def always_marked(original, reached, self, opening, message, ack, redelivered):
    """Every message is marked as redelivered."""
    return original(self, opening, message, ack, reached.instead(redelivered, True))


@redelivery.override(Subscription, "deliver", breaks=MARKED)
def marked_after_nack_only(original, reached, self, entry):
    """A message is marked after a NACK, but not after a lost connection."""
    right = entry.deliveries
    entry.deliveries = reached.instead(right, entry.failures)
    original(self, entry)
    entry.deliveries = right + 1


@redelivery.result(FrameEncoder, "message", breaks=MARKED)
def marked_false(right, self, opening, message, ack, redelivered):
    """A redelivered message says redelivered:false."""
    return right.replace(b"\nredelivered:true\n", b"\nredelivered:false\n", 1)


@redelivery.before(StompConnection, "on_peer_gone")
@breaks(f"{BACK} STOMP10-SUBSCRIBE-05 STOMP11-ACK-05 STOMP12-ACK-04 ARTEMIS-CONCEPTS-queue-1")
def lost_with_the_connection(reached, self):
    """Messages held by a lost connection are lost."""
    for subscription in self.subscriptions.values():
        held = list(subscription._unsettled.values())
        if reached(held):
            for delivery in held:
                del subscription._unsettled[delivery.key], subscription._deliveries[delivery.key]
            subscription.queue.settle([delivery.entry for delivery in held], Outcome.ACCEPTED)


@redelivery.mutant(AUTO)
def of_another_subscription(patch, reached):
    """In mode auto the first message that another subscription gets after an UNSUBSCRIBE arrives
    twice, as from Artemis 2.56."""

    @patch.after(COMMANDS, "UNSUBSCRIBE")
    def unsubscribe(session, frame):
        for subscription in session.subscriptions.values():
            subscription.twice = subscription.mode is AckMode.AUTO  # type: ignore[attr-defined]

    patch.set(Subscription, "twice", False)

    @patch.after(Subscription)
    def deliver(self, entry):
        if reached(self.twice and entry.message.large is None):
            self.twice = False
            self._put(self._encoder.message(self._opening, entry.message, b"", True), entry.message)


@redelivery.mutant(BACK)
def lost_with_the_subscription(patch, reached):
    """Messages held by a subscription are lost with UNSUBSCRIBE."""

    @patch.override(COMMANDS, "UNSUBSCRIBE")
    def unsubscribe(original, session, frame):
        before = {id(subscription): subscription for subscription in session.subscriptions.values()}
        for consumer in before.values():
            consumer.queue.settle_released = True  # type: ignore[attr-defined]
        try:
            return original(session, frame)
        finally:
            for consumer in before.values():
                consumer.queue.settle_released = False  # type: ignore[attr-defined]

    patch.set(Queue, "settle_released", False)

    @patch.override(Queue)
    def settle(original, self, entries, outcome):
        if reached(self.settle_released and entries and outcome is Outcome.RELEASED):
            outcome = Outcome.ACCEPTED
        original(self, entries, outcome)


@redelivery.override(Queue, "_take_back", breaks=BACK)
def only_the_oldest_comes_back(original, reached, self, back):
    """Only the oldest message that a consumer held returns."""
    original(self, reached.instead(back, back[:1]))


@redelivery.override(Queue, "settle", breaks=BACK)
def given_up_after_two(original, reached, self, entries, outcome):
    """A lost connection counts as a failed delivery, and after two of them a message is dropped."""
    if reached(outcome is Outcome.RELEASED and any(entry.deliveries >= 2 for entry in entries)):
        outcome = Outcome.REJECTED
    original(self, entries, outcome)


@redelivery.mutant("ARTEMIS-REDELIVERY-back-1 ARTEMIS-CONCEPTS-queue-1")
def not_offered_to_who_waits(patch, reached):
    """A returned message is not offered to existing consumers before the next message or consumer
    arrives."""
    patch.set(Queue, "held_back", False)

    @patch.after(Queue)
    def settle(self, entries, outcome):
        self.held_back = outcome is Outcome.RELEASED and bool(entries)

    @patch.override(Queue)
    def dispatch(original, self):
        if self.held_back:
            self.held_back = False
            reached(len(self._dispatcher))
            return
        original(self)


@redelivery.mutant("ARTEMIS-CONCEPTS-queue-1 ARTEMIS-CONCEPTS-queue-2")
def comes_back_twice(patch, reached):
    """A returned message is in the queue twice."""

    @patch.override(Queue)
    def _take_back(original, self, back):
        twice: list[Any] = [copy for entry in back for copy in (entry, _copy(entry))]
        original(self, reached.instead(back, twice))

    def _copy(entry: Entry) -> Entry:
        other = Entry(entry.message, entry.order)
        other.deliveries, other.failures = entry.deliveries, entry.failures
        return other


@redelivery.override(Subscription, "deliver", breaks=MARKED)
def marked_once(original, reached, self, entry):
    """A message is marked at its first redelivery, but not at the second."""
    right = entry.deliveries
    entry.deliveries = reached.instead(right, 0 if right > 1 else right)
    original(self, entry)
    entry.deliveries = right + 1
