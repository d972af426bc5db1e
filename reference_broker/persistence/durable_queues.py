"""Queues that survive a restart, kept in the journal with their messages that are not on pages."""

from collections.abc import Callable, Iterable, Iterator

from brokerproof.reference_broker.kernel.message import Entry, Message, ResourceClaim
from brokerproof.reference_broker.kernel.queue import Numbered, Queue
from brokerproof.reference_broker.persistence.journal import Journal
from brokerproof.reference_broker.persistence.large_bodies import LargeFiles
from brokerproof.reference_broker.persistence.operations import Consumed, QueueGone, QueueMade


class JournalRef:
    """A queue entry's place in the journal, to which it is charged in addition to ``charge``."""

    __slots__ = ("_journal", "_place", "_queue", "charge")

    def __init__(self, journal: Journal, queue: int, place: int, charge: ResourceClaim) -> None:
        self._journal = journal
        self._queue = queue
        self._place = place
        self.charge = charge

    def release(self) -> None:
        """The entry has left its queue permanently."""
        self.remove_from_journal()
        self.charge.release()

    def remove_from_journal(self) -> None:
        """The entry moves from the journal to another place."""
        self._journal.remove(self._queue, self._place)

    def failed(self, failures: int) -> None:
        """The entry was returned as failed delivery number ``failures``."""
        self._journal.failed(self._queue, self._place, failures)


class DurableQueues:
    """The queues in ``journal``. ``unstored`` collects what the next batch will store;
    ``journaled`` is False if nothing survives a restart."""

    def __init__(
        self, journal: Journal, large: LargeFiles, unstored: list[Numbered], *, journaled: bool
    ) -> None:
        self._journal = journal
        self._large = large
        self._unstored = unstored
        self._journaled = journaled
        self._consumed_before = frozenset(journal.consumed)

    @property
    def recorded(self) -> list[QueueMade]:
        return list(self._journal.queues.values())

    def name(self, queue: Queue, address: str, on_demand: bool, subscription: bool) -> None:
        """Record the new ``queue``: it gets an id, and survives a restart if it is durable."""
        if not queue.id:
            self._journal.queue_id += 1
            queue.id = self._journal.queue_id
        if not (self._journaled and queue.durable):
            return
        text = None if queue.filter is None else queue.filter.text
        made = QueueMade(
            queue.id, address, queue.name, queue.routing, on_demand, subscription, text
        )
        if self._journal.queues.get(queue.id) != made:
            self._journal.queues[queue.id] = made
            self._journal.say(made)
            self._unstored.append(queue)

    def forget(self, queue: Queue) -> None:
        if self._journal.queues.pop(queue.id, None) is not None:
            self._journal.consumed.discard(queue.id)
            self._journal.say(QueueGone(queue.id))

    def consumed(self, queue: Queue) -> None:
        """Record that a consumer may see the messages of ``queue`` from now on."""
        journal = self._journal
        if queue.id in journal.queues and queue.id not in journal.consumed:
            journal.consumed.add(queue.id)
            journal.say(Consumed(queue.id, True))
            self._unstored.append(queue)

    def keeps(self, message: Message, queues: Iterable[Queue]) -> bool:
        """Return True if ``message`` goes into the journal for any of ``queues``."""
        return self._journaled and any(queue.durable for queue in queues) and message.durable

    def keep(
        self,
        message: Message,
        queues: list[Queue],
        source_entry: Entry | None,
        charge: ResourceClaim,
    ) -> Iterator[tuple[Queue, ResourceClaim]]:
        """Store ``message`` for the durable ``queues``; return the claim that each must release."""
        if message.large is not None:
            self._large.sync(message.large)
        place = self._journal.add(
            message, tuple(queue.id for queue in queues if queue.durable), source_entry
        )
        for queue in queues:
            yield (
                queue,
                JournalRef(self._journal, queue.id, place, charge) if queue.durable else charge,
            )

    def fill(
        self, queues: dict[int, Queue], charge: Callable[[int, Message, int], ResourceClaim]
    ) -> None:
        """Put an earlier broker's messages from the journal into ``queues``; ``charge`` charges a
        message to their address."""
        for place, live in sorted(self._journal.live.items()):
            charged = charge(live.ids[0], live.message, len(live.ids))
            for id in live.ids:
                entry = queues[id].append_paged(
                    live.message, live.source_entry, JournalRef(self._journal, id, place, charged)
                )
                entry.failures = (live.failures or {}).get(id, 0)
                entry.deliveries = max(entry.failures, 1 if id in self._consumed_before else 0)

    def ending(self, untouched: Iterable[Queue]) -> None:
        """Record that the broker is shutting down cleanly, and that no message in ``untouched`` was
        ever delivered."""
        for queue in untouched:
            if queue.id in self._journal.consumed:
                self._journal.consumed.discard(queue.id)
                self._journal.say(Consumed(queue.id, False))
