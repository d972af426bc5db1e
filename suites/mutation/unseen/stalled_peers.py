"""Faults around peers that stop reading: missed and lost messages, and effects on other peers."""

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.kernel.queue import Selection
from brokerproof.reference_broker.protocols.amqp091.channel import Channel
from brokerproof.reference_broker.protocols.amqp091.connection import Amqp091Connection
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.reference_broker.protocols.core.consumer import CoreConsumer
from brokerproof.reference_broker.protocols.openwire.consumer import OpenWireConsumer
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group, breaks

stalled_peers = Group("unseen-stalled-peers")
stalled_peers_amqp091 = Group("unseen-stalled-peers-amqp091", "reference-rabbitmq")
stalled_peers_openwire = Group("unseen-stalled-peers-openwire", "reference-activemq")

WINDOW = "ARTEMIS-STOMP-window-3"
HANDED = f"STOMP12-SUB-02 STOMP11-SUB-02 {WINDOW}"


@stalled_peers.override(StompConnection, "_update_pause", breaks=HANDED)
def only_the_newest_subscription_is_served_again(original, reached, self):
    """When a STOMP peer reads again, only its newest subscription is offered the waiting
    messages."""
    held = self._paused or self._streams
    if held or not self.held or len(self.subscriptions) < 2:
        original(self)
        return
    self.held = held
    for subscription in self.subscriptions.values():
        subscription.pause_delivery(False)
    *others, newest = self.subscriptions.values()
    reached(any(len(subscription.queue) for subscription in others))
    newest.queue.dispatch()


@stalled_peers.mutant(HANDED)
def a_subscription_made_meanwhile_stays_paused(patch, reached):
    """A STOMP subscription that began while its peer did not read never gets a message."""
    meanwhile = set()

    @patch.override(Subscription)
    def pause_delivery(original, self, paused):
        fresh = not hasattr(self, "paused_once")
        self.paused_once = True
        if fresh and paused:
            meanwhile.add(self)
        if not reached(self in meanwhile and not paused):
            original(self, paused)


@stalled_peers.override(Subscription, "take", breaks=f"{WINDOW} ARTEMIS-STOMP-window-2")
def acks_during_a_stall_give_nothing_back(original, reached, self, delivery):
    """Messages that a STOMP peer acknowledges while it does not read stay charged to its window."""
    stalled = self.has_room != self.window.has_room
    before = self.window.credit
    taken = original(self, delivery)
    if reached(stalled and self.window.credit != before):
        self.window.credit = before
    return taken


@stalled_peers.override(Subscription, "pause_delivery", breaks=f"{WINDOW} ARTEMIS-STOMP-window-2")
def windows_end_with_the_first_stall(original, reached, self, paused):
    """A STOMP peer that reads again gets everything, regardless of its window."""
    stalled = self.has_room != self.window.has_room
    original(self, paused)
    if reached(stalled and not paused and self.window.size >= 0):
        self.window.size = -1


@stalled_peers.override(Session, "_transmit_pending", breaks="AMQP10-MSG-02 AMQP10-XFER-19")
def a_frame_is_lost_at_the_stall(original, reached, self):
    """A delivery that its window has interrupted loses a transfer when the window opens while the
    peer does not read."""
    if self.connection.held and self._pending and self.remote_incoming_window > 0:
        reached(next(self._pending[0][1], None))
        return
    original(self)


@stalled_peers.after(OutgoingLink, "flow", breaks="AMQP10-CREDIT-12")
def a_stalled_link_is_drained_at_once(reached, self, flow):
    """A drain that arrives while the peer does not read uses the credit up, although messages
    wait."""
    if flow.drain and self.session.connection.held and self.credit.credit and not self._stopped:
        reached(len(self.queue))
        self._drain_due = False
        self.credit.drained()
        self.session.flow(self)


@stalled_peers.before(OutgoingLink, "resume", breaks="AMQP10-CREDIT-12 AMQP10-CREDIT-24")
def a_drain_during_a_stall_is_forgotten(reached, self):
    """A drain that arrived while the peer did not read is not answered when it reads again."""
    if reached(self._drain_due):
        self._drain_due = False


@stalled_peers.skips(CoreConsumer, "given")
@breaks("ARTEMIS-FLOW-consumer-6 ARTEMIS-FLOW-consumer-1")
def credit_of_a_stalled_consumer_is_lost(self, credits):
    """Credit from a CORE consumer whose peer does not read is lost."""
    return self._session.connection.held and credits > 0


@stalled_peers.after(Selection, "note_looked", breaks=f"ARTEMIS-STOMP-selector-1 {HANDED}")
def a_stalled_consumer_counts_as_having_looked(reached, self, order):
    """Messages that other consumers examine in a queue with selectors while a consumer's peer does
    not read are never offered to that consumer."""
    for consumer in self._dispatcher._turns:
        window = getattr(consumer, "window", None)
        if window is not None and consumer.has_room != window.has_room:
            reached(self.looked.get(consumer, 0) < order)
            self.looked[consumer] = order


@stalled_peers.mutant("AMQP10-READING-OUT-01 AMQP10-OUT-03")
def half_a_delivery_counts_as_delivered(patch, reached):
    """A message that is partly sent when its link ends is not returned to its queue."""

    def settle_halves(session, link=None):
        for holder, _ in session._pending:
            if (link is None or holder is link) and holder.unsettled:
                delivery = holder.unsettled[max(holder.unsettled)]
                if reached(delivery.transaction is None and not holder.copies):
                    holder.forget([delivery])
                    holder.queue.unsettled -= 1
                    holder.queue.discard(delivery.entry)

    @patch.before(Session)
    def release_links(self):
        settle_halves(self)

    @patch.before(Session)
    def _release(self, link):
        settle_halves(self, link)


@stalled_peers.before(StompConnection, "_end", breaks="ARTEMIS-REDELIVERY-marked-1")
def what_a_stalled_peer_had_is_new(reached, self):
    """Messages of a peer that disconnects while it does not read are delivered to others as if for
    the first time."""
    if self._paused:
        for delivery in self.deliveries.values():
            reached()
            delivery.entry.deliveries = 0


DISPATCHED = "AMQP091-QOS-02 AMQP091-CONS-04"


@stalled_peers_amqp091.override(Amqp091Connection, "pause_delivery", breaks=DISPATCHED)
def only_the_first_channel_goes_on(original, reached, self, paused):
    """When an AMQP 0-9-1 peer reads again, only its first channel is served."""
    self.held = paused
    channels = list(self.channels.values())
    if not paused and channels:
        reached(any(len(queue) for channel in channels[1:] for queue in channel._consumed()))
        channels[0].dispatch()


@stalled_peers_amqp091.override(Channel, "settle", breaks="AMQP091-QOS-02 RABBITMQ-AMQP091-QOS-01")
def a_stalled_channel_keeps_its_limit(original, reached, self, settled, outcome):
    """Messages acknowledged while the peer does not read still count against its channel's
    prefetch."""
    settled = list(settled)
    used = self.limit.used
    original(self, settled, outcome)
    if self.connection.held and self.limit.used != used:
        reached(self.limit.limit)
        self.limit.used = used


@stalled_peers_amqp091.override(Channel, "give_back")
@breaks("RABBITMQ-AMQP091-NACK-02 AMQP091-PUB-04")
def what_a_stalled_channel_had_goes_to_the_end(original, reached, self):
    """Messages of a channel that ends while its peer does not read go to the end of the queue."""
    if not self.connection.held:
        return original(self)
    for delivery in self.unacked.values():
        queue = delivery.declared.queue
        reached(queue._ready and queue._ready[-1].order > delivery.entry.order)
        queue._order += 1
        delivery.entry.order = queue._order
    return original(self)


@stalled_peers_openwire.override(OpenWireConsumer, "settle")
@breaks("OPENWIRE-PREFETCH-2 OPENWIRE-MSGACK-2")
def acknowledgements_during_a_stall_are_undone(original, reached, self, places, outcome):
    """Messages that an OpenWire consumer acknowledges while its peer does not read return to their
    queue."""
    if reached(self._client.connection.held and outcome is Outcome.ACCEPTED and not self.browses):
        outcome = Outcome.RELEASED
    original(self, places, outcome)


@stalled_peers_openwire.before(OpenWireConsumer, "offer")
@breaks("OPENWIRE-PREFETCH-3 OPENWIRE-PREFETCH-2")
def a_pull_during_a_stall_is_forgotten(reached, self):
    """A message that an OpenWire consumer pulls while its peer does not read never arrives."""
    if reached(self._client.connection.held and self.prefetch.pulled):
        self.prefetch.pulled = 0
