"""The paging store of one address: its pages, their cursors, and its page mode.

An address enters page mode when a message arrives while it is full. From then on, every message
goes to the last page. The mode ends only when every queue has consumed and acknowledged all pages,
so a message in memory is never newer than one on a page. A page is removed when everything up to
its end is finished. The last page is always in memory, so a queue that keeps up reads messages
without disk access. Up to ``page-max-cache-size`` other pages are kept in memory.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from brokerproof.reference_broker.kernel.message import Entry, Message
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.persistence import page as layout
from brokerproof.reference_broker.persistence import records
from brokerproof.reference_broker.persistence.cursor import PageCursor
from brokerproof.reference_broker.persistence.cursor import Store as CursorStore
from brokerproof.reference_broker.persistence.journal import Journal
from brokerproof.reference_broker.persistence.large_bodies import LargeFiles
from brokerproof.reference_broker.persistence.page import Loaded, Page


@dataclass(frozen=True, slots=True)
class PageLimits:
    """Limits in bytes and counts; -1 means no limit.

    ``cache`` is the number of pages in memory besides the last; ``fails`` stands for
    page-full-policy FAIL. ``read_bytes`` and ``read_messages`` limit what one queue may have read
    but not finished.
    """

    page_size: int = 10 * 1024 * 1024
    cache: int = 5
    read_bytes: int = 20 * 1024 * 1024
    read_messages: int = -1
    limit_bytes: int = -1
    limit_messages: int = -1
    fails: bool = True


class Store(CursorStore, Protocol):
    """The page files of all addresses as a single address uses them."""

    journaled: bool
    journal: Journal
    large: LargeFiles

    def page_grew(self, store: "PagingStore", page: Page, size: int, durable: bool) -> None:
        """Record that a page must be written."""

    def load(self, store: "PagingStore", page: Page) -> None: ...

    def page_over(self, page: Page) -> None:
        """Have the file of ``page`` removed from the disk."""

    def set_aside(self, file: str, damage: str) -> None:
        """Report ``damage`` to ``file`` and keep a copy."""


class PagingStore:
    def __init__(self, store: Store, name: str, folder: str, limits: PageLimits) -> None:
        self.store = store
        self.name = name
        self.limits = limits
        self.pages: OrderedDict[int, Page] = OrderedDict()
        self.last: Page | None = None
        self.size = self.messages = 0
        """Bytes and messages on the address's pages, including finished pages not yet removed."""
        self.next_number = 1
        self.shared: dict[tuple[int, int], list[object]] = {}
        """Messages in memory that several queues have, by page and record, and how many queues."""
        self._folder = folder
        self._cursors: dict[int, PageCursor] = {}
        self._cache: OrderedDict[int, Page] = OrderedDict()

    @property
    def active(self) -> bool:
        """True if the address is in page mode."""
        return bool(self.pages)

    @property
    def files(self) -> int:
        return len(self.pages)

    @property
    def is_full(self) -> bool:
        """True if page-limit-bytes or page-limit-messages has been reached."""
        limits = self.limits
        return (0 <= limits.limit_bytes <= self.size) or (
            0 <= limits.limit_messages <= self.messages
        )

    def cursor(self, queue: Queue) -> PageCursor:
        cursor = self._cursors.get(queue.id)
        if cursor is None:
            cursor = self._cursors[queue.id] = queue.behind = PageCursor(self, queue)
        return cursor

    # --- in ---------------------------------------------------------------------------------------

    def takes(
        self, message: Message, queues: list[Queue], source_entry: Entry | None, full: bool
    ) -> bool:
        """Put ``message`` for ``queues`` on a page if the address is in page mode or enters that
        mode now because it is ``full``. Return False if the message belongs in memory."""
        if not self.pages and not full:
            return False
        if queues and not (self.is_full and not self.limits.fails):
            self.append(message, queues, source_entry)
            for queue in queues:
                queue.dispatch()
        return True

    def append(self, message: Message, queues: Sequence[Queue], source_entry: Entry | None) -> int:
        """Put ``message`` for ``queues`` on the last page; return the bytes that it takes there."""
        store = self.store
        durable = store.journaled and any(queue.durable for queue in queues) and message.durable
        ids = [queue.id for queue in queues]
        payload = layout.pack(
            message, ids, durable, store.journal.atomic_unit if durable else 0, source_entry
        )
        last = self.last
        if last is None or (
            last.records > 1
            and last.size + records.HEAD.size + len(payload) > self.limits.page_size
        ):
            last = self._roll()
        before = last.size
        last.add(payload, ids)
        if message.large is not None:
            last.keep(last.records - 1, message.large, len(ids))
            if durable:
                store.large.sync(message.large)
        self.size += last.size - before
        self.messages += 1
        for queue in queues:
            self.cursor(queue).left += 1
        size = last.size - before
        store.page_grew(self, last, size, durable)
        return size

    def _roll(self) -> Page:
        rolled = self.last
        number, self.next_number = self.next_number, self.next_number + 1
        last = self.last = self.pages[number] = Page(self._folder, number, self.name)
        self.size += last.size
        if rolled is not None and rolled.is_written:
            self.written(rolled)
        return last

    def written(self, page: Page) -> None:
        """Record that ``page`` is completely on disk and may leave memory. The page stays if a
        reader closely follows the writer."""
        if page is self.last or page.content is None or page.number not in self.pages:
            return
        if not any(cursor.is_near(page) for cursor in self._cursors.values()):
            page.content = None
        else:
            self._cache[page.number] = page
            self._cache.move_to_end(page.number, last=False)
            self._evict()

    def _evict(self) -> None:
        while len(self._cache) > max(1, self.limits.cache):
            _, page = self._cache.popitem(last=False)
            page.content = None

    # --- out --------------------------------------------------------------------------------------

    def content(self, page: Page) -> list[bytes] | Loaded | None:
        """Return the records of ``page``; None if they must be loaded first, which then begins."""
        if page.content is None:
            self._load(page)
        elif page.number in self._cache:
            self._cache.move_to_end(page.number)
        return page.content

    def ahead(self, number: int) -> None:
        """Load the page ``number``, which will probably be needed soon."""
        page = self.pages.get(number)
        if page is not None and page.content is None and self.limits.cache > 1:
            self._load(page)

    def _load(self, page: Page) -> None:
        if not page.loading:
            page.loading = True
            self.store.load(self, page)

    def loaded(self, page: Page, data: bytes) -> None:
        page.loading = False
        if page.number not in self.pages or page.content is not None:
            return
        page.content = content = Loaded(data, page.records, page.file)
        lost = content.damaged - page.missing
        if lost > 0:
            self.store.set_aside(
                page.file,
                f"{lost} of {page.records - 1} messages of address {self.name} are damaged or"
                " missing, and lost",
            )
        self._cache[page.number] = page
        self._evict()
        for cursor in tuple(self._cursors.values()):
            cursor.came(page)

    # --- done -------------------------------------------------------------------------------------

    def clean(self) -> None:
        """Remove the pages up to whose end all is finished; with the last one, page mode ends."""
        while self.pages:
            number, page = next(iter(self.pages.items()))
            if page.pending or (page is self.last and len(self.pages) > 1):
                return
            del self.pages[number]
            self._cache.pop(number, None)
            self.size -= page.size
            self.messages -= page.records - 1
            self.store.page_over(page)
            page.let_go()
        self.last = None

    def forget(self, queue: Queue) -> None:
        """Forget ``queue``, which has been deleted, and all its references."""
        cursor = self._cursors.pop(queue.id, None)
        if cursor is None:
            return
        cursor.close()
        for page in self.pages.values():
            count = page.refs.pop(queue.id, 0)
            page.left.pop(queue.id, None)
            page.acked.pop(queue.id, None)
            page.pending -= count
        self.clean()

    # --- after a restart --------------------------------------------------------------------------

    def adopt(self, pages: list[Page]) -> None:
        """Take over these pages, which were found in order."""
        for page in pages:
            self.pages[page.number] = page
            self.size += page.size
            self.messages += page.records - 1
            self.next_number = max(self.next_number, page.number + 1)
