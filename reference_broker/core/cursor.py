"""Where the messages of a queue are while they wait, and what that costs (ACTIVEMQ-PFC-7).

A message is in one of three places. In MEMORY it is charged to the memory of its queue, in TEMP to the temporary store; one
that is in the STORE only, where a persistent message is in any case, is charged to neither. The cursor of a queue decides:

=========  =============================================================================================================
cursor     a message that is added goes
=========  =============================================================================================================
VM         to MEMORY, always
FILE       to MEMORY, as long as there is *space*; without it all that waits goes to TEMP, and whatever comes then, until
           nothing of it is left there. What TEMP has no room for when memory is cleared is dropped: it was not
           persistent
STORE      like FILE if it is not persistent. A persistent one goes to MEMORY as long as there is space, and after that
           stays in the STORE only, until nothing persistent waits
=========  =============================================================================================================

*Space* is less than ``cursorMemoryHighWaterMark`` percent of the queue's memory, and memory of the broker that is not full.
Memory is cleared as soon as the mark is reached, by whatever. A broker without a store has no temporary one either: there FILE
and STORE are like VM.

While a queue has a consumer, ``maxPageSize`` messages or more of those that wait are *paged in*: whenever there are fewer, as
many more are fetched as a page has. These, and what is with a consumer, are in MEMORY, whatever the limits. So a consumer that
is slow fills the memory in spite of FILE. What comes back from a consumer stays in memory.

Sources: ``FilePendingMessageCursor``, ``StoreQueueCursor``, ``AbstractStoreCursor``, ``VMPendingMessageCursor`` and
``Queue.doPageInForDispatch`` of ActiveMQ 6.3.1. Not taken over: a STORE without space does not page in there until a consumer
has acknowledged something, and the order of persistent messages among others is not kept there.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from itertools import islice

from reference_broker.config.activemq_settings import Cursor as Kind
from reference_broker.config.activemq_settings import DestinationPolicy
from reference_broker.core.usage import BrokerUsage, Usage


class Where(enum.Enum):
    """Where a message is."""

    MEMORY = enum.auto()
    TEMP = enum.auto()
    STORE = enum.auto()


class QueueClaim:
    """One message of a queue. ``gone`` is called when it has left; ``waits`` is False once it was paged in."""

    __slots__ = ("_gone", "cost", "cursor", "paged", "persistent", "waits", "where")

    def __init__(self, cursor: Cursor, cost: int, persistent: bool, gone: Callable[[], None]) -> None:
        self.cursor = cursor
        self.cost = cost
        self.persistent = persistent
        self.waits = True
        self.paged = False
        self.where = Where.STORE
        self._gone = gone

    def handed(self) -> None:
        """It goes to a consumer."""
        self.cursor.hand(self)

    def back(self) -> None:
        """It came back from one."""
        self.cursor.back(self)

    def release(self) -> None:
        """It has left the queue for good."""
        self.cursor.remove(self)
        self._gone()

    def failed(self, failures: int) -> None:
        """A delivery that failed changes nothing about where it is."""


class Cursor:
    """The VM cursor, and what all have in common. ``memory`` is the queue's. ``drop`` takes what has to be dropped."""

    def __init__(self, entry: DestinationPolicy, memory: Usage, usage: BrokerUsage, stored: bool) -> None:
        self.memory = memory
        self.usage = usage
        self.drop: Callable[[QueueClaim], None] = lambda claim: None
        self._waiting: dict[QueueClaim, None] = {}
        """What waits and is not paged in, oldest first."""
        self._paged = 0
        """How many wait and are paged in."""
        self._mark = entry.cursor_memory_high_water_mark
        self._page = entry.max_page_size
        self._stored = stored

    def place(self, claim: QueueClaim) -> Where:
        """Where ``claim``, which is new, goes."""
        return Where.MEMORY

    def changed(self) -> None:
        """More memory is used."""

    def leaves(self, claim: QueueClaim) -> None:
        """``claim`` does not wait any more, or is paged in."""
        del self._waiting[claim]
        claim.waits = False

    @property
    def has_space(self) -> bool:
        """Whether messages may wait in memory."""
        parent = self.memory.parent
        return self.memory.percent < self._mark and not (parent is not None and parent.full())

    def add(self, claim: QueueClaim) -> None:
        """A message is added."""
        if claim.persistent and self._stored:
            self.usage.store.add(claim.cost)
        claim.where = self.place(claim)
        self._waiting[claim] = None
        self._charge(claim.where, claim.cost)
        self.changed()

    def page_in(self) -> None:
        """There is a consumer: fetches what it may get next."""
        while self._paged < self._page and self._waiting:
            for claim in list(islice(self._waiting, self._page)):
                self._fetch(claim)
                claim.paged = True
                self._paged += 1
            self.changed()

    def hand(self, claim: QueueClaim) -> None:
        """``claim`` goes to a consumer."""
        if claim.waits:
            self._fetch(claim)
        if claim.paged:
            claim.paged = False
            self._paged -= 1

    def back(self, claim: QueueClaim) -> None:
        """``claim`` waits again."""
        claim.paged = True
        self._paged += 1

    def remove(self, claim: QueueClaim) -> None:
        """``claim`` is gone."""
        if claim.waits:
            self.leaves(claim)
        if claim.paged:
            self._paged -= 1
        self._charge(claim.where, -claim.cost)
        if claim.persistent and self._stored:
            self.usage.store.add(-claim.cost)

    def _fetch(self, claim: QueueClaim) -> None:
        """``claim`` is in memory from now on."""
        self.leaves(claim)
        self.move(claim, Where.MEMORY)

    def move(self, claim: QueueClaim, where: Where) -> None:
        """``claim`` is somewhere else from now on."""
        self._charge(claim.where, -claim.cost)
        claim.where = where
        self._charge(where, claim.cost)

    def _charge(self, where: Where, octets: int) -> None:
        if where is Where.MEMORY:
            self.memory.add(octets)
        elif where is Where.TEMP:
            self.usage.temp.add(octets)


class FileCursor(Cursor):
    """FILE, of a broker with a temporary store."""

    def __init__(self, entry: DestinationPolicy, memory: Usage, usage: BrokerUsage, stored: bool) -> None:
        super().__init__(entry, memory, usage, stored)
        self._kept: dict[QueueClaim, None] = {}
        """What waits in memory and could be cleared away."""
        self._spooled = 0
        """How many wait in the temporary store."""

    def place(self, claim: QueueClaim) -> Where:
        if self._spooled or not self.has_space:
            self._clear()
            self._spooled += 1
            return Where.TEMP
        self._kept[claim] = None
        return Where.MEMORY

    def changed(self) -> None:
        if self._kept and self.memory.percent >= self._mark:
            self._clear()

    def leaves(self, claim: QueueClaim) -> None:
        super().leaves(claim)
        self._kept.pop(claim, None)
        if claim.where is Where.TEMP:
            self._spooled -= 1

    def _clear(self) -> None:
        """What waits in memory goes to the temporary store, or is dropped where that is full."""
        kept, self._kept = self._kept, {}
        for claim in kept:
            if self.usage.temp.full():
                self.drop(claim)
            else:
                self._spooled += 1
                self.move(claim, Where.TEMP)


class StoreCursor(FileCursor):
    """STORE, of a broker with a store."""

    def __init__(self, entry: DestinationPolicy, memory: Usage, usage: BrokerUsage, stored: bool) -> None:
        super().__init__(entry, memory, usage, stored)
        self._caches = True
        self._persistent = 0
        """How many persistent messages wait."""

    def place(self, claim: QueueClaim) -> Where:
        if not claim.persistent:
            return super().place(claim)
        self._caches = self.has_space and (self._caches or not self._persistent)
        self._persistent += 1
        return Where.MEMORY if self._caches else Where.STORE

    def leaves(self, claim: QueueClaim) -> None:
        super().leaves(claim)
        if claim.persistent:
            self._persistent -= 1


def cursor_of(
    kinds: Mapping[Kind, type[Cursor]], entry: DestinationPolicy, persistent: bool, memory: Usage, usage: BrokerUsage
) -> Cursor:
    """The cursor of a queue with the policy ``entry``; ``persistent`` if the broker has a store."""
    return kinds[entry.cursor if persistent else Kind.VM](entry, memory, usage, persistent)


CURSORS: Mapping[Kind, type[Cursor]] = {Kind.VM: Cursor, Kind.FILE: FileCursor, Kind.STORE: StoreCursor}
"""What keeps what waits, by kind of cursor."""
