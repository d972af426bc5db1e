"""Faults of flow control when transactions hold messages, credit or room."""

from collections import Counter, defaultdict
from unittest import mock

from brokerproof.harness.model.enums import FullPolicy, Outcome
from brokerproof.reference_broker.families.artemis.admission import Admission
from brokerproof.reference_broker.kernel.admission import Verdict
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.kernel.transactions import Transaction
from brokerproof.reference_broker.protocols.amqp091.channel import HANDLERS
from brokerproof.reference_broker.protocols.amqp091.publishing import commands
from brokerproof.reference_broker.protocols.amqp10.coordinator import CoordinatorLink
from brokerproof.reference_broker.protocols.amqp10.incoming import IncomingLink
from brokerproof.reference_broker.protocols.amqp10.messaging import TransactionalState
from brokerproof.reference_broker.protocols.amqp10.transaction import LiveTransaction
from brokerproof.reference_broker.protocols.core.session import Session
from brokerproof.reference_broker.protocols.stomp import commands as stomp_commands
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group, breaks

transactions_and_flow = Group("unseen-transactions")
transactions_amqp091 = Group("unseen-transactions-amqp091", "reference-rabbitmq")

BLOCK = "ARTEMIS-FLOW-block-1 ARTEMIS-PAGING-12"
WHOLE = "STOMP12-BEGIN-03 STOMP11-BEGIN-03"


# --- memory that transactions hold ----------------------------------------------------------------


def _addresses(transaction):
    return [message.route.address for message, _ in transaction._sends]


@transactions_and_flow.before(Transaction, "undo", breaks=BLOCK)
def a_rollback_frees_one_message_of_each_address(reached, self):
    """A rollback releases the room of only one message per address."""
    seen = set()
    kept = []
    for (message, charge), address in zip(self._sends, _addresses(self), strict=True):
        if reached(address in seen):
            continue
        seen.add(address)
        kept.append((message, charge))
    self._sends = kept


@transactions_and_flow.mutant(BLOCK)
def a_rollback_wakes_nobody(patch, reached):
    """Producers waiting for room do not continue after a rollback, but only when another message
    leaves a queue."""
    silent: set[str] = set()

    @patch.before(Transaction)
    def undo(self):
        silent.update(_addresses(self))

    @patch.before(Queue)
    def discard(self, entry):
        silent.clear()

    @patch.override(Admission)
    def next(original, self):
        hidden = {address: self._waiting.pop(address) for address in silent & set(self._waiting)}
        reached(any(self._is_open(address) for address in hidden))
        try:
            return original(self)
        finally:
            self._waiting.update(hidden)


@transactions_and_flow.override(Transaction, "commit", breaks=f"{WHOLE} ARTEMIS-FLOW-block-1")
def a_commit_stops_at_the_limit(original, reached, self, publish):
    """A commit drops messages whose address is full."""

    def within(message):
        router = getattr(publish, "__self__", None)
        address = None if router is None else router.addresses.get(message.route.address)
        account = None if address is None else address.account
        if reached(account is not None and account.policy is FullPolicy.BLOCK and account.full):
            return True
        return publish(message)

    return original(self, within)


@transactions_and_flow.before(Transaction, "settle", breaks=BLOCK)
def an_acknowledgement_in_a_transaction_frees_its_room(reached, self, queue, entries, outcome):
    """The room of messages that are acknowledged in a transaction is free before the commit, and
    stays so after a rollback."""
    for entry in entries:
        if reached(outcome is Outcome.ACCEPTED and entry.charge is not None):
            entry.charge.release()
            entry.charge = None


@transactions_and_flow.mutant("ARTEMIS-STOMP-window-3")
def an_ack_in_a_transaction_opens_no_window(patch, reached):
    """Messages that a STOMP client acknowledges in a transaction use up its window forever."""
    before = {}

    @patch.override(Subscription)
    def take(original, self, delivery):
        credit = self.window.credit
        entries = original(self, delivery)
        before[id(entries)] = self.window, credit
        return entries

    @patch.before(Transaction)
    def settle(self, queue, entries, outcome):
        window, credit = before.pop(id(entries), (None, 0))
        if window is not None:
            window.credit = reached.instead(window.credit, credit)


@transactions_and_flow.override(COMMANDS, "ABORT", breaks=f"{BLOCK} STOMP12-ABORT-01")
def an_aborted_transaction_is_still_exempt(original, reached, session, frame):
    """A STOMP client that has aborted a transaction with messages never waits for room again."""
    name = frame.get("transaction")
    held = name in session.sending_transactions
    after = original(session, frame)
    if reached(held):
        session.sending_transactions.add(object())
    return after


@transactions_and_flow.override(stomp_commands, "may_send", breaks=BLOCK)
def an_open_transaction_waits_for_itself(original, reached, session, address):
    """A STOMP client with messages in a transaction waits for room that only the end of that
    transaction can make."""
    if session.sending_transactions:
        room = session.shared.admission.has_room(address, session.on_room)
        reached(not room)
        return room
    return original(session, address)


@transactions_and_flow.before(CoordinatorLink, "give_back")
@breaks("AMQP10-TXN-14 ARTEMIS-FLOW-amqp-2 ARTEMIS-PAGING-12")
def transactions_that_end_with_their_link_keep_room(reached, self):
    """When its control link ends, the messages of a transaction are dropped, but their memory stays
    charged."""
    for transaction in self._opened.values():
        reached(transaction._core._sends)
        transaction._core._sends.clear()


@transactions_and_flow.mutant("ARTEMIS-FLOW-amqp-1")
def a_post_in_a_transaction_is_unanswered(patch, reached):
    """Messages posted in a transaction count against their producer's credit until the
    discharge."""
    posting = patch.during(IncomingLink, "arrived")
    posted: dict[object, Counter[object]] = defaultdict(Counter)

    @patch.after(LiveTransaction)
    def send(self, message):
        if posting:
            posted[self][posting[-1][0]] += 1

    @patch.override(IncomingLink)
    def unanswered(original, self):
        more = sum(links[self] for links in posted.values())
        return reached.instead(original(self), original(self) + more)

    def ended(original, self):
        links = posted.pop(self, Counter())
        queues = original(self)
        for link in links:
            if link.is_attached:
                link.refill()
        return queues

    patch.override(LiveTransaction, "commit")(ended)
    patch.override(LiveTransaction, "roll_back")(ended)


@transactions_and_flow.override(IncomingLink, "arrived", breaks="ARTEMIS-FLOW-amqp-4")
def transactions_pass_the_reject_threshold(original, reached, self, arrival):
    """An address above its reject threshold accepts messages in a transaction."""
    admission = self.session.shared.admission
    if not isinstance(arrival.state, TransactionalState):
        return original(self, arrival)
    judge = admission.judge

    def lenient(address, *, by_credit):
        verdict = judge(address, by_credit=by_credit)
        return Verdict.TAKE if reached(verdict is Verdict.REFUSE) else verdict

    with mock.patch.object(admission, "judge", lenient):
        return original(self, arrival)


@transactions_and_flow.before(Session, "rollback", breaks=f"ARTEMIS-FLOW-producer-2 {BLOCK}")
def a_rollback_forgets_requests(reached, self, fields, response):
    """A CORE session that rolls back while it waits for credit never gets it."""
    for grants in self.producers._grants.values():
        reached(grants._due)
        grants.close()


@transactions_and_flow.before(Session, "release", breaks=BLOCK)
def a_closed_session_keeps_the_room_of_its_transaction(reached, self, outcome):
    """A CORE session that is closed with an open transaction leaves the memory of its messages
    charged, unless nothing was acknowledged in it."""
    if reached(self._transaction._sends and self._transaction._settlements):
        self._transaction._sends.clear()


# --- AMQP 0-9-1 -----------------------------------------------------------------------------------


@transactions_amqp091.override(HANDLERS, commands.Tx.Rollback)
@breaks("AMQP091-QOS-02 AMQP091-TX-02")
def a_rollback_charges_the_prefetch_again(original, reached, channel, method):
    """Deliveries whose acknowledgement is rolled back count twice against the prefetch."""
    back = [] if channel.transaction is None else channel.transaction.settlements
    back = [delivery for group, _ in back for delivery in group]
    original(channel, method)
    for delivery in back:
        if delivery.consumer is not None:
            reached(delivery.consumer.prefetch.limit)
            delivery.consumer.prefetch.take()


@transactions_amqp091.override(HANDLERS, commands.Tx.Commit, breaks="AMQP091-QOS-02")
def a_commit_of_acknowledgements_alone_makes_no_room(original, reached, channel, method):
    """A commit without messages settles, but does not offer the room that it makes."""
    transaction = channel.transaction
    quiet = transaction is not None and not transaction.sends and transaction.settlements
    held = True if reached(quiet) else channel.connection.held
    with mock.patch.object(channel.connection, "held", held):
        original(channel, method)
