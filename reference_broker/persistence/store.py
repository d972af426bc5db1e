"""The store of one broker: it gathers what is to be written, has it written, and knows what is on
disk.

Group commit
------------
Everything that inputs bring is gathered while files are being written; what has been gathered is
then one *batch*, and is written when the batch before it is done: pages first, then the journal,
which accounts for them, each with fsync if it holds anything durable. So however many producers
wait, they wait for one fsync. A batch has a number; what leaves the broker for a connection that
caused something durable waits until its batch is done (see
:class:`brokerproof.reference_broker.kernel.outbox.Outbox`). A receipt, or a disposition, therefore
says that the message survives a loss of power, as far as fsync keeps its word.

When a write fails
------------------
* Want of space: a file that was kept for this (the *ballast*) is removed, and the batch is written
  again. From then on no message is taken, but what consumers are done with is still written, so
  that they can make room.
* Anything else, or still no space: every waiting peer learns that it failed and is closed, no
  message is taken, and the same batch is tried again every second, in new files: what the files of
  a failed write hold is unknown.

Either way memory goes on holding everything that is not on disk, and messages are taken again as
soon as there is room for the ballast, or the batch was written.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from brokerproof.harness.model.broker_io import (
    Effect,
    FileLoaded,
    FilesStored,
    LoadFile,
    Report,
    StoreFiles,
    Write,
)
from brokerproof.reference_broker.kernel.message import Entry, Message, ResourceClaim
from brokerproof.reference_broker.kernel.queue import Numbered, Queue
from brokerproof.reference_broker.persistence.codec import Decoder
from brokerproof.reference_broker.persistence.journal import Journal, Live, Segment
from brokerproof.reference_broker.persistence.large_bodies import LargeFiles
from brokerproof.reference_broker.persistence.operations import (
    Consumed,
    Operation,
    PageFailed,
    PageGone,
    PageOver,
    PageWritten,
    QueueGone,
    QueueMade,
    UnitDone,
)
from brokerproof.reference_broker.persistence.page import Page, folder, runs
from brokerproof.reference_broker.persistence.pages import PageLimits, PagingStore
from brokerproof.reference_broker.persistence.recovery import Recovered

BALLAST = "journal/ballast"
ASIDE = "damaged"
"""The folder where copies of damaged files are kept."""
MUCH = 8 * 1024 * 1024
"""Bytes that wait to be written: above this, who sends messages to pages is not read."""


class State(enum.Enum):
    """State of writing."""

    HEALTHY = enum.auto()
    LOW = enum.auto()
    """The ballast was needed: nothing new is taken until there is room for it again."""
    AILING = enum.auto()
    """The last batch could not be written."""


@dataclass(slots=True)
class _PageWrite:
    """A write to a page that is under way."""

    store: PagingStore
    page: Page
    data: bytes
    sync: bool


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """``journaled``: whether anything is to survive a restart. ``segment`` and ``ballast`` in
    bytes."""

    journaled: bool = False
    segment: int = 10 * 1024 * 1024
    ballast: int = 16 * 1024 * 1024


class JournalRef:
    """The place of a queue's entry in the journal: what it is charged to, besides ``charge``."""

    __slots__ = ("_journal", "_place", "_queue", "charge")

    def __init__(self, journal: Journal, queue: int, place: int, charge: ResourceClaim) -> None:
        self._journal = journal
        self._queue = queue
        self._place = place
        self.charge = charge

    def release(self) -> None:
        """The entry has left its queue for good."""
        self.remove_from_journal()
        self.charge.release()

    def remove_from_journal(self) -> None:
        """The entry is not in the journal any more, but somewhere else."""
        self._journal.remove(self._queue, self._place)

    def failed(self, failures: int) -> None:
        """The entry came back, as a failed delivery, for the time ``failures``."""
        self._journal.failed(self._queue, self._place, failures)


class Store:
    """``limits`` gives the page limits of an address by its name; ``found`` is what an earlier
    broker left."""

    def __init__(
        self,
        options: StoreOptions,
        limits: Callable[[str], PageLimits],
        recovered: Recovered | None = None,
    ) -> None:
        self.options = options
        self.journaled = options.journaled
        self.large = LargeFiles(self)
        self.decoder = Decoder(self.large.find)
        self.journal = Journal(options.segment, self._marks)
        self.state = State.HEALTHY
        self.problem = ""
        self.batch, self.done = 1, 0
        """The batch that is being gathered, and the last that was written."""
        self.unit = 0
        """The number of what of this input belongs together, 0 if nothing does."""
        self.waiting = 0
        """Bytes of pages that wait to be written."""
        self.read_now = 0
        """Bytes that were read from pages for this input."""
        self.unfinished: dict[Queue, None] = {}
        """Queues that would read on."""
        self.unstored: list[Numbered] = []
        """Messages that this input brought, to be numbered with its batch."""
        self._limits = limits
        self._stores: dict[str, PagingStore] = {}
        self._numbers: dict[str, int] = {}
        self._dirty: dict[Page, PagingStore] = {}
        self._useless: list[str] = []
        self._under_way: list[_PageWrite] = []
        self._removing: list[str] = []
        self._aside: list[str] = []
        self._setting_aside: list[str] = []
        self._unreadable: set[str] = set()
        """Pages whose reading has failed, and was reported."""
        self._leaving: dict[str, Page] = {}
        """Pages of no more use whose files may still be there: it has to be known that everything
        is done with."""
        self._ticket = self._stores_as = self._ballast_as = 0
        self._loads: dict[int, tuple[PagingStore, Page]] = {}
        self._unread: list[tuple[PagingStore, Page]] = []
        self._effects: list[Effect] = []
        self._has_ballast = not options.journaled or options.ballast <= 0
        self._consumed_before: set[int] = set()
        self._page_failures: dict[tuple[int, int, int], int] = {}
        self._next_page: dict[int, int] = {}
        self._last_message = 0
        if recovered is not None:
            self._adopt(recovered)
        self.journal.touched = self.journaled

    # --- what happens -----------------------------------------------------------------------------

    @property
    def refuses(self) -> bool:
        """True if no message is accepted because the disk does not store it."""
        return self.state is not State.HEALTHY

    def pages(self, name: str) -> PagingStore:
        """The paging store of the address ``name``."""
        store = self._stores.get(name)
        if store is None:
            store = self._stores[name] = PagingStore(self, name, folder(name), self._limits(name))
            store.next_number = self._numbers.pop(name, 1)
            for queue in self.journal.queues.values() if self._next_page else ():
                if queue.address == name:
                    store.next_number = max(store.next_number, self._next_page.get(queue.id, 0))
        return store

    def close(self, name: str) -> None:
        """The address ``name`` does not exist any more. The numbers of its pages are not used
        again: old files may still go."""
        store = self._stores.get(name)
        if store is not None and not store.active:
            del self._stores[name]
            if store.next_number > 1:
                self._numbers[name] = store.next_number

    def name(self, queue: Queue, address: str, on_demand: bool, subscription: bool) -> None:
        """``queue`` was made: it gets its id; if it is durable it will be there after a restart."""
        if not queue.id:
            self.journal.queue_id += 1
            queue.id = self.journal.queue_id
        if not (self.journaled and queue.durable):
            return
        text = None if queue.filter is None else queue.filter.text
        made = QueueMade(
            queue.id, address, queue.name, queue.routing, on_demand, subscription, text
        )
        if self.journal.queues.get(queue.id) != made:
            self.journal.queues[queue.id] = made
            self.journal.say(made)
            self.unstored.append(queue)

    def forget(self, queue: Queue, address: str) -> None:
        """``queue`` was deleted."""
        store = self._stores.get(address)
        if store is not None:
            store.forget(queue)
        if self.journal.queues.pop(queue.id, None) is not None:
            self.journal.consumed.discard(queue.id)
            self.journal.say(QueueGone(queue.id))

    def consumed(self, queue: Queue) -> None:
        """A consumer may see what is in ``queue`` from now on."""
        journal = self.journal
        if queue.id in journal.queues and queue.id not in journal.consumed:
            journal.consumed.add(queue.id)
            journal.say(Consumed(queue.id, True))
            self.unstored.append(queue)

    def keeps(self, message: Message, queues: Iterable[Queue]) -> bool:
        """True if ``message`` goes into the journal for any of ``queues``."""
        return self.journaled and any(queue.durable for queue in queues) and message.durable

    def keep(
        self,
        message: Message,
        queues: list[Queue],
        source_entry: Entry | None,
        charge: ResourceClaim,
    ) -> Iterator[tuple[Queue, ResourceClaim]]:
        """Puts ``message`` into the journal for the durable ones of ``queues``; gives what each has
        to release."""
        if message.large is not None:
            self.large.sync(message.large)
        place = self.journal.add(
            message, tuple(queue.id for queue in queues if queue.durable), source_entry
        )
        for queue in queues:
            yield (
                queue,
                JournalRef(self.journal, queue.id, place, charge) if queue.durable else charge,
            )

    def begin_atomic_unit(self) -> None:
        """All that this input has brought and will bring belongs together: it is stored as a whole
        or not at all."""
        if self.journaled and not self.unit:
            self.journal.unit += 1
            self.unit = self.journal.unit
            self.journal.say(UnitDone(self.unit))

    def history(self, queue: Queue, page: Page, index: int) -> tuple[int, int]:
        """Failures and deliveries of an entry that a broker before this one had on a page."""
        failures = self._page_failures.get((queue.id, page.number, index), 0)
        return failures, max(failures, 1 if queue.id in self._consumed_before else 0)

    def report(self, sentence: str) -> None:
        """The person who runs the broker has to know."""
        self.say(Report(sentence))

    def set_aside(self, file: str, damage: str) -> None:
        """Report the ``damage`` of a file, of which a copy is kept."""
        self._aside.append(file)
        self.report(f"{file}: {damage}; a copy of the file is kept in {ASIDE}")

    def say(self, effect: Effect) -> None:
        """Something is to be done."""
        self._effects.append(effect)

    def next_ticket(self) -> int:
        """The number of another effect that is answered."""
        self._ticket += 1
        return self._ticket

    # --- pages ------------------------------------------------------------------------------------

    def page_grew(self, store: PagingStore, page: Page, size: int, durable: bool) -> None:
        """``size`` more are to be written to ``page``; with fsync if they are ``durable``."""
        self._dirty[page] = store
        self.waiting += size
        if self.journaled:
            self.unstored.append(page)
        if durable:
            page.sync = self.journal.touched = True

    def page_over(self, page: Page) -> None:
        """``page`` is of no more use."""
        if self._dirty.pop(page, None) is not None:
            self.waiting -= len(page.take_tail())
        if page.written or page.generation or any(write.page is page for write in self._under_way):
            self._useless.append(page.file)
            self._leaving[page.file] = page

    def page_gone(self, queue: int, page: Page, index: int) -> None:
        """``queue`` is done with a durable record of a page."""
        self.journal.page_gone(queue, page.number, index)

    def page_failed(self, queue: int, page: Page, index: int, failures: int) -> None:
        """A durable record of a page came back to ``queue`` as a failed delivery."""
        self._page_failures[queue, page.number, index] = failures
        self.journal.say(PageFailed(queue, page.number, index, min(failures, 0xFFFF)))

    def load(self, store: PagingStore, page: Page) -> None:
        """``page`` is wanted in memory."""
        ticket = self.next_ticket()
        self._loads[ticket] = store, page
        self.say(LoadFile(ticket, page.file, page.size))

    def _marks(self) -> Iterator[Operation]:
        """The pages that must be there, and what queues are done with on them."""
        here: set[tuple[int, int]] = set()
        pages = [page for store in self._stores.values() for page in store.pages.values()]
        for page in (*pages, *self._leaving.values()):
            here.update((queue, page.number) for queue in page.refs)
            if page.accounted and page.file not in self._leaving:
                yield PageWritten(page.number, page.generation, page.accounted, page.address)
            for queue, marks in page.acked.items():
                yield PageGone(queue, page.number, tuple(runs(bytes(marks))))
        self._page_failures = {
            key: each for key, each in self._page_failures.items() if key[:2] in here
        }
        for (queue, number, index), failures in self._page_failures.items():
            yield PageFailed(queue, number, index, min(failures, 0xFFFF))

    # --- batches ----------------------------------------------------------------------------------

    def seal(self) -> bool:
        """Ends what one input brought. True if it brought something durable, which now belongs to
        ``batch``."""
        self.read_now = 0
        unstored, self.unstored[:] = tuple(self.unstored), ()
        if not self.journal.touched:
            return False
        self.journal.seal(together=self.unit != 0)
        self.unit = 0
        if not self._has_work:
            return False
        for item in unstored:
            item.batch = self.batch
        return True

    @property
    def much_waits(self) -> bool:
        """True if more waits to be written than should."""
        return self.waiting + self.journal.waiting + self.large.waiting > MUCH

    @property
    def little_waits(self) -> bool:
        """True if so little waits that connections may be read again."""
        return self.waiting + self.journal.waiting + self.large.waiting <= MUCH // 2

    @property
    def is_idle(self) -> bool:
        """True if nothing is being written, and nothing waits to be."""
        return not (self._stores_as or self._ballast_as or self._has_work)

    @property
    def _has_work(self) -> bool:
        return bool(
            self._dirty or self.journal.waits or self._useless or self.large.waits or self._aside
        )

    def effects(self) -> list[Effect]:
        """Return what must be done with files now."""
        self._useless += self.large.tidy()
        if not self._stores_as and not self._ballast_as and self.state is not State.AILING:
            self._begin()
        effects, self._effects = self._effects, []
        return effects

    def _begin(self, before: tuple[str, ...] = ()) -> None:
        journal = self.journal
        writes = self.large.take()
        for page, store in self._dirty.items():
            page_write = _PageWrite(store, page, page.take_tail(), page.sync)
            if page.sync:
                page.accounted = page.records
                journal.account(
                    PageWritten(page.number, page.generation, page.records, page.address)
                )
            page.sync = False
            self._under_way.append(page_write)
            writes.append(Write(page.file, page.written, page_write.data, page_write.sync))
        self._dirty.clear()
        self._removing, self._useless = self._useless, []
        for page in filter(None, map(self._leaving.get, self._removing)):
            if page.accounted:
                journal.account(PageOver(page.number, page.address))
        if self.journaled and (writes or journal.waits or self._removing):
            writes[:0] = journal.begin()
            if journal.waits:
                writes += journal.write()
            if any(name.startswith("journal/") for name in self._removing):
                writes += journal.extent_for_removal()
        self._setting_aside, self._aside = self._aside, []
        if writes or self._removing or before or self._setting_aside:
            self._stores_as = self.next_ticket()
            self.batch += 1
            self._effects.append(
                StoreFiles(
                    self._ticket,
                    tuple(writes),
                    tuple(self._removing),
                    before,
                    tuple(self._setting_aside),
                )
            )
        elif not self._has_ballast and self.state is State.HEALTHY:
            self._make_ballast()

    def _make_ballast(self) -> None:
        self._ballast_as = self.next_ticket()
        self._effects.append(
            StoreFiles(self._ticket, (Write(BALLAST, 0, bytes(self.options.ballast), sync=True),))
        )

    def stored(self, event: FilesStored) -> bool:
        """A write ended. False if it failed for good: those who wait for it must be told."""
        if event.ticket == self._ballast_as:
            self._ballast_as = 0
            self._ballast(event)
            return True
        if event.ticket != self._stores_as:
            return True
        self._stores_as = 0
        if event.problem is None:
            self._written()
            return True
        return self._not_written(event)

    def _written(self) -> None:
        self.large.written()
        under_way, self._under_way = self._under_way, []
        for written in under_way:
            written.page.written += len(written.data)
            self.waiting -= len(written.data)
            if written.page.is_written:
                written.store.written(written.page)
        for name in self._removing:
            self._leaving.pop(name, None)
        self._useless += self.journal.stored()
        self.done = self.batch - 1
        if self.state is State.AILING:
            self.state = State.HEALTHY if self._has_ballast else State.LOW
            self.report("what could not be written is written now; messages are taken again")

    def _not_written(self, event: FilesStored) -> bool:
        """Write this batch with the next; return False if it has to wait."""
        self._useless = self._removing + self._useless
        self._aside = self._setting_aside + self._aside
        self.journal.failed_to_write()
        self.large.not_written()
        under_way, self._under_way = self._under_way, []
        for written in under_way:
            page = written.page
            if page.number not in written.store.pages:
                self.waiting -= len(written.data)
                self._useless.append(page.file)
                continue
            page.sync = page.sync or written.sync or page.accounted > 0
            self._dirty[page] = written.store
            if event.full:
                page.tail.insert(0, written.data)
            else:
                self.waiting -= len(written.data) + sum(map(len, page.tail))
                before = page.size
                self._useless.append(page.begin_anew())
                written.store.size += page.size - before
                self.waiting += page.size
        self.problem = str(event.problem)
        if (
            event.full
            and self.journaled
            and self._has_ballast
            and self.options.ballast
            and self.state is State.HEALTHY
        ):
            self._has_ballast = False
            self.state = State.LOW
            self.report(f"{self.problem}; no message is taken until there is space again")
            self._begin(before=(BALLAST,))
            return True
        if self.state is not State.AILING:
            self.report(f"{self.problem}; no message is taken until this can be written")
        self.state = State.AILING
        self.large.give_up(self.problem)
        return False

    def _ballast(self, event: FilesStored) -> None:
        if event.problem is None:
            self._has_ballast = True
            if self.state is State.LOW:
                self.state = State.HEALTHY
                self.report("there is space again; messages are taken")
            return
        if self.state is State.HEALTHY:
            self.state = State.LOW
            self.problem = event.problem
            self.report(
                f"{event.problem}; no message is taken until there is space for"
                f" {self.options.ballast} bytes"
            )
        # As much of it as fitted has taken the last of the space: that goes before anything else is
        # written.
        self._begin(before=(BALLAST,))

    def try_again(self) -> None:
        """A while has passed since something could not be written, or read."""
        unread, self._unread = self._unread, []
        for store, page in unread:
            page.loading = False
            if page.number in store.pages and page.content is None:
                store.content(page)
        if self._stores_as or self._ballast_as:
            return
        if self.state is State.AILING:
            if self._has_work:
                self._begin()
            if not self._stores_as:
                self.state = State.HEALTHY if self._has_ballast else State.LOW
        elif self.state is State.LOW and not self._has_work:
            self._make_ballast()

    @property
    def wants_another_try(self) -> bool:
        """True if :meth:`try_again` must be called after a while."""
        return bool(self._unread) or self.state is not State.HEALTHY

    def loaded(self, event: FileLoaded) -> None:
        """A page was read, or could not be; or part of a large body."""
        if self.large.loaded(event):
            return
        store, page = self._loads.pop(event.ticket)
        if event.problem is None:
            self._unreadable.discard(page.file)
            store.loaded(page, event.data)
        elif page.number in store.pages:
            if page.file not in self._unreadable:
                self._unreadable.add(page.file)
                self.report(
                    f"{event.problem}; the messages of address {page.address} on it wait, and it is"
                    " read again every second"
                )
            self._unread.append((store, page))

    # --- after a restart --------------------------------------------------------------------------

    def _adopt(self, recovered: Recovered) -> None:
        journal = self.journal
        for number, size in recovered.segments:
            segment = journal.segments[number] = Segment(number)
            segment.size = segment.good = size
        journal.next_segment = recovered.next_segment
        journal.queues, journal.consumed = dict(recovered.queues), set(recovered.consumed)
        journal.unit, journal.place, journal.queue_id = (
            recovered.unit,
            recovered.place,
            recovered.queue_id,
        )
        self._consumed_before = set(recovered.consumed)
        self._page_failures = dict(recovered.page_failures)
        self._next_page = dict(recovered.next_page)
        self._last_message = recovered.message
        for place, kept in recovered.kept.items():
            live = journal.live[place] = Live(kept.message, kept.ids, kept.source_entry)
            live.failures = dict(kept.failures) or None
            live.size = kept.size
            live.segment = segment = journal.segments[kept.segment]
            segment.live += 1
            segment.live_size += kept.size
            segment.places.append(place)
        for address, pages in recovered.pages.values():
            self.pages(address).adopt(pages)
        self._useless += recovered.useless
        self._aside += recovered.aside
        journal.extents = recovered.extents
        self.large.adopt(recovered.bodies, recovered.last_body)
        for sentence in recovered.reports:
            self.report(sentence)

    @property
    def queues(self) -> list[QueueMade]:
        """The queues that an earlier broker had."""
        return list(self.journal.queues.values())

    @property
    def last_message(self) -> int:
        """The highest number of a message that an earlier broker left."""
        return self._last_message

    def fill(
        self, queues: dict[int, Queue], charge: Callable[[int, Message, int], ResourceClaim]
    ) -> None:
        """Puts what an earlier broker left in the journal into ``queues``; ``charge`` charges a
        message to their address."""
        for place, live in sorted(self.journal.live.items()):
            charged = charge(live.ids[0], live.message, len(live.ids))
            for id in live.ids:
                entry = queues[id].append_paged(
                    live.message, live.source_entry, JournalRef(self.journal, id, place, charged)
                )
                entry.failures = (live.failures or {}).get(id, 0)
                entry.deliveries = max(entry.failures, 1 if id in self._consumed_before else 0)

    def restored(self, queue: Queue, address: str) -> None:
        """``queue``, which an earlier broker had, is there again."""
        store = self._stores.get(address)
        if store is not None and any(queue.id in page.refs for page in store.pages.values()):
            store.cursor(queue).left = sum(
                page.left.get(queue.id, 0) for page in store.pages.values()
            )

    def all_restored(self) -> None:
        """Every queue is there again: pages that are of use to none of them go."""
        for store in self._stores.values():
            store.clean()

    def find(self, address: str) -> PagingStore | None:
        """The paging store of ``address`` if it has one."""
        return self._stores.get(address)

    def ending(self, untouched: Iterable[Queue]) -> None:
        """The broker ends in order, and nothing that waits in ``untouched`` was ever delivered."""
        for queue in untouched:
            if queue.id in self.journal.consumed:
                self.journal.consumed.discard(queue.id)
                self.journal.say(Consumed(queue.id, False))
