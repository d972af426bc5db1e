"""Faults of transactions."""

from collections.abc import Callable

from brokerproof.harness.model.enums import AckMode, Outcome
from brokerproof.reference_broker.kernel.message import Message
from brokerproof.reference_broker.kernel.transactions import Transaction
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group, breaks, rewritten, without

transactions = Group("transactions")

SEND = "STOMP10-SEND-03 STOMP11-SEND-02 STOMP12-SEND-02"
WHOLE = "STOMP10-BEGIN-02 STOMP11-BEGIN-02 STOMP12-BEGIN-03"
COMMIT = "STOMP10-COMMIT-01 STOMP11-COMMIT-01 STOMP12-COMMIT-01"
ABORT = "STOMP10-ABORT-01 STOMP11-ABORT-01 STOMP12-ABORT-01"
IMPLICIT = "STOMP11-BEGIN-03 STOMP12-BEGIN-04"
ACK = "STOMP10-ACK-02 STOMP11-ACK-04 STOMP12-ACK-03"

Publish = Callable[[Message], None]


@transactions.override(COMMANDS, "SEND", breaks=f"{SEND} {WHOLE}")
def sent_at_once(original, reached, session, frame):
    """A SEND in a transaction takes effect immediately."""
    if reached(frame.get("transaction") in session.transactions):
        frame = without(frame, "transaction")
    return original(session, frame)


@transactions.before(Transaction, "commit", breaks=f"{SEND} {WHOLE}")
def only_the_first_committed(reached, self, publish):
    """COMMIT publishes the first message of the transaction and loses the others."""
    self._sends = reached.instead(self._sends, self._sends[:1])


@transactions.before(Transaction, "commit", breaks=f"{SEND} {WHOLE}")
def only_one_address_committed(reached, self, publish):
    """COMMIT publishes the messages to the transaction's first address, and loses the rest."""
    first = [
        send for send in self._sends if send[0].route.address == self._sends[0][0].route.address
    ]
    self._sends = reached.instead(self._sends, first)


@transactions.before(Transaction, "commit", breaks=f"{SEND} {WHOLE} {COMMIT}")
def commit_has_no_effect(reached, self, publish):
    """COMMIT is confirmed and publishes nothing."""
    self._sends = reached.instead(self._sends, [])


@transactions.before(Transaction, "commit", breaks=WHOLE)
def stops_at_an_exchange(reached, self, publish):
    """COMMIT publishes what was sent before a SEND to an exchange, and loses what was sent after
    it."""
    places = [message.envelope.destination.startswith("/ex") for message, _ in self._sends]
    self._sends = reached.instead(self._sends, self._sends[: [*places, True].index(True)])


@transactions.before(Transaction, "commit", breaks="ARTEMIS-GROUPING-fifo-1")
def committed_backwards(reached, self, publish):
    """COMMIT publishes the messages of the transaction in reverse."""
    self._sends = reached.instead(self._sends, self._sends[::-1])


@transactions.override(COMMANDS, "ABORT", breaks=f"{ABORT} {WHOLE} {SEND}")
def abort_commits(original, reached, session, frame):
    """ABORT does what COMMIT does."""
    reached()
    return COMMANDS["COMMIT"](session, frame)


@transactions.before(COMMANDS, "DISCONNECT", breaks=IMPLICIT)
def disconnect_commits(reached, session, frame):
    """DISCONNECT commits the transactions that are open."""
    for transaction in session.transactions.values():
        reached()
        for queue in transaction.commit(session.shared.router.publish):
            queue.dispatch()
    session.transactions.clear()


@transactions.before(StompConnection, "on_peer_gone", breaks=IMPLICIT)
def lost_connections_commit(reached, self):
    """A lost connection commits its open transactions."""
    for transaction in self.transactions.values():
        reached()
        for queue in transaction.commit(self.shared.router.publish):
            queue.dispatch()
    self.transactions.clear()


@transactions.mutant("STOMP12-BEGIN-02")
def names_for_the_whole_broker(patch, reached):
    """A transaction's name may not be in use on any connection of the broker."""
    from brokerproof.reference_broker.protocols.stomp import refusal
    from brokerproof.reference_broker.protocols.stomp.refusal import Refusal

    sessions: list[StompConnection] = []

    @patch.after(StompConnection)
    def __init__(self, conn, acceptor, shared, now):
        sessions.append(self)

    @patch.before(COMMANDS, "BEGIN")
    def begin(session, frame):
        name = frame.get("transaction")
        if reached(any(name in other.transactions for other in sessions if other is not session)):
            raise Refusal(refusal.BEGIN_AGAIN, session.version, "somebody else uses that name")


@transactions.mutant(
    "STOMP10-COMMIT-01 STOMP11-COMMIT-01 STOMP12-COMMIT-01 STOMP10-ABORT-01"
    " STOMP11-ABORT-01 STOMP12-ABORT-01"
)
def unknown_ones_confirmed(patch, reached):
    """COMMIT and ABORT of a transaction that does not exist are confirmed."""

    def confirm(original, session, frame):
        name = frame.get("transaction")
        if reached(name is not None and name not in session.transactions):
            return None
        return original(session, frame)

    for command in ("COMMIT", "ABORT"):
        patch.override(COMMANDS, command)(confirm)


@transactions.mutant(
    "STOMP10-COMMIT-01 STOMP11-COMMIT-01 STOMP12-COMMIT-01 STOMP10-ABORT-01"
    " STOMP11-ABORT-01 STOMP12-ABORT-01"
)
def ended_ones_stay(patch, reached):
    """An ended transaction stays open under its name, empty, and can be ended again."""

    def stay(original, session, frame):
        after = original(session, frame)
        reached()
        session.transactions[frame.get("transaction") or ""] = Transaction()
        return after

    for command in ("COMMIT", "ABORT"):
        patch.override(COMMANDS, command)(stay)


def _nameless(patch, reached, command):
    @patch.override(COMMANDS, command)
    def confirm(original, session, frame):
        return None if reached(frame.get("transaction") is None) else original(session, frame)


@transactions.variant(_nameless, "BEGIN")
@breaks("STOMP10-BEGIN-01 STOMP11-BEGIN-01 STOMP12-BEGIN-01 STOMP12-FH-07")
def begin_without_name():
    """A BEGIN that names no transaction is confirmed."""


@transactions.variant(_nameless, "COMMIT", breaks=f"{COMMIT} STOMP12-FH-07")
def commit_without_name():
    """A COMMIT that names no transaction is confirmed."""


@transactions.override(COMMANDS, "BEGIN", breaks=f"{WHOLE} {COMMIT} {ABORT}")
def one_transaction_per_connection(original, reached, session, frame):
    """All transactions of a connection are one: all sends take effect with the first that ends."""
    open_one = next(iter(session.transactions.values()), None)
    after = original(session, frame)
    if reached(open_one is not None):
        session.transactions[frame.get("transaction") or ""] = open_one
    return after


@transactions.override(Transaction, "settle", breaks=ACK)
def acks_take_effect_at_once(original, reached, self, queue, entries, outcome):
    """An ACK in a transaction takes effect immediately and is not undone by ABORT."""
    reached()
    queue.settle(entries, outcome)


@transactions.override(COMMANDS, "ACK", breaks=f"{ACK} {WHOLE}")
def acks_ignored(original, reached, session, frame):
    """An ACK in a transaction has no effect, not even at COMMIT."""
    return None if reached(frame.get("transaction") is not None) else original(session, frame)


@transactions.override(Transaction, "undo", breaks=ACK, recreates="AMQ-6697")
def aborted_acks_lose_the_message(original, reached, self):
    """ABORT loses messages acknowledged in the transaction."""
    for queue, entries, _ in self._settlements:
        reached()
        queue.settle(entries, Outcome.ACCEPTED)
    queues = self._queues()
    self._settlements = []
    return queues


@transactions.override(Transaction, "commit", breaks=f"{ACK} {WHOLE}")
def acks_undone_by_commit(original, reached, self, publish):
    """COMMIT returns the messages acknowledged in the transaction."""
    for queue, entries, _ in self._settlements:
        reached()
        queue.settle(entries, Outcome.RELEASED)
    queues = self._queues()
    self._settlements = []
    original(self, publish)
    return queues


@transactions.override(COMMANDS, "SEND", breaks="STOMP11-SEND-07 STOMP12-SEND-07")
def unknown_transaction_for_send(original, reached, session, frame):
    """A SEND in an unknown transaction is accepted as if it belonged to no transaction."""
    name = frame.get("transaction")
    if reached(name is not None and name not in session.transactions):
        frame = without(frame, "transaction")
    return original(session, frame)


@transactions.before(Transaction, "commit", breaks=f"{SEND} {WHOLE} {COMMIT}")
def at_most_sixteen(reached, self, publish):
    """A transaction holds sixteen messages; further ones are lost."""
    self._sends = reached.instead(self._sends, self._sends[:16])


@transactions.mutant("STOMP10-ACK-01 STOMP11-ACK-01 STOMP12-ACK-01", recreates="AMQ-7218")
def aborted_messages_have_no_name(patch, reached):
    """A message redelivered after ABORT cannot be acknowledged: its id is forgotten."""
    aborted: set[int] = set()

    @patch.before(Transaction)
    def undo(self):
        aborted.update(id(entry) for _, entries, _ in self._settlements for entry in entries)

    @patch.after(Subscription)
    def deliver(self, entry):
        if reached(id(entry) in aborted and self.mode is not AckMode.AUTO):
            self._deliveries.pop(next(reversed(self._unsettled)))

    @patch.before(Subscription)
    def unsubscribe(self):
        for key, delivery in self._unsettled.items():
            self._deliveries.setdefault(key, delivery)


@transactions.override(COMMANDS, "ACK", breaks=WHOLE)
def acknowledged_in_another(original, reached, session, frame):
    """An ACK in a transaction belongs to the first open one of its connection."""
    named, first = frame.get("transaction"), next(iter(session.transactions), None)
    if reached(named is not None and first is not None and named != first):
        rest = without(frame, "transaction").head.headers
        return original(session, rewritten(frame, (*rest, ("transaction", first))))
    return original(session, frame)


@transactions.before(COMMANDS, "ABORT", breaks="ARTEMIS-STOMP-window-3")
def an_abort_costs_the_window(reached, session, frame):
    """Aborted acknowledgements permanently narrow the windows of their connection."""
    if reached(session.transactions[frame.get("transaction")]._settlements):
        for subscription in session.subscriptions.values():
            subscription.window.charge(100)
