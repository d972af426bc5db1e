"""Faults of AMQP 0-9-1's messages: confirms, transactions, a channel's prefetch, rejecting,
getting, and consumers that end."""

from contextlib import nullcontext
from unittest import mock

from pamqp import commands

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.families.rabbitmq.topology import Topology
from brokerproof.reference_broker.kernel.queue import Queue, ReadyEntries
from brokerproof.reference_broker.protocols.amqp091 import message as content
from brokerproof.reference_broker.protocols.amqp091.channel import HANDLERS, Channel
from brokerproof.reference_broker.protocols.amqp091.confirms import Confirms
from brokerproof.reference_broker.protocols.amqp091.consumer import Consumer, Prefetch
from brokerproof.reference_broker.protocols.amqp091.errors import PRECONDITION_FAILED, Refusal
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.flow.queues import many_returned_go_first
from brokerproof.suites.mutation.mutant import Group, Reached, breaks

amqp091_settling = Group("amqp091-settling", "reference-rabbitmq")


# --- confirms -------------------------------------------------------------------------------------


@amqp091_settling.before(Channel, "tell", breaks="RABBITMQ-AMQP091-CONF-01")
def several_confirms_are_one(reached, self, method):
    """A confirm of several messages lacks multiple."""
    if reached(isinstance(method, commands.Basic.Ack) and method.multiple):
        method.multiple = False


@amqp091_settling.skips(Channel, "tell", breaks="RABBITMQ-AMQP091-LEN-02 RABBITMQ-AMQP091-CONF-01")
def refusals_are_not_confirmed(self, method):
    """A producer is not notified of a message that was refused."""
    return isinstance(method, commands.Basic.Nack)


@amqp091_settling.mutant("RABBITMQ-AMQP091-CONF-02")
def a_return_comes_behind_its_confirm(patch, reached):
    """An unroutable message is confirmed before it is returned."""
    send = Channel.send_content
    returned = {}

    @patch.override(Channel)
    def send_content(original, self, method, what):
        if reached(isinstance(method, commands.Basic.Return) and self.confirms is not None):
            returned[self] = method, what
        else:
            original(self, method, what)

    @patch.after(Channel)
    def flush(self):
        if self in returned:
            send(self, *returned.pop(self))


@amqp091_settling.mutant("RABBITMQ-AMQP091-CONF-01")
def what_is_returned_is_not_confirmed(patch, reached):
    """A message that was returned is never confirmed."""
    returned = []

    @patch.after(Channel)
    def send_content(self, method, what):
        if isinstance(method, commands.Basic.Return):
            returned.append(what)

    @patch.override(Confirms)
    def answer(original, self, number, taken):
        if reached(returned):
            returned.clear()
        else:
            original(self, number, taken)


@amqp091_settling.before(Confirms, "take_answers", breaks="RABBITMQ-AMQP091-LEN-02")
def merged_answers_follow_the_first(reached, self):
    """Confirms that are sent together all have the first one's outcome."""
    first = next(iter(self._due.values()), None)
    for number, taken in self._due.items():
        self._due[number] = reached.instead(taken, first)


@amqp091_settling.mutant("RABBITMQ-AMQP091-CONF-01", recreates="rabbitmq-server#3870")
def mandatory_messages_count_before_confirm_select(patch, reached):
    """Mandatory messages published before confirm.select are counted too."""
    patch.set(Channel, "early", 0)

    @patch.before(Channel)
    def frame(self, type, payload, method):
        if isinstance(method, commands.Basic.Publish) and self.confirms is None:
            self.early += method.mandatory

    @patch.after(HANDLERS, commands.Confirm.Select)
    def select(channel, method):
        if reached(channel.early):
            channel.confirms.published, channel.early = channel.early, 0


@amqp091_settling.override(Consumer, "deliver", recreates="rabbitmq-server#9158")
@breaks("AMQP091-QUEUE-13")
def a_tag_used_again_gets_nothing_yet(original, reached, self, entry):
    """If an earlier consumer with the same tag holds a delivery, the first message for a new
    consumer is counted but not sent."""
    others = [held.consumer for held in self.channel.unacked.values() if held.consumer]
    again = self not in others and any(other.tag == self.tag for other in others)
    with mock.patch.object(self.channel, "send_delivery") if reached(again) else nullcontext():
        original(self, entry)


def _is_quorum(declared):
    return declared.arguments.get("x-queue-type") == "quorum"


@amqp091_settling.after(Consumer, "deliver", breaks="AMQP091-QOS-01 RABBITMQ-AMQP091-QOS-01")
def what_is_delivered_again_takes_no_room(reached, self, entry):
    """A redelivered message of a quorum queue does not count against its consumer's prefetch."""
    if reached(not self.no_ack and entry.deliveries > 1 and _is_quorum(self.declared)):
        self.prefetch.give_back()


@amqp091_settling.mutant("AMQP091-PUB-04 RABBITMQ-AMQP091-LEN-01 RABBITMQ-AMQP091-LEN-03")
def a_quorum_queue_is_a_stack(patch, reached):
    """A quorum queue with more than four messages puts the newest before the last one."""
    quorum = set()

    @patch.after(Topology)
    def declare(self, name, *options, arguments, **named):
        if arguments.get("x-queue-type") == "quorum":
            quorum.add(id(self.find(name).queue))

    @patch.after(Queue)
    def enqueue(self, *message):
        if reached(id(self) in quorum and len(self._ready) > 4):
            self._ready.insert(len(self._ready) - 1, self._ready.pop())


# --- transactions ---------------------------------------------------------------------------------


@amqp091_settling.after(Channel, "frame", breaks="AMQP091-TX-01")
def a_transaction_hides_nothing(reached, self, type, payload, method):
    """Messages published in a transaction are queued immediately."""
    if reached(self.transaction is not None and self.transaction.sends):
        sends, self.transaction.sends = self.transaction.sends, []
        for message, queues, _ in sends:
            self.topology.route(message, queues)


@amqp091_settling.override(Channel, "frame", breaks="AMQP091-TX-01")
def a_rollback_publishes(original, reached, self, type, payload, method):
    """Messages of a rolled-back transaction are queued by the next commit."""
    kept = []
    if isinstance(method, commands.Tx.Rollback) and self.transaction is not None:
        kept = self.transaction.sends
    original(self, type, payload, method)
    if reached(kept and self.transaction is not None):
        self.transaction.sends = kept


@amqp091_settling.before(HANDLERS, commands.Basic.Qos, breaks="RABBITMQ-AMQP091-QOS-01")
def a_limit_of_a_channel_only_grows(reached, channel, method):
    """The prefetch of a channel can grow, but not shrink."""
    if reached(method.global_ and 0 < method.prefetch_count < channel.limit.limit):
        method.prefetch_count = channel.limit.limit


@amqp091_settling.before(Channel, "collect", recreates="lavinmq#2206")
@breaks("AMQP091-ACK-02 RABBITMQ-AMQP091-NACK-01")
def all_of_nothing_is_unknown(reached, self, tag, multiple):
    """In a transaction, acknowledging all deliveries is refused if there are none."""
    if reached(self.transaction is not None and multiple and not tag and not self.unacked):
        raise Refusal(PRECONDITION_FAILED, "unknown delivery tag 0")


@amqp091_settling.after(Channel, "frame", breaks="AMQP091-TX-02")
def acknowledgements_know_no_transaction(reached, self, type, payload, method):
    """An acknowledgement in a transaction takes effect immediately."""
    if reached(self.transaction is not None and self.transaction.settlements):
        settlements, self.transaction.settlements = self.transaction.settlements, []
        for settled, outcome in settlements:
            self.settle(settled, outcome)


# --- prefetch -------------------------------------------------------------------------------------


@amqp091_settling.before(Channel, "frame", breaks="RABBITMQ-AMQP091-QOS-01")
def consumers_share_no_limit(reached, self, type, payload, method):
    """A prefetch with global limits each consumer, not the whole channel."""
    if reached(isinstance(method, commands.Basic.Qos) and method.global_):
        method.global_ = False


@amqp091_settling.before(Channel, "frame", breaks="RABBITMQ-AMQP091-QOS-01")
def a_prefetch_is_for_who_was_there_before(reached, self, type, payload, method):
    """A prefetch without global also limits existing consumers."""
    if isinstance(method, commands.Basic.Qos) and not method.global_:
        for consumer in self.consumers.values():
            reached()
            consumer.prefetch.limit = method.prefetch_count


@amqp091_settling.override(HANDLERS, commands.Basic.Recover, recreates="QPID-2703")
@breaks("AMQP091-QOS-02")
def what_is_recovered_leaves_no_room(original, reached, channel, method):
    """Recovered deliveries still count against their prefetch."""
    with mock.patch.object(Prefetch, "give_back", side_effect=reached):
        original(channel, method)


# --- redelivery -----------------------------------------------------------------------------------


@amqp091_settling.before(Channel, "frame", breaks="RABBITMQ-AMQP091-NACK-01")
def nack_knows_no_multiple(reached, self, type, payload, method):
    """basic.nack covers only its own tag, even with multiple."""
    if reached(isinstance(method, commands.Basic.Nack) and method.multiple):
        method.multiple = False


@amqp091_settling.override(Channel, "settle", breaks="RABBITMQ-AMQP091-NACK-02")
def what_is_requeued_comes_last(original, reached, self, settled, outcome):
    """A requeued message goes to the end of its queue."""
    back = list(settled) if outcome is Outcome.RELEASED else []
    original(self, back or settled, Outcome.ACCEPTED if back else outcome)
    for entry in back:
        reached()
        entry.declared.queue.enqueue(entry.entry.message, entry.entry)


amqp091_settling.override(ReadyEntries, "put_back", breaks="RABBITMQ-AMQP091-NACK-02")(
    many_returned_go_first
)


@amqp091_settling.override(Channel, "settle", breaks="AMQP091-REJ-01")
def what_is_rejected_comes_again(original, reached, self, settled, outcome):
    """A message rejected without requeue is redelivered."""
    original(self, settled, Outcome.RELEASED if reached(outcome is Outcome.REJECTED) else outcome)


@amqp091_settling.before(Channel, "send_content", breaks="AMQP091-GET-01")
def the_one_got_counts_as_left(reached, self, method, what):
    """get-ok counts the message it delivers as remaining."""
    if reached(isinstance(method, commands.Basic.GetOk)):
        method.message_count += 1


# --- order ----------------------------------------------------------------------------------------


@amqp091_settling.before(Consumer, "attach", breaks="AMQP091-PUB-04")
def two_change_places(reached, self):
    """When a consumer begins, the first two waiting messages are swapped."""
    ready = self.declared.queue._ready
    if reached(len(ready) > 1):
        ready[0].message, ready[1].message = ready[1].message, ready[0].message


@amqp091_settling.after(Channel, "settle", breaks="AMQP091-PUB-04")
def a_message_overtakes_those_that_wait(reached, self, settled, outcome):
    """A consumer with room gets a new message before the waiting ones."""
    for consumer in self.consumers.values():
        _turn(consumer.declared.queue, reached)


def _turn(queue: Queue, reached: Reached) -> None:
    """Move the last waiting message to the front."""
    ready = queue._ready
    if reached(len(ready) > 1):
        last = ready[-1].message
        for at in range(len(ready) - 1, 0, -1):
            ready[at].message = ready[at - 1].message
        ready[0].message = last


# --- consumers that end ---------------------------------------------------------------------------


@amqp091_settling.override(Channel, "cancel", breaks="AMQP091-CONS-03")
def who_has_cancelled_gets_more(original, reached, self, consumer):
    """A cancelled consumer still gets messages."""
    reached()
    self.consumers.pop(consumer.tag, None)


@amqp091_settling.after(Channel, "cancel", breaks="AMQP091-CONS-07")
def cancelling_gives_back_what_was_delivered(reached, self, consumer):
    """Cancelling a consumer requeues its unacknowledged messages."""
    waiting = self.unacked.take_all()
    if reached(waiting):
        queue = consumer.declared.queue
        queue.settle([delivery.entry for delivery in waiting], Outcome.RELEASED)
        queue.dispatch()


@amqp091_settling.override(Channel, "cancelled", breaks="RABBITMQ-AMQP091-CANCEL-01")
def the_end_of_a_queue_is_not_told(original, reached, self, consumer):
    """A consumer whose queue is deleted waits forever."""
    reached()
    self.consumers.pop(consumer.tag, None)


@amqp091_settling.mutant("AMQP091-CONS-04")
def without_acknowledgement_a_message_stays(patch, reached):
    """Messages of a consumer without acknowledgement are delivered again when its channel is
    closed."""

    @patch.after(Channel)
    def send_delivery(self, consumer, tag, redelivered, what):
        held = self.consumers.get(consumer)
        if reached(held is not None and held.no_ack):
            self.kept = [*getattr(self, "kept", []), (held.declared, what)]

    @patch.after(Channel)
    def stop(self):
        for declared, message in getattr(self, "kept", []):
            self.topology.route(message, [declared.queue])
        self.kept = []


@amqp091_settling.after(Subscription, "deliver", breaks="AMQP091-RED-01")
def deliveries_by_stomp_do_not_count(reached, self, entry):
    """A message previously delivered over STOMP is not marked as redelivered."""
    reached()
    entry.deliveries -= 1


@amqp091_settling.after(Channel, "settle", breaks="AMQP091-QOS-02")
def what_is_requeued_still_counts(reached, self, settled, outcome):
    """A requeued delivery keeps its place in the prefetch of its consumer."""
    for delivery in settled:
        if reached(outcome is Outcome.RELEASED and delivery.consumer is not None):
            delivery.consumer.prefetch.take()


@amqp091_settling.override(Channel, "send_delivery", breaks="AMQP091-CONTENT-05")
def what_is_redelivered_has_no_properties(original, reached, self, consumer, tag, again, what):
    """A redelivered message has lost its properties."""
    properties = content.properties_of
    bare = (lambda what, now: bytes(2)) if again else properties
    with mock.patch.object(content, "properties_of", bare):
        original(self, consumer, tag, again, what)
    reached(again)
