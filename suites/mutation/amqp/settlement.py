"""Faults of AMQP settlement: ranges, outcomes and what they make of a message, its place and its
count; transactions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.kernel import serial_numbers
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.amqp10 import refusal
from brokerproof.reference_broker.protocols.amqp10.coordinator import (
    CoordinatorLink,
)
from brokerproof.reference_broker.protocols.amqp10.delivery import Arrival, Delivery
from brokerproof.reference_broker.protocols.amqp10.incoming import ACCEPTED, IncomingLink
from brokerproof.reference_broker.protocols.amqp10.messaging import (
    Accepted,
    Declare,
    Discharge,
    Modified,
    Rejected,
    Released,
    TransactionalState,
)
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.performatives import RECEIVER, Disposition
from brokerproof.reference_broker.protocols.amqp10.refusal import Refusal
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.reference_broker.protocols.amqp10.transaction import LiveTransaction
from brokerproof.suites.mutation.amqp.frames import saying
from brokerproof.suites.mutation.mutant import Group, Reached

amqp_settlement = Group("amqp-settlement")
amqp_transactions = Group("amqp-transactions")

BACK, COUNTED = "AMQP10-OUT-09", "AMQP10-MSG-09"


def _disposed(parts: Parts, reached: Reached, change: Callable[[Disposition], None]) -> Parts:
    """``change`` is made to every disposition of the peer."""

    class Faulty(Session):
        def _disposition(self, disposition: Disposition) -> None:
            before = disposition.encode()
            change(disposition)
            if disposition.encode() != before:
                reached()
            super()._disposition(disposition)

    return replace(parts, session=Faulty)


# --- ranges ---------------------------------------------------------------------------------------


@amqp_settlement.mutant("AMQP10-DISP-03 AMQP10-DISP-05 AMQP10-DISP-02")
def only_the_first_of_a_range(parts: Parts, reached: Reached) -> Parts:
    """Of a range only the first delivery is settled."""

    def change(disposition: Disposition) -> None:
        if disposition.last != disposition.first:
            disposition.last = None

    return _disposed(parts, reached, change)


@amqp_settlement.mutant("AMQP10-DISP-03 AMQP10-DISP-02")
def one_more_than_the_range(parts: Parts, reached: Reached) -> Parts:
    """A disposition is about one delivery more than it names."""

    def change(disposition: Disposition) -> None:
        if disposition.role is RECEIVER:
            last = disposition.first if disposition.last is None else disposition.last
            disposition.last = serial_numbers.add(last, 1)

    return _disposed(parts, reached, change)


@amqp_settlement.mutant("AMQP10-DISP-02 AMQP10-DISP-03 AMQP10-OUT-09")
def everything_before_too(parts: Parts, reached: Reached) -> Parts:
    """A disposition without last is about every unsettled delivery before, too."""

    class Faulty(Session):
        def _disposition(self, disposition: Disposition) -> None:
            oldest = next(iter(self.unsettled), disposition.first)
            if disposition.role is RECEIVER and disposition.last is None:
                disposition.last = disposition.first
                disposition.first = reached.instead(
                    disposition.first,
                    oldest
                    if serial_numbers.before(oldest, disposition.first)
                    else disposition.first,
                )
            super()._disposition(disposition)

    return replace(parts, session=Faulty)


@amqp_settlement.mutant("AMQP10-DISP-01")
def role_not_looked_at(parts: Parts, reached: Reached) -> Parts:
    """The broker's dispositions say that they are the sender's."""

    def change(performative: Any) -> Any:
        if isinstance(performative, Disposition):
            performative.role = not performative.role
        return performative

    return saying(parts, reached, change)


@amqp_settlement.mutant("AMQP10-OUT-01 AMQP10-XFER-14")
def settled_without_outcome(parts: Parts, reached: Reached) -> Parts:
    """The broker settles what it took without telling an outcome."""

    def change(performative: Any) -> Any:
        if isinstance(performative, Disposition) and performative.role is RECEIVER:
            performative.state = None
        return performative

    return saying(parts, reached, change)


@amqp_settlement.mutant("AMQP10-XFER-24 AMQP10-OUT-02")
def another_outcome_told_later(parts: Parts, reached: Reached) -> Parts:
    """For a delivery that the broker has settled it repeats whatever outcome the peer tells
    next."""

    class Faulty(Session):
        def _disposition(self, disposition: Disposition) -> None:
            known = disposition.first in self.unsettled
            super()._disposition(disposition)
            if (
                not known
                and disposition.role is RECEIVER
                and disposition.last is None
                and disposition.state is not None
            ):
                reached()
                self.send(
                    Disposition(
                        role=not RECEIVER,
                        first=disposition.first,
                        settled=True,
                        state=disposition.state,
                    )
                )

    return replace(parts, session=Faulty)


# --- outcomes -------------------------------------------------------------------------------------


def _applying(
    parts: Parts,
    reached: Reached,
    change: Callable[[OutgoingLink, list[Delivery], Any], tuple[list[Delivery], Any]],
) -> Parts:
    """``change`` makes other deliveries and another state of those that an outcome is applied
    to."""

    class Faulty(OutgoingLink):
        def apply(self, deliveries: list[Delivery], state: Any) -> None:
            wrong, other = change(self, deliveries, state)
            if wrong != deliveries or other != state:
                reached()
            super().apply(wrong, other)

    return replace(parts, outgoing=Faulty)


def _outcome(parts: Parts, reached: Reached, change: Callable[[Any], Any]) -> Parts:
    return _applying(parts, reached, lambda link, deliveries, state: (deliveries, change(state)))


@amqp_settlement.mutant(f"{BACK} AMQP10-OUT-02 ARTEMIS-REDELIVERY-back-1")
def released_is_gone(parts: Parts, reached: Reached) -> Parts:
    """A released message is gone."""
    return _outcome(
        parts, reached, lambda state: Accepted() if isinstance(state, Released) else state
    )


@amqp_settlement.mutant("AMQP10-TERM-08 AMQP10-OUT-02 AMQP10-OUT-19")
def accepted_comes_again(parts: Parts, reached: Reached) -> Parts:
    """An accepted message goes back to its queue."""
    return _outcome(
        parts, reached, lambda state: Released() if isinstance(state, Accepted) else state
    )


@amqp_settlement.mutant(f"AMQP10-OUT-08 {COUNTED}")
def release_counts(parts: Parts, reached: Reached) -> Parts:
    """A release counts as a failed attempt."""
    return _outcome(
        parts,
        reached,
        lambda state: Modified(delivery_failed=True) if isinstance(state, Released) else state,
    )


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


@amqp_settlement.mutant(f"AMQP10-OUT-11 {COUNTED}")
def failures_not_counted(parts: Parts, reached: Reached) -> Parts:
    """delivery-failed is not looked at."""
    return _outcome(parts, reached, _modified(delivery_failed=None))


@amqp_settlement.mutant(f"AMQP10-OUT-11 {COUNTED}")
def every_modified_counts(parts: Parts, reached: Reached) -> Parts:
    """modified counts as a failed attempt whatever delivery-failed says."""
    return _outcome(parts, reached, _modified(delivery_failed=True))


@amqp_settlement.mutant("AMQP10-OUT-12")
def undeliverable_here_passed_over(parts: Parts, reached: Reached) -> Parts:
    """undeliverable-here is not looked at."""
    return _outcome(parts, reached, _modified(undeliverable_here=None))


@amqp_settlement.mutant("AMQP10-OUT-12")
def undeliverable_anywhere(parts: Parts, reached: Reached) -> Parts:
    """A message that is undeliverable here is gone."""
    return _outcome(
        parts,
        reached,
        lambda state: (
            Accepted() if isinstance(state, Modified) and state.undeliverable_here else state
        ),
    )


@amqp_settlement.mutant("AMQP10-OUT-13")
def new_annotations_passed_over(parts: Parts, reached: Reached) -> Parts:
    """message-annotations of modified are not looked at."""
    return _outcome(parts, reached, _modified(message_annotations=None))


@amqp_settlement.mutant("AMQP10-OUT-05")
def rejection_not_counted(parts: Parts, reached: Reached) -> Parts:
    """A rejected message is found among the dead letters with its delivery-count as it was."""

    class Faulty(OutgoingLink):
        def apply(self, deliveries: list[Delivery], state: Any) -> None:
            if isinstance(state, Rejected):
                for each in deliveries:
                    reached()
                    each.entry.failures -= 1
            super().apply(deliveries, state)

    return replace(parts, outgoing=Faulty)


@amqp_settlement.mutant("AMQP10-OUT-06")
def reason_of_rejection_lost(parts: Parts, reached: Reached) -> Parts:
    """The error of a rejection is not kept."""
    return _outcome(
        parts, reached, lambda state: Rejected() if isinstance(state, Rejected) else state
    )


@amqp_settlement.mutant("AMQP10-OUT-03")
def default_is_accepted(parts: Parts, reached: Reached) -> Parts:
    """What is settled without an outcome counts as accepted, whatever default-outcome the source
    names."""

    class Faulty(OutgoingLink):
        def disposed(self, deliveries: list[Delivery], state: Any, settled: bool) -> None:
            if settled and state is None:
                reached()
                state = Accepted()
            super().disposed(deliveries, state, settled)

    return replace(parts, outgoing=Faulty)


@amqp_settlement.mutant("AMQP10-OUT-02 AMQP10-DISP-03")
def outcomes_need_settlement(parts: Parts, reached: Reached) -> Parts:
    """An outcome that is told without settling is not remembered: settled later without a state, it
    is the default."""

    class Faulty(OutgoingLink):
        def disposed(self, deliveries: list[Delivery], state: Any, settled: bool) -> None:
            if not settled and not isinstance(state, TransactionalState):
                reached()
                return
            super().disposed(deliveries, state, settled)

    return replace(parts, outgoing=Faulty)


@amqp_settlement.mutant(f"{COUNTED} AMQP10-MSG-01")
def attempts_counted_from_one(parts: Parts, reached: Reached) -> Parts:
    """delivery-count is the number of attempts, the present one included."""

    class Faulty(OutgoingLink):
        def deliver(self, entry: Entry) -> None:
            reached()
            entry.failures += 1
            super().deliver(entry)
            entry.failures -= 1

    return replace(parts, outgoing=Faulty)


@amqp_settlement.mutant("AMQP10-OUT-04 AMQP10-TERM-04 AMQP10-TERM-08")
def copies_count(parts: Parts, reached: Reached) -> Parts:
    """A copy counts as a failed attempt of its message."""

    class Faulty(OutgoingLink):
        def show(self, entry: Entry) -> None:
            super().show(entry)
            reached()
            entry.failures += 1

    return replace(parts, outgoing=Faulty)


@amqp_settlement.mutant("AMQP10-TERM-08")
def copies_come_again(parts: Parts, reached: Reached) -> Parts:
    """A copying link is shown everything again when it has seen all."""

    class Faulty(OutgoingLink):
        def offer(self) -> None:
            if (
                self.copies
                and not self._stopped
                and self.cursor
                and self.queue.unseen(self, self._selector) == 0
            ):
                reached()
                self.cursor = 0
            super().offer()

    return replace(parts, outgoing=Faulty)


@amqp_settlement.mutant("AMQP10-TERM-04 AMQP10-LINK-05")
def copies_are_taken(parts: Parts, reached: Reached) -> Parts:
    """A link of distribution-mode copy takes messages as any other does."""

    class Faulty(OutgoingLink):
        def _check(self, source: Any) -> None:
            super()._check(source)
            self.said = self.copies

        def attach(self, attach: Any) -> None:
            right, self._session_send = self.session.send, None

            def send(performative: Any) -> None:
                right(performative)
                if self.copies:
                    reached()
                    self.copies = False

            self.session.send = send  # type: ignore[method-assign]
            try:
                super().attach(attach)
            finally:
                del self.session.send

    return replace(parts, outgoing=Faulty)


@amqp_settlement.mutant("ARTEMIS-GROUPING-fifo-1")
def given_back_to_the_end(parts: Parts, reached: Reached) -> Parts:
    """What an AMQP consumer gives back goes to the end of its queue."""

    class Faulty(Queue):
        def settle(self, entries: Sequence[Entry], outcome: Outcome) -> None:
            before = set(map(id, self._ready))
            super().settle(entries, outcome)
            back = [each for each in self._ready if id(each) not in before]
            if back and len(back) < len(self._ready):
                others = [each for each in self._ready if id(each) in before]
                if [*others, *back] != list(self._ready):
                    reached()
                    for each in back:
                        self._order += 1
                        each.order = self._order
                    self._ready.clear()
                    self._ready.extend([*others, *back])

    return replace(parts, queue=Faulty)


@amqp_settlement.mutant(f"{BACK} ARTEMIS-REDELIVERY-back-1 {COUNTED}")
def kept_is_lost(parts: Parts, reached: Reached) -> Parts:
    """What a link holds when it ends is lost."""

    class Faulty(OutgoingLink):
        def give_back(self) -> list[Queue]:
            held = [each for each in self.session.unsettled.values() if each.link is self]
            if held:
                reached()
                self.forget(held)
                self.apply(held, Accepted())
            return super().give_back()

    return replace(parts, outgoing=Faulty)


# --- transactions ---------------------------------------------------------------------------------


@amqp_transactions.mutant("AMQP10-TXN-06")
def posts_seen_at_once(parts: Parts, reached: Reached) -> Parts:
    """A message posted in a transaction can be had before the discharge."""

    class Faulty(IncomingLink):
        def _take(self, message: Any, send: Any) -> Any:
            if send is not None:
                reached()
            return super()._take(message, None)

    return replace(parts, incoming=Faulty)


@amqp_transactions.mutant("AMQP10-TXN-09 AMQP10-TXN-10")
def outcomes_apply_at_once(parts: Parts, reached: Reached) -> Parts:
    """An outcome in a transaction applies at once."""

    class Faulty(OutgoingLink):
        def disposed(self, deliveries: list[Delivery], state: Any, settled: bool) -> None:
            if isinstance(state, TransactionalState):
                reached()
                state = state.outcome
            super().disposed(deliveries, state, True)

    return replace(parts, outgoing=Faulty)


def _ending(parts: Parts, reached: Reached, commit: bool) -> Parts:
    class Faulty(CoordinatorLink):
        def _discharge(self, arrival: Arrival, discharge: Discharge) -> Any:
            if discharge.fail is not (not commit):
                reached()
                discharge.fail = not commit
            return super()._discharge(arrival, discharge)

    return replace(parts, coordinator=Faulty)


@amqp_transactions.mutant("AMQP10-TXN-05 AMQP10-TXN-07 AMQP10-TXN-06 AMQP10-TXN-10 AMQP10-TXN-13")
def rollback_succeeds(parts: Parts, reached: Reached) -> Parts:
    """A discharge with fail does everything all the same."""
    return _ending(parts, reached, commit=True)


@amqp_transactions.mutant("AMQP10-TXN-05 AMQP10-TXN-06 AMQP10-TXN-07 AMQP10-TXN-09")
def success_rolls_back(parts: Parts, reached: Reached) -> Parts:
    """A discharge without fail does nothing."""
    return _ending(parts, reached, commit=False)


@amqp_transactions.mutant("AMQP10-TXN-14")
def a_lost_controller_commits(parts: Parts, reached: Reached) -> Parts:
    """A transaction whose control link ends is committed."""

    class Faulty(CoordinatorLink):
        def give_back(self) -> list[Queue]:
            queues: list[Queue] = []
            for id, transaction in self._opened.items():
                reached()
                del self.session.connection.transactions[id]
                queues += transaction.commit()
            self._opened.clear()
            return queues

    return replace(parts, coordinator=Faulty)


@amqp_transactions.mutant("AMQP10-TXN-04")
def unknown_ids_accepted(parts: Parts, reached: Reached) -> Parts:
    """A discharge with an unknown id is accepted."""

    class Faulty(CoordinatorLink):
        def _discharge(self, arrival: Arrival, discharge: Discharge) -> Any:
            if discharge.txn_id not in self._opened:
                reached()
                return ACCEPTED
            return super()._discharge(arrival, discharge)

    return replace(parts, coordinator=Faulty)


@amqp_transactions.mutant("AMQP10-TXN-03")
def global_ids_taken(parts: Parts, reached: Reached) -> Parts:
    """A declare that asks for a global transaction gets a local one."""

    class Faulty(CoordinatorLink):
        def _declare(self, arrival: Arrival, declare: Declare) -> Any:
            if declare.global_id is not None:
                reached()
                declare.global_id = None
            return super()._declare(arrival, declare)

    return replace(parts, coordinator=Faulty)


@amqp_transactions.mutant("AMQP10-TXN-02")
def settled_declares_taken(parts: Parts, reached: Reached) -> Parts:
    """A declare that was sent settled is taken."""

    class Faulty(CoordinatorLink):
        def _declare(self, arrival: Arrival, declare: Declare) -> Any:
            if arrival.settled:
                reached()
                return ACCEPTED
            return super()._declare(arrival, declare)

    return replace(parts, coordinator=Faulty)


@amqp_transactions.mutant("AMQP10-TXN-06 AMQP10-TXN-04")
def unknown_posts_taken(parts: Parts, reached: Reached) -> Parts:
    """A post in a transaction nobody declared is taken as if there were none."""

    class Faulty(IncomingLink):
        def arrived(self, arrival: Arrival) -> Any:
            state = arrival.state
            if (
                isinstance(state, TransactionalState)
                and state.txn_id not in self.session.connection.transactions
            ):
                reached()
                arrival.state = None
            return super().arrived(arrival)

    return replace(parts, incoming=Faulty)


@amqp_transactions.mutant("AMQP10-TXN-08")
def discharge_does_not_wait(parts: Parts, reached: Reached) -> Parts:
    """A discharge ahead of the last transfer of a post is accepted."""

    class Faulty(CoordinatorLink):
        def _discharge(self, arrival: Arrival, discharge: Discharge) -> Any:
            try:
                return super()._discharge(arrival, discharge)
            except Refusal as problem:
                if problem.fault is not refusal.DISCHARGE_TOO_EARLY:
                    raise
                reached()
                return ACCEPTED

    return replace(parts, coordinator=Faulty)


@amqp_transactions.mutant("AMQP10-TXN-15")
def failed_posts_do_not_doom(parts: Parts, reached: Reached) -> Parts:
    """A settled post that cannot be routed does not keep its transaction from success."""

    class Faulty(CoordinatorLink):
        def _discharge(self, arrival: Arrival, discharge: Discharge) -> Any:
            transaction: LiveTransaction | None = self._opened.get(discharge.txn_id)
            if transaction is not None and transaction.doomed is not None:
                reached()
                transaction.doomed = None
            return super()._discharge(arrival, discharge)

    return replace(parts, coordinator=Faulty)
