"""Faults of refused steps that nevertheless have an effect."""

from pamqp import commands

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.protocols.amqp091 import channel as channels
from brokerproof.reference_broker.protocols.amqp091.declaring import queue_of
from brokerproof.reference_broker.protocols.amqp091.errors import Refusal as Refusal091
from brokerproof.reference_broker.protocols.amqp10.coordinator import CoordinatorLink
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.reference_broker.protocols.core.consumer import CoreConsumer
from brokerproof.reference_broker.protocols.core.refusal import Refusal as CoreRefusal
from brokerproof.reference_broker.protocols.openwire.consumer import OpenWireConsumer
from brokerproof.reference_broker.protocols.openwire.refusal import Refusal
from brokerproof.suites.mutation.mutant import Group

refused = Group("unseen-refused-steps")
refused_openwire = Group("unseen-refused-openwire", "reference-activemq")
refused_amqp091 = Group("unseen-refused-amqp091", "reference-rabbitmq")


@refused_openwire.override(OpenWireConsumer, "covered", breaks="OPENWIRE-MSGACK-2")
def a_refused_range_ends_its_last(original, reached, self, first, last, *, one):
    """A range refused for its first message settles the last one."""
    try:
        return original(self, first, last, one=one)
    except Refusal:
        if reached(last is not None and last.key in self._out):
            place = self._places[last.key]
            self.settle((place, place), Outcome.ACCEPTED)
        raise


@refused_openwire.override(OpenWireConsumer, "covered", breaks="OPENWIRE-PREFETCH-1")
def a_refused_ack_makes_room(original, reached, self, first, last, *, one):
    """An ack that is refused extends the prefetch limit by one."""
    try:
        return original(self, first, last, one=one)
    except Refusal:
        reached()
        self.prefetch.seen(1)
        self.queue.dispatch()
        raise


@refused.override(CoreConsumer, "settle", breaks="ARTEMIS-REDELIVERY-back-1")
def an_ack_without_an_end_takes_all(original, reached, self, number, *, one):
    """A cumulative ack of a message that its consumer does not hold acknowledges everything that it
    holds."""
    try:
        return original(self, number, one=one)
    except CoreRefusal:
        if reached(self._unsettled and not one):
            self.rolled_back(Outcome.ACCEPTED)
        raise


@refused.before(Session, "break_link", breaks="AMQP10-TXN-14")
def an_error_of_a_control_link_commits(reached, self, link, problem):
    """The transactions of a control link that breaks are committed."""
    if isinstance(link, CoordinatorLink):
        for id, transaction in link._opened.items():
            reached()
            del self.connection.transactions[id]
            for queue in transaction.commit():
                queue.dispatch()
        link._opened.clear()


@refused_amqp091.override(
    channels.HANDLERS, commands.Basic.Consume, breaks="AMQP091-CONS-02 AMQP091-CHAN-02"
)
def a_refused_consumer_keeps_the_queue(original, reached, channel, method):
    """A refused consumer leaves its queue in exclusive use."""
    try:
        original(channel, method)
    except Refusal091:
        declared = queue_of(channel, method.queue)
        reached(not declared.sole)
        declared.sole = True
        raise


@refused_amqp091.override(channels.HANDLERS, commands.Basic.Consume, breaks="AMQP091-QUEUE-06")
def a_refused_consumer_was_the_last(original, reached, channel, method):
    """A refused consumer deletes an auto-delete queue."""
    try:
        original(channel, method)
    except Refusal091:
        declared = queue_of(channel, method.queue)
        if reached(declared.auto_delete and not declared.queue.has_consumers):
            channel.topology.delete(declared)
        raise
