"""Faults in restoring the initial state: memory, counts, credit and windows."""

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.families.activemq.cursor import Cursor
from brokerproof.reference_broker.families.activemq.cursor_queue import CursorQueue, claim_of
from brokerproof.reference_broker.families.activemq.usage_accounting import TopicClaim
from brokerproof.reference_broker.families.rabbitmq.limited_queue import LimitedQueue, _Measured
from brokerproof.reference_broker.kernel.accounting import Charge
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.kernel.transactions import Transaction
from brokerproof.reference_broker.protocols.amqp091 import channel as channels
from brokerproof.reference_broker.protocols.amqp091 import publishing
from brokerproof.reference_broker.protocols.amqp091.channel import Channel
from brokerproof.reference_broker.protocols.amqp10.incoming import IncomingLink
from brokerproof.reference_broker.protocols.amqp10.transaction import LiveTransaction
from brokerproof.reference_broker.protocols.core.producer_credit import Grants
from brokerproof.reference_broker.protocols.core.session import Session as CoreSession
from brokerproof.reference_broker.protocols.openwire.client import Client
from brokerproof.reference_broker.protocols.openwire.consumer import OpenWireConsumer
from brokerproof.reference_broker.protocols.openwire.transaction import OpenWireTransaction
from brokerproof.reference_broker.protocols.stomp import commands
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group, breaks

conservation = Group("unseen-conservation")
conservation_amqp091 = Group("unseen-conservation-amqp091", original="reference-rabbitmq")
conservation_openwire = Group("unseen-conservation-openwire", original="reference-activemq")
conservation_usage = Group("unseen-conservation-usage", original="reference-activemq-usage")
conservation_flow = Group("unseen-conservation-flow", original="reference-activemq-flow")


@conservation.mutant("ARTEMIS-PAGING-9 ARTEMIS-PAGING-13 ARTEMIS-PAGING-8")
def a_lost_transaction_keeps_its_memory(patch, reached):
    """A transaction's memory is released by COMMIT and ABORT, but not by the loss of its
    connection."""
    ended_by_frame = [False]

    @patch.override(commands.COMMANDS, "ABORT")
    def abort(original, session, frame):
        ended_by_frame[0] = True
        try:
            return original(session, frame)
        finally:
            ended_by_frame[0] = False

    @patch.before(Transaction)
    def undo(self):
        if reached(not ended_by_frame[0] and self._sends):
            self._sends = []


@conservation.before(LiveTransaction, "roll_back")
@breaks("ARTEMIS-PAGING-9 ARTEMIS-PAGING-13 ARTEMIS-PAGING-8")
def a_doomed_transaction_keeps_its_memory(reached, self):
    """A transaction that can no longer be discharged is rolled back without releasing the memory of
    its messages."""
    if reached(self.doomed is not None and self._core._sends):
        self._core._sends = []


@conservation.before(Queue, "hand", breaks="ARTEMIS-PAGING-9 ARTEMIS-PAGING-13 ARTEMIS-PAGING-8")
def what_expires_on_its_way_back_stays_charged(reached, self, consumer, entry):
    """A returned message that has expired leaves its queue but stays charged."""
    if reached(entry.deliveries and entry.charge is not None and self._has_expired(entry.message)):
        entry.charge = None


@conservation.override(Queue, "settle", breaks="ARTEMIS-PAGING-13 ARTEMIS-PAGING-8")
def dead_letters_stay_counted(original, reached, self, entries, outcome):
    """A dead-lettered message releases its bytes, but counts against its address's
    max-size-messages forever."""
    charges = [entry.charge for entry in entries if isinstance(entry.charge, Charge)]
    accounts = {charge._account for charge in charges}
    before = {account: account.messages for account in accounts}
    original(self, entries, outcome)
    if outcome is Outcome.REJECTED:
        for account in accounts:
            lost = before[account] - account.messages
            if reached(lost > 0):
                account.messages += lost


@conservation.before(Queue, "settle", breaks="ARTEMIS-REDELIVERY-dead-1 ARTEMIS-REDELIVERY-back-1")
def the_last_attempt_is_not_made(reached, self, entries, outcome):
    """A message becomes a dead letter one failure early."""
    if outcome is Outcome.MODIFIED:
        for entry in entries:
            entry.failures += bool(reached(entry.failures + 2 == self._max_attempts))


@conservation.override(Queue, "settle", breaks="ARTEMIS-REDELIVERY-dead-1 AMQP10-OUT-11")
def a_release_excuses_a_failure(original, reached, self, entries, outcome):
    """A message that is released has one failed attempt less."""
    for entry in entries if outcome is Outcome.RELEASED else ():
        entry.failures -= bool(reached(entry.failures))
    original(self, entries, outcome)


@conservation.mutant("ARTEMIS-REDELIVERY-dead-2")
def a_dead_letter_stays_in_its_queue(patch, reached):
    """A message that failed too often also remains in its queue, with no failed attempt."""

    @patch.override(Queue)
    def settle(original, self, entries, outcome):
        dead_letter, dead = self._dead_letter, []
        self._dead_letter = lambda queue, entry: (dead.append(entry), dead_letter(queue, entry))
        original(self, entries, outcome)
        self._dead_letter = dead_letter
        for entry in dead if outcome is Outcome.MODIFIED else ():
            reached()
            self.enqueue(entry.message)


@conservation.override(Subscription, "deliver", breaks="ARTEMIS-STOMP-window-3")
def a_redelivery_is_charged_as_the_first(original, reached, self, entry):
    """A frame that is sent again is charged its size without the header redelivered."""
    again = entry.deliveries > 0
    original(self, entry)
    if again and self._unsettled and self.window.size > 0:
        delivery = next(reversed(self._unsettled.values()))
        if reached(delivery.entry is entry):
            self.window.give_back(len("redelivered:true\n"))
            delivery.charge -= len("redelivered:true\n")


@conservation.override(Subscription, "take", breaks="ARTEMIS-STOMP-window-3 ARTEMIS-STOMP-window-2")
def redeliveries_keep_their_credit(original, reached, self, delivery):
    """A cumulative settlement does not return the charge of redelivered messages, except for the
    one that it names."""
    kept = [
        other
        for other in self._unsettled.values()
        if other.entry.deliveries > 1 and other is not delivery
    ]
    taken = original(self, delivery)
    lost = sum(other.charge for other in kept if other.entry in taken)
    if reached(lost):
        self.window.charge(lost)
    return taken


@conservation.mutant("ARTEMIS-FLOW-amqp-1")
def an_aborted_delivery_stays_unanswered(patch, reached):
    """An aborted delivery counts as unanswered forever: its producer gets one credit less at each
    refill."""
    aborted: dict[IncomingLink, int] = {}

    @patch.override(IncomingLink)
    def unanswered(original, self):
        return original(self) + aborted.get(self, 0)

    @patch.before(IncomingLink)
    def transfer(self, transfer, payload):
        if reached(transfer.aborted):
            aborted[self] = aborted.get(self, 0) + 1


@conservation.skips(Grants, "spent", breaks="ARTEMIS-PAGING-12 ARTEMIS-FLOW-block-1")
def what_is_dropped_later_stays_outstanding(self, size):
    """When a message fills its address, the credit with which it was sent stays outstanding."""
    account = self._accounting.find(self._address)
    return account.room is not None and account.room <= size


@conservation.before(CoreSession, "rollback")
@breaks("ARTEMIS-REDELIVERY-back-1 ARTEMIS-FLOW-consumer-1")
def a_rollback_charges_consumers_twice(reached, self, fields, response):
    """After a rollback a consumer that held messages has too little credit: each of them is charged
    twice."""
    held = {consumer: len(consumer._unsettled) for consumer in self.holding}
    for consumer, count in held.items():
        if reached(consumer.credit.credit is not None and count):
            consumer.credit.charge(1024 * count)


@conservation_amqp091.override(Channel, "settle", breaks="RABBITMQ-AMQP091-QOS-01 AMQP091-QOS-02")
def cancelled_consumers_keep_the_channels_prefetch(original, reached, self, settled, outcome):
    """Deliveries of a cancelled consumer count against its channel's prefetch forever."""
    settled = list(settled)
    before = self.limit.used
    original(self, settled, outcome)
    lost = sum(
        delivery.consumer is not None and delivery.consumer.tag not in self.consumers
        for delivery in settled
    )
    if reached(lost and self.limit.used < before):
        self.limit.used += lost


@conservation_amqp091.override(channels.HANDLERS, publishing.commands.Tx.Rollback)
@breaks("AMQP091-QOS-01")
def a_rollback_frees_the_prefetch(original, reached, channel, method):
    """Messages whose acknowledgement was rolled back are unacknowledged again, but no longer count
    against the prefetch."""
    back = [
        delivery
        for settled, _ in (channel.transaction.settlements if channel.transaction else ())
        for delivery in settled
    ]
    original(channel, method)
    for delivery in back:
        if reached(delivery.consumer is not None):
            delivery.consumer.prefetch.give_back()
    if back:
        channel.dispatch()


@conservation_amqp091.after(_Measured, "insert", breaks="RABBITMQ-AMQP091-LEN-01")
def what_comes_back_between_others_is_not_measured(reached, self, place, entry):
    """A message returned to its place between others does not count against x-max-length-bytes."""
    if reached(entry.message.body):
        self.size -= len(entry.message.body)


@conservation_amqp091.override(LimitedQueue, "purge", breaks="RABBITMQ-AMQP091-LEN-01")
def a_purge_leaves_the_bytes(original, reached, self):
    """After a purge, the bytes of the removed messages still count against x-max-length-bytes."""
    before = self._ready.size
    count = original(self)
    if reached(before):
        self._ready.size = before
    return count


@conservation_openwire.override(OpenWireConsumer, "settle", breaks="OPENWIRE-PREFETCH-1")
def an_extension_outlives_single_acknowledgements(original, reached, self, places, outcome):
    """The extension of a prefetch by DELIVERED shrinks when ranges are acknowledged, but not when
    single messages are."""
    before = self.prefetch.extension
    original(self, places, outcome)
    if reached(places[0] == places[1] and self.prefetch.extension < before):
        self.prefetch.extension = before


@conservation_flow.mutant("ACTIVEMQ-PFC-2")
def a_lost_client_keeps_its_memory(patch, reached):
    """The memory of a transaction's messages is not released when the client is lost."""
    ending = [False]

    @patch.override(Client)
    def end(original, self, last=None):
        ending[0] = True
        try:
            original(self, last)
        finally:
            ending[0] = False

    @patch.before(OpenWireTransaction)
    def roll_back(self):
        if reached(ending[0] and self.sends._sends):
            self.sends._sends = []


@conservation_flow.before(CursorQueue, "discard", breaks="ACTIVEMQ-PFC-2")
def a_subscription_that_ends_keeps_memory(reached, self, entry):
    """Messages of a topic that a subscription was never sent stay in memory when it ends."""
    claim = claim_of(entry.charge)
    if reached(isinstance(claim, TopicClaim) and not entry.deliveries):
        claim._unsent += 1


@conservation_usage.after(Cursor, "_lies", breaks="ACTIVEMQ-PFC-11 ACTIVEMQ-PFC-12")
def what_is_brought_back_stays_in_the_temporary_store(reached, self, messages, store, temp):
    """Reading a message back from disk does not reduce the usage of the temporary store."""
    if reached(messages < 0 and temp):
        self.usage.temp.add(-temp)


# --- seeded after the properties were repaired ----------------------------------------------------


@conservation_amqp091.after(LimitedQueue, "_die", breaks="RABBITMQ-AMQP091-LEN-01")
def what_expires_leaves_its_bytes(reached, self, entry, why):
    """The bytes of expired messages count against x-max-length-bytes."""
    if reached(why == "expired" and entry.message.body):
        self._ready.size += len(entry.message.body)


@conservation.before(LiveTransaction, "roll_back")
@breaks("ARTEMIS-PAGING-9 ARTEMIS-PAGING-13 ARTEMIS-PAGING-8")
def a_rollback_frees_all_but_the_last(reached, self):
    """A rollback of several messages does not release the memory of the last."""
    if reached(len(self._core._sends) > 1):
        self._core._sends.pop()


@conservation_flow.before(OpenWireTransaction, "roll_back", breaks="ACTIVEMQ-PFC-2")
def a_rollback_frees_all_but_the_first(reached, self):
    """A rollback of several messages does not release the memory of the first."""
    if reached(len(self.sends._sends) > 1):
        self.sends._sends.pop(0)
