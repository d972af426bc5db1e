"""Writes, reads and removes the page files of all addresses, also those of an earlier broker."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from brokerproof.harness.model.broker_io import Effect, FileLoaded, LoadFile, Write
from brokerproof.reference_broker.kernel.queue import Numbered, Queue
from brokerproof.reference_broker.persistence.codec import Decoder
from brokerproof.reference_broker.persistence.journal import Journal
from brokerproof.reference_broker.persistence.large_bodies import LargeFiles
from brokerproof.reference_broker.persistence.operations import (
    Operation,
    PageFailed,
    PageGone,
    PageOver,
    PageWritten,
)
from brokerproof.reference_broker.persistence.page import Page, folder, runs
from brokerproof.reference_broker.persistence.pages import PageLimits, PagingStore
from brokerproof.reference_broker.persistence.recovered import Recovered


class Store(Protocol):
    """The store as page files see it. ``unstored`` collects what the next batch will store."""

    journaled: bool
    journal: Journal
    large: LargeFiles
    decoder: Decoder
    unstored: list[Numbered]

    def next_ticket(self) -> int:
        """Return the number of a new request."""

    def say(self, effect: Effect) -> None:
        """Add an effect to the result of the current input."""

    def remove(self, file: str) -> None: ...

    def report(self, sentence: str) -> None:
        """Report a problem to the operator."""

    def set_aside(self, file: str, damage: str) -> None:
        """Report ``damage`` to ``file`` and keep a copy."""


@dataclass(slots=True)
class _PageWrite:
    store: PagingStore
    page: Page
    data: bytes
    sync: bool


class PageFiles:
    """``limits`` returns an address's page limits, given its name."""

    def __init__(self, store: Store, limits: Callable[[str], PageLimits]) -> None:
        self.journaled = store.journaled
        self.journal = store.journal
        self.large = store.large
        self.decoder = store.decoder
        self.report = store.report
        self.set_aside = store.set_aside
        self.waiting = 0
        """Bytes that wait to be written."""
        self.read_now = 0
        """Bytes that were read from pages for this input."""
        self.unfinished: dict[Queue, None] = {}
        """Queues that have more to read."""
        self.unread: list[tuple[PagingStore, Page]] = []
        """Pages that could not be read, and must be read again."""
        self._store = store
        self._limits = limits
        self._stores: dict[str, PagingStore] = {}
        self._numbers: dict[str, int] = {}
        self._dirty: dict[Page, PagingStore] = {}
        self._under_way: list[_PageWrite] = []
        self._loads: dict[int, tuple[PagingStore, Page]] = {}
        self._unreadable: set[str] = set()
        """Pages that could not be read, which was reported."""
        self._leaving: dict[str, Page] = {}
        """Fully consumed pages whose files may still exist. Their messages must not be delivered
        again after recovery."""
        self._consumed_before: set[int] = set()
        self._failures: dict[tuple[int, int, int], int] = {}
        self._next_page: dict[int, int] = {}

    # --- addresses --------------------------------------------------------------------------------

    def open(self, name: str) -> PagingStore:
        store = self._stores.get(name)
        if store is None:
            store = self._stores[name] = PagingStore(self, name, folder(name), self._limits(name))
            store.next_number = self._numbers.pop(name, 1)
            for queue in self.journal.queues.values() if self._next_page else ():
                if queue.address == name:
                    store.next_number = max(store.next_number, self._next_page.get(queue.id, 0))
        return store

    def find(self, address: str) -> PagingStore | None:
        return self._stores.get(address)

    def close(self, name: str) -> None:
        """Record that the address ``name`` no longer exists. The numbers of its pages are not
        reused, because old files may still have to be removed."""
        store = self._stores.get(name)
        if store is not None and not store.active:
            del self._stores[name]
            if store.next_number > 1:
                self._numbers[name] = store.next_number

    def forget(self, queue: Queue, address: str) -> None:
        store = self._stores.get(address)
        if store is not None:
            store.forget(queue)

    def history(self, queue: Queue, page: Page, index: int) -> tuple[int, int]:
        """Return the failures and deliveries of an entry that an earlier broker had on a page."""
        failures = self._failures.get((queue.id, page.number, index), 0)
        return failures, max(failures, 1 if queue.id in self._consumed_before else 0)

    # --- what happens to pages --------------------------------------------------------------------

    def page_grew(self, store: PagingStore, page: Page, size: int, durable: bool) -> None:
        """Have ``size`` more bytes written to ``page``, with fsync if they are ``durable``."""
        self._dirty[page] = store
        self.waiting += size
        if self.journaled:
            self._store.unstored.append(page)
        if durable:
            page.sync = self.journal.touched = True

    def page_over(self, page: Page) -> None:
        """Record that ``page`` is no longer needed."""
        if self._dirty.pop(page, None) is not None:
            self.waiting -= len(page.take_tail())
        if page.written or page.generation or any(write.page is page for write in self._under_way):
            self._store.remove(page.file)
            self._leaving[page.file] = page

    def page_gone(self, queue: int, page: Page, index: int) -> None:
        """Record that ``queue`` has finished a durable record of a page."""
        self.journal.page_gone(queue, page.number, index)

    def page_failed(self, queue: int, page: Page, index: int, failures: int) -> None:
        """Record that a durable record of a page was returned to ``queue`` as a failed delivery."""
        self._failures[queue, page.number, index] = failures
        self.journal.say(PageFailed(queue, page.number, index, min(failures, 0xFFFF)))

    def marks(self) -> Iterator[Operation]:
        """Return the pages that must exist, and the records on them that queues have finished."""
        here: set[tuple[int, int]] = set()
        pages = [page for store in self._stores.values() for page in store.pages.values()]
        for page in (*pages, *self._leaving.values()):
            here.update((queue, page.number) for queue in page.refs)
            if page.accounted and page.file not in self._leaving:
                yield PageWritten(page.number, page.generation, page.accounted, page.address)
            for queue, marks in page.acked.items():
                yield PageGone(queue, page.number, tuple(runs(bytes(marks))))
        self._failures = {key: each for key, each in self._failures.items() if key[:2] in here}
        for (queue, number, index), failures in self._failures.items():
            yield PageFailed(queue, number, index, min(failures, 0xFFFF))

    # --- batches ----------------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """True if something must be written."""
        return bool(self._dirty)

    def take(self) -> list[Write]:
        """Return what must be written with the next batch."""
        writes = []
        for page, store in self._dirty.items():
            page_write = _PageWrite(store, page, page.take_tail(), page.sync)
            if page.sync:
                page.accounted = page.records
                self.journal.account(
                    PageWritten(page.number, page.generation, page.records, page.address)
                )
            page.sync = False
            self._under_way.append(page_write)
            writes.append(Write(page.file, page.written, page_write.data, page_write.sync))
        self._dirty.clear()
        return writes

    def account_for_removal(self, files: list[str]) -> None:
        """Have the journal account for those pages among ``files`` that the next batch removes."""
        for page in filter(None, map(self._leaving.get, files)):
            if page.accounted:
                self.journal.account(PageOver(page.number, page.address))

    def written(self, removed: list[str]) -> None:
        """Record that the batch was written and that the files ``removed`` were deleted."""
        under_way, self._under_way = self._under_way, []
        for written in under_way:
            written.page.written += len(written.data)
            self.waiting -= len(written.data)
            if written.page.is_written:
                written.store.written(written.page)
        for name in removed:
            self._leaving.pop(name, None)

    def not_written(self, full: bool) -> None:
        """The batch must be written again, to the same files if only the disk was ``full``."""
        under_way, self._under_way = self._under_way, []
        for written in under_way:
            page = written.page
            if page.number not in written.store.pages:
                self.waiting -= len(written.data)
                self._store.remove(page.file)
                continue
            page.sync = page.sync or written.sync or page.accounted > 0
            self._dirty[page] = written.store
            if full:
                page.tail.insert(0, written.data)
            else:
                self.waiting -= len(written.data) + sum(map(len, page.tail))
                before = page.size
                self._store.remove(page.begin_anew())
                written.store.size += page.size - before
                self.waiting += page.size

    # --- reading ----------------------------------------------------------------------------------

    def load(self, store: PagingStore, page: Page) -> None:
        """Load ``page`` into memory."""
        ticket = self._store.next_ticket()
        self._loads[ticket] = store, page
        self._store.say(LoadFile(ticket, page.file, page.size))

    def loaded(self, event: FileLoaded) -> None:
        """Accept a page that was read or could not be read."""
        store, page = self._loads.pop(event.ticket)
        if event.problem is None:
            self._unreadable.discard(page.file)
            store.loaded(page, event.data)
        elif page.number in store.pages:
            if page.file not in self._unreadable:
                self._unreadable.add(page.file)
                self.report(
                    f"{event.problem}; its messages of address {page.address} wait, and the broker"
                    " retries every second"
                )
            self.unread.append((store, page))

    def read_again(self) -> None:
        """Retry the failed reads."""
        unread, self.unread = self.unread, []
        for store, page in unread:
            page.loading = False
            if page.number in store.pages and page.content is None:
                store.content(page)

    # --- after a restart --------------------------------------------------------------------------

    def adopt(self, recovered: Recovered) -> None:
        self._consumed_before = set(recovered.consumed)
        self._failures = dict(recovered.page_failures)
        self._next_page = dict(recovered.next_page)
        for address, pages in recovered.pages.values():
            self.open(address).adopt(pages)

    def restored(self, queue: Queue, address: str) -> None:
        """Record that ``queue`` of an earlier broker was restored."""
        store = self._stores.get(address)
        if store is not None and any(queue.id in page.refs for page in store.pages.values()):
            store.cursor(queue).left = sum(
                page.left.get(queue.id, 0) for page in store.pages.values()
            )

    def all_restored(self) -> None:
        """Remove the pages that no queue needs now that all queues are restored."""
        for store in self._stores.values():
            store.clean()
