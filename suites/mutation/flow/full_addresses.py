"""Faults of full addresses: accounting, threshold, policy, and recovery."""

from unittest import mock

from brokerproof.harness.model.enums import FullPolicy
from brokerproof.reference_broker.families.artemis.accounting import (
    Accounting,
    AddressAccount,
    Charge,
)
from brokerproof.reference_broker.families.artemis.admission import Admission
from brokerproof.reference_broker.kernel.admission import Verdict
from brokerproof.reference_broker.protocols.amqp10 import conditions
from brokerproof.reference_broker.protocols.amqp10.incoming import IncomingLink
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.producer_credit import ProducerCredit
from brokerproof.reference_broker.protocols.stomp import commands
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.suites.mutation.mutant import Group, Reached, breaks, without

full_addresses = Group("full-addresses")

POLICIES = "ARTEMIS-PAGING-8"
WAIT = "ARTEMIS-FLOW-block-1"
REJECTS = "ARTEMIS-FLOW-amqp-4"


# --- the limit ------------------------------------------------------------------------------------


@full_addresses.override(AddressAccount, "full", breaks="ARTEMIS-PAGING-8 ARTEMIS-FLOW-amqp-2")
def full_above_the_limit(original, reached, self):
    """An address is full only above its limit."""
    if self.size != self._max_size:
        return original(self)
    reached()
    return False


@full_addresses.override(AddressAccount, "full", breaks="ARTEMIS-PAGING-8 ARTEMIS-FLOW-amqp-2")
def full_a_byte_early(original, reached, self):
    """An address is full one byte below its limit."""
    if self.size != self._max_size - 1:
        return original(self)
    reached()
    return True


@full_addresses.override(AddressAccount, "full", recreates="ARTEMIS-3940")
@breaks("ARTEMIS-PAGING-13 ARTEMIS-FLOW-amqp-2")
def messages_not_counted(original, reached, self):
    """max-size-messages has no effect."""
    right, limit = original(self), self._max_messages
    self._max_messages = -1
    wrong = original(self)
    self._max_messages = limit
    return reached.instead(right, wrong)


@full_addresses.mutant("ARTEMIS-PAGING-12 ARTEMIS-FLOW-amqp-2")
def room_at_half_of_the_limit(patch, reached):
    """A full address has room again only when half of its limit is free."""
    patch.set(AddressAccount, "was", False)

    @patch.result(AddressAccount)
    def full(right, self):
        self.was = right or (self.was and 0 < self._max_size // 2 <= self.size)
        return reached.instead(right, self.was)


# --- charges --------------------------------------------------------------------------------------


@full_addresses.override(Charge, "release", breaks=f"ARTEMIS-PAGING-9 ARTEMIS-PAGING-12 {WAIT}")
def free_with_the_first_queue(original, reached, self):
    """A message's charge ends with the first of its queues."""
    reached(self._holders > 1)
    while self._holders > 0:
        original(self)


@full_addresses.override(Charge, "release", breaks=f"ARTEMIS-PAGING-12 {WAIT} ARTEMIS-FLOW-amqp-2")
def never_free(original, reached, self):
    """A charge is never released."""
    reached()


@full_addresses.after(OutgoingLink, "deliver", breaks="ARTEMIS-FLOW-amqp-2 ARTEMIS-PAGING-9")
def free_when_it_is_sent(reached, self, entry):
    """A message's charge ends when it is sent, not when it is acknowledged."""
    charge = entry.charge
    if reached(charge is not None and not self._presettled and not self.copies):
        entry.charge = None
        charge.release()


# --- policies -------------------------------------------------------------------------------------


def judging(patch, judge, reached):
    """Replace the verdict on a message. ``judge`` gets the correct verdict, the account, and
    whether credit holds producers back."""

    @patch.result(Admission, "judge")
    def admission_judge(right, self, address, *, by_credit):
        return reached.instead(right, judge(right, self._accounting.find(address), by_credit))


@full_addresses.mutant(POLICIES)
def fail_drops(patch, reached):
    """Under FAIL, messages without room are silently dropped."""
    judging(patch, lambda right, _, __: Verdict.DROP if right is Verdict.REFUSE else right, reached)


@full_addresses.mutant(POLICIES)
def fail_takes(patch, reached):
    """Under FAIL, everything is accepted."""
    judging(patch, lambda right, account, _: _instead(right, account, FullPolicy.FAIL), reached)


@full_addresses.mutant(POLICIES)
def drop_takes(patch, reached):
    """Under DROP, everything is accepted."""
    judging(patch, lambda right, account, _: _instead(right, account, FullPolicy.DROP), reached)


def _instead(right: Verdict, account: AddressAccount, policy: FullPolicy) -> Verdict:
    return Verdict.TAKE if account.policy is policy else right


@full_addresses.mutant(POLICIES)
def drop_tells(patch, reached):
    """Under DROP, producers get an error."""
    judging(patch, lambda right, _, __: Verdict.REFUSE if right is Verdict.DROP else right, reached)


@full_addresses.mutant("ARTEMIS-FLOW-amqp-3 ARTEMIS-PAGING-8 ARTEMIS-FLOW-block-1")
def block_rejects(patch, reached):
    """Under BLOCK, messages on earlier credit are rejected."""

    def judge(right: Verdict, account: AddressAccount, by_credit: bool) -> Verdict:
        blocked = by_credit and account.policy is FullPolicy.BLOCK and account.full
        return Verdict.REFUSE if blocked else right

    judging(patch, judge, reached)


@full_addresses.result(AddressAccount, "rejects", breaks=REJECTS, recreates="ARTEMIS-2505")
def threshold_has_no_effect(right, self):
    """max-size-bytes-reject-threshold has no effect."""
    return False


@full_addresses.override(COMMANDS, "SEND", breaks=POLICIES)
def transactions_are_not_looked_at(original, reached, session, frame):
    """Messages sent in a transaction are accepted without room at the address."""
    if frame.get("transaction") is None:
        return original(session, frame)
    always = Always(session.shared.accounting, reached)
    with mock.patch.object(session.shared, "admission", always):
        return original(session, frame)


class Always(Admission):
    def __init__(self, accounting: Accounting, reached: Reached) -> None:
        super().__init__(accounting)
        self._reached = reached

    def judge(self, address: str, *, by_credit: bool) -> Verdict:
        return self._reached.instead(super().judge(address, by_credit=by_credit), Verdict.TAKE)


@full_addresses.override(IncomingLink, "_not_taken", breaks="ARTEMIS-FLOW-amqp-4 ARTEMIS-PAGING-8")
def rejected_for_no_reason(original, reached, self, condition, description):
    """A message without room is rejected with internal-error."""
    if reached(condition == conditions.RESOURCE_LIMIT_EXCEEDED):
        condition = conditions.INTERNAL_ERROR
    return original(self, condition, description)


# --- waiting producers ----------------------------------------------------------------------------


@full_addresses.override(ProducerCredit, "refill", breaks=f"ARTEMIS-FLOW-amqp-2 {WAIT}")
def credit_whatever_there_is(original, reached, self, credit, unanswered, on_room):
    """Producers get credit although their address is full."""
    right = original(self, credit, unanswered, on_room)
    self._admission.forget(on_room)
    if right or credit.credit > self.low - unanswered:
        return right
    return max(0, reached.instead(right, self.most - credit.credit - unanswered))


@full_addresses.mutant("ARTEMIS-FLOW-amqp-2 ARTEMIS-FLOW-block-1")
def new_producers_get_credit(patch, reached):
    """A producer that attaches gets credit although its address is full."""
    patch.set(ProducerCredit, "fresh", True)

    @patch.override(ProducerCredit)
    def refill(original, self, credit, unanswered, on_room):
        right, fresh = original(self, credit, unanswered, on_room), self.fresh
        self.fresh = False
        return reached.instead(right, self.most) if fresh else right


@full_addresses.override(Admission, "next", breaks=f"ARTEMIS-PAGING-12 {WAIT} ARTEMIS-FLOW-amqp-2")
def nobody_is_told_of_room(original, reached, self):
    """A producer that waits for room waits forever."""
    reached(original(self) is not None)
    return


@full_addresses.override(commands, "may_send", breaks="ARTEMIS-FLOW-block-1 ARTEMIS-PAGING-8")
def stomp_does_not_wait(original, reached, session, address):
    """Under BLOCK, every SEND is executed immediately."""
    reached()
    return True


@full_addresses.mutant("ARTEMIS-FLOW-block-1 ARTEMIS-PAGING-12")
def what_waited_is_lost(patch, reached):
    """A SEND that waited for room is confirmed, but its message is lost."""
    waited = set()

    @patch.override(COMMANDS, "SEND")
    def send(original, session, frame):
        if reached(session in waited):
            return None
        return original(session, frame)

    @patch.override(StompConnection)
    def _read(original, self, now, data, frame=None):
        if frame is None or not self.shared.admission.has_room(
            frame.head.first["destination"], self.on_room
        ):
            original(self, now, data, frame)
            return
        waited.add(self)
        self._command(frame)
        waited.remove(self)
        original(self, now, data)


@full_addresses.override(StompConnection, "_wait", breaks=WAIT)
def confirmed_before_it_waits(original, reached, self, frame, problem):
    """A SEND that must wait for room is confirmed immediately."""
    receipt = None if frame is None else frame.get("receipt")
    if reached(frame is not None and receipt is not None):
        self.shared.outbox.send(self.conn, self.encoder.receipt(receipt))
        frame = without(frame, "receipt")
    original(self, frame, problem)
