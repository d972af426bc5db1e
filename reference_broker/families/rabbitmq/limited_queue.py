"""A queue with its own limits on messages, body bytes and waiting time, and a policy for messages
beyond them.

Limits count waiting messages, not unsettled ones held by consumers. They are inclusive: a message
stays if the total that includes it does not exceed them. The policies:

* ``drop-head``: the oldest messages are dropped until the new one fits;
* ``reject-publish``: the new one is refused (check :meth:`LimitedQueue.refuses` first), even if a
  consumer waits;
* ``reject-publish-dlx``: the same, and it is dead-lettered.

A message expires after its own waiting time or the queue's, whichever is less. Only the head of the
queue is checked: a message after one that lives longer must wait for that one. A returned message
keeps its instant of expiry.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from brokerproof.harness.model.enums import Outcome
from brokerproof.harness.model.time import Duration, Instant
from brokerproof.reference_broker.kernel.message import Entry, Message, ResourceClaim
from brokerproof.reference_broker.kernel.queue import Consumer, Queue, ReadyEntries

DROP_HEAD, REJECT, REJECT_DLX = "drop-head", "reject-publish", "reject-publish-dlx"
OVERFLOWS = (DROP_HEAD, REJECT, REJECT_DLX)
MAXLEN, EXPIRED, REJECTED, RETURNED = "maxlen", "expired", "rejected", "delivery_limit"
"""Reasons for which a message becomes a dead letter."""


@dataclass(frozen=True, slots=True)
class Limits:
    """``length`` in messages, ``size`` of bodies in bytes, ``ttl`` in ns, ``returns`` of a message;
    None means no limit."""

    length: int | None = None
    size: int | None = None
    overflow: str = DROP_HEAD
    ttl: Duration | None = None
    returns: int | None = None


class _Measured(ReadyEntries):
    """The waiting entries, and the number of bytes in their bodies."""

    size = 0

    def append(self, entry: Entry) -> None:
        self.size += len(entry.message.body)
        super().append(entry)

    def popleft(self) -> Entry:
        entry = super().popleft()
        self.size -= len(entry.message.body)
        return entry

    def extend(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.append(entry)

    def extendleft(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.size += len(entry.message.body)
            super().appendleft(entry)

    def insert(self, place: int, entry: Entry) -> None:
        self.size += len(entry.message.body)
        super().insert(place, entry)

    def clear(self) -> None:
        self.size = 0
        super().clear()

    def __delitem__(self, place: Any) -> None:
        self.size -= len(self[place].message.body)
        super().__delitem__(place)


class LimitedQueue(Queue):
    """``limits`` may be set before the first message. ``now`` returns the instant; ``wake``
    schedules :meth:`expire`; ``dead`` gets each message that is removed without being consumed, and
    the reason.
    """

    limits = Limits()
    new_ready = _Measured

    def __init__(self, *options: Any) -> None:
        super().__init__(*options)
        self.now: Callable[[], Instant] = lambda: 0
        self.wake: Callable[[Instant], None] = lambda _: None
        self.dead: Callable[[Queue, Message, str], None] = lambda queue, message, why: None
        self._expiry: dict[int, Instant] = {}
        self._woken: Instant | None = None

    @property
    def size(self) -> int:
        """The number of bytes in the waiting bodies."""
        assert isinstance(self._ready, _Measured)
        return self._ready.size

    def in_memory(self) -> list[Entry]:
        """Return the waiting entries that have not been paged out, oldest first."""
        return [entry for entry in self._ready if entry.message.large is None]

    def refuses(self, message: Message) -> bool:
        """Return True if the overflow policy refuses ``message``, which is dead-lettered if so
        configured."""
        limits = self.limits
        if limits.overflow == DROP_HEAD or not self._above(1, len(message.body)):
            return False
        if limits.overflow == REJECT_DLX:
            self.dead(self, message, MAXLEN)
        return True

    def _above(self, messages: int, size: int) -> bool:
        length, most = self.limits.length, self.limits.size
        return (length is not None and len(self._ready) + messages > length) or (
            most is not None and self.size + size > most
        )

    def enqueue(
        self,
        message: Message,
        source_entry: Entry | None = None,
        charge: ResourceClaim | None = None,
    ) -> None:
        own = getattr(message, "lifetime", None)
        lifetime = min((ttl for ttl in (own, self.limits.ttl) if ttl is not None), default=None)
        if lifetime is not None:
            self._expiry[self._order + 1] = self.now() + lifetime
        super().enqueue(message, source_entry, charge)
        while self._ready and self._above(0, 0):
            self._die(self._ready.popleft(), MAXLEN)
        if self._expiry:
            self.expire()

    def dispatch(self) -> None:
        if self._expiry:
            self.expire()
        super().dispatch()
        if self._expiry:
            self.expire()

    def get(self, consumer: Consumer) -> None:
        if self._expiry:
            self.expire()
        super().get(consumer)
        if self._expiry:
            self.expire()

    def settle(self, entries: Any, outcome: Any) -> None:
        spent = self._spent(entries) if outcome is Outcome.RELEASED else []
        super().settle(spent, Outcome.ACCEPTED)
        super().settle([entry for entry in entries if entry not in spent], outcome)
        for entry in spent:
            self.dead(self, entry.message, RETURNED)
        while self._ready and self._above(0, 0):
            self._die(self._ready.popleft(), MAXLEN)

    def _spent(self, entries: Iterable[Entry]) -> list[Entry]:
        """Count the return of ``entries``; return those that have returned too often."""
        if self.limits.returns is None:
            return []
        for entry in entries:
            entry.failures += 1
        return [entry for entry in entries if entry.failures > self.limits.returns]

    def expire(self) -> None:
        """Remove expired entries from the head of the queue, and set the timer for the next one."""
        self._woken = None if self._woken is not None and self._woken <= self.now() else self._woken
        while self._ready:
            at = self._expiry.get(self._ready[0].order)
            if at is None:
                return
            if at > self.now():
                if self._woken is None or at < self._woken:
                    self._woken = at
                    self.wake(at)
                return
            self._die(self._ready.popleft(), EXPIRED)

    def discard(self, entry: Entry) -> None:
        self._expiry.pop(entry.order, None)
        super().discard(entry)

    def _die(self, entry: Entry, why: str) -> None:
        self.discard(entry)
        self.dead(self, entry.message, why)
