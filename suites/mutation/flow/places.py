"""Faults of windows, acknowledgements and order that only subscriptions of a topic have, durable
ones among them."""

from __future__ import annotations

import weakref
from typing import Any

from brokerproof.harness.model.enums import AckMode, RoutingType
from brokerproof.reference_broker.kernel.credit import ByteWindow
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group

places = Group("places")

WINDOW, FIFO = "ARTEMIS-STOMP-window-3", "ARTEMIS-GROUPING-fifo-1"
CUMULATIVE, INDIVIDUAL = "STOMP12-SUB-11", "STOMP12-SUB-13"
EACH_ONCE, GONE = "ARTEMIS-CONCEPTS-queue-1", "ARTEMIS-CONCEPTS-queue-2"
BACK = "ARTEMIS-REDELIVERY-back-1"


def of_a_topic(queue: Queue) -> bool:
    """True if the queue holds the messages of a topic's subscription."""
    return queue.routing is RoutingType.MULTICAST


def is_durable(queue: Queue) -> bool:
    """True if the queue outlives its subscription's connection."""
    return of_a_topic(queue) and queue.durable


@places.override(Subscription, "__init__", breaks=WINDOW)
def windows_of_topics_ignored(original, reached, self, *arguments):
    """A subscription of a topic has no window."""
    before = list(arguments)
    window = next(argument for argument in before if isinstance(argument, ByteWindow))
    queue = next(argument for argument in before if isinstance(argument, Queue))
    if of_a_topic(queue) and window.size >= 0:
        reached()
        window.size = -1
    original(self, *arguments)


@places.override(Subscription, "take", breaks=WINDOW)
def windows_of_topics_not_given_back(original, reached, self, delivery):
    """An ACK gives nothing back to the window of a topic's subscription."""
    entries = original(self, delivery)
    if of_a_topic(self.queue):
        reached()
        self.window.charge(delivery.charge)
    return entries


@places.override(Subscription, "take", breaks=WINDOW)
def only_the_last_of_a_range_given_back(original, reached, self, delivery):
    """A cumulative ACK of a topic's subscription gives back its last message alone."""
    held = [other.charge for other in self._unsettled.values() if other is not delivery]
    entries = original(self, delivery)
    if of_a_topic(self.queue) and self.mode is AckMode.CLIENT and len(entries) > 1:
        reached()
        self.window.charge(sum(held[: len(entries) - 1]))
    return entries


@places.override(Subscription, "take", breaks=f"{CUMULATIVE} {GONE}")
def ranges_of_topics_end_at_one(original, reached, self, delivery):
    """An ACK in mode client of a topic's subscription settles its message alone."""
    if of_a_topic(self.queue) and self.mode is AckMode.CLIENT:
        reached()
        self.mode = AckMode.CLIENT_INDIVIDUAL
        entries = original(self, delivery)
        self.mode = AckMode.CLIENT
        return entries
    return original(self, delivery)


@places.override(Subscription, "take", breaks=f"{INDIVIDUAL} {EACH_ONCE} {WINDOW}")
def single_acks_of_topics_are_ranges(original, reached, self, delivery):
    """An ACK in mode client-individual of a durable subscription settles all before too."""
    if is_durable(self.queue) and self.mode is AckMode.CLIENT_INDIVIDUAL:
        reached()
        self.mode = AckMode.CLIENT
        entries = original(self, delivery)
        self.mode = AckMode.CLIENT_INDIVIDUAL
        return entries
    return original(self, delivery)


@places.override(Subscription, "unsubscribe", breaks=f"{EACH_ONCE} {BACK}")
def held_messages_of_durable_subscriptions_lost(original, reached, self):
    """The messages of a durable subscription are gone with its connection."""
    entries = original(self)
    if is_durable(self.queue) and entries:
        reached()
        for entry in entries:
            self.queue.discard(entry)
        return []
    return entries


@places.override(Subscription, "unsubscribe", breaks=f"{EACH_ONCE} {BACK}")
def one_held_message_of_durable_subscriptions_lost(original, reached, self):
    """Of two messages or more that a durable subscription holds the last is gone with its
    connection."""
    entries = original(self)
    if is_durable(self.queue) and len(entries) > 1:
        reached()
        self.queue.discard(entries.pop())
    return entries


@places.mutant(f"{WINDOW} {EACH_ONCE}")
def windows_outlive_durable_subscriptions(patch: Any, reached: Any) -> None:
    """A durable subscription that comes back has what was left of its window."""
    left: weakref.WeakKeyDictionary[Queue, int] = weakref.WeakKeyDictionary()

    @patch.override(Subscription)
    def unsubscribe(original, self):
        if is_durable(self.queue) and self.window.size >= 0:
            left[self.queue] = self.window.credit
        return original(self)

    @patch.override(Queue)
    def add_consumer(original, self, consumer, selector=None):
        if self in left and isinstance(consumer, Subscription) and left[self] < 0:
            reached()
            consumer.window.charge(-left.pop(self))
        original(self, consumer, selector)


@places.override(Queue, "add_consumer", breaks=EACH_ONCE)
def the_first_waiting_message_of_a_durable_subscription_lost(
    original, reached, self, consumer, selector=None
):
    """When a durable subscription comes back its oldest waiting message is gone."""
    if is_durable(self) and self._ready:
        reached()
        self.discard(self._ready.popleft())
    original(self, consumer, selector)


@places.override(Queue, "add_consumer", breaks=FIFO)
def durable_subscriptions_come_back_to_the_youngest(
    original, reached, self, consumer, selector=None
):
    """When a durable subscription comes back what waits is delivered from its end."""
    if is_durable(self) and len(self._ready) > 1:
        reached()
        self._ready.reverse()
    original(self, consumer, selector)


@places.override(Subscription, "deliver", breaks=EACH_ONCE)
def sixth_messages_of_topics_are_lost(original, reached, self, entry):
    """The sixth delivery of each subscription of a topic is left out."""
    if of_a_topic(self.queue) and self.mode is not AckMode.AUTO and self._delivered == 5:
        reached()
        self._delivered += 1
        self.queue.discard(entry)
    else:
        original(self, entry)
