"""Faults of paging: reading back, visibility, limits, the choice of addresses, and the files."""

import itertools
from dataclasses import replace
from unittest import mock

from brokerproof.reference_broker.families.artemis.accounting import AddressAccount, Charge
from brokerproof.reference_broker.families.artemis.admission import Admission
from brokerproof.reference_broker.families.artemis.family import ArtemisFamily
from brokerproof.reference_broker.kernel.admission import Verdict
from brokerproof.reference_broker.kernel.queue import Browsers, Queue
from brokerproof.reference_broker.persistence.page_files import PageFiles
from brokerproof.reference_broker.persistence.pages import PageLimits, PagingStore
from brokerproof.reference_broker.persistence.router_store import Stored
from brokerproof.suites.mutation.mutant import Group

paging = Group("paging")

ORDER = "ARTEMIS-PAGING-11 ARTEMIS-PAGING-10"


# --- reading back ---------------------------------------------------------------------------------


@paging.after(Queue, "append_paged", breaks=f"{ORDER} ARTEMIS-RING-order-1")
def what_was_paged_overtakes(reached, self, message, source_entry, charge):
    """Messages read from a page go before those in memory."""
    if reached(len(self._ready) > 1):
        self._ready.rotate(1)


@paging.mutant(ORDER)
def one_of_a_page_is_lost(patch, reached):
    """The tenth message that a queue reads from pages is lost."""
    patch.set(Queue, "count", 0)

    @patch.after(Queue)
    def append_paged(self, message, source_entry, charge):
        self.count += 1
        if reached(self.count == 10):
            self._ready.pop()


@paging.mutant(ORDER)
def one_of_a_page_comes_twice(patch, reached):
    """The tenth message that a queue reads from pages is delivered twice."""
    patch.set(Queue, "count", 0)

    @patch.override(Queue)
    def append_paged(original, self, message, source_entry, charge):
        self.count += 1
        if reached(self.count == 10):
            original(self, message, None, _Nothing())
        return original(self, message, source_entry, charge)


class _Nothing:
    """A claim on nothing."""

    def release(self) -> None: ...

    def failed(self, failures: int) -> None: ...


@paging.override(Queue, "dispatch", breaks="ARTEMIS-PAGING-5")
def selectors_see_memory_alone(original, reached, self):
    """A queue whose consumers have selectors reads nothing from its pages."""
    if reached(self._selection.choosy and self.behind is not None and self.behind.left):
        self._serve()
    else:
        original(self)


@paging.override(Browsers, "offer", breaks="ARTEMIS-PAGING-4")
def browsers_see_memory_alone(original, reached, self, browser):
    """A browser does not see messages on pages."""
    queue = self._queue
    behind, queue.behind = queue.behind, None
    reached(behind is not None and behind.left)
    original(self, browser)
    queue.behind = behind


# --- limits ---------------------------------------------------------------------------------------


@paging.override(Admission, "judge", breaks="ARTEMIS-PAGING-14 ARTEMIS-PAGING-15")
def pages_know_no_limit(original, reached, self, address, *, by_credit):
    """Pages have no limit."""
    with mock.patch.object(self, "storing", None):
        verdict = original(self, address, by_credit=by_credit)
    return reached.instead(original(self, address, by_credit=by_credit), verdict)


@paging.result(Admission, "judge", breaks="ARTEMIS-PAGING-14 ARTEMIS-PAGING-15")
def full_pages_always_drop(verdict, self, address, *, by_credit):
    """An address at its page limit drops further messages even if it should refuse them."""
    storing = Verdict.TAKE if self.storing is None else self.storing(address)
    return Verdict.DROP if storing is Verdict.REFUSE else verdict


# --- which addresses page -------------------------------------------------------------------------


@paging.override(AddressAccount, "full", breaks="ARTEMIS-PAGING-1")
def one_full_address_takes_all_to_disk(original, reached, self):
    """As soon as one address is full, all addresses page."""
    right = original(self)
    alike = any(original(account) for account in self.accounting._accounts.values())
    return reached.instead(right, right or alike)


@paging.before(Charge, "release", breaks="ARTEMIS-FLOW-block-2")
def the_first_queue_makes_room(reached, self):
    """A message's charge ends with the first of its queues."""
    if reached(self._size and self._holders > 1):
        self._account.size -= self._size
        self._account.accounting.size -= self._size
        self._size = 0


def _limited(patch, reached, limit):
    """Give addresses without limits the limit that ``limit`` returns for the limits of the earlier
    accounts; None sets no limit."""
    known = []

    @patch.after(AddressAccount)
    def __init__(self, name, rule, accounting):
        if rule.max_size_bytes >= 0:
            known.append(rule.max_size_bytes)
        most = limit(known)
        if reached(rule.max_size_bytes < 0 and rule.max_size_messages < 0 and most is not None):
            self._max_size = most

    @patch.override(ArtemisFamily)
    def storage(original, self, store, parts):
        return Stored(original(self, store, parts).store, lambda name: True)


@paging.through(_limited, "ARTEMIS-PAGING-7")
def addresses_page_by_default(known):
    """An address without limits pages above 10 MiB."""
    return 10 * 1024 * 1024


@paging.through(_limited, "ARTEMIS-PAGING-7")
def one_limit_holds_for_all(known):
    """An address without limits has that of the first address with a limit."""
    return known[0] if known else None


# --- files ----------------------------------------------------------------------------------------


@paging.after(PagingStore, "__init__", breaks="ARTEMIS-PAGING-2")
def all_pages_are_in_one_folder(reached, self, store, name, folder, limits):
    """The pages of all addresses are in one folder."""
    reached()
    self._folder = "paging/all"
    self.next_number = 1 + 10_000 * len(store._stores)


@paging.override(PagingStore, "__init__", breaks="ARTEMIS-PAGING-2")
def page_files_grow_too_large(original, reached, self, store, name, folder, limits):
    """Page files grow to 25% above page-size-bytes."""
    reached()
    original(self, store, name, folder, replace(limits, page_size=limits.page_size * 5 // 4))


@paging.override(PagingStore, "__init__", breaks="ARTEMIS-PAGING-2")
def pages_of_default_size_are_small(original, reached, self, store, name, folder, limits):
    """Without page-size-bytes a page has 5 MiB."""
    size = limits.page_size
    if size == PageLimits().page_size:
        size = reached.instead(size, size // 2)
    original(self, store, name, folder, replace(limits, page_size=size))


@paging.override(PageFiles, "page_over", breaks="ARTEMIS-PAGING-3")
def page_files_stay(original, reached, self, page):
    """The file of a page stays after all its messages were acknowledged."""
    reached()


@paging.override(PagingStore, "clean", breaks="ARTEMIS-PAGING-3")
def page_files_go_too_soon(original, reached, self):
    """Removing a page's file also removes the next one."""
    pages = list(self.pages.values())
    original(self)
    for before, page in itertools.pairwise(pages):
        if reached(
            before.number not in self.pages and page.number in self.pages and page is not self.last
        ):
            self.store.page_over(page)
