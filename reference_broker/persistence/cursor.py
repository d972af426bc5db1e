"""The position of one queue in its address's pages, and the messages read but not yet consumed.

When a consumer has room and no message waits for it, the queue reads a few messages; with
selectors, it continues until one matches. The queue's unfinished messages never exceed
``max-read-page-bytes`` or ``-messages``. So if a selector's first match comes after many messages
that nobody consumes, the selector finds nothing until those are consumed (ARTEMIS-PAGING-6).
Browsers read all pages independently.
"""

import struct
from collections.abc import Mapping
from typing import Protocol, cast

from brokerproof.reference_broker.kernel.message import Entry, Message
from brokerproof.reference_broker.kernel.queue import Browser, Queue
from brokerproof.reference_broker.persistence import page as layout
from brokerproof.reference_broker.persistence.codec import BadBytes, Decoder
from brokerproof.reference_broker.persistence.page import DURABLE, Loaded, Page

READ_AT_ONCE = 1024 * 1024
"""Bytes that one input may read from pages. The rest is read slightly later; by then, a slow peer
may have been noticed."""
AT_ONCE = 128
"""Messages that are read before consumers are checked again."""


class Limits(Protocol):
    """Limits on the messages that a queue may have read but not finished."""

    @property
    def read_bytes(self) -> int: ...

    @property
    def read_messages(self) -> int: ...


class Store(Protocol):
    """The page files, as cursors see them. ``read_now`` is how many bytes were read for this input,
    ``unfinished`` has the queues with more to read."""

    read_now: int
    unfinished: dict[Queue, None]
    decoder: Decoder

    def history(self, queue: Queue, page: Page, index: int) -> tuple[int, int]:
        """Return the failures and deliveries that an earlier broker recorded."""

    def report(self, sentence: str) -> None:
        """Report a problem to the operator."""

    def page_gone(self, queue: int, page: Page, index: int) -> None:
        """Record that a queue has finished a record."""

    def page_failed(self, queue: int, page: Page, index: int, failures: int) -> None:
        """Record a failed delivery."""


class Pages(Protocol):
    """The pages of an address as cursors see them."""

    last: Page | None
    next_number: int
    shared: dict[tuple[int, int], list[object]]

    @property
    def pages(self) -> Mapping[int, Page]: ...

    @property
    def store(self) -> Store: ...

    @property
    def limits(self) -> Limits: ...

    def content(self, page: Page) -> list[bytes] | Loaded | None:
        """Return the records of ``page``; None if the page must be loaded first."""

    def ahead(self, number: int) -> None:
        """Load the page ``number`` soon, because it will be needed."""

    def clean(self) -> None: ...


class PageRef:
    """The place of a queue's entry of ``size`` bytes on a page, to which the entry is charged.
    ``several``: other queues have the message too."""

    __slots__ = ("_cursor", "_durable", "_index", "_several", "page", "size")

    def __init__(
        self, cursor: "PageCursor", page: Page, index: int, size: int, durable: bool, several: bool
    ) -> None:
        self._cursor = cursor
        self.page = page
        self._index = index
        self.size = size
        self._durable = durable
        self._several = several

    def release(self) -> None:
        """The entry has left its queue permanently."""
        self._cursor.remove(self.page, self._index, self.size, self._durable)
        if self._several:
            self._cursor.unshare(self.page, self._index)

    def failed(self, failures: int) -> None:
        """The entry was returned as failed delivery number ``failures``."""
        if self._durable:
            self._cursor.failed(self.page, self._index, failures)


class _Glance:
    """A browser's position in the pages: it has read up to record ``index`` of page ``number``,
    which it knows as entry ``order``."""

    __slots__ = ("index", "number", "order")

    def __init__(self, number: int, index: int, order: int) -> None:
        self.number, self.index, self.order = number, index, order


class PageCursor:
    """``left`` is the number of unread messages on pages."""

    def __init__(self, pages: Pages, queue: Queue) -> None:
        self.pages = pages
        self.queue = queue
        self.left = 0
        self._id = queue.id
        self._number, self._index = 0, 1
        self._size = self._messages = 0
        self._glances: dict[Browser, _Glance] = {}
        self._closed = False

    # --- reading ----------------------------------------------------------------------------------

    @property
    def is_coming(self) -> bool:
        """True if the next message is being loaded, or would exceed what this input may read."""
        page = self._page()
        return self.queue in self.pages.store.unfinished or (page is not None and page.loading)

    def read_on(self, most: int = AT_ONCE) -> bool:
        """Read up to ``most`` messages into the queue, as far as its limits and the pages in memory
        allow. Return False if there are none."""
        limits, store = self.pages.limits, self.pages.store
        count = 0
        if store.read_now >= READ_AT_ONCE:
            store.unfinished[self.queue] = None
            return False
        while count < most and self.left > 0:
            page = self._page()
            content = None if page is None else self.pages.content(page)
            if page is None or content is None:
                break
            while self._index < len(content) and count < most:
                if store.read_now >= READ_AT_ONCE:
                    return True
                if self._size >= limits.read_bytes or 0 <= limits.read_messages <= self._messages:
                    return count > 0
                payload, index = content[self._index], self._index
                self._index += 1
                count += payload is not None and self._read(page, index, payload)
            if self._index >= len(content):
                self._turn(page)
        return count > 0

    def _page(self) -> Page | None:
        pages = self.pages.pages
        page = pages.get(self._number)
        if page is not None and page.left.get(self._id):
            return page
        if self.left <= 0:
            return None
        first = max(self._number + 1, next(iter(pages)))
        for number in range(first, self.pages.next_number):
            page = pages.get(number)
            if page is not None and page.left.get(self._id):
                self._number, self._index = number, 1
                self.pages.ahead(number + 1)
                return page
        return None

    def _read(self, page: Page, index: int, payload: bytes) -> bool:
        """Add the record to the queue if it is unfinished and meant for this queue."""
        decoded = self._message(page, index, payload)
        if decoded is None:
            return False
        message, source_entry, durable, several = decoded
        size = len(payload)
        self.pages.store.read_now += size
        entry = self.queue.append_paged(
            message, source_entry, PageRef(self, page, index, size, durable, several)
        )
        if page.recovered:
            entry.failures, entry.deliveries = self.pages.store.history(self.queue, page, index)
        if self.queue.unstored is not None and not page.is_written:
            entry.batch = page.batch
            self.queue.unstored.append(entry)
        self._size += size
        self._messages += 1
        page.left[self._id] -= 1
        self.left -= 1
        return True

    def _message(
        self, page: Page, index: int, payload: bytes
    ) -> tuple[Message, Entry | None, bool, bool] | None:
        try:
            flags, _, ids, at = layout.peek(payload)
            if self._id not in ids or (
                page.recovered and (not flags & DURABLE or page.is_marked(self._id, index))
            ):
                return None
            several = len(ids) > 1
            durable = bool(flags & DURABLE) and self.queue.durable
            key = (page.number, index)
            known = self.pages.shared.get(key) if several else None
            if known is not None:
                known[1] = cast(int, known[1]) + 1
                message, source_entry = cast("tuple[Message, Entry | None]", known[0])
            else:
                message, source_entry = layout.unpack(payload, flags, at, self.pages.store.decoder)
                if several:
                    self.pages.shared[key] = [(message, source_entry), 1]
        except (struct.error, BadBytes) as problem:
            self.pages.store.report(f"{page.file}, record {index}: {problem}; it is not delivered")
            return None
        return message, source_entry, durable, several

    def _turn(self, page: Page) -> None:
        """Leave ``page``, which has been read completely. Unless the page is the last, missing
        records are damaged and are written off."""
        if page is self.pages.last:
            return
        missing = page.left.pop(self._id, 0)
        self._number, self._index = page.number + 1, 1
        if missing:
            self.left -= missing
            page.drop(self._id, missing)
            self.pages.clean()

    def is_near(self, page: Page) -> bool:
        """Return True if ``page`` is the current or the next page."""
        return self._number >= page.number - 1

    def came(self, page: Page) -> None:
        if page.number == self._number:
            self.queue.read()
        else:
            for browser, glance in tuple(self._glances.items()):
                if glance.number == page.number:
                    self.queue.browsers.offer(browser)

    # --- what was read ----------------------------------------------------------------------------

    def remove(self, page: Page, index: int, size: int, durable: bool) -> None:
        """Record that an entry read from a page has left the queue permanently."""
        if self._closed:
            return
        self._size -= size
        self._messages -= 1
        page.refs[self._id] -= 1
        page.pending -= 1
        page.done(index)
        if durable:
            page.mark(self._id, index)
            self.pages.store.page_gone(self._id, page, index)
        if page.pending == 0:
            self.pages.clean()

    def failed(self, page: Page, index: int, failures: int) -> None:
        """Record that an entry read from a page was returned as a failed delivery."""
        if not self._closed:
            self.pages.store.page_failed(self._id, page, index, failures)

    def unshare(self, page: Page, index: int) -> None:
        """Record that one fewer queue has the message in memory."""
        key = (page.number, index)
        known = self.pages.shared.get(key)
        if known is not None:
            known[1] = cast(int, known[1]) - 1
            if not known[1]:
                del self.pages.shared[key]

    def close(self) -> None:
        self._closed = True
        self.left = 0

    # --- browsers ---------------------------------------------------------------------------------

    def browse(self, browser: Browser) -> None:
        """Show ``browser`` the messages on pages after those that the queue has read."""
        glance = self._glances.get(browser)
        if glance is None or glance.order < self.queue.order:
            self._page()
            glance = self._glances[browser] = _Glance(self._number, self._index, self.queue.order)
        while browser.has_room():
            following = self._next(glance)
            if following is None:
                return
            message, source_entry = following
            glance.order += 1
            if glance.order <= browser.cursor:
                continue
            entry = Entry(message, glance.order)
            if source_entry is not None:
                entry.earlier, entry.notes = (
                    source_entry.earlier + source_entry.failures,
                    source_entry.notes,
                )
            browser.cursor = glance.order
            if self.queue.unstored is not None:
                page = self.pages.pages[glance.number]
                browser.wait_for(max(page.batch, self.queue.batch))
            browser.show(entry)

    def _next(self, glance: _Glance) -> tuple[Message, Entry | None] | None:
        """Return the next message for a browser; None if none exists or it must be loaded first."""
        pages = self.pages.pages
        while True:
            page = pages.get(glance.number)
            if page is None:
                following = next((page for page in pages if page > glance.number), None)
                if following is None:
                    return None
                glance.number, glance.index = following, 1
                continue
            content = self.pages.content(page)
            if content is None:
                return None
            if glance.index >= len(content):
                if page is self.pages.last:
                    return None
                glance.number, glance.index = page.number + 1, 1
                continue
            payload, index = content[glance.index], glance.index
            glance.index += 1
            decoded = None if payload is None else self._message(page, index, payload)
            if decoded is not None:
                message, source_entry, _, several = decoded
                if several:
                    self.unshare(page, index)
                return message, source_entry

    def stop_browsing(self, browser: Browser) -> None:
        """Show ``browser`` nothing more."""
        self._glances.pop(browser, None)
