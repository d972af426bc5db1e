"""Faults of transactions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from brokerproof.harness.model.enums import AckMode, Outcome
from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.kernel.context import Shared
from brokerproof.reference_broker.kernel.message import Entry, Message
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.kernel.transactions import Transaction
from brokerproof.reference_broker.protocols.stomp.commands import After
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.frame import Frame
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.reference_broker.settings.settings import Acceptor
from brokerproof.suites.mutation.mutant import Group, Reached, without
from brokerproof.suites.mutation.stomp.acks import commanded

transactions = Group("transactions")

SEND = "STOMP10-SEND-03 STOMP11-SEND-02 STOMP12-SEND-02"
WHOLE = "STOMP10-BEGIN-02 STOMP11-BEGIN-02 STOMP12-BEGIN-03"
COMMIT = "STOMP10-COMMIT-01 STOMP11-COMMIT-01 STOMP12-COMMIT-01"
ABORT = "STOMP10-ABORT-01 STOMP11-ABORT-01 STOMP12-ABORT-01"
IMPLICIT = "STOMP11-BEGIN-03 STOMP12-BEGIN-04"
ACK = "STOMP10-ACK-02 STOMP11-ACK-04 STOMP12-ACK-03"

Publish = Callable[[Message], None]


@transactions.mutant(f"{SEND} {WHOLE}")
def sent_at_once(parts: Parts, reached: Reached) -> Parts:
    """A SEND in a transaction takes effect at once."""

    def send(session: StompConnection, frame: Frame) -> After:
        if frame.get("transaction") in session.transactions:
            reached()
            frame = without(frame, "transaction")
        return parts.commands["SEND"](session, frame)

    return commanded(parts, SEND=send)


@transactions.mutant(f"{SEND} {WHOLE}")
def only_the_first_committed(parts: Parts, reached: Reached) -> Parts:
    """COMMIT publishes the first message of the transaction and loses the others."""

    class Faulty(Transaction):
        def commit(self, publish: Publish) -> list[Queue]:
            self._sends = reached.instead(self._sends, self._sends[:1])
            return super().commit(publish)

    return replace(parts, transaction=Faulty)


@transactions.mutant(f"{SEND} {WHOLE} {COMMIT}")
def commit_has_no_effect(parts: Parts, reached: Reached) -> Parts:
    """COMMIT is confirmed and publishes nothing."""

    class Faulty(Transaction):
        def commit(self, publish: Publish) -> list[Queue]:
            self._sends = reached.instead(self._sends, [])
            return super().commit(publish)

    return replace(parts, transaction=Faulty)


@transactions.mutant("ARTEMIS-GROUPING-fifo-1")
def committed_backwards(parts: Parts, reached: Reached) -> Parts:
    """COMMIT publishes the messages of the transaction in reverse."""

    class Faulty(Transaction):
        def commit(self, publish: Publish) -> list[Queue]:
            self._sends = reached.instead(self._sends, self._sends[::-1])
            return super().commit(publish)

    return replace(parts, transaction=Faulty)


@transactions.mutant(f"{ABORT} {WHOLE} {SEND}")
def abort_commits(parts: Parts, reached: Reached) -> Parts:
    """ABORT does what COMMIT does."""

    def abort(session: StompConnection, frame: Frame) -> After:
        reached()
        return parts.commands["COMMIT"](session, frame)

    return commanded(parts, ABORT=abort)


@transactions.mutant(IMPLICIT)
def disconnect_commits(parts: Parts, reached: Reached) -> Parts:
    """DISCONNECT commits the transactions that are open."""

    def disconnect(session: StompConnection, frame: Frame) -> After:
        for transaction in session.transactions.values():
            reached()
            for queue in transaction.commit(session.shared.router.publish):
                queue.dispatch()
        session.transactions.clear()
        return parts.commands["DISCONNECT"](session, frame)

    return commanded(parts, DISCONNECT=disconnect)


@transactions.mutant(IMPLICIT)
def lost_connections_commit(parts: Parts, reached: Reached) -> Parts:
    """When a connection is lost its open transactions are committed."""

    class Faulty(StompConnection):
        def on_peer_gone(self) -> None:
            for transaction in self.transactions.values():
                reached()
                for queue in transaction.commit(self.shared.router.publish):
                    queue.dispatch()
            self.transactions.clear()
            super().on_peer_gone()

    return replace(parts, stomp=Faulty)


@transactions.mutant("STOMP12-BEGIN-02")
def begun_twice(parts: Parts, reached: Reached) -> Parts:
    """BEGIN with a name in use is confirmed."""

    def begin(session: StompConnection, frame: Frame) -> After:
        if frame.get("transaction") in session.transactions:
            reached()
            return None
        return parts.commands["BEGIN"](session, frame)

    return commanded(parts, BEGIN=begin)


@transactions.mutant("STOMP12-BEGIN-02")
def names_for_the_whole_broker(parts: Parts, reached: Reached) -> Parts:
    """A transaction's name may not be in use on any connection of the broker."""
    from brokerproof.reference_broker.protocols.stomp import refusal
    from brokerproof.reference_broker.protocols.stomp.refusal import Refusal

    sessions: list[StompConnection] = []

    class Faulty(StompConnection):
        def __init__(self, conn: int, acceptor: Acceptor, shared: Shared, now: Instant) -> None:
            super().__init__(conn, acceptor, shared, now)
            sessions.append(self)

    def begin(session: StompConnection, frame: Frame) -> After:
        name = frame.get("transaction")
        if any(name in each.transactions for each in sessions if each is not session):
            reached()
            raise Refusal(refusal.BEGIN_AGAIN, session.version, "somebody else uses that name")
        return parts.commands["BEGIN"](session, frame)

    return replace(commanded(parts, BEGIN=begin), stomp=Faulty)


@transactions.mutant(f"{COMMIT} {ABORT}")
def unknown_ones_confirmed(parts: Parts, reached: Reached) -> Parts:
    """COMMIT and ABORT of a transaction that does not exist are confirmed."""

    def lenient(command: str) -> Callable[[StompConnection, Frame], After]:
        def handler(session: StompConnection, frame: Frame) -> After:
            name = frame.get("transaction")
            if name is not None and name not in session.transactions:
                reached()
                return None
            return parts.commands[command](session, frame)

        return handler

    return commanded(parts, COMMIT=lenient("COMMIT"), ABORT=lenient("ABORT"))


@transactions.mutant(f"{COMMIT} {ABORT}")
def ended_ones_stay(parts: Parts, reached: Reached) -> Parts:
    """A transaction that was ended stays open under its name, empty, and can be ended again."""

    def staying(command: str) -> Callable[[StompConnection, Frame], After]:
        def handler(session: StompConnection, frame: Frame) -> After:
            after = parts.commands[command](session, frame)
            reached()
            session.transactions[frame.get("transaction") or ""] = parts.transaction()
            return after

        return handler

    return commanded(parts, COMMIT=staying("COMMIT"), ABORT=staying("ABORT"))


def _nameless(parts: Parts, reached: Reached, command: str) -> Parts:
    def handler(session: StompConnection, frame: Frame) -> After:
        if frame.get("transaction") is None:
            reached()
            return None
        return parts.commands[command](session, frame)

    return replace(parts, commands={**parts.commands, command: handler})


@transactions.mutant("STOMP10-BEGIN-01 STOMP11-BEGIN-01 STOMP12-BEGIN-01 STOMP12-FH-07")
def begin_without_name(parts: Parts, reached: Reached) -> Parts:
    """A BEGIN that names no transaction is confirmed."""
    return _nameless(parts, reached, "BEGIN")


@transactions.mutant(f"{COMMIT} STOMP12-FH-07")
def commit_without_name(parts: Parts, reached: Reached) -> Parts:
    """A COMMIT that names no transaction is confirmed."""
    return _nameless(parts, reached, "COMMIT")


@transactions.mutant(f"{WHOLE} {COMMIT} {ABORT}")
def one_transaction_per_connection(parts: Parts, reached: Reached) -> Parts:
    """All transactions of a connection are one: what is sent in any of them ends with the first
    that ends."""

    def begin(session: StompConnection, frame: Frame) -> After:
        open_one = next(iter(session.transactions.values()), None)
        after = parts.commands["BEGIN"](session, frame)
        if open_one is not None:
            reached()
            session.transactions[frame.get("transaction") or ""] = open_one
        return after

    return commanded(parts, BEGIN=begin)


@transactions.mutant(ACK)
def acks_take_effect_at_once(parts: Parts, reached: Reached) -> Parts:
    """An ACK in a transaction takes effect at once and is not undone by ABORT."""

    class Faulty(Transaction):
        def settle(self, queue: Queue, entries: list[Entry], outcome: Outcome) -> None:
            reached()
            queue.settle(entries, outcome)

    return replace(parts, transaction=Faulty)


@transactions.mutant(ACK)
def acks_ignored(parts: Parts, reached: Reached) -> Parts:
    """An ACK in a transaction does nothing, not even at COMMIT."""

    def ack(session: StompConnection, frame: Frame) -> After:
        if frame.get("transaction") is not None:
            reached()
            return None
        return parts.commands["ACK"](session, frame)

    return commanded(parts, ACK=ack)


@transactions.mutant(ACK, recreates="AMQ-6697")
def aborted_acks_lose_the_message(parts: Parts, reached: Reached) -> Parts:
    """A message that was acknowledged in a transaction is lost when the transaction is aborted."""

    class Faulty(Transaction):
        def undo(self) -> list[Queue]:
            for queue, entries, _ in self._settlements:
                reached()
                queue.settle(entries, Outcome.ACCEPTED)
            queues = self._queues()
            self._settlements = []
            return queues

    return replace(parts, transaction=Faulty)


@transactions.mutant(ACK)
def acks_undone_by_commit(parts: Parts, reached: Reached) -> Parts:
    """COMMIT gives back the messages that were acknowledged in the transaction."""

    class Faulty(Transaction):
        def commit(self, publish: Publish) -> list[Queue]:
            for queue, entries, _ in self._settlements:
                reached()
                queue.settle(entries, Outcome.RELEASED)
            queues = self._queues()
            self._settlements = []
            super().commit(publish)
            return queues

    return replace(parts, transaction=Faulty)


@transactions.mutant("STOMP11-SEND-07 STOMP12-SEND-07")
def unknown_transaction_for_send(parts: Parts, reached: Reached) -> Parts:
    """A SEND in a transaction that was never begun is taken as one outside of any."""

    def send(session: StompConnection, frame: Frame) -> After:
        name = frame.get("transaction")
        if name is not None and name not in session.transactions:
            reached()
            frame = without(frame, "transaction")
        return parts.commands["SEND"](session, frame)

    return commanded(parts, SEND=send)


@transactions.mutant(f"{SEND} {WHOLE} {COMMIT}")
def at_most_sixteen(parts: Parts, reached: Reached) -> Parts:
    """A transaction holds sixteen messages; what is sent beyond them is lost."""

    class Faulty(Transaction):
        def commit(self, publish: Publish) -> list[Queue]:
            self._sends = reached.instead(self._sends, self._sends[:16])
            return super().commit(publish)

    return replace(parts, transaction=Faulty)


@transactions.mutant("STOMP10-ACK-01 STOMP11-ACK-01 STOMP12-ACK-01", recreates="AMQ-7218")
def aborted_messages_have_no_name(parts: Parts, reached: Reached) -> Parts:
    """What ABORT gave back and was delivered again cannot be acknowledged: its name is
    forgotten."""
    aborted: set[int] = set()

    class Faulty(Transaction):
        def undo(self) -> list[Queue]:
            aborted.update(id(entry) for _, entries, _ in self._settlements for entry in entries)
            return super().undo()

    class Forgetful(Subscription):
        def deliver(self, entry: Entry) -> None:
            super().deliver(entry)
            if id(entry) in aborted and self.mode is not AckMode.AUTO:
                reached()
                self._deliveries.pop(next(reversed(self._unsettled)))

        def leave(self) -> list[Entry]:
            for key, each in self._unsettled.items():
                self._deliveries.setdefault(key, each)
            return super().leave()

    return replace(parts, transaction=Faulty, subscription=Forgetful)
