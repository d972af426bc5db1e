"""Faults of transactions."""

from __future__ import annotations

from collections.abc import Callable

from brokerproof.harness.model.enums import AckMode, Outcome
from brokerproof.reference_broker.kernel.message import Message
from brokerproof.reference_broker.kernel.transactions import Transaction
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group, without

transactions = Group("transactions")

SEND = "STOMP10-SEND-03 STOMP11-SEND-02 STOMP12-SEND-02"
WHOLE = "STOMP10-BEGIN-02 STOMP11-BEGIN-02 STOMP12-BEGIN-03"
COMMIT = "STOMP10-COMMIT-01 STOMP11-COMMIT-01 STOMP12-COMMIT-01"
ABORT = "STOMP10-ABORT-01 STOMP11-ABORT-01 STOMP12-ABORT-01"
IMPLICIT = "STOMP11-BEGIN-03 STOMP12-BEGIN-04"
ACK = "STOMP10-ACK-02 STOMP11-ACK-04 STOMP12-ACK-03"

Publish = Callable[[Message], None]


@transactions.override(
    COMMANDS,
    "SEND",
    breaks=(
        "STOMP10-SEND-03 STOMP11-SEND-02 STOMP12-SEND-02 STOMP10-BEGIN-02"
        " STOMP11-BEGIN-02 STOMP12-BEGIN-03"
    ),
)
def sent_at_once(original, reached, session, frame):
    """A SEND in a transaction takes effect at once."""
    if frame.get("transaction") in session.transactions:
        reached()
        frame = without(frame, "transaction")
    return original(session, frame)


@transactions.override(
    Transaction,
    "commit",
    breaks=(
        "STOMP10-SEND-03 STOMP11-SEND-02 STOMP12-SEND-02 STOMP10-BEGIN-02"
        " STOMP11-BEGIN-02 STOMP12-BEGIN-03"
    ),
)
def only_the_first_committed(original, reached, self, publish):
    """COMMIT publishes the first message of the transaction and loses the others."""
    self._sends = reached.instead(self._sends, self._sends[:1])
    return original(self, publish)


@transactions.override(
    Transaction,
    "commit",
    breaks=(
        "STOMP10-SEND-03 STOMP11-SEND-02 STOMP12-SEND-02 STOMP10-BEGIN-02"
        " STOMP11-BEGIN-02 STOMP12-BEGIN-03 STOMP10-COMMIT-01 STOMP11-COMMIT-01"
        " STOMP12-COMMIT-01"
    ),
)
def commit_has_no_effect(original, reached, self, publish):
    """COMMIT is confirmed and publishes nothing."""
    self._sends = reached.instead(self._sends, [])
    return original(self, publish)


@transactions.override(Transaction, "commit", breaks="ARTEMIS-GROUPING-fifo-1")
def committed_backwards(original, reached, self, publish):
    """COMMIT publishes the messages of the transaction in reverse."""
    self._sends = reached.instead(self._sends, self._sends[::-1])
    return original(self, publish)


@transactions.override(
    COMMANDS,
    "ABORT",
    breaks=(
        "STOMP10-ABORT-01 STOMP11-ABORT-01 STOMP12-ABORT-01 STOMP10-BEGIN-02"
        " STOMP11-BEGIN-02 STOMP12-BEGIN-03 STOMP10-SEND-03 STOMP11-SEND-02"
        " STOMP12-SEND-02"
    ),
)
def abort_commits(original, reached, session, frame):
    """ABORT does what COMMIT does."""
    reached()
    return COMMANDS["COMMIT"](session, frame)


@transactions.override(COMMANDS, "DISCONNECT", breaks=IMPLICIT)
def disconnect_commits(original, reached, session, frame):
    """DISCONNECT commits the transactions that are open."""
    for transaction in session.transactions.values():
        reached()
        for queue in transaction.commit(session.shared.router.publish):
            queue.dispatch()
    session.transactions.clear()
    return original(session, frame)


@transactions.override(StompConnection, "on_peer_gone", breaks=IMPLICIT)
def lost_connections_commit(original, reached, self):
    """When a connection is lost its open transactions are committed."""
    for transaction in self.transactions.values():
        reached()
        for queue in transaction.commit(self.shared.router.publish):
            queue.dispatch()
    self.transactions.clear()
    original(self)


@transactions.mutant("STOMP12-BEGIN-02")
def names_for_the_whole_broker(patch, reached):
    """A transaction's name may not be in use on any connection of the broker."""
    from brokerproof.reference_broker.protocols.stomp import refusal
    from brokerproof.reference_broker.protocols.stomp.refusal import Refusal

    sessions: list[StompConnection] = []

    @patch.override(StompConnection)
    def __init__(original, self, conn, acceptor, shared, now):
        original(self, conn, acceptor, shared, now)
        sessions.append(self)

    @patch.override(COMMANDS, "BEGIN")
    def begin(original, session, frame):
        name = frame.get("transaction")
        if any(name in other.transactions for other in sessions if other is not session):
            reached()
            raise Refusal(refusal.BEGIN_AGAIN, session.version, "somebody else uses that name")
        return original(session, frame)


@transactions.mutant(
    "STOMP10-COMMIT-01 STOMP11-COMMIT-01 STOMP12-COMMIT-01 STOMP10-ABORT-01"
    " STOMP11-ABORT-01 STOMP12-ABORT-01"
)
def unknown_ones_confirmed(patch, reached):
    """COMMIT and ABORT of a transaction that does not exist are confirmed."""

    def confirm(original, session, frame):
        name = frame.get("transaction")
        if name is not None and name not in session.transactions:
            reached()
            return None
        return original(session, frame)

    for command in ("COMMIT", "ABORT"):
        patch.override(COMMANDS, command)(confirm)


@transactions.mutant(
    "STOMP10-COMMIT-01 STOMP11-COMMIT-01 STOMP12-COMMIT-01 STOMP10-ABORT-01"
    " STOMP11-ABORT-01 STOMP12-ABORT-01"
)
def ended_ones_stay(patch, reached):
    """A transaction that was ended stays open under its name, empty, and can be ended again."""

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
        if frame.get("transaction") is None:
            reached()
            return None
        return original(session, frame)


@transactions.mutant("STOMP10-BEGIN-01 STOMP11-BEGIN-01 STOMP12-BEGIN-01 STOMP12-FH-07")
def begin_without_name(patch, reached):
    """A BEGIN that names no transaction is confirmed."""
    _nameless(patch, reached, "BEGIN")


@transactions.mutant("STOMP10-COMMIT-01 STOMP11-COMMIT-01 STOMP12-COMMIT-01 STOMP12-FH-07")
def commit_without_name(patch, reached):
    """A COMMIT that names no transaction is confirmed."""
    _nameless(patch, reached, "COMMIT")


@transactions.override(
    COMMANDS,
    "BEGIN",
    breaks=(
        "STOMP10-BEGIN-02 STOMP11-BEGIN-02 STOMP12-BEGIN-03 STOMP10-COMMIT-01"
        " STOMP11-COMMIT-01 STOMP12-COMMIT-01 STOMP10-ABORT-01 STOMP11-ABORT-01"
        " STOMP12-ABORT-01"
    ),
)
def one_transaction_per_connection(original, reached, session, frame):
    """All transactions of a connection are one: what is sent in any of them ends with the first
    that ends."""
    open_one = next(iter(session.transactions.values()), None)
    after = original(session, frame)
    if open_one is not None:
        reached()
        session.transactions[frame.get("transaction") or ""] = open_one
    return after


@transactions.override(Transaction, "settle", breaks=ACK)
def acks_take_effect_at_once(original, reached, self, queue, entries, outcome):
    """An ACK in a transaction takes effect at once and is not undone by ABORT."""
    reached()
    queue.settle(entries, outcome)


@transactions.override(COMMANDS, "ACK", breaks=ACK)
def acks_ignored(original, reached, session, frame):
    """An ACK in a transaction does nothing, not even at COMMIT."""
    if frame.get("transaction") is not None:
        reached()
        return None
    return original(session, frame)


@transactions.override(Transaction, "undo", breaks=ACK, recreates="AMQ-6697")
def aborted_acks_lose_the_message(original, reached, self):
    """A message that was acknowledged in a transaction is lost when the transaction is aborted."""
    for queue, entries, _ in self._settlements:
        reached()
        queue.settle(entries, Outcome.ACCEPTED)
    queues = self._queues()
    self._settlements = []
    return queues


@transactions.override(Transaction, "commit", breaks=ACK)
def acks_undone_by_commit(original, reached, self, publish):
    """COMMIT gives back the messages that were acknowledged in the transaction."""
    for queue, entries, _ in self._settlements:
        reached()
        queue.settle(entries, Outcome.RELEASED)
    queues = self._queues()
    self._settlements = []
    original(self, publish)
    return queues


@transactions.override(COMMANDS, "SEND", breaks="STOMP11-SEND-07 STOMP12-SEND-07")
def unknown_transaction_for_send(original, reached, session, frame):
    """A SEND in a transaction that was never begun is taken as one outside of any."""
    name = frame.get("transaction")
    if name is not None and name not in session.transactions:
        reached()
        frame = without(frame, "transaction")
    return original(session, frame)


@transactions.override(
    Transaction,
    "commit",
    breaks=(
        "STOMP10-SEND-03 STOMP11-SEND-02 STOMP12-SEND-02 STOMP10-BEGIN-02"
        " STOMP11-BEGIN-02 STOMP12-BEGIN-03 STOMP10-COMMIT-01 STOMP11-COMMIT-01"
        " STOMP12-COMMIT-01"
    ),
)
def at_most_sixteen(original, reached, self, publish):
    """A transaction holds sixteen messages; what is sent beyond them is lost."""
    self._sends = reached.instead(self._sends, self._sends[:16])
    return original(self, publish)


@transactions.mutant("STOMP10-ACK-01 STOMP11-ACK-01 STOMP12-ACK-01", recreates="AMQ-7218")
def aborted_messages_have_no_name(patch, reached):
    """A message that ABORT gave back cannot be acknowledged when it is delivered again: its id is
    forgotten."""
    aborted: set[int] = set()

    @patch.override(Transaction)
    def undo(original, self):
        aborted.update(id(entry) for _, entries, _ in self._settlements for entry in entries)
        return original(self)

    @patch.override(Subscription)
    def deliver(original, self, entry):
        original(self, entry)
        if id(entry) in aborted and self.mode is not AckMode.AUTO:
            reached()
            self._deliveries.pop(next(reversed(self._unsettled)))

    @patch.override(Subscription)
    def unsubscribe(original, self):
        for key, delivery in self._unsettled.items():
            self._deliveries.setdefault(key, delivery)
        return original(self)
