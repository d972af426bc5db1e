"""Faults of windows, credit, prefetch and settlement that only a sequence of steps reveals."""

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.kernel import serial_numbers
from brokerproof.reference_broker.kernel.credit import SenderCredit
from brokerproof.reference_broker.protocols.amqp091.channel import HANDLERS, Channel
from brokerproof.reference_broker.protocols.amqp091.consumer import UnackedDeliveries
from brokerproof.reference_broker.protocols.amqp091.consuming import commands
from brokerproof.reference_broker.protocols.amqp10.messaging import Released
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.core.consumer import ConsumerCredit
from brokerproof.reference_broker.protocols.openwire.client import Client
from brokerproof.reference_broker.protocols.openwire.consumer import OpenWireConsumer, Prefetch
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group, breaks

window_models = Group("unseen-windows")
windows_amqp091 = Group("unseen-windows-amqp091", "reference-rabbitmq")
windows_openwire = Group("unseen-windows-openwire", "reference-activemq")

# --- AMQP 1.0 -------------------------------------------------------------------------------------

CREDIT = "AMQP10-CREDIT-03"


@window_models.before(OutgoingLink, "flow", breaks=CREDIT)
def a_delivery_under_way_costs_a_second_credit(reached, self, flow):
    """If a flow arrives while a delivery is being sent in parts, that delivery is counted twice."""
    partial = any(link is self for link, _ in self.session._pending)
    if reached(partial and flow.link_credit):
        flow.link_credit -= 1


@window_models.amends(SenderCredit, "flow", breaks="AMQP10-CREDIT-13 AMQP10-CREDIT-03")
def credit_across_the_wrap_is_cut_there(reached, good, self, count, credit, drain):
    """Credit whose limit lies beyond the wrap of delivery-count ends at the wrap."""
    limit = serial_numbers.MASK - self.count
    if reached(good and self.credit > limit):
        self.credit = max(limit, 0) or self.credit


@window_models.after(OutgoingLink, "apply", breaks="AMQP10-CREDIT-02 AMQP10-CREDIT-09")
def what_is_released_gives_its_credit_back(reached, self, deliveries, state):
    """A released delivery returns one credit."""
    if reached(isinstance(state, Released) and deliveries and self.is_attached):
        self.credit.credit += len(deliveries)


@window_models.after(OutgoingLink, "offer", breaks="AMQP10-CREDIT-12 AMQP10-CREDIT-03")
def a_drain_does_not_wait_for_the_window(reached, self):
    """A drain is answered although messages wait for the window of the session."""
    closed = self.session.remote_incoming_window <= 0
    if self._drain_due and closed and not self._stopped and self.credit.credit:
        reached(len(self.queue))
        self._drain_due = False
        self.credit.drained()
        self.session.flow(self)


# --- STOMP and CORE -------------------------------------------------------------------------------

BYTES = "ARTEMIS-STOMP-window-3"


@window_models.mutant(BYTES)
def a_redelivery_is_charged_anew_and_given_back_as_before(patch, reached):
    """The settlement of a redelivered message returns the charge of its first delivery."""
    charges: dict[object, int] = {}

    @patch.after(Subscription)
    def deliver(self, entry):
        for delivery in reversed(self._unsettled.values()):
            if delivery.entry is entry:
                first = charges.setdefault(entry, delivery.charge)
                delivery.charge = reached.instead(delivery.charge, first)
            break


@window_models.mutant(f"{BYTES} ARTEMIS-STOMP-window-2")
def a_namesake_inherits_the_debt(patch, reached):
    """A subscription with a previously used id is charged for the unsettled messages of its
    predecessor."""
    owed: dict[tuple[int, object], int] = {}

    @patch.before(Subscription)
    def unsubscribe(self):
        if self.window.size > 0:
            owed[self._conn, self.id] = self.window.size - self.window.credit

    @patch.before(Subscription)
    def pause_delivery(self, paused):
        debt = owed.pop((self._conn, self.id), 0)
        if reached(debt and self.window.size > 0):
            self.window.credit -= debt


@window_models.before(ConsumerCredit, "given", breaks="ARTEMIS-FLOW-consumer-1")
def an_overdrawn_credit_is_forgiven(reached, self, credits):
    """Negative credit counts as zero when more is granted."""
    if reached(self.credit is not None and self.credit < 0 and credits > 0):
        self.credit = 0


# --- AMQP 0-9-1 -----------------------------------------------------------------------------------

MORE = "AMQP091-QOS-02"
MOST = "AMQP091-QOS-01 RABBITMQ-AMQP091-QOS-01"


@windows_amqp091.override(Channel, "settle", breaks=f"{MORE} RABBITMQ-AMQP091-QOS-01")
def what_a_cancelled_consumer_had_stays_counted(original, reached, self, settled, outcome):
    """Deliveries of a cancelled consumer count against the channel's prefetch forever."""
    settled = list(settled)
    gone = sum(
        delivery.consumer is not None and delivery.consumer.tag not in self.consumers
        for delivery in settled
    )
    original(self, settled, outcome)
    if gone and not self.is_closing and not self.is_closed:
        reached(self.limit.limit)
        self.limit.used += gone


@windows_amqp091.override(UnackedDeliveries, "__setitem__")
@breaks("AMQP091-ACK-02 AMQP091-TX-02 AMQP091-QOS-02")
def what_comes_back_is_not_in_ranges(original, reached, self, tag, delivery):
    """A delivery whose acknowledgement was rolled back is not covered by a later one with
    multiple."""
    if reached(self._tags and tag < max(self._tags)):
        dict.__setitem__(self, tag, delivery)
        return
    original(self, tag, delivery)


@windows_amqp091.override(HANDLERS, commands.Basic.Qos, breaks=MOST)
def another_prefetch_starts_from_zero(original, reached, channel, method):
    """A prefetch that is set for a channel with unacknowledged deliveries does not count those."""
    if reached(method.global_ and channel.limit.used and method.prefetch_count):
        channel.limit.used = 0
    original(channel, method)
    channel.dispatch()


@windows_amqp091.override(Channel, "settle", breaks=f"{MORE} AMQP091-REC-01")
def a_requeue_frees_no_prefetch_of_others(original, reached, self, settled, outcome):
    """A requeue of deliveries of several consumers makes room for the first of them only."""
    settled = list(settled)
    consumers = dict.fromkeys(
        delivery.consumer for delivery in settled if delivery.consumer is not None
    )
    if outcome is Outcome.RELEASED and len(consumers) > 1:
        first = next(iter(consumers))
        for delivery in settled:
            if delivery.consumer is not None and delivery.consumer is not first:
                reached(delivery.consumer.prefetch.limit)
                delivery.consumer.prefetch.used += 1
    original(self, settled, outcome)


# --- OpenWire -------------------------------------------------------------------------------------


@windows_openwire.override(Prefetch, "acknowledged", breaks="OPENWIRE-PREFETCH-1 OPENWIRE-MSGACK-1")
def a_range_shrinks_the_extension_by_one(original, reached, self, count):
    """An acknowledgement of several messages takes back the extension for one of them."""
    extension = self.extension
    original(self, count)
    self.extension = reached.instead(self.extension, max(0, extension - 1))


@windows_openwire.override(OpenWireConsumer, "settle", breaks="OPENWIRE-MSGACK-3")
def an_individual_acknowledgement_takes_its_predecessor(original, reached, self, places, outcome):
    """An INDIVIDUAL acknowledgement after another one also covers the messages between them."""
    low, high = places
    last = getattr(self, "last_single", None)
    self.last_single = high if low == high else None
    if low == high and last is not None and serial_numbers.before(last, high):
        between = self._order.between(last, high, self._keys)
        reached(len(between) > 1)
        places = last, high
    original(self, places, outcome)


@windows_openwire.override(Client, "control_consumer", breaks="OPENWIRE-PREFETCH-1")
def a_smaller_limit_applies_to_new_messages(original, reached, self, fields, request):
    """After lowering a prefetch limit, as many more messages as the new limit are sent, regardless
    of those held."""
    before = {
        consumer: consumer.prefetch.limit for consumer in self._consumers.values() if consumer
    }
    original(self, fields, request)
    for consumer, limit in before.items():
        if reached(0 < consumer.prefetch.limit < limit and consumer._out):
            consumer.prefetch.extension += len(consumer._out)
            consumer.offer()
