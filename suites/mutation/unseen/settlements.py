"""Faults of combined settlements, of the effects of refused frames, and of age."""

from brokerproof.harness.model.enums import AckMode, Outcome
from brokerproof.harness.model.time import seconds
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.kernel.transactions import Transaction
from brokerproof.reference_broker.protocols.amqp10.coordinator import CoordinatorLink
from brokerproof.reference_broker.protocols.amqp10.messaging import Accepted, Modified, Released
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group, rewritten

settlements = Group("unseen-settlements")
KEPT = "STOMP10-SUBSCRIBE-05 STOMP11-ACK-05 STOMP12-ACK-04"
UNDONE = "STOMP10-SEND-03 STOMP11-BEGIN-03 STOMP12-BEGIN-04"
WHOLE = "STOMP10-BEGIN-02 STOMP11-BEGIN-02 STOMP12-BEGIN-03"


def _hidden(queue: Queue, selector, order: int):
    """Return the entries that wait before ``order`` and are not selected."""
    older = (entry for entry in queue._ready if entry.order < order)
    return [entry for entry in older if not selector.matches(entry.message)]


def _lose(queue: Queue, entries):
    for entry in entries:
        queue._ready.remove(entry)
        queue.discard(entry)


@settlements.override(
    COMMANDS, "ACK", breaks=f"{KEPT} STOMP12-ACK-03 STOMP11-ACK-04 STOMP10-ACK-02"
)
def a_refused_ack_settles(original, reached, session, frame):
    """An ACK that names another subscription or an unknown transaction is refused but settles."""
    try:
        return original(session, frame)
    except Refusal:
        first = frame.head.first
        delivery = session.deliveries.get(first.get("id") or first.get("message-id"))
        if reached(delivery is not None and {"subscription", "transaction"} & first.keys()):
            subscription = delivery.subscription
            subscription.queue.settle(subscription.take(delivery), Outcome.ACCEPTED)
        raise


@settlements.before(StompConnection, "tell", breaks=UNDONE)
def an_error_commits(reached, self, problem, frame=None):
    """ERROR commits the open transactions of its connection."""
    for transaction in self.transactions.values():
        reached(transaction._sends or transaction._settlements)
        transaction.commit(self.shared.router.publish)
    self.transactions.clear()


@settlements.override(Transaction, "settle", breaks="STOMP11-NACK-04 STOMP12-NACK-04")
def a_cumulative_nack_accepts(original, reached, self, queue, entries, outcome):
    """A cumulative NACK in a transaction acknowledges all but the message that it names."""
    if reached(outcome is Outcome.MODIFIED and len(entries) > 1):
        original(self, queue, entries[:-1], Outcome.ACCEPTED)
        entries = entries[-1:]
    original(self, queue, entries, outcome)


@settlements.override(Subscription, "take", breaks=KEPT)
def a_cumulative_ack_covers_what_is_hidden(original, reached, self, delivery):
    """A cumulative ACK also settles older messages that the selector hides."""
    selector = self.queue._selection.selectors.get(self)
    if selector is not None and self.mode is AckMode.CLIENT:
        hidden = _hidden(self.queue, selector, delivery.entry.order)
        reached(hidden)
        _lose(self.queue, hidden)
    return original(self, delivery)


@settlements.override(Subscription, "take", breaks=KEPT)
def a_cumulative_ack_covers_another_subscription(original, reached, self, delivery):
    """A cumulative ACK also settles the messages of another subscription to the queue."""
    taken = original(self, delivery)
    for other in list(self._deliveries.values()):
        holder = other.subscription
        same = holder is not self and holder.queue is self.queue and self.mode is AckMode.CLIENT
        if reached(same and other.entry.order < delivery.entry.order):
            del holder._unsettled[other.key], self._deliveries[other.key]
            self.queue.settle([other.entry], Outcome.ACCEPTED)
    return taken


@settlements.mutant(WHOLE)
def an_old_transaction_forgets(patch, reached):
    """A transaction that is older than ten minutes is committed without its SENDs."""
    begun: dict[Transaction, int] = {}

    @patch.after(COMMANDS, "BEGIN")
    def begin(session, frame):
        begun[session.transactions[frame.get("transaction")]] = session.shared.clock.now

    @patch.before(COMMANDS, "COMMIT")
    def commit(session, frame):
        transaction = session.transactions.get(frame.get("transaction"))
        age = session.shared.clock.now - begun.get(transaction, session.shared.clock.now)
        if reached(transaction is not None and age > seconds(600)):
            transaction._sends.clear()


@settlements.override(COMMANDS, "SEND", breaks="STOMP11-SEND-06 STOMP12-SEND-06")
def headers_behind_the_fiftieth_are_lost(original, reached, session, frame):
    """A SEND keeps only its first 50 headers."""
    if reached(len(frame.head.headers) > 50):
        frame = rewritten(frame, frame.head.headers[:50])
    return original(session, frame)


@settlements.override(OutgoingLink, "deliver", breaks="ARTEMIS-FILTER-syntax-1")
def a_settled_link_discards_what_it_hides(original, reached, self, entry):
    """A settled link with a filter discards older messages that it hides."""
    original(self, entry)
    if self._presettled and self._selector is not None and not self.copies:
        hidden = _hidden(self.queue, self._selector, entry.order)
        reached(hidden)
        _lose(self.queue, hidden)


@settlements.override(OutgoingLink, "_too_large", breaks="AMQP10-TERM-04")
def a_copy_too_large_is_lost(original, reached, self, entry, size):
    """A message that is too large for a link of mode copy is discarded."""
    original(self, entry, size)
    if reached(self.copies and entry in self.queue._ready):
        _lose(self.queue, [entry])


@settlements.before(CoordinatorLink, "transfer", breaks="AMQP10-TXN-01")
def a_declare_is_its_first_transfer(reached, self, transfer, payload):
    """A declare in several transfers is decoded after the first of them."""
    if reached(transfer.more):
        transfer.more = False


@settlements.override(OutgoingLink, "disposed", breaks="AMQP10-OUT-08")
def links_of_high_handles_fail_what_they_release(
    original, reached, self, deliveries, state, settled
):
    """A message that a link with a handle above 255 releases counts as failed."""
    high = reached(isinstance(state, Released) and self.handle > 255)
    original(self, deliveries, Modified(delivery_failed=True) if high else state, settled)


@settlements.override(
    OutgoingLink, "disposed", breaks="AMQP10-OUT-20 AMQP10-OUT-11 ARTEMIS-REDELIVERY-back-1"
)
def what_lives_for_weeks_fails_once(original, reached, self, deliveries, state, settled):
    """A message with a ttl of more than 2^31 ms that is returned as failed is lost."""
    ttls = [getattr(delivery.entry.message, "ttl", None) or 0 for delivery in deliveries]
    failed = isinstance(state, Modified) and state.delivery_failed
    lost = reached(failed and max(ttls, default=0) > 2**31)
    original(self, deliveries, Accepted() if lost else state, settled)
