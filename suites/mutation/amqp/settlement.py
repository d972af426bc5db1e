"""Faults of AMQP settlement: ranges, outcomes and their effects on a message, its place and its
count, and transactions."""

from collections.abc import Callable
from typing import Any
from unittest import mock

from brokerproof.reference_broker.kernel import serial_numbers
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.amqp10 import refusal
from brokerproof.reference_broker.protocols.amqp10.coordinator import CoordinatorLink
from brokerproof.reference_broker.protocols.amqp10.incoming import ACCEPTED, IncomingLink
from brokerproof.reference_broker.protocols.amqp10.messaging import (
    Accepted,
    Modified,
    Received,
    Rejected,
    Released,
    TransactionalState,
)
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.performatives import RECEIVER, Disposition
from brokerproof.reference_broker.protocols.amqp10.refusal import Refusal
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.reference_broker.protocols.amqp10.transaction import LiveTransaction
from brokerproof.suites.mutation.amqp.frame_changes import sent
from brokerproof.suites.mutation.mutant import Group, breaks

amqp_settlement = Group("amqp-settlement")
amqp_transactions = Group("amqp-transactions")


def _disposed(patch, reached, change):
    """Apply ``change`` to every disposition of the client."""

    @patch.before(Session)
    def _disposition(self, disposition):
        before = disposition.encode()
        change(disposition)
        reached(disposition.encode() != before)


# --- ranges ---------------------------------------------------------------------------------------


@amqp_settlement.before(Session, "_disposition", breaks="AMQP10-DISP-03")
def senders_may_not_settle(reached, self, disposition):
    """A disposition of a sender ends its session."""
    if reached(disposition.role is not RECEIVER):
        raise Refusal(refusal.ERRANT, "a disposition of a sender")


@amqp_settlement.before(Session, "_disposition", breaks="AMQP10-DISP-02 AMQP10-DISP-03")
def ranges_end_at_a_gap(reached, self, disposition):
    """A range ends before the first of its deliveries that is already settled."""
    ids = range(disposition.first, disposition.last or 0)
    gap = next((id for id in ids if id not in self.unsettled), disposition.first)
    if reached(gap != disposition.first):
        disposition.last = gap - 1


@amqp_settlement.override(Session, "_disposition", breaks="AMQP10-DISP-02 AMQP10-DISP-03")
def settled_in_all_sessions(original, reached, self, disposition):
    """A disposition applies to the deliveries with that number in every session of its
    connection."""
    original(self, disposition)
    for other in self.connection._sessions.values():
        if other is not self and reached(disposition.first in other.unsettled):
            original(other, disposition)


@amqp_settlement.before(Session, "_disposition", breaks="AMQP10-OUT-01")
def outcomes_alone(reached, self, disposition):
    """An unsettled disposition without an outcome ends its session."""
    if reached(not disposition.settled and isinstance(disposition.state, Received | None)):
        raise Refusal(refusal.ERRANT, "a disposition without an outcome")


@amqp_settlement.through(_disposed, "AMQP10-DISP-03 AMQP10-DISP-05 AMQP10-DISP-02")
def only_the_first_of_a_range(disposition):
    """Only the first delivery of a range is settled."""
    if disposition.last != disposition.first:
        disposition.last = None


@amqp_settlement.through(_disposed, "AMQP10-DISP-03 AMQP10-DISP-02")
def one_more_than_the_range(disposition):
    """A disposition covers one delivery more than it names."""
    if disposition.role is RECEIVER:
        last = disposition.first if disposition.last is None else disposition.last
        disposition.last = serial_numbers.add(last, 1)


@amqp_settlement.before(Session, "_disposition")
@breaks("AMQP10-DISP-02 AMQP10-DISP-03 AMQP10-OUT-09")
def everything_before_too(reached, self, disposition):
    """A disposition without last also covers every earlier unsettled delivery."""
    oldest = next(iter(self.unsettled), disposition.first)
    if disposition.role is RECEIVER and disposition.last is None:
        disposition.last = disposition.first
        disposition.first = reached.instead(
            disposition.first,
            oldest if serial_numbers.before(oldest, disposition.first) else disposition.first,
        )


@amqp_settlement.through(sent(Disposition), "AMQP10-DISP-01")
def role_not_looked_at(disposition):
    """The broker's dispositions state the role of the sender."""
    disposition.role = not disposition.role


@amqp_settlement.through(sent(Disposition), "AMQP10-OUT-01 AMQP10-XFER-14")
def settled_without_outcome(disposition):
    """The broker settles accepted messages without an outcome."""
    if disposition.role is RECEIVER:
        disposition.state = None


@amqp_settlement.override(Session, "_disposition")
@breaks("AMQP10-XFER-24 AMQP10-OUT-02 AMQP10-DISP-03")
def another_outcome_told_later(original, reached, self, disposition):
    """If a client sends another outcome for a delivery that is already settled, the broker repeats
    that outcome."""
    known = disposition.first in self.unsettled
    original(self, disposition)
    if reached(
        not known
        and disposition.role is RECEIVER
        and disposition.last is None
        and disposition.state is not None
    ):
        self.send(
            Disposition(
                role=not RECEIVER, first=disposition.first, settled=True, state=disposition.state
            )
        )


# --- outcomes -------------------------------------------------------------------------------------


def _applying(patch, reached, change):
    """Let ``change`` replace the deliveries and the state of an outcome."""

    @patch.override(OutgoingLink)
    def apply(original, self, deliveries, state):
        wrong, other = change(self, deliveries, state)
        reached(wrong != deliveries or other != state)
        original(self, wrong, other)


def _outcome(patch, reached, change):
    _applying(patch, reached, lambda link, deliveries, state: (deliveries, change(state)))


@amqp_settlement.through(_outcome, "AMQP10-OUT-09 AMQP10-OUT-02 ARTEMIS-REDELIVERY-back-1")
def released_is_gone(state):
    """A released message is lost."""
    return Accepted() if isinstance(state, Released) else state


@amqp_settlement.through(_outcome, "AMQP10-TERM-08 AMQP10-OUT-02 AMQP10-OUT-19")
def accepted_comes_again(state):
    """An accepted message returns to its queue."""
    return Released() if isinstance(state, Accepted) else state


@amqp_settlement.through(_outcome, "AMQP10-OUT-08 AMQP10-MSG-09")
def release_counts(state):
    """A release counts as a failed attempt."""
    return Modified(delivery_failed=True) if isinstance(state, Released) else state


def _modified(**fields: Any) -> Callable[[Any], Any]:
    def change(state: Any) -> Any:
        if not isinstance(state, Modified):
            return state
        given = {
            "delivery_failed": state.delivery_failed,
            "undeliverable_here": state.undeliverable_here,
            "message_annotations": state.message_annotations,
        }
        return Modified(**{**given, **fields})

    return change


@amqp_settlement.variant(_outcome, _modified(delivery_failed=None))
@breaks("AMQP10-OUT-11 AMQP10-MSG-09")
def failures_not_counted():
    """delivery-failed is ignored."""


@amqp_settlement.variant(_outcome, _modified(delivery_failed=True))
@breaks("AMQP10-OUT-11 AMQP10-MSG-09")
def every_modified_counts():
    """modified counts as a failed attempt whatever delivery-failed says."""


@amqp_settlement.variant(_outcome, _modified(undeliverable_here=None), breaks="AMQP10-OUT-12")
def undeliverable_here_passed_over():
    """undeliverable-here is ignored."""


@amqp_settlement.through(_outcome, "AMQP10-OUT-20")
def undeliverable_anywhere(state):
    """A message that is undeliverable here is lost."""
    return Accepted() if isinstance(state, Modified) and state.undeliverable_here else state


@amqp_settlement.variant(_outcome, _modified(message_annotations=None), breaks="AMQP10-OUT-13")
def new_annotations_passed_over():
    """message-annotations of modified are ignored."""


@amqp_settlement.before(OutgoingLink, "apply", breaks="AMQP10-OUT-05")
def rejection_not_counted(reached, self, deliveries, state):
    """A rejected message is dead-lettered with its delivery-count unchanged."""
    if isinstance(state, Rejected):
        for delivery in deliveries:
            reached()
            delivery.entry.failures -= 1


@amqp_settlement.override(OutgoingLink, "disposed", breaks="AMQP10-OUT-03")
def default_is_accepted(original, reached, self, deliveries, state, settled):
    """A delivery settled without an outcome counts as accepted, whatever default-outcome the source
    names."""
    original(self, deliveries, Accepted() if reached(settled and state is None) else state, settled)


@amqp_settlement.skips(OutgoingLink, "disposed", breaks="AMQP10-OUT-02 AMQP10-DISP-03")
def outcomes_need_settlement(self, deliveries, state, settled):
    """An unsettled outcome is forgotten: if the delivery is settled later without a state, the
    default applies."""
    return not settled and not isinstance(state, TransactionalState)


@amqp_settlement.override(OutgoingLink, "deliver", breaks="AMQP10-MSG-09 AMQP10-MSG-01")
def attempts_counted_from_one(original, reached, self, entry):
    """delivery-count includes the current attempt."""
    reached()
    entry.failures += 1
    original(self, entry)
    entry.failures -= 1


@amqp_settlement.after(OutgoingLink, "show", breaks="AMQP10-OUT-04 AMQP10-TERM-04 AMQP10-TERM-08")
def copies_count(reached, self, entry):
    """A copy counts as a failed attempt of its message."""
    reached()
    entry.failures += 1


@amqp_settlement.before(OutgoingLink, "offer", breaks="AMQP10-TERM-08")
def copies_come_again(reached, self):
    """A link of mode copy gets everything again once it has seen all."""
    if reached(
        self.copies
        and not self._stopped
        and self.cursor
        and self.queue.browsers.unseen(self, self._selector) == 0
    ):
        self.cursor = 0


@amqp_settlement.mutant("AMQP10-TERM-04 AMQP10-LINK-05")
def copies_are_taken(patch, reached):
    """A link of distribution-mode copy removes messages like any other."""

    @patch.after(OutgoingLink)
    def _check(self, source):
        self.said = self.copies

    @patch.override(OutgoingLink, "attach")
    def outgoinglink_attach(original, self, attach):
        right = self.session.send

        def send(performative: Any) -> None:
            right(performative)
            if reached(self.copies):
                self.copies = False

        with mock.patch.object(self.session, "send", send):
            original(self, attach)


@amqp_settlement.override(Queue, "settle", breaks="ARTEMIS-GROUPING-fifo-1")
def given_back_to_the_end(original, reached, self, entries, outcome):
    """Messages returned by an AMQP consumer go to the end of their queue."""
    before = set(map(id, self._ready))
    original(self, entries, outcome)
    back = [entry for entry in self._ready if id(entry) not in before]
    if back and len(back) < len(self._ready):
        others = [entry for entry in self._ready if id(entry) in before]
        if reached([*others, *back] != list(self._ready)):
            for returned in back:
                self._order += 1
                returned.order = self._order
            self._ready.clear()
            self._ready.extend([*others, *back])


@amqp_settlement.before(OutgoingLink, "give_back")
@breaks("AMQP10-OUT-09 ARTEMIS-REDELIVERY-back-1 AMQP10-MSG-09")
def kept_is_lost(reached, self):
    """Messages that a link holds when it ends are lost."""
    held = [delivery for delivery in self.session.unsettled.values() if delivery.link is self]
    if reached(held):
        self.forget(held)
        self.apply(held, Accepted())


# --- transactions ---------------------------------------------------------------------------------


@amqp_transactions.override(IncomingLink, "_take", breaks="AMQP10-TXN-06")
def posts_seen_at_once(original, reached, self, message, send):
    """A message posted in a transaction is delivered before the discharge."""
    reached(send is not None)
    return original(self, message, None)


@amqp_transactions.override(OutgoingLink, "disposed", breaks="AMQP10-TXN-09 AMQP10-TXN-10")
def outcomes_apply_at_once(original, reached, self, deliveries, state, settled):
    """An outcome in a transaction applies immediately."""
    if reached(isinstance(state, TransactionalState)):
        state = state.outcome
    original(self, deliveries, state, True)


def _ending(patch, reached, commit):
    @patch.before(CoordinatorLink)
    def _discharge(self, arrival, discharge):
        if reached(discharge.fail is not (not commit)):
            discharge.fail = not commit


@amqp_transactions.mutant("AMQP10-TXN-05 AMQP10-TXN-07 AMQP10-TXN-06 AMQP10-TXN-10 AMQP10-TXN-13")
def rollback_succeeds(patch, reached):
    """A discharge with fail commits."""
    _ending(patch, reached, commit=True)


@amqp_transactions.mutant("AMQP10-TXN-05 AMQP10-TXN-06 AMQP10-TXN-07 AMQP10-TXN-09")
def success_rolls_back(patch, reached):
    """A discharge without fail does nothing."""
    _ending(patch, reached, commit=False)


@amqp_transactions.override(CoordinatorLink, "give_back", breaks="AMQP10-TXN-14")
def a_lost_controller_commits(original, reached, self):
    """A transaction whose control link ends is committed."""
    queues: list[Queue] = []
    for id, transaction in self._opened.items():
        reached()
        del self.session.connection.transactions[id]
        queues += transaction.commit()
    self._opened.clear()
    return queues


@amqp_transactions.mutant("AMQP10-TXN-14 AMQP10-READING-TXN-01")
def transactions_belong_to_the_connection(patch, reached):
    """A transaction survives its control link; any other of the connection can discharge it."""
    patch.set(CoordinatorLink, "give_back", lambda self: [])

    @patch.before(CoordinatorLink)
    def _discharge(self, arrival, discharge):
        reached(discharge.txn_id in self.session.connection.transactions.keys() - self._opened)
        self._opened |= self.session.connection.transactions


@amqp_transactions.before(LiveTransaction, "roll_back", breaks="AMQP10-TXN-09 AMQP10-TXN-10")
def a_rollback_undoes_other_transactions(reached, self):
    """A rollback also drops the outcomes in other transactions of its control link."""
    for other in {*self.coordinator._opened.values()} - {self}:
        while reached(other._outcomes):
            other._outcomes.popitem()[0].transaction = None


@amqp_transactions.override(CoordinatorLink, "_discharge", breaks="AMQP10-TXN-04")
def unknown_ids_accepted(original, reached, self, arrival, discharge):
    """A discharge with an unknown id is accepted."""
    if reached(discharge.txn_id not in self._opened):
        return ACCEPTED
    return original(self, arrival, discharge)


@amqp_transactions.before(CoordinatorLink, "_declare", breaks="AMQP10-TXN-03")
def global_ids_taken(reached, self, arrival, declare):
    """A declare that requests a global transaction gets a local one."""
    if reached(declare.global_id is not None):
        declare.global_id = None


@amqp_transactions.override(CoordinatorLink, "_declare", breaks="AMQP10-TXN-02")
def settled_declares_taken(original, reached, self, arrival, declare):
    """A settled declare is accepted."""
    return ACCEPTED if reached(arrival.settled) else original(self, arrival, declare)


@amqp_transactions.before(IncomingLink, "arrived", breaks="AMQP10-TXN-06 AMQP10-TXN-04")
def unknown_posts_taken(reached, self, arrival):
    """A post in an undeclared transaction is accepted as if it belonged to no transaction."""
    state = arrival.state
    if reached(
        isinstance(state, TransactionalState)
        and state.txn_id not in self.session.connection.transactions
    ):
        arrival.state = None


@amqp_transactions.override(CoordinatorLink, "_discharge", breaks="AMQP10-TXN-08")
def discharge_does_not_wait(original, reached, self, arrival, discharge):
    """A discharge before the last transfer of a post is accepted."""
    try:
        return original(self, arrival, discharge)
    except Refusal as problem:
        if problem.fault is not refusal.DISCHARGE_TOO_EARLY:
            raise
        reached()
        return ACCEPTED


@amqp_transactions.before(CoordinatorLink, "_discharge", breaks="AMQP10-TXN-15")
def failed_posts_do_not_doom(reached, self, arrival, discharge):
    """A settled post that cannot be routed does not make its transaction fail."""
    transaction: LiveTransaction | None = self._opened.get(discharge.txn_id)
    if reached(transaction is not None and transaction.doomed is not None):
        transaction._core.doomed = None
