"""Faults that appear only while another client interferes."""

import weakref
from collections.abc import Callable
from typing import Any

from brokerproof.reference_broker.kernel.queue import Queue, Selection
from brokerproof.reference_broker.kernel.transactions import Transaction
from brokerproof.reference_broker.protocols.amqp091.consumer import Prefetch as Amqp091Prefetch
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.core.consumer import CoreConsumer
from brokerproof.reference_broker.protocols.openwire.consumer import OpenWireConsumer
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.reference_broker.protocols.websocket.connection import WebSocketConnection
from brokerproof.suites.mutation.mutant import Group

hindered = Group("hindered")
hindered_openwire = Group("hindered-openwire", "reference-activemq")
hindered_amqp091 = Group("hindered-amqp091", "reference-rabbitmq")

CREDIT, WINDOW = "ARTEMIS-FLOW-consumer-1", "ARTEMIS-STOMP-window-3"
EACH_ONCE, GONE = "ARTEMIS-CONCEPTS-queue-1", "ARTEMIS-CONCEPTS-queue-2"
FIFO = "ARTEMIS-GROUPING-fifo-1"


def open_transactions(patch: Any) -> weakref.WeakSet[Transaction]:
    """Return the transactions that contain sends and have not ended."""
    pending: weakref.WeakSet[Transaction] = weakref.WeakSet()

    @patch.after(Transaction)
    def send(self, message, charge):
        pending.add(self)

    @patch.before(Transaction)
    def commit(self, publish):
        pending.discard(self)

    @patch.before(Transaction)
    def undo(self):
        pending.discard(self)

    return pending


def stalled_connections(patch: Any) -> weakref.WeakSet[StompConnection]:
    """Return the STOMP connections whose peers do not read."""
    stalled: weakref.WeakSet[StompConnection] = weakref.WeakSet()

    @patch.before(StompConnection)
    def pause_delivery(self, paused):
        (stalled.add if paused else stalled.discard)(self)

    return stalled


def no_room(patch: Any, reached: Any, hindrances: Callable[[Any], Any], consumer: type) -> None:
    """Leave consumers of this class without room during a hindrance."""
    present = hindrances(patch)

    @patch.result(consumer)
    def has_room(right, self):
        return reached.instead(right, False) if present else right


@hindered.variant(no_room, open_transactions, CoreConsumer, breaks=CREDIT)
def core_waits_for_open_transactions():
    """While another client's transaction holds sends, CORE consumers get nothing."""


@hindered.variant(no_room, stalled_connections, CoreConsumer, breaks=CREDIT)
def core_waits_for_stalled_readers():
    """While another client does not read, CORE consumers get nothing."""


@hindered.variant(
    no_room, stalled_connections, OutgoingLink, breaks="AMQP10-CREDIT-03 AMQP10-WIN-07"
)
def links_wait_for_stalled_readers():
    """While a STOMP client does not read, AMQP 1.0 links get nothing."""


@hindered.mutant(WINDOW)
def shut_windows_shut_the_next(patch, reached):
    """While a subscription's window is full, another client's new subscription has no window."""
    held: weakref.WeakSet[Subscription] = weakref.WeakSet()

    @patch.after(Subscription)
    def deliver(self, entry):
        if not self.window.has_room():
            held.add(self)

    @patch.before(Queue)
    def add_consumer(self, consumer, selector=None):
        others = [other for other in held if other._unsettled and other.queue is not self]
        if reached(isinstance(consumer, Subscription) and others):
            consumer.has_room = lambda: False


@hindered.result(Selection, "may_have", breaks=f"{WINDOW} {CREDIT}")
def choosy_consumers_take_turns(right, self, entry, consumer):
    """A message that one consumer's selector rejects waits, although another consumer would accept
    it."""
    return False if self.selectors else right


@hindered.override(Queue, "_choose", breaks=FIFO)
def the_youngest_beside_a_choosy_consumer(original, reached, self):
    """A queue with a selective consumer serves its other consumers newest first."""
    order = list(self._ready)
    self._ready.reverse()
    reached(order != list(self._ready))
    original(self)
    ready = sorted(self._ready, key=lambda entry: entry.order)
    self._ready.clear()
    self._ready.extend(ready)


@hindered.mutant(EACH_ONCE)
def aborts_take_messages_along(patch, reached):
    """An abort removes as many messages from every queue as it had sends."""
    queues: weakref.WeakSet[Queue] = weakref.WeakSet()

    @patch.before(Queue)
    def dispatch(self):
        queues.add(self)

    @patch.before(Transaction)
    def undo(self):
        for queue in list(queues):
            for _ in self._sends:
                if reached(queue._ready):
                    queue.discard(queue._ready.popleft())


@hindered.mutant(f"{WINDOW} {CREDIT}")
def one_address_reads_pages_at_a_time(patch, reached):
    """Paged messages are not read while another address has pages."""
    paged: weakref.WeakSet[Queue] = weakref.WeakSet()

    @patch.override(Queue)
    def read_on(original, self):
        if self.behind is not None and self.behind.left:
            paged.add(self)
            if reached(
                any(queue is not self and queue.behind and queue.behind.left for queue in paged)
            ):
                return
        original(self)


@hindered.before(StompConnection, "on_peer_gone", breaks=f"{EACH_ONCE} {GONE}")
def partial_frames_are_completed(reached, self):
    """An incomplete frame of a lost connection is executed, padded with zeros."""
    if reached(self._parser.buffered):
        self.receive(self.shared.clock.now, bytes(2**15))


@hindered.mutant(WINDOW)
def windows_over_websocket_are_not_given_back(patch, reached):
    """An ACK over WebSocket does not reopen its window."""
    inside = patch.during(WebSocketConnection, "receive")

    @patch.after(Subscription)
    def take(self, delivery):
        if reached(inside):
            self.window.charge(delivery.charge)


@hindered_openwire.variant(
    no_room, open_transactions, OpenWireConsumer, breaks="OPENWIRE-PREFETCH-2 OPENWIRE-MSGACK-2"
)
def prefetch_waits_for_open_transactions():
    """While another client's transaction holds sends, OpenWire consumers get nothing."""


@hindered_amqp091.mutant("AMQP091-QOS-02")
def channels_wait_for_stalled_readers(patch, reached):
    """While a STOMP client does not read, AMQP 0-9-1 channels with a prefetch limit get nothing."""
    stalled = stalled_connections(patch)

    @patch.result(Amqp091Prefetch)
    def has_room(right, self):
        return reached.instead(right, False) if stalled and self.limit else right
