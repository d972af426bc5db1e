"""Faults after an error: on its connection, and for neighbours, messages and names."""

from pamqp import commands as methods

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.families.activemq.producer_flow import ProducerFlow
from brokerproof.reference_broker.families.rabbitmq.limited_queue import LimitedQueue
from brokerproof.reference_broker.kernel.transactions import Transaction
from brokerproof.reference_broker.protocols.amqp091 import arguments
from brokerproof.reference_broker.protocols.amqp091.channel import HANDLERS, Channel
from brokerproof.reference_broker.protocols.amqp091.connection import Amqp091Connection
from brokerproof.reference_broker.protocols.amqp091.errors import Refusal as Amqp091Refusal
from brokerproof.reference_broker.protocols.amqp10.link import LinkState
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.performatives import End
from brokerproof.reference_broker.protocols.amqp10.refusal import Refusal as AmqpRefusal
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.suites.mutation.mutant import Group, breaks

after_errors = Group("after-errors")
after_errors_amqp091 = Group("after-errors-amqp091", "reference-rabbitmq")
after_no_space_in_time = Group("after-no-space-in-time", "reference-activemq-timeout")


# --- AMQP 1.0 -------------------------------------------------------------------------------------


@after_errors.skips(Session, "_forget", breaks="AMQP10-LINK-02 AMQP10-LINK-01")
def the_name_of_a_broken_link_is_taken(self, link):
    """A link that ended with an error keeps its name: attaching it again makes the broker detach
    the broken one a second time, as stolen."""
    return link.state is LinkState.BROKEN


@after_errors.skips(Session, "handle", breaks="AMQP10-SESS-04 AMQP10-SESS-02")
def the_channel_of_a_failed_session_stays_taken(self, performative, body, at):
    """A session that ended with an error ignores the client's end: its channel never becomes free
    again."""
    return self._discarding and isinstance(performative, End)


@after_errors.after(OutgoingLink, "_too_large", breaks="AMQP10-LINK-15 ARTEMIS-CONCEPTS-queue-1")
def a_message_too_large_for_a_link_is_lost(reached, self, entry, size):
    """A message too large for its receiver ends the link and is lost."""
    if reached(not self.copies and entry in self.queue._ready):
        self.queue._ready.remove(entry)
        self.queue.discard(entry)


@after_errors.override(OutgoingLink, "attach", breaks="AMQP10-LINK-12")
def a_refused_receiver_takes_a_message(original, reached, self, attach):
    """A receiver whose attach is refused takes the oldest message out of its queue."""
    try:
        original(self, attach)
    except AmqpRefusal:
        address = attach.source and attach.source.address
        found = self.session.shared.router.addresses.by_name.get(address)
        if reached(found is not None and found.anycast and found.anycast[0]._ready):
            queue = found.anycast[0]
            queue.discard(queue._ready.popleft())
        raise


# --- STOMP ----------------------------------------------------------------------------------------


@after_errors.mutant("STOMP12-BEGIN-04 ARTEMIS-PAGING-12 ARTEMIS-PAGING-9")
def a_lost_transaction_stays_charged(patch, reached):
    """Messages of a transaction stay charged to their address when its connection is lost."""
    releasing = patch.during(StompConnection, "release")

    @patch.before(Transaction)
    def undo(self):
        if reached(releasing and self._sends):
            self._sends.clear()


# --- AMQP 0-9-1 -----------------------------------------------------------------------------------


@after_errors_amqp091.mutant("RABBITMQ-AMQP091-CONF-01")
def a_new_channel_counts_on(patch, reached):
    """A channel opened again after an error is still in confirm mode, and continues the numbers."""
    confirms: dict[tuple[object, int], object] = {}

    @patch.before(Channel)
    def refuse(self, problem, method):
        if self.confirms is not None:
            confirms[self.connection, self.number] = self.confirms

    @patch.before(HANDLERS, methods.Confirm.Select)
    def select(channel, method):
        kept = confirms.pop((channel.connection, channel.number), None)
        if reached(kept is not None and kept.published):
            channel.confirms = kept


@after_errors_amqp091.mutant("RABBITMQ-AMQP091-QOS-01")
def a_new_channel_keeps_the_prefetch(patch, reached):
    """A channel opened again after an error keeps the old prefetch."""
    prefetch: dict[tuple[object, int], int] = {}

    @patch.before(Channel)
    def refuse(self, problem, method):
        if self.prefetch:
            prefetch[self.connection, self.number] = self.prefetch

    @patch.after(Channel, "__init__")
    def init(self, connection, number):
        kept = prefetch.pop((connection, number), 0)
        if reached(kept):
            self.prefetch = kept


@after_errors_amqp091.after(Channel, "refuse", breaks="AMQP091-CHAN-02 AMQP091-CONTENT-03")
def contents_of_other_channels_are_forgotten(reached, self, problem, method):
    """An error on one channel makes the broker drop the incomplete content of another."""
    for other in self.connection.channels.values():
        if reached(other is not self and other._publish is not None):
            other._forget_content()


@after_errors_amqp091.override(HANDLERS, methods.Basic.Consume)
@breaks("AMQP091-CONS-02 AMQP091-CHAN-02")
def a_refused_consumer_is_exclusive(original, reached, channel, method):
    """A refused exclusive consumer leaves the queue in exclusive use: further consumers are
    refused."""
    try:
        original(channel, method)
    except Amqp091Refusal:
        declared = channel.topology.find(method.queue or channel.last_queue)
        if reached(method.exclusive and declared is not None and not declared.sole):
            declared.sole = True
        raise


@after_errors_amqp091.override(HANDLERS, methods.Queue.Declare)
@breaks("AMQP091-QUEUE-03 RABBITMQ-AMQP091-LEN-01")
def a_refused_declaration_counts(original, reached, channel, method):
    """A refused declaration with different limits applies them to the queue."""
    try:
        original(channel, method)
    except Amqp091Refusal:
        declared = channel.topology.find(method.queue)
        given = method.arguments if isinstance(method.arguments, dict) else {}
        if declared is not None and isinstance(declared.queue, LimitedQueue):
            limits = arguments.limits(given)
            if reached(limits != declared.queue.limits):
                declared.queue.limits = limits
        raise


@after_errors_amqp091.after(Amqp091Connection, "_refuse", breaks="AMQP091-CHAN-02 AMQP091-TX-01")
def a_mistake_ends_the_transactions_of_others(reached, self, problem, channel, method):
    """An error on one channel drops the messages of other channels' transactions."""
    if problem.soft:
        for other in self.channels.values():
            if other.number != channel and other.transaction is not None:
                reached(other.transaction.sends)
                other.transaction.sends.clear()


# --- ActiveMQ -------------------------------------------------------------------------------------


@after_no_space_in_time.mutant("ACTIVEMQ-PFC-10")
def what_failed_is_added_after_all(patch, reached):
    """A message whose time-out has passed is still added when there is space."""
    failed: list[object] = []

    @patch.after(ProducerFlow)
    def _on_timeout(self, waiting, now):
        failed.append(waiting)

    @patch.override(ProducerFlow)
    def next(original, self):
        for waiting in list(failed):
            account = self.accounting.find(waiting.account.name)
            if self.memory_is_short(account) or not waiting.sending.is_live():
                continue
            if not self.store_is_short(account, waiting.sending.persistent):
                failed.remove(waiting)
                reached()
                return waiting.sending.publish
        return original(self)


@after_no_space_in_time.override(ProducerFlow, "_on_timeout")
@breaks("ACTIVEMQ-PFC-10 ACTIVEMQ-PFC-1")
def those_behind_one_that_failed_fail_too(original, reached, self, waiting, now):
    """When a message times out, all that wait after it fail immediately, too early."""
    behind = list(self._waiting.get(waiting.account.name, {}).values())
    original(self, waiting, now)
    for other in behind:
        if reached(
            other is not waiting and other.number in self._waiting.get(other.account.name, {})
        ):
            original(self, other, now)


# --- seeded after the suites were strengthened ----------------------------------------------------


@after_errors_amqp091.after(Channel, "refuse", breaks="AMQP091-CHAN-02")
def a_mistake_forgets_the_tags_of_other_channels(reached, self, problem, method):
    """An error on one channel requeues the deliveries of the others."""
    for other in list(self.connection.channels.values()):
        if reached(other is not self and other.unacked):
            for queue in other.give_back():
                queue.dispatch()


@after_errors_amqp091.mutant("RABBITMQ-AMQP091-QOS-01")
def a_new_channel_keeps_the_limit_of_all(patch, reached):
    """A channel opened again after an error keeps the old global prefetch."""
    limits: dict[tuple[object, int], int] = {}

    @patch.before(Channel)
    def refuse(self, problem, method):
        if self.limit.limit:
            limits[self.connection, self.number] = self.limit.limit

    @patch.after(Channel, "__init__")
    def init(self, connection, number):
        kept = limits.pop((connection, number), 0)
        if reached(kept):
            self.limit.limit = kept


@after_errors_amqp091.override(Channel, "collect", breaks="AMQP091-CHAN-04")
def a_refused_acknowledgement_acknowledges(original, reached, self, tag, multiple):
    """A refused multiple acknowledgement of an unknown tag still settles all lower tags."""
    try:
        return original(self, tag, multiple)
    except Amqp091Refusal:
        if reached(multiple and (taken := self.unacked.take_to(tag))):
            self.settle(taken, Outcome.ACCEPTED)
        raise
