"""Faults of AMQP 0-9-1 that only certain histories of a channel reveal: deliveries settled late,
together, repeatedly, or after their consumer has ended."""

from pamqp import commands

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.protocols.amqp091.channel import HANDLERS, Channel
from brokerproof.reference_broker.protocols.amqp091.consumer import (
    Consumer,
    Prefetch,
    UnackedDeliveries,
)
from brokerproof.reference_broker.protocols.amqp091.transaction import Transaction
from brokerproof.suites.mutation.mutant import Group

amqp091_histories = Group("amqp091-histories", "reference-rabbitmq")

LIMIT, MORE, CHANNEL_LIMIT = "AMQP091-QOS-01", "AMQP091-QOS-02", "RABBITMQ-AMQP091-QOS-01"
MULTIPLE, ROLLBACK = "AMQP091-ACK-02", "AMQP091-TX-02"
MARK, BACK = "AMQP091-RED-01", "AMQP091-CHAN-04"
LONG = 20
"""Deliveries after which a history counts as long."""


# --- room -----------------------------------------------------------------------------------------


@amqp091_histories.before(HANDLERS, commands.Basic.Recover, breaks=MORE)
def recovered_deliveries_keep_their_room(reached, channel, method):
    """A delivery requeued by basic.recover still counts against the prefetch."""
    for delivery in channel.unacked.values():
        if reached(delivery.consumer is not None):
            delivery.consumer.prefetch.take()


@amqp091_histories.override(HANDLERS, commands.Basic.Recover, breaks="AMQP091-REC-02")
def recover_returns_sixteen(original, reached, channel, method):
    """basic.recover redelivers only the sixteen oldest deliveries."""
    kept = dict(list(channel.unacked.items())[16:])
    for tag in kept:
        del channel.unacked[tag]
    reached(kept)
    original(channel, method)
    channel.unacked.update(kept)


@amqp091_histories.before(Channel, "settle", breaks=MORE)
def cancelled_consumers_keep_room_of_the_channel(reached, self, settled, outcome):
    """Deliveries of a cancelled consumer count against the channel's limit forever."""
    for delivery in settled:
        if reached(delivery.consumer is not None and delivery.consumer.tag not in self.consumers):
            self.limit.take()


@amqp091_histories.result(Prefetch, "has_room", breaks=LIMIT)
def below_what_is_out_a_limit_is_none(right, self):
    """A limit set below the number of outstanding deliveries has no effect."""
    return not self.limit or self.used != self.limit


@amqp091_histories.before(Channel, "settle", breaks=LIMIT)
def a_got_message_gives_room(reached, self, settled, outcome):
    """Acknowledging a message from basic.get makes room for consumers."""
    for delivery in settled:
        if delivery.consumer is None:
            for consumer in self.consumers.values():
                reached()
                consumer.prefetch.give_back()


@amqp091_histories.before(Channel, "settle", breaks=LIMIT)
def requeued_deliveries_give_room_twice(reached, self, settled, outcome):
    """A requeued delivery makes room for two."""
    if outcome is Outcome.RELEASED:
        for delivery in settled:
            if reached(delivery.consumer is not None):
                delivery.consumer.prefetch.give_back()


@amqp091_histories.result(Channel, "_consumed", breaks=MORE)
def room_of_the_channel_is_for_one_queue(queues, self):
    """If a channel with a limit has consumers of several queues, new room goes to only one
    queue."""
    return dict(list(queues.items())[:1])


@amqp091_histories.override(HANDLERS, commands.Basic.Qos, breaks=f"{CHANNEL_LIMIT} {MORE}")
def a_larger_limit_waits_for_an_acknowledgement(original, reached, channel, method):
    """Raising a channel's limit has no effect before the next acknowledgement."""
    waiting = list(channel.consumers.items())
    if reached(method.global_ and waiting):
        channel.consumers.clear()
    original(channel, method)
    channel.consumers.update(waiting)


@amqp091_histories.amends(Channel, "collect", breaks=LIMIT)
def an_acknowledgement_counts_before_its_commit(reached, settled, self, tag, multiple):
    """An acknowledgement in a transaction makes room immediately."""
    if self.transaction is not None:
        for delivery in settled:
            if reached(delivery.consumer is not None):
                delivery.consumer.prefetch.give_back()
        self.dispatch()


@amqp091_histories.after(Consumer, "deliver", breaks=LIMIT)
def the_tenth_delivery_takes_no_room(reached, self, entry):
    """One delivery in ten is not counted against the prefetch."""
    if reached(not self.no_ack and self.channel._tags % 10 == 0):
        self.prefetch.give_back()


# --- ranges of acknowledgements -------------------------------------------------------------------


@amqp091_histories.amends(UnackedDeliveries, "take_to", breaks=MULTIPLE)
def long_ranges_leave_the_oldest(reached, taken, self, tag):
    """After twenty deliveries on a channel, a cumulative settlement omits the oldest."""
    if reached(len(taken) > 1 and tag > LONG):
        self[taken[0].tag] = taken.pop(0)


@amqp091_histories.amends(UnackedDeliveries, "take_to", breaks=MULTIPLE)
def ranges_leave_out_what_was_got(reached, taken, self, tag):
    """A cumulative settlement does not cover deliveries by basic.get."""
    for delivery in taken[:-1]:
        if reached(delivery.consumer is None):
            self[delivery.tag] = delivery
            taken.remove(delivery)


@amqp091_histories.amends(UnackedDeliveries, "take_to", breaks=f"{MULTIPLE} {MORE}")
def ranges_are_of_one_consumer(reached, taken, self, tag):
    """A cumulative settlement covers only the deliveries of the tag's consumer."""
    for delivery in taken[:-1]:
        if reached(delivery.consumer is not taken[-1].consumer):
            self[delivery.tag] = delivery
            taken.remove(delivery)


# --- redelivery -----------------------------------------------------------------------------------


@amqp091_histories.amends(Transaction, "undo", breaks=ROLLBACK)
def a_rollback_forgets_the_first_of_several(reached, undone, self):
    """After a rollback of several acknowledgements the first stays acknowledged."""
    if reached(len(undone) > 1):
        del undone[0]


@amqp091_histories.override(Channel, "send_delivery", breaks=MARK)
def a_third_delivery_is_the_first_again(original, reached, self, consumer, tag, redelivered, what):
    """A third delivery is not marked as redelivered."""
    tags = vars(self.topology).setdefault("seen", {})
    tags[what.number] = tags.get(what.number, 0) + 1
    original(self, consumer, tag, False if reached(tags[what.number] > 2) else redelivered, what)


@amqp091_histories.before(Channel, "give_back", breaks=BACK)
def deliveries_of_cancelled_consumers_are_lost(reached, self):
    """Deliveries of a cancelled consumer are lost with its channel."""
    for delivery in list(self.unacked.values()):
        if reached(delivery.consumer is not None and delivery.consumer.tag not in self.consumers):
            del self.unacked[delivery.tag]


@amqp091_histories.before(Channel, "give_back", breaks=BACK)
def what_was_got_is_lost(reached, self):
    """Deliveries of basic.get are lost with their channel."""
    for delivery in list(self.unacked.values()):
        if reached(delivery.consumer is None):
            del self.unacked[delivery.tag]


@amqp091_histories.before(Channel, "give_back", breaks=BACK)
def what_consumers_had_returns_twice(reached, self):
    """The end of a channel returns the deliveries of its living consumers twice."""
    for delivery in self.unacked.values():
        if reached(delivery.consumer is not None and delivery.consumer.tag in self.consumers):
            delivery.declared.queue.enqueue(delivery.entry.message)
