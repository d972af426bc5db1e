"""Cursors decide where a queue's waiting messages are kept and how they are charged
(ACTIVEMQ-PFC-7).

A message is either in memory and charged to its queue's memory, or only on disk
(:mod:`brokerproof.reference_broker.families.activemq.spool`). On disk, a non-persistent message is
charged to the temporary store by its bytes there. A persistent message is always charged to the
store, if there is one. The cursor of a queue decides:

=========  =============================================================================================================
cursor     a new message goes
=========  =============================================================================================================
VM         to memory, always
FILE       to memory, while there is *space*. Without space, all waiting messages go to disk, charged to the temporary store.
           If that store has no room when memory is cleared, non-persistent messages are dropped
STORE      to the same place as with FILE, if the message is not persistent. Persistent messages go to memory while there is
           space; after that, they are only in the store, until no persistent message waits
=========  =============================================================================================================

There is *space* while less than ``cursorMemoryHighWaterMark`` percent of the queue's memory is used
and the broker's memory is not full. Memory is cleared as soon as the mark is reached. While any
message of a queue is on disk, new ones are stored after it, so the order is kept. A broker without
a store has no temporary one either: FILE and STORE then behave like VM.

While a queue has a consumer, at least ``maxPageSize`` of the waiting messages are *paged in*:
whenever there are fewer, another page is fetched. These, and the messages held by consumers, are in
memory whatever the limits. So a slow consumer fills the memory despite FILE, and a consumer whose
selector matches nothing in a page never reaches the messages after it. Messages returned by a
consumer stay in memory.

Sources: ``FilePendingMessageCursor``, ``StoreQueueCursor``, ``AbstractStoreCursor``,
``VMPendingMessageCursor`` and ``Queue.doPageInForDispatch`` of ActiveMQ 6.3.1. Three behaviours of
ActiveMQ are not reproduced: STORE without space pages in only after a consumer has acknowledged
something; the order between persistent and other messages is not kept, so one kind may be in memory
while the other is on disk; and FILE drops persistent messages like any other when it clears memory.
"""  # noqa: E501

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice

from brokerproof.reference_broker.families.activemq.usage import BrokerUsage, Usage
from brokerproof.reference_broker.kernel.message import ResourceClaim
from brokerproof.reference_broker.settings.activemq import Cursor as Kind
from brokerproof.reference_broker.settings.activemq import DestinationPolicy


class ChargedEntry:
    """One message of a queue in memory.

    ``gone`` is called when the message has left the queue. ``waits`` is False once it is paged in.
    ``lies`` is where on disk the message was read back from."""

    __slots__ = ("_gone", "cost", "cursor", "lies", "paged", "persistent", "waits")

    def __init__(
        self,
        cursor: "Cursor",
        cost: int,
        persistent: bool,
        gone: Callable[[], None],
        lies: ResourceClaim | None = None,
    ) -> None:
        self.cursor = cursor
        self.cost = cost
        self.persistent = persistent
        self.waits = True
        self.paged = False
        self.lies = lies
        self._gone = gone

    def handed(self) -> None:
        self.cursor.hand(self)

    def back(self) -> None:
        self.cursor.back(self)

    def release(self) -> None:
        """Record that the message has left its queue permanently."""
        self.cursor.remove(self)
        if self.lies is not None:
            self.lies.release()
        self._gone()

    def failed(self, failures: int) -> None:
        """Record a failed delivery, also in the message's copy on disk."""
        if self.lies is not None:
            self.lies.failed(failures)


@dataclass(slots=True)
class OnDisk:
    """A queue's messages that are only on disk: their number, and their bytes in both stores."""

    messages: int = 0
    store: int = 0
    temp: int = 0

    def add(self, messages: int, store: int, temp: int) -> None:
        """Add these amounts, which may be negative."""
        self.messages += messages
        self.store += store
        self.temp += temp


class Cursor:
    """The VM cursor, and the base class of the others. ``memory`` is the queue's memory usage."""

    def __init__(
        self, entry: DestinationPolicy, memory: Usage, usage: BrokerUsage, stored: bool
    ) -> None:
        self.memory = memory
        self.usage = usage
        self.on_disk = OnDisk()
        self._waiting: dict[ChargedEntry, None] = {}
        """Entries in memory that have not been paged in, oldest first."""
        self._paged = 0
        """Number of waiting messages that have been paged in."""
        self._mark = entry.cursor_memory_high_water_mark
        self._page = entry.max_page_size
        self._stored = stored

    # --- decided by each kind of cursor -----------------------------------------------------------

    def puts_aside(self, persistent: bool) -> bool:
        """Return True if a new message goes to disk unless a consumer takes it at once."""
        return False

    def spools(self, persistent: bool) -> bool:
        """Return True if a message on disk is charged to the temporary store."""
        return False

    def may_clear(self, claim: ChargedEntry) -> bool:
        """Return True if the waiting ``claim`` goes to disk when memory is cleared."""
        return False

    @property
    def must_clear(self) -> bool:
        return False

    def drops(self, claim: ChargedEntry) -> bool:
        """Return True if ``claim`` is dropped for lack of disk space when memory is cleared."""
        return not claim.persistent and self.usage.temp.full()

    def keep(self, claim: ChargedEntry) -> None:
        """Record that ``claim`` now waits in memory."""
        self._waiting[claim] = None
        claim.waits = True

    def leaves(self, claim: ChargedEntry) -> None:
        """Record that ``claim`` no longer waits in memory, or has been paged in."""
        del self._waiting[claim]
        claim.waits = False

    @property
    def has_space(self) -> bool:
        """Return True if waiting messages may stay in memory."""
        parent = self.memory.parent
        return self.memory.percent < self._mark and not (parent is not None and parent.full())

    # --- in memory --------------------------------------------------------------------------------

    def add(self, claim: ChargedEntry) -> None:
        self._store(claim.persistent, claim.cost)
        self.keep(claim)
        self.memory.add(claim.cost)

    @property
    def wants_page(self) -> bool:
        """Return True if fewer messages than a page have been paged in."""
        return self._paged < self._page

    def page_in(self, most: int | None = None) -> int:
        """Page in messages that wait in memory; return how many are missing from a page
        (``most``)."""
        room = self._page if most is None else most
        for claim in list(islice(self._waiting, room)):
            self.leaves(claim)
            claim.paged = True
            self._paged += 1
            room -= 1
        return room

    def hand(self, claim: ChargedEntry) -> None:
        if claim.waits:
            self.leaves(claim)
        if claim.paged:
            claim.paged = False
            self._paged -= 1

    def back(self, claim: ChargedEntry) -> None:
        """Record that ``claim`` is waiting again."""
        claim.paged = True
        self._paged += 1

    def remove(self, claim: ChargedEntry) -> None:
        self.hand(claim)
        self.memory.add(-claim.cost)
        self._store(claim.persistent, -claim.cost)

    # --- on disk ----------------------------------------------------------------------------------

    def put_aside(self, persistent: bool, cost: int, size: int) -> None:
        """Record that a new message went to disk, where it takes ``size`` bytes."""
        self._store(persistent, cost)
        self._lies(
            1, cost if persistent and self._stored else 0, size if self.spools(persistent) else 0
        )

    def clear_away(self, claim: ChargedEntry, size: int) -> None:
        """Record that the waiting ``claim`` moved to disk, where it takes ``size`` bytes."""
        self.leaves(claim)
        self.memory.add(-claim.cost)
        store = claim.cost if claim.persistent and self._stored else 0
        self._lies(1, store, size if self.spools(claim.persistent) else 0)

    def found(self, messages: int, size: int) -> None:
        """Record that an earlier broker left persistent messages of ``size`` bytes on disk."""
        self._store(True, size)
        self._lies(messages, size, size if self.spools(persistent=True) else 0)

    def bring_back(self, claim: ChargedEntry, size: int, stored: int) -> None:
        """Record that a message has been read back into memory as ``claim``. It took ``size`` bytes
        on disk, and ``stored`` bytes were charged to the store."""
        if claim.persistent and self._stored:
            self.usage.store.add(claim.cost - stored)
        else:
            stored = 0
        self._lies(-1, -stored, -size if self.spools(claim.persistent) else 0)
        self.keep(claim)
        self.memory.add(claim.cost)

    def nothing_lies(self) -> int:
        """Record that nothing is left on disk; return the number of messages not read back."""
        lost = self.on_disk.messages
        self.usage.store.add(-self.on_disk.store)
        self.usage.temp.add(-self.on_disk.temp)
        self.on_disk = OnDisk()
        return lost

    def _lies(self, messages: int, store: int, temp: int) -> None:
        self.on_disk.add(messages, store, temp)
        self.usage.temp.add(temp)

    def _store(self, persistent: bool, size: int) -> None:
        if persistent and self._stored:
            self.usage.store.add(size)


class FileCursor(Cursor):
    """The FILE cursor of a broker that has a temporary store."""

    def __init__(
        self, entry: DestinationPolicy, memory: Usage, usage: BrokerUsage, stored: bool
    ) -> None:
        super().__init__(entry, memory, usage, stored)
        self._kept: dict[ChargedEntry, None] = {}
        """Entries in memory that could be cleared away."""

    def puts_aside(self, persistent: bool) -> bool:
        return self.on_disk.messages > 0 or not self.has_space

    def spools(self, persistent: bool) -> bool:
        return True

    def may_clear(self, claim: ChargedEntry) -> bool:
        return claim in self._kept

    @property
    def must_clear(self) -> bool:
        return bool(self._kept) and self.memory.percent >= self._mark

    def keep(self, claim: ChargedEntry) -> None:
        super().keep(claim)
        if self.spools(claim.persistent):
            self._kept[claim] = None

    def leaves(self, claim: ChargedEntry) -> None:
        super().leaves(claim)
        self._kept.pop(claim, None)


class StoreCursor(FileCursor):
    def __init__(
        self, entry: DestinationPolicy, memory: Usage, usage: BrokerUsage, stored: bool
    ) -> None:
        super().__init__(entry, memory, usage, stored)
        self._caches = True
        self._persistent = 0
        """Number of persistent messages that wait in memory."""

    def puts_aside(self, persistent: bool) -> bool:
        if not persistent or self.on_disk.messages:
            return super().puts_aside(persistent)
        self._caches = self.has_space and (self._caches or not self._persistent)
        return not self._caches

    def spools(self, persistent: bool) -> bool:
        return not persistent

    def keep(self, claim: ChargedEntry) -> None:
        super().keep(claim)
        self._persistent += claim.persistent

    def leaves(self, claim: ChargedEntry) -> None:
        super().leaves(claim)
        self._persistent -= claim.persistent


def cursor_of(
    kinds: Mapping[Kind, type[Cursor]],
    entry: DestinationPolicy,
    persistent: bool,
    memory: Usage,
    usage: BrokerUsage,
) -> Cursor:
    """Return the cursor of a queue with the policy ``entry``. ``persistent``: there is a store."""
    return kinds[entry.cursor if persistent else Kind.VM](entry, memory, usage, persistent)


CURSORS: Mapping[Kind, type[Cursor]] = {
    Kind.VM: Cursor,
    Kind.FILE: FileCursor,
    Kind.STORE: StoreCursor,
}
"""The cursor class for each kind."""
