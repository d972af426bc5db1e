"""Faults of combined options, of order in long histories, and of turns."""

from unittest import mock

from brokerproof.harness.model.enums import AckMode, Outcome, RoutingType
from brokerproof.reference_broker.kernel.credit import UNLIMITED, ByteWindow
from brokerproof.reference_broker.kernel.message import Entry, Envelope
from brokerproof.reference_broker.kernel.queue import Queue, RoundRobin
from brokerproof.reference_broker.protocols.amqp091 import channel as channels
from brokerproof.reference_broker.protocols.amqp091 import consuming, publishing
from brokerproof.reference_broker.protocols.amqp091.consumer import Consumer
from brokerproof.reference_broker.protocols.amqp10.connection import AmqpConnection
from brokerproof.reference_broker.protocols.amqp10.messaging import Modified
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.transaction import LiveTransaction
from brokerproof.reference_broker.protocols.openwire.transaction import OpenWireTransaction
from brokerproof.reference_broker.protocols.stomp import commands
from brokerproof.reference_broker.protocols.stomp.heartbeat import HeartBeatNegotiator
from brokerproof.suites.mutation.mutant import Group, breaks, without

combinations = Group("unseen-combinations")
combinations_amqp091 = Group("unseen-combinations-amqp091", original="reference-rabbitmq")
orders = Group("unseen-orders")
orders_amqp091 = Group("unseen-orders-amqp091", original="reference-rabbitmq")
orders_openwire = Group("unseen-orders-openwire", original="reference-activemq")

WINDOWS = "ARTEMIS-STOMP-window-3 ARTEMIS-STOMP-window-2 ARTEMIS-STOMP-window-5"
ORDER = "ARTEMIS-GROUPING-fifo-1"
ONE_CONSUMER = "ARTEMIS-CONCEPTS-queue-1"


@combinations.result(commands, "_window_of", breaks=WINDOWS)
def a_selector_takes_the_window_away(window, session, frame, mode):
    """A SUBSCRIBE with a selector has no window, in mode client."""
    if frame.get("selector") is not None and mode is AckMode.CLIENT and window.size != UNLIMITED:
        return ByteWindow(UNLIMITED)
    return window


@combinations.mutant(f"{WINDOWS} ARTEMIS-STOMP-window-4")
def a_window_is_inherited(patch, reached):
    """A SUBSCRIBE that names no window gets that of the previous SUBSCRIBE on its connection."""
    last: dict[object, str] = {}

    @patch.override(commands)
    def _window(original, session, frame, mode):
        named = frame.get("consumer-window-size")
        if named is not None:
            size = original(session, frame, mode)
            last[session] = size
            return size
        own = original(session, frame, mode)
        return own if session not in last else reached.instead(own, last[session])


@combinations.result(commands, "_selector")
@breaks("ARTEMIS-STOMP-selector-1 STOMP12-SUB-04 ARTEMIS-STOMP-durable-1")
def a_durable_subscription_selects_nothing(selector, frame, version):
    """A selector has no effect on a durable subscription."""
    if selector is not None and any(frame.get(name) for name in commands._DURABLE_NAMES):
        return None
    return selector


@combinations.override(commands.COMMANDS, "SEND", breaks="STOMP12-SEND-02 STOMP12-BEGIN-03")
def a_typed_message_is_in_no_transaction(original, reached, session, frame):
    """A SEND with a transaction and a destination-type takes effect immediately."""
    if reached(frame.get("transaction") is not None and frame.get("destination-type") is not None):
        frame = without(frame, "transaction")
    return original(session, frame)


@combinations.result(Envelope, "expires", breaks="ARTEMIS-EXPIRY-1")
def a_persistent_message_lives_for_ever(expires, self):
    """expires has no effect on a persistent message."""
    return 0 if expires and self.durable else expires


@combinations.mutant("ARTEMIS-STOMP-ttl-3")
def a_client_id_loses_the_modifier(patch, reached):
    """A CONNECT with a client-id and heartbeats gets a TTL without the modifier."""
    from brokerproof.reference_broker.protocols.stomp import connection

    connecting = patch.during(connection.StompConnection, "_connect")

    @patch.override(HeartBeatNegotiator)
    def agree(original, self, cx, cy):
        sx, sy, ttl = original(self, cx, cy)
        named = connecting and connecting[-1][2].get("client-id") is not None
        if reached(named and cx):
            return sx, sy, cx
        return sx, sy, ttl


@combinations.after(OutgoingLink, "_check")
@breaks("AMQP10-XFER-10 AMQP10-LINK-05 ARTEMIS-FILTER-syntax-1")
def a_settled_link_selects_nothing(reached, self, source):
    """A filter has no effect on a link negotiated as settled."""
    if reached(self._presettled and self._selector is not None):
        self._selector = None


@combinations.after(AmqpConnection, "_open", breaks="AMQP10-MFS-02")
def an_idle_peer_gets_large_frames(reached, self, opened, channel):
    """max-frame-size has no effect in an open that also has an idle-time-out."""
    if reached(opened.idle_time_out and self.peer_max_frame_size < 65_536):
        self.peer_max_frame_size = 65_536


@combinations.before(OutgoingLink, "disposed", breaks="AMQP10-OUT-12")
def a_failed_delivery_may_come_back_here(reached, self, deliveries, state, settled):
    """undeliverable-here has no effect together with delivery-failed."""
    if reached(getattr(state, "undeliverable_here", None) and state.delivery_failed):
        state.undeliverable_here = False


@combinations_amqp091.override(Consumer, "has_room", breaks="AMQP091-QOS-03")
def an_exclusive_consumer_without_acks_is_limited(original, reached, self):
    """An exclusive consumer without acknowledgement stops after as many messages as its
    prefetch."""
    if self.no_ack and self.declared.sole and self.prefetch.limit:
        self.prefetch.used += 1
        if reached(self.prefetch.used > 4 * self.prefetch.limit):
            return False
    return original(self)


@combinations_amqp091.before(channels.HANDLERS, consuming.commands.Basic.Consume)
@breaks("AMQP091-CONS-02")
def nobody_waits_for_exclusiveness(reached, channel, method):
    """exclusive has no effect in a basic.consume with nowait."""
    if reached(method.exclusive and method.nowait):
        method.exclusive = False


@combinations_amqp091.override(channels.HANDLERS, consuming.commands.Basic.Consume)
@breaks("RABBITMQ-AMQP091-QOS-01 AMQP091-QOS-01")
def a_global_limit_frees_consumers(original, reached, channel, method):
    """On a channel with a global limit the limit for each consumer has no effect."""
    limited = reached(channel.limit.limit and channel.prefetch)
    with mock.patch.object(channel, "prefetch", 0 if limited else channel.prefetch):
        return original(channel, method)


@combinations_amqp091.override(publishing, "_announce", breaks="AMQP091-PUB-03")
def a_persistent_message_is_not_returned(original, reached, channel, message, queues, mandatory):
    """A mandatory message without a queue is dropped in a channel with confirms."""
    if reached(mandatory and not queues and channel.confirms is not None and message.body):
        mandatory = False
    original(channel, message, queues, mandatory)


@orders.after(Queue, "enqueue", breaks=ORDER)
def now_and_then_one_overtakes(reached, self, message, source_entry=None, charge=None):
    """Every 61st message of a queue overtakes the one before it."""
    if reached(self._order % 61 == 0 and len(self._ready) > 1):
        self._ready[-1], self._ready[-2] = self._ready[-2], self._ready[-1]


@orders.after(Queue, "enqueue", breaks=f"{ONE_CONSUMER} ARTEMIS-CONCEPTS-queue-2")
def now_and_then_one_comes_twice(reached, self, message, source_entry=None, charge=None):
    """Every 83rd message of a queue is duplicated."""
    if reached(self._order % 83 == 0 and self.routing is RoutingType.ANYCAST):
        self._order += 1
        entry = Entry(message, self._order)
        self._ready.append(entry)


@orders.mutant(f"{ONE_CONSUMER}")
def each_fifth_consumer_costs_a_message(patch, reached):
    """Every fifth consumer that joins a queue loses its oldest message."""
    joined: dict[Queue, int] = {}

    @patch.before(Queue)
    def add_consumer(self, consumer, selector=None):
        joined[self] = joined.get(self, 0) + 1
        if reached(joined[self] % 5 == 0 and self._ready):
            self.discard(self._ready.popleft())


@orders.after(Queue, "enqueue", breaks="ARTEMIS-CONCEPTS-topic-1 ARTEMIS-GROUPING-fifo-1")
def a_slow_subscription_is_out_of_order(reached, self, message, source_entry=None, charge=None):
    """When a topic subscription is more than 40 messages behind, the next message jumps the
    queue."""
    if reached(self.routing is RoutingType.MULTICAST and len(self._ready) > 40):
        self._ready.rotate(1)


@orders.skips(RoundRobin, "_end_turn", breaks="ARTEMIS-FLOW-consumer-3")
def one_of_many_turns_is_skipped(self, consumer):
    """In a queue with five or more consumers, the consumer that was served keeps its turn."""
    return len(self._turns) >= 5


@orders_amqp091.override(Queue, "_take_back", breaks="RABBITMQ-AMQP091-NACK-02 AMQP091-PUB-04")
def a_shared_queue_takes_back_at_its_end(original, reached, self, back):
    """A message requeued to a queue with three or more consumers goes to its end."""
    if reached(len(self._dispatcher) >= 3 and back and self._ready):
        self._ready.extend(sorted(back, key=lambda entry: entry.order))
        return
    original(self, back)


@orders_amqp091.after(Queue, "enqueue", breaks="AMQP091-PUB-04")
def a_large_message_is_overtaken(reached, self, message, source_entry=None, charge=None):
    """A message of more than 20,000 bytes that waits is overtaken by the next one."""
    if reached(len(self._ready) > 1 and len(self._ready[-2].message.body) > 20_000):
        self._ready[-1], self._ready[-2] = self._ready[-2], self._ready[-1]


@orders_amqp091.override(Queue, "settle", breaks="AMQP091-CHAN-04 AMQP091-REJ-01")
def a_crowd_that_returns_loses_its_last(original, reached, self, entries, outcome):
    """If a channel returns 30 or more messages together, the last is lost."""
    if reached(outcome is Outcome.RELEASED and len(entries) >= 30):
        original(self, entries[-1:], Outcome.ACCEPTED)
        entries = entries[:-1]
    original(self, entries, outcome)


@orders_openwire.before(OpenWireTransaction, "commit", breaks="ACTIVEMQ-ORDER-1")
def a_long_commit_is_out_of_order(reached, self):
    """A transaction of more than eight messages is published from its last to its first."""
    if reached(len(self.sends._sends) > 8):
        self.sends._sends.reverse()


@orders_openwire.after(Queue, "enqueue", breaks="ACTIVEMQ-ORDER-1")
def now_and_then_two_change_places(reached, self, message, source_entry=None, charge=None):
    """Every 53rd message of a queue overtakes the one before it."""
    if reached(self._order % 53 == 0 and len(self._ready) > 1):
        self._ready[-1], self._ready[-2] = self._ready[-2], self._ready[-1]


@combinations.before(OutgoingLink, "flow", breaks="AMQP10-CREDIT-12")
def an_echo_hides_the_drain(reached, self, flow):
    """A flow with drain and echo is answered as an echo, and the credit stays."""
    if reached(flow.drain and flow.echo):
        flow.drain = False


@combinations.before(LiveTransaction, "commit", breaks="AMQP10-TXN-09")
def a_commit_bars_nobody(reached, self):
    """undeliverable-here in a transaction does not keep the message from its link."""
    for delivery, (outcome, settled) in self._outcomes.items():
        if reached(isinstance(outcome, Modified) and outcome.undeliverable_here):
            failed, notes = outcome.delivery_failed, outcome.message_annotations
            changed = Modified(delivery_failed=failed, message_annotations=notes)
            self._outcomes[delivery] = changed, settled


@orders.after(OutgoingLink, "apply", breaks=ORDER)
def what_comes_back_together_is_reversed(reached, self, deliveries, state):
    """Messages returned together are newest first while the queue has two other consumers."""
    back = [delivery.entry for delivery in deliveries if delivery.entry in self.queue._ready]
    if reached(len(back) > 1 and self.queue.consumers > 1):
        for entry, message in zip(back, [entry.message for entry in back[::-1]], strict=True):
            entry.message = message
