"""The spool of a queue: messages that its cursor moved from memory to consecutive pages
(:mod:`brokerproof.reference_broker.persistence.pages`).

A spooled message has left memory and is only counted. It is read back after everything in memory,
so a new message must not go to memory, where it would overtake spooled ones. When memory is
cleared, messages waiting there are written here. A persistent message in the journal is removed
from there in the same atomic unit.

After a restart messages in the journal count as older than those on pages. So while pages are in
use, messages that must survive are written to them, even if they return to memory immediately."""

from typing import Protocol

from brokerproof.reference_broker.families.activemq.cursor import ChargedEntry
from brokerproof.reference_broker.families.activemq.usage_accounting import UsageAccount
from brokerproof.reference_broker.kernel.message import Entry, Message, ResourceClaim
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.persistence import records
from brokerproof.reference_broker.persistence.cursor import PageRef
from brokerproof.reference_broker.persistence.pages import PagingStore


class SpooledQueue(Protocol):
    durable: bool

    @property
    def is_served(self) -> bool:
        """Return True if a new message goes straight to a consumer."""

    def clear(self) -> None:
        """Move waiting messages that may be cleared to disk."""

    def bring_back(self, most: int = 1) -> bool:
        """Read back at most this many messages from disk; return False if none is available now."""

    def dispatch(self) -> None:
        """Serve consumers."""


class Spool:
    """The pages of one queue, which are charged to ``account``."""

    def __init__(self, pages: PagingStore, account: UsageAccount) -> None:
        self._pages = pages
        self._account = account
        self.cursor = account.cursor

    @property
    def active(self) -> bool:
        """Return True if the pages are still in use."""
        return self._pages.active

    @property
    def files(self) -> int:
        return self._pages.files

    def takes(
        self, message: Message, queues: list[Queue], source_entry: Entry | None, full: bool
    ) -> bool:
        """True if ``message`` was moved to disk; otherwise the caller must put it into
        ``queues``."""
        queue: SpooledQueue = queues[0]  # type: ignore[assignment]
        persistent = message.durable
        lies = self.cursor.on_disk.messages > 0
        aside = (lies or not queue.is_served) and self.cursor.puts_aside(persistent)
        survives = persistent and queue.durable and self._pages.store.journaled
        if not aside and not (survives and self.active):
            return False
        if aside and not lies:
            queue.clear()
        size = self._pages.append(message, queues[:1], source_entry)
        self._account.added()
        self.cursor.put_aside(persistent, self._account.cost(message), size)
        if not aside:
            queue.bring_back()
        queue.dispatch()
        return True

    def lay(self, queue: Queue, entry: Entry, claim: ChargedEntry) -> None:
        """Move the waiting ``entry`` from memory to disk."""
        known = entry.earlier or entry.notes is not None
        size = self._pages.append(entry.message, [queue], entry if known else None)
        self.cursor.clear_away(claim, size)

    def begin_atomic_unit(self) -> None:
        """Store all further writes and removals of this input atomically."""
        if self._pages.store.journaled:
            self._pages.store.journal.begin_atomic_unit()

    def claim(self, message: Message, place: PageRef) -> ResourceClaim:
        """Return the charge for ``message``, which was read from ``place``."""
        persistent = message.durable
        claim = ChargedEntry(
            self.cursor,
            self._account.cost(message),
            persistent,
            self._account.forget_message,
            lies=place,
        )
        size = place.page.average if place.page.recovered else place.size + records.HEAD.size
        self.cursor.bring_back(claim, size, size if place.page.recovered else claim.cost)
        return claim

    def restored(self, queue: Queue) -> None:
        """Charge the messages stored here for ``queue``, restored from an earlier broker."""
        for page in self._pages.pages.values():
            count = page.left.get(queue.id, 0)
            self._account.added(count)
            self.cursor.found(count, count * page.average)

    def nothing_lies(self) -> None:
        """Discard the messages still on disk."""
        for _ in range(self.cursor.nothing_lies()):
            self._account.forget_message()
