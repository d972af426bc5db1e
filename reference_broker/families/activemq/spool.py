"""The spool of a queue: messages that its cursor moved out of memory, on consecutive pages
(:mod:`brokerproof.reference_broker.persistence.pages`).

A message that lies there has left memory; nothing is known of it but that there is one more. It
comes back behind everything that is in memory, which is why nothing goes to memory past it. What
waits in memory when that is cleared is written here; a persistent message that is in the journal is
taken out of there, both at once or not at all.

After a restart what the journal has is taken for older than what pages have. So, as long as pages
are not done with, what has to survive is written to them, even if it comes back into memory at
once.
"""

from __future__ import annotations

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
        """True if a message that arrives now goes straight to a consumer."""

    def clear(self) -> None:
        """Lay on disk what waits in memory and may be cleared away."""

    def bring_back(self, most: int = 1) -> bool:
        """Bring up to so many messages back from disk; return False if none can be had now."""

    def dispatch(self) -> None:
        """Serve consumers."""


class Spool:
    """The pages of one queue, whose usage is in ``account``."""

    def __init__(self, pages: PagingStore, account: UsageAccount) -> None:
        self._pages = pages
        self._account = account
        self.cursor = account.cursor

    @property
    def active(self) -> bool:
        """True if anything lies here that is not done with."""
        return self._pages.active

    @property
    def files(self) -> int:
        return self._pages.files

    def takes(
        self, message: Message, queues: list[Queue], source_entry: Entry | None, full: bool
    ) -> bool:
        """True if ``message`` is put aside; if not it is to be put into its queue, which is one of
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
        """``entry``, which waited in memory, lies here from now on."""
        known = entry.earlier or entry.notes is not None
        size = self._pages.append(entry.message, [queue], entry if known else None)
        self.cursor.clear_away(claim, size)

    def begin_atomic_unit(self) -> None:
        """Store all further writes and removals of this input as a whole or not at all."""
        if self._pages.store.journaled:
            self._pages.store.journal.begin_atomic_unit()

    def claim(self, message: Message, place: PageRef) -> ResourceClaim:
        """``message`` was read from ``place``: what it is charged from now on."""
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
        """``queue`` is that of an earlier broker: what lies here for it is charged."""
        for page in self._pages.pages.values():
            count = page.left.get(queue.id, 0)
            self._account.added(count)
            self.cursor.found(count, count * page.average)

    def nothing_lies(self) -> None:
        """Discard the messages still on disk: they will not be read again."""
        for _ in range(self.cursor.nothing_lies()):
            self._account.forget_message()
