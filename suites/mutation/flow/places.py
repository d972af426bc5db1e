"""Faults of windows, acknowledgements and order that affect only (durable) topic subscriptions, and
faults of credit that affect only topics, paged addresses and dynamic nodes."""

import weakref
from typing import Any

from brokerproof.harness.model.enums import AckMode, Outcome, RoutingType
from brokerproof.reference_broker.kernel.credit import ByteWindow
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.amqp10.messaging import Accepted, Modified, Released
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group

places = Group("places")

WINDOW, FIFO = "ARTEMIS-STOMP-window-3", "ARTEMIS-GROUPING-fifo-1"
CUMULATIVE, INDIVIDUAL = "STOMP12-SUB-11", "STOMP12-SUB-13"
EACH_ONCE, GONE = "ARTEMIS-CONCEPTS-queue-1", "ARTEMIS-CONCEPTS-queue-2"
BACK = "ARTEMIS-REDELIVERY-back-1"
CREDIT, NO_CREDIT, DRAIN = "AMQP10-CREDIT-03", "AMQP10-CREDIT-09", "AMQP10-CREDIT-12"
SESSION_WINDOW, AGAIN = "AMQP10-WIN-02", "AMQP10-OUT-09"


def of_a_topic(queue: Queue) -> bool:
    """True if the queue holds the messages of a topic's subscription."""
    return queue.routing is RoutingType.MULTICAST


def is_durable(queue: Queue) -> bool:
    """True if the queue outlives its subscription's connection."""
    return of_a_topic(queue) and queue.durable


@places.before(Subscription, "__init__", breaks=WINDOW)
def windows_of_topics_ignored(reached, self, *arguments):
    """A subscription of a topic has no window."""
    before = list(arguments)
    window = next(argument for argument in before if isinstance(argument, ByteWindow))
    queue = next(argument for argument in before if isinstance(argument, Queue))
    if reached(of_a_topic(queue) and window.size >= 0):
        window.size = -1


@places.after(Subscription, "take", breaks=WINDOW)
def windows_of_topics_not_given_back(reached, self, delivery):
    """An ACK does not reopen the window of a topic's subscription."""
    if reached(of_a_topic(self.queue)):
        self.window.charge(delivery.charge)


@places.override(Subscription, "take", breaks=WINDOW)
def only_the_last_of_a_range_given_back(original, reached, self, delivery):
    """A cumulative ACK of a topic's subscription returns only its last message's charge."""
    held = [other.charge for other in self._unsettled.values() if other is not delivery]
    entries = original(self, delivery)
    if reached(of_a_topic(self.queue) and self.mode is AckMode.CLIENT and len(entries) > 1):
        self.window.charge(sum(held[: len(entries) - 1]))
    return entries


@places.override(Subscription, "take", breaks=f"{CUMULATIVE} {GONE}")
def ranges_of_topics_end_at_one(original, reached, self, delivery):
    """An ACK in mode client of a topic's subscription settles only its own message."""
    if reached(of_a_topic(self.queue) and self.mode is AckMode.CLIENT):
        self.mode = AckMode.CLIENT_INDIVIDUAL
        entries = original(self, delivery)
        self.mode = AckMode.CLIENT
        return entries
    return original(self, delivery)


@places.override(Subscription, "take", breaks=f"{INDIVIDUAL} {EACH_ONCE} {WINDOW}")
def single_acks_of_topics_are_ranges(original, reached, self, delivery):
    """An ACK in mode client-individual of a durable subscription is cumulative."""
    if reached(is_durable(self.queue) and self.mode is AckMode.CLIENT_INDIVIDUAL):
        self.mode = AckMode.CLIENT
        entries = original(self, delivery)
        self.mode = AckMode.CLIENT_INDIVIDUAL
        return entries
    return original(self, delivery)


@places.result(Subscription, "unsubscribe", breaks=f"{EACH_ONCE} {BACK}")
def held_messages_of_durable_subscriptions_lost(entries, self):
    """The messages of a durable subscription are gone with its connection."""
    if is_durable(self.queue) and entries:
        for entry in entries:
            self.queue.discard(entry)
        return []
    return entries


@places.amends(Subscription, "unsubscribe", breaks=f"{EACH_ONCE} {BACK}")
def one_held_message_of_durable_subscriptions_lost(reached, entries, self):
    """A durable subscription that holds several messages loses the last one with its connection."""
    if reached(is_durable(self.queue) and len(entries) > 1):
        self.queue.discard(entries.pop())


@places.mutant(f"{WINDOW} {EACH_ONCE}")
def windows_outlive_durable_subscriptions(patch: Any, reached: Any) -> None:
    """A resumed durable subscription continues with its old window."""
    left: weakref.WeakKeyDictionary[Queue, int] = weakref.WeakKeyDictionary()

    @patch.before(Subscription)
    def unsubscribe(self):
        if is_durable(self.queue) and self.window.size >= 0:
            left[self.queue] = self.window.credit

    @patch.before(Queue)
    def add_consumer(self, consumer, selector=None):
        if reached(self in left and isinstance(consumer, Subscription) and left[self] < 0):
            consumer.window.charge(-left.pop(self))


@places.before(Queue, "add_consumer", breaks=EACH_ONCE)
def the_first_waiting_message_of_a_durable_subscription_lost(
    reached, self, consumer, selector=None
):
    """A resumed durable subscription loses its oldest waiting message."""
    if reached(is_durable(self) and self._ready):
        self.discard(self._ready.popleft())


@places.before(Queue, "add_consumer", breaks=FIFO)
def durable_subscriptions_come_back_to_the_youngest(reached, self, consumer, selector=None):
    """A resumed durable subscription gets its waiting messages newest first."""
    if reached(is_durable(self) and len(self._ready) > 1):
        self._ready.reverse()


@places.override(Subscription, "deliver", breaks=EACH_ONCE)
def sixth_messages_of_topics_are_lost(original, reached, self, entry):
    """The sixth delivery of each topic subscription is omitted."""
    if reached(of_a_topic(self.queue) and self.mode is not AckMode.AUTO and self._delivered == 5):
        self._delivered += 1
        self.queue.discard(entry)
    else:
        original(self, entry)


# --- credit of AMQP 1.0 links ---------------------------------------------------------------------


def is_made(link: OutgoingLink) -> bool:
    return link._dynamic is not None


def is_paged(queue: Queue) -> bool:
    """True if the queue has messages on pages, after those in memory."""
    return queue.behind is not None and queue.behind.left > 0


@places.override(OutgoingLink, "deliver", breaks=NO_CREDIT)
def credit_on_topics_is_not_spent(original, reached, self, entry):
    """A second delivery on a link from a topic spends no credit."""
    spent = self.credit.credit
    original(self, entry)
    if reached(of_a_topic(self.queue) and self._tag > 1):
        self.credit.credit = spent


@places.before(OutgoingLink, "flow", breaks=f"{CREDIT} {NO_CREDIT}")
def credit_on_topics_adds_up(reached, self, flow):
    """A flow on a link from a topic adds its credit to the remaining credit."""
    left = self.credit.credit
    if reached(of_a_topic(self.queue) and left and flow.link_credit and not flow.drain):
        flow.link_credit += left


@places.before(OutgoingLink, "flow", breaks=DRAIN)
def drains_of_topics_are_forgotten(reached, self, flow):
    """A drain of a link from an empty topic is treated as a plain flow."""
    if reached(of_a_topic(self.queue) and flow.drain and not len(self.queue)):
        flow.drain = False


@places.override(OutgoingLink, "apply", breaks=f"{AGAIN} {DRAIN}")
def released_messages_of_topics_are_gone(original, reached, self, deliveries, state):
    """A released message of a topic is lost."""
    if reached(of_a_topic(self.queue) and isinstance(state, Released) and not self._stopped):
        state = Accepted()
    original(self, deliveries, state)


@places.override(OutgoingLink, "deliver", breaks=NO_CREDIT)
def credit_of_made_nodes_is_not_spent(original, reached, self, entry):
    """A delivery from a dynamically created node spends no credit while others wait."""
    spent = self.credit.credit
    original(self, entry)
    if reached(is_made(self) and len(self.queue)):
        self.credit.credit = spent


@places.before(OutgoingLink, "flow", breaks=CREDIT)
def made_nodes_grant_one_less(reached, self, flow):
    """On a link from a dynamically created node, a credit of two or more counts as one less."""
    if reached(is_made(self) and (flow.link_credit or 0) > 1 and not flow.drain):
        flow.link_credit -= 1


@places.after(OutgoingLink, "flow", breaks=DRAIN)
def drains_of_made_nodes_leave_credit(reached, self, flow):
    """A drain of a dynamically created node leaves one credit."""
    if reached(is_made(self) and flow.drain and not self.credit.credit):
        self.credit.credit = 1
        self.credit.count -= 1
        self.session.flow(self)


@places.override(OutgoingLink, "apply", breaks=f"{AGAIN} {DRAIN}")
def failed_messages_of_made_nodes_are_gone(original, reached, self, deliveries, state):
    """A failed delivery loses a message of a dynamic node."""
    if reached(is_made(self) and isinstance(state, Modified) and not self._stopped):
        state = Accepted()
    original(self, deliveries, state)


@places.override(Queue, "settle", breaks=f"{AGAIN} {DRAIN} ARTEMIS-PAGING-11")
def what_comes_back_before_pages_is_gone(original, reached, self, entries, outcome):
    """A message returned to a queue with messages on pages is lost."""
    if reached(is_paged(self) and outcome is Outcome.RELEASED):
        outcome = Outcome.ACCEPTED
    original(self, entries, outcome)


@places.result(Session, "can_send", breaks=SESSION_WINDOW)
def session_windows_ignore_topics(room, self):
    """A session without room continues to send while it has a link from a topic."""
    links = [link for link in self.links.values() if isinstance(link, OutgoingLink)]
    return True if any(of_a_topic(link.queue) for link in links) else room
