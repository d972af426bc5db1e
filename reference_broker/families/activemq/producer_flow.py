"""Producer flow control: a producer without space for its message waits, or gets an error
(ACTIVEMQ-PFC).

A message must pass two gates before it is added:

1. *Memory*: its destination's memory is not full, or the destination's policy has
  ``producerFlowControl="false"``.
2. *Store*: for a queue, and a persistent message, the store is not full
   (``storeUsageHighWaterMark``); for a queue and any other message the temporary store is not full.
   This gate cannot be switched off: producers without flow control are accepted until the disk is
   full (ACTIVEMQ-PFC-12).

At a closed gate, a message fails immediately if ``sendFailIfNoSpace`` is set. Otherwise it waits,
and fails after ``sendFailIfNoSpaceAfterTimeout`` unless that is 0:

======  ==================================================================  ===========================================
gate    the producer waits for an answer, or has a window                   it does neither
======  ==================================================================  ===========================================
memory  PARKED: the answer is withheld, its connection goes on              STALLED: its connection is not read any more
store   PARKED, or STALLED with ``stalls_at_the_store``                     STALLED
======  ==================================================================  ===========================================

According to the documentation, producers of one connection are slowed down individually at every
limit (ACTIVEMQ-PFC-1). In release 6.3.1 this holds only for memory: at the store the connection's
thread waits, which ``stalls_at_the_store`` reproduces.

A message parked at a topic waits without a time limit, because nothing checks for one. When space
appears, messages waiting for the same destination continue in order of arrival. A parked message
stays parked when its connection ends, and is added in its turn.

A queue with ``vmQueueCursor`` uses the broker's own ``sendFailIfNoSpace``, whatever its policy
says.

Sources: ``Queue.send``, ``Queue.checkUsage``, ``Topic.send``, ``BaseDestination.waitForSpace`` and
``Queue.initialize`` of ActiveMQ 6.3.1.
"""  # noqa: E501

import enum
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from brokerproof.harness.model.time import Instant, ms
from brokerproof.reference_broker.families.activemq.usage_accounting import (
    UsageAccount,
    UsageAccounting,
)
from brokerproof.reference_broker.kernel.address_book import NoRoute
from brokerproof.reference_broker.kernel.admission import Disk, Verdict
from brokerproof.reference_broker.kernel.deadlines import Deadline, Deadlines
from brokerproof.reference_broker.kernel.message import Message
from brokerproof.reference_broker.kernel.queue_and_topic_names import is_topic
from brokerproof.reference_broker.kernel.transactions import Transaction
from brokerproof.reference_broker.settings.activemq import Cursor, DestinationPolicy


class NoSpace(Exception):
    """There is no space, and the message is refused."""


class SendOutcome(enum.Enum):
    TAKEN = enum.auto()
    PARKED = enum.auto()
    """The message waits, and nothing else does."""
    STALLED = enum.auto()
    """The message waits, and so does all later input from its connection."""


def _lives() -> bool:
    return True


# Not frozen: every message creates one, and each field of a frozen class costs a call.
@dataclass(slots=True, eq=False)
class PendingSend:
    """A message being sent to ``destination``, a qualified name.

    ``answered``: its producer waits for an answer; ``windowed``: the producer learns when it may
    send more. ``publish`` adds the message and may raise ``NoRoute``. If the message had to wait,
    ``settled`` is called once: with None when it was added, else with the reason. ``is_live`` is
    checked before adding late, because a transaction may have ended. If the message fails and its
    producer waits for no answer, ``transaction`` can only roll back (release 6.3.1,
    TransportConnection.forceRollbackOnlyOnFailedAsyncTransactionOp)."""

    message: Message
    destination: str
    persistent: bool
    answered: bool
    publish: Callable[[], object]
    settled: Callable[[NoSpace | None], None]
    windowed: bool = False
    is_live: Callable[[], bool] = _lives
    transaction: Transaction | None = None

    def failure(self, reason: str) -> NoSpace:
        """Return the exception for ``reason``; if the producer gets no answer, doom the message's
        transaction first."""
        if self.transaction is not None and not self.answered:
            self.transaction.doom(reason)
        return NoSpace(reason)


@dataclass(slots=True, eq=False)
class _Waiting:
    sending: PendingSend
    account: UsageAccount
    number: int
    timeout: Deadline | None = None


class ProducerFlow:
    """Decides on every message of every producer. ``is_question`` returns True if messages to a
    destination are answered instead of being stored."""

    def __init__(
        self,
        accounting: UsageAccounting,
        deadlines: Deadlines,
        now: Callable[[], Instant],
        stalls_at_the_store: bool,
        disk: Disk | None = None,
        is_question: Callable[[str], bool] = lambda destination: False,
    ) -> None:
        self.accounting = accounting
        self._deadlines = deadlines
        self._now = now
        self._stalls_at_the_store = stalls_at_the_store
        self._waiting: dict[str, dict[int, _Waiting]] = {}
        self._numbers = 0
        self._disk = disk
        self._is_question = is_question

    def policy(self, destination: str) -> DestinationPolicy:
        return self.accounting.find(destination).entry

    def cost(self, message: Message) -> int:
        """Return the bytes charged for ``message``."""
        return self.accounting.find(message.route.address).cost(message)

    def send(self, sending: PendingSend) -> SendOutcome:
        """Add a message or make it wait. Raises :class:`NoSpace` and what ``publish`` raises."""
        account = self.accounting.find(sending.destination)
        disk = self._disk
        if disk is not None and disk.judge(account.name) is Verdict.UNSTORED:
            raise sending.failure(f"no space at {account.name}: {disk.problem()}")
        closed = None if self._is_question(sending.destination) else self._closed(account, sending)
        if closed is None:
            sending.publish()
            return SendOutcome.TAKEN
        at_once, after_ms = self._fails(account)
        if at_once:
            raise sending.failure(closed)
        parked = self.parks(account, sending)
        self._wait(sending, account, 0 if parked and is_topic(account.name) else after_ms)
        return SendOutcome.PARKED if parked else SendOutcome.STALLED

    def left(self, sending: PendingSend) -> None:
        """Forget ``sending``, because the connection that it stalled has ended."""
        for waiting in self._waiting.get(sending.destination, {}).values():
            if waiting.sending is sending:
                self._forget(waiting)
                return

    # --- the gates --------------------------------------------------------------------------------

    def memory_is_short(self, account: UsageAccount) -> bool:
        """Return True if the first gate is closed."""
        return account.entry.producer_flow_control and account.memory.full()

    def store_is_short(self, account: UsageAccount, persistent: bool) -> bool:
        """Return True if the second gate is closed."""
        if is_topic(account.name):
            return False
        if persistent:
            return account.usage.store.full(account.entry.store_usage_high_water_mark)
        return account.usage.temp.full()

    def parks(self, account: UsageAccount, sending: PendingSend) -> bool:
        """Return True if a message without space does not stall its connection."""
        waits = sending.answered or sending.windowed
        return waits and (self.memory_is_short(account) or not self._stalls_at_the_store)

    def _closed(self, account: UsageAccount, sending: PendingSend) -> str | None:
        """Return a sentence that names the closed gate."""
        if self.memory_is_short(account):
            own = account.memory
            what = (
                f"its limit of {own.limit} bytes"
                if own.percent >= 100
                else "the limit of the whole broker"
            )
            return f"no space at {account.name}: memory has reached {what}"
        if self.store_is_short(account, sending.persistent):
            limit = account.usage.store if sending.persistent else account.usage.temp
            kind = "store" if sending.persistent else "temporary store"
            return (
                f"no space at {account.name}: the {kind} has reached its limit of {limit.limit}"
                " bytes"
            )
        return None

    def _fails(self, account: UsageAccount) -> tuple[bool, int]:
        """Return True if a message fails immediately, else the ms until it fails (0: never)."""
        usage, entry = self.accounting.activemq.usage, account.entry
        at_once, after = usage.send_fail_if_no_space, usage.send_fail_after_ms
        if is_topic(account.name) or entry.cursor is not Cursor.VM:
            at_once = (
                at_once if entry.send_fail_if_no_space is None else entry.send_fail_if_no_space
            )
            after = after if entry.send_fail_after_ms is None else entry.send_fail_after_ms
        return at_once, after

    # --- waiting messages
    # -----------------------------------------------------------------------------

    def _wait(self, sending: PendingSend, account: UsageAccount, after_ms: int) -> None:
        self._numbers += 1
        waiting = _Waiting(sending, account, self._numbers)
        self._waiting.setdefault(account.name, {})[waiting.number] = waiting
        if after_ms:
            waiting.timeout = self._deadlines.call_at(
                self._now() + ms(after_ms), partial(self._on_timeout, waiting)
            )

    def _forget(self, waiting: _Waiting) -> None:
        there = self._waiting[waiting.account.name]
        del there[waiting.number]
        if not there:
            del self._waiting[waiting.account.name]
        if waiting.timeout is not None:
            waiting.timeout.cancel()

    def next(self) -> Callable[[], None] | None:
        """Remove and return a waiting message that may continue now."""
        for there in self._waiting.values():
            for waiting in there.values():
                account = self.accounting.find(waiting.account.name)
                if self.memory_is_short(account):
                    break
                if not self.store_is_short(account, waiting.sending.persistent):
                    self._forget(waiting)
                    return lambda waiting=waiting: self._go_on(waiting.sending)  # type: ignore[misc]
        return None

    @staticmethod
    def _go_on(sending: PendingSend) -> None:
        if not sending.is_live():
            sending.settled(
                NoSpace(f"its transaction ended while it waited for space at {sending.destination}")
            )
            return
        try:
            sending.publish()
        except NoRoute as problem:
            sending.settled(sending.failure(str(problem)))
            return
        sending.settled(None)

    def _on_timeout(self, waiting: _Waiting, now: Instant) -> None:
        """Fail a message that has waited too long for space."""
        self._forget(waiting)
        _, after_ms = self._fails(waiting.account)
        detail = f"no space at {waiting.account.name} within {after_ms} ms"
        waiting.sending.settled(waiting.sending.failure(detail))
