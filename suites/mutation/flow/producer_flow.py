"""Faults of ActiveMQ's producer flow control: who waits, when, for how long, and how producers
continue."""

from dataclasses import replace
from unittest import mock

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.families.activemq.cursor import (
    CURSORS,
    Cursor,
    FileCursor,
    StoreCursor,
)
from brokerproof.reference_broker.families.activemq.producer_flow import (
    NoSpace,
    PendingSend,
    ProducerFlow,
    SendOutcome,
)
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.kernel.queue_and_topic_names import is_topic
from brokerproof.reference_broker.protocols.amqp10 import conditions
from brokerproof.reference_broker.protocols.amqp10.blocking_link import WaitingLink
from brokerproof.reference_broker.protocols.amqp10.incoming import ACCEPTED
from brokerproof.reference_broker.protocols.openwire.connection import OpenWireConnection
from brokerproof.reference_broker.protocols.stomp.activemq import ActiveMqStompConnection
from brokerproof.reference_broker.settings.activemq import Cursor as Kind
from brokerproof.suites.mutation.mutant import Group

full_places = Group("full-places", "reference-activemq-flow")
usage_limits = Group("usage-limits", "reference-activemq-usage")
no_space = Group("no-space", "reference-activemq-fail")
no_space_later = Group("no-space-later", "reference-activemq-timeout")

ONE_BY_ONE = "ACTIVEMQ-PFC-1"
WAITS = "ACTIVEMQ-PFC-2"
SWITCHED_OFF = "ACTIVEMQ-PFC-6"
ORDER = "ACTIVEMQ-ORDER-1"
FILES = "ACTIVEMQ-PFC-7"
STALLS = "ACTIVEMQ-PFC-8"
AT_ONCE = "ACTIVEMQ-PFC-9"
LATER = "ACTIVEMQ-PFC-10"
LIMITS = "ACTIVEMQ-PFC-11"


# --- the limit ------------------------------------------------------------------------------------


@full_places.result(ProducerFlow, "memory_is_short", breaks=WAITS)
def full_above_the_limit(right, self, account):
    """A queue whose memory is exactly used up accepts one more message."""
    return right and account.memory.used != account.memory.limit


@full_places.result(ProducerFlow, "memory_is_short", breaks=WAITS)
def full_a_byte_early(right, self, account):
    """A queue is full when one byte of its memory is left."""
    limit = account.memory.limit
    return right or (account.entry.producer_flow_control and account.memory.used == limit - 1)


@full_places.result(ProducerFlow, "memory_is_short", breaks=SWITCHED_OFF)
def flow_control_cannot_be_switched_off(right, self, account):
    """producerFlowControl="false" has no effect."""
    return account.memory.full()


@full_places.result(ProducerFlow, "memory_is_short", breaks="ACTIVEMQ-PFC-2 ACTIVEMQ-PFC-6")
def topics_have_no_limit(right, self, account):
    """No producer waits at a topic."""
    return right and not is_topic(account.name)


@full_places.skips(Queue, "discard", breaks=WAITS)
def what_expired_keeps_its_memory(self, entry):
    """A message that expires where it waits goes on using memory."""
    return self._has_expired(entry.message)


@full_places.before(Queue, "settle", breaks=WAITS)
def what_was_refused_keeps_its_memory(reached, self, entries, outcome):
    """A message that a consumer refuses goes on using memory."""
    for entry in entries if reached(outcome is Outcome.REJECTED) else ():
        entry.charge = None


# --- waiting producers ----------------------------------------------------------------------------


@full_places.override(ProducerFlow, "send", breaks="OPENWIRE-TX-1 STOMP11-BEGIN-02")
def what_waits_outlives_its_transaction(original, reached, self, sending):
    """A message that waited for room while its transaction ended is published."""
    if sending.transaction is None:
        return original(self, sending)
    lives, add = sending.is_live, sending.publish
    owner = getattr(add.func, "__self__", None)
    router = add.args[0] if owner is None else owner.shared.router

    def publish():
        return add() if lives() else router.publish(reached.instead(None, sending.message))

    return original(self, replace(sending, is_live=lambda: True, publish=publish))


@full_places.result(ProducerFlow, "parks", breaks=ONE_BY_ONE)
def the_second_stalls(right, self, account, sending):
    """A send that waits for an answer stalls its connection if another send already waits
    elsewhere."""
    return right and not self._waiting


@full_places.result(ProducerFlow, "parks", breaks=STALLS)
def nobody_stalls(right, self, account, sending):
    """A send without a requested answer waits, but its connection continues."""
    return True


@full_places.override(ProducerFlow, "send", breaks="ACTIVEMQ-PFC-3 ACTIVEMQ-PFC-2 ACTIVEMQ-PFC-5")
def answered_before_there_is_space(original, reached, self, sending):
    """A send without space is answered immediately, and added later."""
    fate = original(
        self, replace(sending, settled=lambda problem: None) if sending.answered else sending
    )
    if reached(fate is SendOutcome.PARKED):
        return SendOutcome.TAKEN
    return fate


@full_places.before(ProducerFlow, "send", breaks="ACTIVEMQ-PFC-3 ACTIVEMQ-PFC-2")
def who_asks_for_nothing_is_told(reached, self, sending):
    """A send without receipt to a full queue fails with an error."""
    account = self.accounting.find(sending.destination)
    if reached(not sending.answered and self.memory_is_short(account)):
        raise NoSpace("there is none")


@full_places.result(WaitingLink, "take", breaks="ACTIVEMQ-PFC-3 ACTIVEMQ-PFC-2")
def deliveries_are_settled_before_there_is_space(state, self, *arguments):
    """An AMQP delivery that waits is settled immediately."""
    return ACCEPTED if state is None else state


def _there_is_space(flow: ProducerFlow) -> bool:
    """True if a producer waits although there is space."""
    return any(
        not flow.memory_is_short(place.account)
        for there in flow._waiting.values()
        for place in there.values()
    )


# --- how producers continue -----------------------------------------------------------------------


@full_places.override(ProducerFlow, "next", breaks=WAITS)
def who_waits_waits_for_ever(original, reached, self):
    """Waiting producers never continue."""
    reached(_there_is_space(self))
    return


@full_places.override(ProducerFlow, "next", breaks=WAITS)
def the_last_is_first(original, reached, self):
    """Producers waiting for a queue continue in reverse order."""
    for there in self._waiting.values():
        reached(len(there) > 1)
        turned = dict(reversed(there.items()))
        there.clear()
        there.update(turned)
        right = original(self)
        turned = dict(sorted(there.items()))
        there.clear()
        there.update(turned)
        return right
    return None


@full_places.mutant("ACTIVEMQ-ORDER-1 ACTIVEMQ-PFC-2")
def who_waits_is_overtaken(patch, reached):
    """Waiting producers continue only at the next input after space appeared."""
    patch.set(ProducerFlow, "_missed", False)

    @patch.override(ProducerFlow)
    def next(original, self):
        if self._waiting and not self._missed:
            self._missed = True
            reached(_there_is_space(self))
            return None
        self._missed = False
        return original(self)


@full_places.after(Cursor, "remove", breaks=WAITS)
def memory_is_not_given_back(reached, self, claim):
    """A consumed message stays charged to the memory of its queue."""
    if reached(type(self) is Cursor):
        self.memory.add(claim.cost)


@full_places.override(ActiveMqStompConnection, "_read_again", breaks=f"{STALLS} {WAITS}")
def a_stalled_connection_is_not_read_again(original, reached, self, reason):
    """A stalled connection stays stalled once there is space."""
    reached()


# --- cursors --------------------------------------------------------------------------------------


@full_places.mutant(FILES)
def files_are_not_used(patch, reached):
    """A queue with a cursor in files keeps everything in memory."""
    patch.set(CURSORS, Kind.FILE, Cursor)

    @patch.after(Cursor)
    def add(self, claim):
        reached(self.memory.percent >= self._mark)


@full_places.mutant("ACTIVEMQ-PFC-7 ACTIVEMQ-PFC-2")
def memory_is_not_used(patch, reached):
    """A queue that should keep everything in memory spools to files."""
    patch.set(CURSORS, Kind.VM, FileCursor)

    @patch.before(FileCursor)
    def clear_away(self, claim, size):
        reached()


@full_places.override(FileCursor, "drops", breaks=FILES)
def what_goes_to_files_is_dropped(original, reached, self, claim):
    """Messages in memory are lost when memory is cleared."""
    reached()
    return True


# --- limits of the whole broker -------------------------------------------------------------------


@usage_limits.result(ProducerFlow, "memory_is_short", breaks=LIMITS)
def memory_of_the_broker_has_no_limit(right, self, account):
    """Only the memory of the queue itself counts."""
    return (
        account.entry.producer_flow_control
        and account.entry.memory_limit > 0
        and account.memory.percent >= 100
    )


@usage_limits.result(ProducerFlow, "store_is_short", breaks=LIMITS)
def the_store_has_no_limit(right, self, account, persistent):
    """Persistent messages are accepted even if the store is full."""
    return right and not persistent


@usage_limits.result(ProducerFlow, "store_is_short", breaks="ACTIVEMQ-PFC-11 ACTIVEMQ-PFC-12")
def the_temporary_store_has_no_limit(right, self, account, persistent):
    """Non-persistent messages are accepted even if the temporary store is full."""
    return right and persistent


@usage_limits.override(ProducerFlow, "store_is_short", breaks=LIMITS)
def each_kind_waits_for_the_other(original, reached, self, account, persistent):
    """Persistent messages wait for the temporary store, and others for the store."""
    return reached.instead(
        original(self, account, persistent), original(self, account, not persistent)
    )


@usage_limits.after(StoreCursor, "remove", breaks=LIMITS)
def the_store_is_not_given_back(reached, self, claim):
    """A consumed message stays in the store."""
    if reached(claim.persistent):
        self.usage.store.add(claim.cost)


# --- no space: immediate failure ------------------------------------------------------------------


@no_space.override(ProducerFlow, "_fails", breaks=AT_ONCE)
def it_waits_all_the_same(original, reached, self, account):
    """sendFailIfNoSpace has no effect."""
    reached()
    return False, 0


@no_space.override(ProducerFlow, "send", breaks=AT_ONCE)
def refused_and_added(original, reached, self, sending):
    """A message refused for lack of space is added nevertheless."""
    try:
        return original(self, sending)
    except NoSpace:
        reached()
        sending.publish()
        raise


@no_space.after(PendingSend, "failure", breaks="STOMP12-BEGIN-03")
def the_rest_of_a_transaction_is_committed(reached, self, reason):
    """A SEND without room is missing from its transaction, whose COMMIT is confirmed."""
    if reached(self.transaction is not None and self.transaction.doomed is not None):
        self.transaction.doomed = None


@no_space.before(ProducerFlow, "send", breaks=AT_ONCE)
def refused_while_there_is_space(reached, self, sending):
    """A message is refused if it would exceed the limit."""
    account = self.accounting.find(sending.destination)
    left = account.memory.limit - account.memory.used
    if reached(account.entry.memory_limit and 0 < left < account.cost(sending.message)):
        raise NoSpace("there is too little")


@no_space.after(ActiveMqStompConnection, "_tell_no_space", breaks=AT_ONCE)
def a_refusal_closes(reached, self, frame, problem):
    """The ERROR for a SEND without space ends the connection."""
    reached()
    self.close()


@no_space.override(ActiveMqStompConnection, "submit", breaks=AT_ONCE)
def confirmed_and_lost(original, reached, self, frame, *arguments):
    """A SEND without space is confirmed and lost."""
    refusals: list[NoSpace] = []
    self._tell_no_space = lambda frame, problem: refusals.append(problem)  # type: ignore[method-assign]
    after = original(self, frame, *arguments)
    if reached(refusals):
        return None
    return after


@no_space.override(WaitingLink, "_not_taken", breaks=AT_ONCE)
def another_reason_is_given(original, reached, self, condition, description):
    """An AMQP delivery without space is rejected as if it were unreadable."""
    return original(self, reached.instead(condition, conditions.DECODE_ERROR), description)


# --- no space: failure after a time-out -----------------------------------------------------------


def _failing_after(patch, reached, change):
    @patch.override(ProducerFlow)
    def _wait(original, self, sending, account, after_ms):
        original(self, sending, account, reached.instead(after_ms, change(after_ms)))


@no_space_later.variant(_failing_after, lambda after_ms: after_ms - 1, breaks=LATER)
def a_little_early():
    """A send fails a millisecond before its time is up."""


@no_space_later.variant(_failing_after, lambda after_ms: after_ms + 500, breaks=LATER)
def too_late():
    """A send fails half a second after its time is up."""


@no_space_later.variant(_failing_after, lambda after_ms: 0, breaks=LATER)
def never():
    """sendFailIfNoSpaceAfterTimeout has no effect."""


@no_space_later.override(ProducerFlow, "_wait", breaks=LATER)
def a_stalled_connection_stays_stalled(original, reached, self, sending, account, after_ms):
    """Only producers waiting for an answer fail after the time-out."""
    original(self, sending, account, reached.instead(after_ms, after_ms if sending.answered else 0))


@no_space_later.after(ProducerFlow, "_on_timeout", breaks=LATER)
def added_after_it_failed(reached, self, waiting, now):
    """A failed send is added once there is space."""
    reached()
    self._wait(replace(waiting.sending, settled=lambda problem: None), waiting.account, 0)


@full_places.override(OpenWireConnection, "go_on", breaks="ACTIVEMQ-PFC-8")
def what_arrived_with_a_stalled_message_waits(original, reached, self, request):
    """Commands that were read with a message that stalled wait for the next bytes."""
    with mock.patch.object(self, "_carry_out", side_effect=reached):
        original(self, request)
