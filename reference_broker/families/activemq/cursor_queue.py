"""A queue of a destination or topic subscription that keeps the destination's cursor informed."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from brokerproof.harness.model.enums import Outcome, RoutingType
from brokerproof.reference_broker.families.activemq.cursor import ChargedEntry
from brokerproof.reference_broker.families.activemq.spool import Spool
from brokerproof.reference_broker.families.activemq.usage_accounting import TopicClaim
from brokerproof.reference_broker.kernel.message import Entry, Message, ResourceClaim
from brokerproof.reference_broker.kernel.queue import Consumer, Queue
from brokerproof.reference_broker.persistence.cursor import PageRef
from brokerproof.reference_broker.persistence.durable_queues import JournalRef


def claim_of(charge: ResourceClaim | None) -> ResourceClaim | None:
    """Return an entry's claim, unwrapped from the journal's claim if necessary."""
    return charge.charge if isinstance(charge, JournalRef) else charge


class CursorQueue(Queue):
    """A queue that dead-letters only persistent messages (``AbstractDeadLetterStrategy``).

    ``spool`` holds the messages that the cursor moves to disk; None for a subscription's queue, or
    if there is no disk."""

    def __init__(self, *options: Any) -> None:
        super().__init__(*options)
        self.spool: Spool | None = None
        dead_letter: Callable[[Queue, Entry], None] = self._dead_letter
        self._dead_letter = lambda queue, entry: (
            dead_letter(queue, entry) if entry.message.durable else None
        )

    @property
    def is_served(self) -> bool:
        """Return True if a new message goes straight to a consumer."""
        return not self._ready and not self._selection.choosy and bool(self._dispatcher.with_room())

    def enqueue(
        self,
        message: Message,
        source_entry: Entry | None = None,
        charge: ResourceClaim | None = None,
    ) -> None:
        super().enqueue(message, source_entry, charge)
        if isinstance(claim := claim_of(charge), ChargedEntry):
            if self.has_consumers and claim.cursor.wants_page:
                claim.cursor.page_in()
            if claim.cursor.must_clear:
                self.clear()

    def append_paged(
        self, message: Message, source_entry: Entry | None, charge: ResourceClaim
    ) -> Entry:
        if isinstance(charge, PageRef) and self.spool is not None:
            charge = self.spool.claim(message, charge)
        return super().append_paged(message, source_entry, charge)

    def read_on(self) -> None:
        """Fetch pages of waiting messages until a page is in memory or no consumer takes more."""
        claim = claim_of(self._ready[-1].charge) if self._ready else None
        cursor = (
            claim.cursor
            if isinstance(claim, ChargedEntry)
            else None
            if self.spool is None
            else self.spool.cursor
        )
        while cursor is not None and self.has_consumers and cursor.wants_page:
            room = cursor.page_in()
            if not room or not self.bring_back(room):
                return
            cursor.page_in(room)
            self._serve()
            if not self._dispatcher.with_room():
                return

    def bring_back(self, most: int = 1) -> bool:
        """Read back at most this many messages from disk; return False if none is available now."""
        behind = self.behind
        if behind is None or self.spool is None or not behind.left:
            return False
        came = behind.read_on(most)
        if not behind.left:
            self.spool.nothing_lies()
        return came

    def clear(self) -> None:
        """Move waiting messages that may be cleared, and all messages after them, to disk."""
        spool, ready = self.spool, self._ready
        if spool is None or spool.cursor.on_disk.messages:
            return
        place = next((at for at, entry in enumerate(ready) if self._clears(entry)), len(ready))
        waiting = list(islice(ready, place, None))
        cleared: list[Entry] = []
        stays: list[Entry] = []
        for entry in waiting:
            (cleared if self._waits(entry) else stays).append(entry)
        if not cleared:
            return
        if any(self._is_stored(entry) for entry in cleared):
            spool.begin_atomic_unit()
        for _ in waiting:
            ready.pop()
        ready.extend(stays)
        laid = sum(self._lay(spool, entry) for entry in cleared)
        if (
            laid == self._order - cleared[0].order + 1
        ):  # they get these numbers again when read back
            self._order -= laid
            self._selection.look_again(self._order)

    def _lay(self, spool: Spool, entry: Entry) -> bool:
        """Move ``entry`` to disk, or drop it if there is no room."""
        charge = entry.charge
        claim = claim_of(charge)
        assert isinstance(claim, ChargedEntry)
        if claim.cursor.drops(claim):
            self.discard(entry)
            return False
        spool.lay(self, entry, claim)
        if isinstance(charge, JournalRef):
            charge.remove_from_journal()
        if claim.lies is not None:
            claim.lies.release()
        return True

    @staticmethod
    def _waits(entry: Entry) -> bool:
        """Return True if ``entry`` waits in the cursor's memory and no consumer holds it."""
        claim = claim_of(entry.charge)
        return not entry.deliveries and isinstance(claim, ChargedEntry) and claim.waits

    @staticmethod
    def _clears(entry: Entry) -> bool:
        claim = claim_of(entry.charge)
        return (
            isinstance(claim, ChargedEntry)
            and claim.cursor.may_clear(claim)
            and not entry.deliveries
        )

    @staticmethod
    def _is_stored(entry: Entry) -> bool:
        claim = claim_of(entry.charge)
        return isinstance(entry.charge, JournalRef) or (
            isinstance(claim, ChargedEntry) and claim.lies is not None
        )

    def hand(self, consumer: Consumer, entry: Entry) -> None:
        claim = claim_of(entry.charge)
        if isinstance(claim, ChargedEntry):
            claim.handed()
        elif isinstance(claim, TopicClaim) and not entry.deliveries:
            claim.sent()
        super().hand(consumer, entry)

    def settle(self, entries: Sequence[Entry], outcome: Outcome) -> None:
        for entry in entries:
            if isinstance(claim := claim_of(entry.charge), ChargedEntry):
                claim.back()  # permanently settled messages leave from there
        super().settle(entries, outcome)

    def discard(self, entry: Entry) -> None:
        claim = claim_of(entry.charge)
        if (
            isinstance(claim, TopicClaim)
            and not entry.deliveries
            and self.routing is RoutingType.MULTICAST
        ):
            claim.sent()
        super().discard(entry)

    def delete(self) -> None:
        super().delete()
        if self.spool is not None:
            self.spool.nothing_lies()
