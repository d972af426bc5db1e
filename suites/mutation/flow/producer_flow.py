"""Faults of producer flow control as ActiveMQ has it: who waits, from when on, for how long, and
how it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.families.activemq.cursor import (
    CURSORS,
    Cursor,
    FileCursor,
    QueueClaim,
)
from brokerproof.reference_broker.families.activemq.producer_flow import (
    Fate,
    NoSpace,
    ProducerFlow,
    Sending,
    _Waiting,
)
from brokerproof.reference_broker.families.activemq.usage_accounting import UsageAccount
from brokerproof.reference_broker.kernel.destinations import is_topic
from brokerproof.reference_broker.kernel.outbox import PauseReason
from brokerproof.reference_broker.protocols.amqp10 import conditions
from brokerproof.reference_broker.protocols.amqp10.blocking_link import WaitingLink
from brokerproof.reference_broker.protocols.amqp10.incoming import ACCEPTED
from brokerproof.reference_broker.protocols.stomp.activemq import ActiveMqStompConnection
from brokerproof.reference_broker.protocols.stomp.commands import After
from brokerproof.reference_broker.protocols.stomp.frame import Frame
from brokerproof.reference_broker.settings.activemq import Cursor as Kind
from brokerproof.suites.mutation.mutant import Group, Reached

full_places = Group("full-places", "reference-activemq-flow")
usage_limits = Group("usage-limits", "reference-activemq-usage")
no_space = Group("no-space", "reference-activemq-fail")
no_space_later = Group("no-space-later", "reference-activemq-timeout")

ONE_BY_ONE, WAITS, ANSWERED, SYNC, SWITCHED_OFF = (
    f"ACTIVEMQ-PFC-{each}" for each in (1, 2, 3, 5, 6)
)
ORDER = "ACTIVEMQ-ORDER-1"
FILES, STALLS, AT_ONCE, LATER, LIMITS, DISK = (
    f"ACTIVEMQ-PFC-{each}" for each in (7, 8, 9, 10, 11, 12)
)


def flowing(parts: Parts, faulty: type[ProducerFlow]) -> Parts:
    return replace(parts, producer_flow=faulty)


# --- from when on ---------------------------------------------------------------------------------


@full_places.mutant(WAITS)
def full_above_the_limit(parts: Parts, reached: Reached) -> Parts:
    """A queue whose memory is used to the octet takes one more message."""

    class Faulty(ProducerFlow):
        def memory_is_short(self, account: UsageAccount) -> bool:
            right = super().memory_is_short(account)
            return reached.instead(right, right and account.memory.used != account.memory.limit)

    return flowing(parts, Faulty)


@full_places.mutant(WAITS)
def full_an_octet_early(parts: Parts, reached: Reached) -> Parts:
    """A queue is full when one octet of its memory is left."""

    class Faulty(ProducerFlow):
        def memory_is_short(self, account: UsageAccount) -> bool:
            right, limit = super().memory_is_short(account), account.memory.limit
            wrong = right or (
                account.entry.producer_flow_control and account.memory.used == limit - 1
            )
            return reached.instead(right, wrong)

    return flowing(parts, Faulty)


@full_places.mutant(SWITCHED_OFF)
def flow_control_cannot_be_switched_off(parts: Parts, reached: Reached) -> Parts:
    """producerFlowControl="false" has no effect."""

    class Faulty(ProducerFlow):
        def memory_is_short(self, account: UsageAccount) -> bool:
            return reached.instead(super().memory_is_short(account), account.memory.full())

    return flowing(parts, Faulty)


@full_places.mutant(f"{WAITS} {SWITCHED_OFF}")
def topics_have_no_limit(parts: Parts, reached: Reached) -> Parts:
    """Nobody waits at a topic."""

    class Faulty(ProducerFlow):
        def memory_is_short(self, account: UsageAccount) -> bool:
            right = super().memory_is_short(account)
            return reached.instead(right, right and not is_topic(account.name))

    return flowing(parts, Faulty)


# --- who waits, and for what ----------------------------------------------------------------------


@full_places.mutant(ONE_BY_ONE)
def the_second_stalls(parts: Parts, reached: Reached) -> Parts:
    """A send that waits for an answer holds up its connection if somebody waits elsewhere
    already."""

    class Faulty(ProducerFlow):
        def parks(self, account: UsageAccount, sending: Sending) -> bool:
            right = super().parks(account, sending)
            return reached.instead(right, right and not self._waiting)

    return flowing(parts, Faulty)


@full_places.mutant(STALLS)
def nobody_stalls(parts: Parts, reached: Reached) -> Parts:
    """A send for which nothing was asked waits, and its connection goes on."""

    class Faulty(ProducerFlow):
        def parks(self, account: UsageAccount, sending: Sending) -> bool:
            return reached.instead(super().parks(account, sending), True)

    return flowing(parts, Faulty)


@full_places.mutant(f"{ANSWERED} {WAITS} {SYNC}")
def answered_before_there_is_space(parts: Parts, reached: Reached) -> Parts:
    """A send for which there is no space is answered at once, and added later."""

    class Faulty(ProducerFlow):
        def send(self, sending: Sending) -> Fate:
            fate = super().send(
                replace(sending, settled=lambda problem: None) if sending.answered else sending
            )
            if fate is Fate.PARKED:
                reached()
                return Fate.TAKEN
            return fate

    return flowing(parts, Faulty)


@full_places.mutant(f"{ANSWERED} {WAITS}")
def who_asks_for_nothing_is_told(parts: Parts, reached: Reached) -> Parts:
    """A send without receipt to a full queue fails, and its producer is told."""

    class Faulty(ProducerFlow):
        def send(self, sending: Sending) -> Fate:
            account = self.accounting.find(sending.destination)
            if not sending.answered and self.memory_is_short(account):
                reached()
                raise NoSpace("there is none")
            return super().send(sending)

    return flowing(parts, Faulty)


@full_places.mutant(f"{ANSWERED} {WAITS}")
def deliveries_are_settled_before_there_is_space(parts: Parts, reached: Reached) -> Parts:
    """An AMQP delivery that waits is settled at once."""

    class Faulty(WaitingLink):
        def take(self, *about: Any) -> Any:
            state = super().take(*about)
            if state is None:
                reached()
                return ACCEPTED
            return state

    return replace(parts, waiting_incoming=Faulty)


def _there_is_space(flow: ProducerFlow) -> bool:
    """Whether anybody waits where there is space."""
    return any(
        not flow.memory_is_short(each.account)
        for there in flow._waiting.values()
        for each in there.values()
    )


# --- how it goes on -------------------------------------------------------------------------------


@full_places.mutant(WAITS)
def who_waits_waits_for_ever(parts: Parts, reached: Reached) -> Parts:
    """Nobody is told that there is space again."""

    class Faulty(ProducerFlow):
        def next(self) -> Callable[[], None] | None:
            if _there_is_space(self):
                reached()
            return None

    return flowing(parts, Faulty)


@full_places.mutant(WAITS)
def the_last_is_first(parts: Parts, reached: Reached) -> Parts:
    """Those who wait for a queue go on in the order from the last to the first."""

    class Faulty(ProducerFlow):
        def next(self) -> Callable[[], None] | None:
            for there in self._waiting.values():
                if len(there) > 1:
                    reached()
                turned = dict(reversed(there.items()))
                there.clear()
                there.update(turned)
                right = super().next()
                turned = dict(sorted(there.items()))
                there.clear()
                there.update(turned)
                return right
            return None

    return flowing(parts, Faulty)


@full_places.mutant(f"{ORDER} {WAITS}")
def who_waits_is_overtaken(parts: Parts, reached: Reached) -> Parts:
    """Those who wait learn of space only when something else has happened since."""

    class Faulty(ProducerFlow):
        _missed = False

        def next(self) -> Callable[[], None] | None:
            if self._waiting and not self._missed:
                self._missed = True
                if _there_is_space(self):
                    reached()
                return None
            self._missed = False
            return super().next()

    return flowing(parts, Faulty)


@full_places.mutant(WAITS)
def memory_is_not_given_back(parts: Parts, reached: Reached) -> Parts:
    """What was consumed is charged to the memory of its queue for ever."""

    class Faulty(Cursor):
        def remove(self, claim: QueueClaim) -> None:
            super().remove(claim)
            reached()
            self.memory.add(claim.cost)

    return replace(parts, cursors={**CURSORS, Kind.VM: Faulty})


@full_places.mutant(f"{STALLS} {WAITS}")
def a_stalled_connection_is_not_read_again(parts: Parts, reached: Reached) -> Parts:
    """A connection that was stalled stays so when there is space."""

    class Faulty(ActiveMqStompConnection):
        def _read_again(self, reason: PauseReason) -> None:
            reached()

    return replace(parts, activemq_stomp=Faulty)


# --- cursors --------------------------------------------------------------------------------------


@full_places.mutant(FILES)
def files_are_not_used(parts: Parts, reached: Reached) -> Parts:
    """A queue with a cursor in files keeps everything in memory."""

    class Faulty(Cursor):
        def add(self, claim: QueueClaim) -> None:
            super().add(claim)
            if self.memory.percent >= self._mark:
                reached()

    return replace(parts, cursors={**CURSORS, Kind.FILE: Faulty})


@full_places.mutant(f"{FILES} {WAITS}")
def memory_is_not_used(parts: Parts, reached: Reached) -> Parts:
    """A queue that should keep everything in memory spools to files."""

    class Faulty(FileCursor):
        def clear_away(self, claim: QueueClaim, octets: int) -> None:
            reached()
            super().clear_away(claim, octets)

    return replace(parts, cursors={**CURSORS, Kind.VM: Faulty})


@full_places.mutant(FILES)
def what_goes_to_files_is_dropped(parts: Parts, reached: Reached) -> Parts:
    """What waited in memory when that was cleared is lost."""

    class Faulty(FileCursor):
        def drops(self, claim: QueueClaim) -> bool:
            reached()
            return True

    return replace(parts, cursors={**CURSORS, Kind.FILE: Faulty})


# --- limits of all of the broker ------------------------------------------------------------------


@usage_limits.mutant(LIMITS)
def memory_of_the_broker_has_no_limit(parts: Parts, reached: Reached) -> Parts:
    """Only the memory of the queue itself counts."""

    class Faulty(ProducerFlow):
        def memory_is_short(self, account: UsageAccount) -> bool:
            wrong = (
                account.entry.producer_flow_control
                and account.entry.memory_limit > 0
                and account.memory.percent >= 100
            )
            return reached.instead(super().memory_is_short(account), wrong)

    return flowing(parts, Faulty)


@usage_limits.mutant(LIMITS)
def the_store_has_no_limit(parts: Parts, reached: Reached) -> Parts:
    """Persistent messages are taken, however full the store is."""

    class Faulty(ProducerFlow):
        def store_is_short(self, account: UsageAccount, persistent: bool) -> bool:
            right = super().store_is_short(account, persistent)
            return reached.instead(right, right and not persistent)

    return flowing(parts, Faulty)


@usage_limits.mutant(f"{LIMITS} {DISK}")
def the_temporary_store_has_no_limit(parts: Parts, reached: Reached) -> Parts:
    """Messages that are not persistent are taken, however full the temporary store is."""

    class Faulty(ProducerFlow):
        def store_is_short(self, account: UsageAccount, persistent: bool) -> bool:
            right = super().store_is_short(account, persistent)
            return reached.instead(right, right and persistent)

    return flowing(parts, Faulty)


@usage_limits.mutant(LIMITS)
def each_kind_waits_for_the_other(parts: Parts, reached: Reached) -> Parts:
    """Persistent messages wait for the temporary store, and others for the store."""

    class Faulty(ProducerFlow):
        def store_is_short(self, account: UsageAccount, persistent: bool) -> bool:
            return reached.instead(
                super().store_is_short(account, persistent),
                super().store_is_short(account, not persistent),
            )

    return flowing(parts, Faulty)


@usage_limits.mutant(LIMITS)
def the_store_is_not_given_back(parts: Parts, reached: Reached) -> Parts:
    """What was consumed stays in the store."""

    class Faulty(CURSORS[Kind.STORE]):  # type: ignore[misc]
        def remove(self, claim: QueueClaim) -> None:
            super().remove(claim)
            if claim.persistent:
                reached()
                self.usage.store.add(claim.cost)

    return replace(parts, cursors={**CURSORS, Kind.STORE: Faulty})


@usage_limits.mutant(ONE_BY_ONE)
def a_full_store_stalls_everybody(parts: Parts, reached: Reached) -> Parts:
    """Without space in a store the whole connection waits, also where an answer is waited for."""

    class Faulty(ProducerFlow):
        def parks(self, account: UsageAccount, sending: Sending) -> bool:
            return reached.instead(super().parks(account, sending), self.memory_is_short(account))

    return flowing(parts, Faulty)


# --- no space: at once ----------------------------------------------------------------------------


@no_space.mutant(AT_ONCE)
def it_waits_all_the_same(parts: Parts, reached: Reached) -> Parts:
    """sendFailIfNoSpace has no effect."""

    class Faulty(ProducerFlow):
        def _fails(self, account: UsageAccount) -> tuple[bool, int]:
            reached()
            return False, 0

    return flowing(parts, Faulty)


@no_space.mutant(AT_ONCE)
def refused_and_added(parts: Parts, reached: Reached) -> Parts:
    """A message that is refused for want of space is added all the same."""

    class Faulty(ProducerFlow):
        def send(self, sending: Sending) -> Fate:
            try:
                return super().send(sending)
            except NoSpace:
                reached()
                sending.publish()
                raise

    return flowing(parts, Faulty)


@no_space.mutant(AT_ONCE)
def refused_while_there_is_space(parts: Parts, reached: Reached) -> Parts:
    """A message is refused if it would go beyond the limit."""

    class Faulty(ProducerFlow):
        def send(self, sending: Sending) -> Fate:
            account = self.accounting.find(sending.destination)
            left = account.memory.limit - account.memory.used
            if account.entry.memory_limit and 0 < left < account.cost(sending.message):
                reached()
                raise NoSpace("there is too little")
            return super().send(sending)

    return flowing(parts, Faulty)


@no_space.mutant(AT_ONCE)
def a_refusal_closes(parts: Parts, reached: Reached) -> Parts:
    """The ERROR for a SEND without space ends the connection."""

    class Faulty(ActiveMqStompConnection):
        def _tell_no_space(self, frame: Frame, problem: NoSpace) -> None:
            super()._tell_no_space(frame, problem)
            reached()
            self.close()

    return replace(parts, activemq_stomp=Faulty)


@no_space.mutant(AT_ONCE)
def confirmed_and_lost(parts: Parts, reached: Reached) -> Parts:
    """A SEND without space is confirmed, and forgotten."""

    class Faulty(ActiveMqStompConnection):
        def submit(self, frame: Frame, *about: Any) -> After:
            told: list[NoSpace] = []
            self._tell_no_space = lambda frame, problem: told.append(problem)  # type: ignore[method-assign]
            after = super().submit(frame, *about)
            if told:
                reached()
                return None
            return after

    return replace(parts, activemq_stomp=Faulty)


@no_space.mutant(AT_ONCE)
def another_reason_is_given(parts: Parts, reached: Reached) -> Parts:
    """An AMQP delivery without space is rejected as if it could not be read."""

    class Faulty(WaitingLink):
        def _not_taken(self, condition: str, description: str) -> Any:
            return super()._not_taken(
                reached.instead(condition, conditions.DECODE_ERROR), description
            )

    return replace(parts, waiting_incoming=Faulty)


# --- no space: later ------------------------------------------------------------------------------


def _failing_after(parts: Parts, reached: Reached, change: Callable[[int], int]) -> Parts:
    class Faulty(ProducerFlow):
        def _wait(self, sending: Sending, account: UsageAccount, after_ms: int) -> None:
            super()._wait(sending, account, reached.instead(after_ms, change(after_ms)))

    return flowing(parts, Faulty)


@no_space_later.mutant(LATER)
def a_little_early(parts: Parts, reached: Reached) -> Parts:
    """A send fails a millisecond before its time is up."""
    return _failing_after(parts, reached, lambda after_ms: after_ms - 1)


@no_space_later.mutant(LATER)
def too_late(parts: Parts, reached: Reached) -> Parts:
    """A send fails half a second after its time is up."""
    return _failing_after(parts, reached, lambda after_ms: after_ms + 500)


@no_space_later.mutant(LATER)
def never(parts: Parts, reached: Reached) -> Parts:
    """sendFailIfNoSpaceAfterTimeout has no effect."""
    return _failing_after(parts, reached, lambda after_ms: 0)


@no_space_later.mutant(LATER)
def a_stalled_connection_stays_stalled(parts: Parts, reached: Reached) -> Parts:
    """Only those who wait for an answer fail when their time is up."""

    class Faulty(ProducerFlow):
        def _wait(self, sending: Sending, account: UsageAccount, after_ms: int) -> None:
            super()._wait(
                sending, account, reached.instead(after_ms, after_ms if sending.answered else 0)
            )

    return flowing(parts, Faulty)


@no_space_later.mutant(LATER)
def added_after_it_failed(parts: Parts, reached: Reached) -> Parts:
    """A send that failed is added when there is space."""

    class Faulty(ProducerFlow):
        def _on_timeout(self, waiting: _Waiting, now: Instant) -> None:
            super()._on_timeout(waiting, now)
            reached()
            self._wait(replace(waiting.sending, settled=lambda problem: None), waiting.account, 0)

    return flowing(parts, Faulty)
