"""Faults of addresses that are full: what is counted, when it is enough, what happens then, and how
it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from brokerproof.harness.model.enums import FullPolicy
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.families.artemis.accounting import Account, Accounting, Charge
from brokerproof.reference_broker.families.artemis.admission import Admission
from brokerproof.reference_broker.kernel.admission import Verdict
from brokerproof.reference_broker.kernel.credit import ReceiverCredit
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.protocols.amqp10 import conditions
from brokerproof.reference_broker.protocols.amqp10.incoming import IncomingLink
from brokerproof.reference_broker.protocols.amqp10.producer_credit import ProducerCredit
from brokerproof.reference_broker.protocols.stomp.commands import After
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.frame import Frame
from brokerproof.suites.mutation.mutant import Group, Reached, rewritten
from brokerproof.suites.mutation.stomp.acks import commanded

full_addresses = Group("full-addresses")

POLICIES, ONE_COPY, UNBLOCK, MESSAGES = (f"ARTEMIS-PAGING-{number}" for number in (8, 9, 12, 13))
WAIT = "ARTEMIS-FLOW-block-1"
NO_CREDIT, OVERSHOOT, REJECTS = (f"ARTEMIS-FLOW-amqp-{number}" for number in (2, 3, 4))


def counting(parts: Parts, account: type[Account]) -> Parts:
    """``parts`` with other accounts of addresses."""

    class Faulty(Accounting):
        account_class = account

    return replace(parts, accounting=Faulty)


# --- when it is full ------------------------------------------------------------------------------


@full_addresses.mutant(f"{POLICIES} {NO_CREDIT}")
def full_above_the_limit(parts: Parts, reached: Reached) -> Parts:
    """An address is full when it has more octets than its limit."""

    class Faulty(Account):
        @property
        def full(self) -> bool:
            if self.size != self._max_size:
                return super().full
            reached()
            return False

    return counting(parts, Faulty)


@full_addresses.mutant(f"{POLICIES} {NO_CREDIT}")
def full_an_octet_early(parts: Parts, reached: Reached) -> Parts:
    """An address is full when one octet is missing to its limit."""

    class Faulty(Account):
        @property
        def full(self) -> bool:
            if self.size != self._max_size - 1:
                return super().full
            reached()
            return True

    return counting(parts, Faulty)


@full_addresses.mutant(f"{MESSAGES} {NO_CREDIT}", recreates="ARTEMIS-3940")
def messages_not_counted(parts: Parts, reached: Reached) -> Parts:
    """max-size-messages has no effect."""

    class Faulty(Account):
        @property
        def full(self) -> bool:
            right, limit = super().full, self._max_messages
            self._max_messages = -1
            wrong = super().full
            self._max_messages = limit
            return reached.instead(right, wrong)

    return counting(parts, Faulty)


@full_addresses.mutant(f"{UNBLOCK} {NO_CREDIT}")
def room_at_half_of_the_limit(parts: Parts, reached: Reached) -> Parts:
    """An address that was full has room again only when half of its limit is free."""

    class Faulty(Account):
        was = False

        @property
        def full(self) -> bool:
            right = super().full
            self.was = right or (self.was and 0 < self._max_size // 2 <= self.size)
            return reached.instead(right, self.was)

    return counting(parts, Faulty)


# --- what is counted ------------------------------------------------------------------------------


@full_addresses.mutant(f"{ONE_COPY} {UNBLOCK} {WAIT}")
def free_with_the_first_queue(parts: Parts, reached: Reached) -> Parts:
    """A message is uncharged when the first of its queues has no more use for it."""

    class Faulty(Charge):
        def release(self) -> None:
            if self._holders > 1:
                reached()
            while self._holders > 0:
                super().release()

    return charging(parts, Faulty)


@full_addresses.mutant(f"{UNBLOCK} {WAIT} {NO_CREDIT}")
def never_free(parts: Parts, reached: Reached) -> Parts:
    """What was charged once stays charged."""

    class Faulty(Charge):
        def release(self) -> None:
            reached()

    return charging(parts, Faulty)


@full_addresses.mutant(f"{NO_CREDIT} {ONE_COPY}")
def free_when_it_is_sent(parts: Parts, reached: Reached) -> Parts:
    """A message is uncharged when it is sent to a consumer, and not when that has acknowledged
    it."""

    class Link(parts.outgoing):  # type: ignore[name-defined,misc]
        def deliver(self, entry: Entry) -> None:
            super().deliver(entry)
            charge = entry.charge
            if charge is not None and not self._presettled and not self.copies:
                reached()
                entry.charge = None
                charge.release()

    return replace(parts, outgoing=Link)


def charging(parts: Parts, charge: type[Charge]) -> Parts:
    """``parts`` in which messages are charged by another ``charge``."""

    class Faulty(Account):
        new_charge = charge

    return counting(parts, Faulty)


# --- what happens then ----------------------------------------------------------------------------


def judging(
    parts: Parts, judge: Callable[[Verdict, Account, bool], Verdict], reached: Reached
) -> Parts:
    """``parts`` with another verdict about messages: of the right one, the account, and whether
    credit holds producers."""

    class Faulty(Admission):
        def judge(self, address: str, *, by_credit: bool) -> Verdict:
            right = super().judge(address, by_credit=by_credit)
            return reached.instead(right, judge(right, self._accounting.find(address), by_credit))

    return replace(parts, admission=Faulty)


@full_addresses.mutant(POLICIES)
def fail_drops(parts: Parts, reached: Reached) -> Parts:
    """Under FAIL what an address has no room for is lost silently."""
    return judging(
        parts, lambda right, _, __: Verdict.DROP if right is Verdict.REFUSE else right, reached
    )


@full_addresses.mutant(POLICIES)
def fail_takes(parts: Parts, reached: Reached) -> Parts:
    """Under FAIL everything is taken."""
    return judging(
        parts, lambda right, account, _: _instead(right, account, FullPolicy.FAIL), reached
    )


@full_addresses.mutant(POLICIES)
def drop_takes(parts: Parts, reached: Reached) -> Parts:
    """Under DROP everything is taken."""
    return judging(
        parts, lambda right, account, _: _instead(right, account, FullPolicy.DROP), reached
    )


def _instead(right: Verdict, account: Account, policy: FullPolicy) -> Verdict:
    return Verdict.TAKE if account.policy is policy else right


@full_addresses.mutant(POLICIES)
def drop_tells(parts: Parts, reached: Reached) -> Parts:
    """Under DROP producers are told."""
    return judging(
        parts, lambda right, _, __: Verdict.REFUSE if right is Verdict.DROP else right, reached
    )


@full_addresses.mutant(f"{OVERSHOOT} {POLICIES} {WAIT}")
def block_rejects(parts: Parts, reached: Reached) -> Parts:
    """Under BLOCK what comes on credit that was given before the address was full is rejected."""

    def judge(right: Verdict, account: Account, by_credit: bool) -> Verdict:
        blocked = by_credit and account.policy is FullPolicy.BLOCK and account.full
        return Verdict.REFUSE if blocked else right

    return judging(parts, judge, reached)


@full_addresses.mutant(REJECTS, recreates="ARTEMIS-2505")
def threshold_has_no_effect(parts: Parts, reached: Reached) -> Parts:
    """max-size-bytes-reject-threshold is read and never looked at."""

    class Faulty(Account):
        @property
        def rejects(self) -> bool:
            return reached.instead(super().rejects, False)

    return counting(parts, Faulty)


@full_addresses.mutant(POLICIES)
def transactions_are_not_looked_at(parts: Parts, reached: Reached) -> Parts:
    """What is sent in a transaction is taken whatever the address has room for."""

    def send(session: StompConnection, frame: Frame) -> After:
        if frame.get("transaction") is None:
            return parts.commands["SEND"](session, frame)
        admission = session.shared.admission
        session.shared.admission = Always(session.shared.accounting, reached)
        try:
            return parts.commands["SEND"](session, frame)
        finally:
            session.shared.admission = admission

    return commanded(parts, SEND=send)


class Always(Admission):
    """Takes everything."""

    def __init__(self, accounting: Accounting, reached: Reached) -> None:
        super().__init__(accounting)
        self._reached = reached

    def judge(self, address: str, *, by_credit: bool) -> Verdict:
        return self._reached.instead(super().judge(address, by_credit=by_credit), Verdict.TAKE)


@full_addresses.mutant(f"{REJECTS} {POLICIES}")
def rejected_for_no_reason(parts: Parts, reached: Reached) -> Parts:
    """What an address has no room for is rejected as an internal error."""

    class Faulty(IncomingLink):
        def _not_taken(self, condition: str, description: str) -> Any:
            if condition == conditions.RESOURCE_LIMIT_EXCEEDED:
                reached()
                condition = conditions.INTERNAL_ERROR
            return super()._not_taken(condition, description)

    return replace(parts, incoming=Faulty)


# --- who waits ------------------------------------------------------------------------------------


@full_addresses.mutant(f"{NO_CREDIT} {WAIT}")
def credit_whatever_there_is(parts: Parts, reached: Reached) -> Parts:
    """Producers get credit although their address is full."""

    class Faulty(ProducerCredit):
        def refill(
            self, credit: ReceiverCredit, unanswered: int, on_room: Callable[[], None]
        ) -> int:
            right = super().refill(credit, unanswered, on_room)
            self._admission.forget(on_room)
            if right or credit.credit > self.low - unanswered:
                return right
            return max(0, reached.instead(right, self.most - credit.credit - unanswered))

    return replace(parts, producer_credit=Faulty)


@full_addresses.mutant(f"{NO_CREDIT} {WAIT}")
def new_producers_get_credit(parts: Parts, reached: Reached) -> Parts:
    """A producer that attaches gets credit although its address is full."""

    class Faulty(ProducerCredit):
        fresh = True

        def refill(
            self, credit: ReceiverCredit, unanswered: int, on_room: Callable[[], None]
        ) -> int:
            right, fresh = super().refill(credit, unanswered, on_room), self.fresh
            self.fresh = False
            return reached.instead(right, self.most) if fresh else right

    return replace(parts, producer_credit=Faulty)


@full_addresses.mutant(f"{UNBLOCK} {WAIT} {NO_CREDIT}")
def nobody_is_told_of_room(parts: Parts, reached: Reached) -> Parts:
    """Who waits for room waits for ever."""

    class Faulty(Admission):
        def next(self) -> Callable[[], None] | None:
            if super().next() is not None:
                reached()
            return None

    return replace(parts, admission=Faulty)


@full_addresses.mutant(f"{WAIT} {POLICIES}")
def stomp_does_not_wait(parts: Parts, reached: Reached) -> Parts:
    """Under BLOCK every SEND is carried out at once."""

    class Faulty(StompConnection):
        def may_send(self, address: str) -> bool:
            reached()
            return True

    return replace(parts, stomp=Faulty)


@full_addresses.mutant(f"{WAIT} {UNBLOCK}")
def what_waited_is_lost(parts: Parts, reached: Reached) -> Parts:
    """A SEND that waited for room is confirmed then, and its message is lost."""

    def send(session: StompConnection, frame: Frame) -> After:
        if session.waited:  # type: ignore[attr-defined]
            reached()
            return None
        return parts.commands["SEND"](session, frame)

    class Faulty(StompConnection):
        waited = False

        def _read(self, now: int, data: bytes, frame: Frame | None = None) -> None:
            if frame is None or not self.shared.admission.has_room(
                self._address(frame), self._on_room
            ):
                super()._read(now, data, frame)
                return
            self.waited = True
            self._command(frame)
            self.waited = False
            super()._read(now, data)

        @staticmethod
        def _address(frame: Frame) -> str:
            return frame.head.first["destination"]

    return replace(commanded(parts, SEND=send), stomp=Faulty)


@full_addresses.mutant(WAIT)
def confirmed_before_it_waits(parts: Parts, reached: Reached) -> Parts:
    """A SEND that has to wait for room is confirmed at once."""

    class Faulty(StompConnection):
        def _wait(self, frame: Frame | None, problem: Any) -> None:
            receipt = None if frame is None else frame.get("receipt")
            if frame is not None and receipt is not None:
                reached()
                self.shared.outbox.send(self.conn, self.encoder.receipt(receipt))
                frame = rewritten(
                    frame, tuple(each for each in frame.head.headers if each[0] != "receipt")
                )
            super()._wait(frame, problem)

    return replace(parts, stomp=Faulty)
