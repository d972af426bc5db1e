"""Faults of transactions at a paging address: their messages and pages."""

from brokerproof.reference_broker.kernel.router import Router
from brokerproof.reference_broker.kernel.transactions import Transaction
from brokerproof.reference_broker.persistence.pages import PagingStore
from brokerproof.suites.mutation.mutant import Group, Patch

paged_transactions = Group("paged-transactions")

WHOLE, REMOVED = "ARTEMIS-PAGING-11", "ARTEMIS-PAGING-3"


class Commits:
    """True in a boolean context while a transaction is being committed."""

    def __init__(self, patch: Patch) -> None:
        self.running = False

        @patch.override(Transaction)
        def commit(original, transaction, publish):
            self.running = len(transaction._sends) > 0
            try:
                return original(transaction, publish)
            finally:
                self.running = False

    def __bool__(self) -> bool:
        return self.running


@paged_transactions.mutant(WHOLE)
def a_page_that_ends_in_a_commit_loses_a_message(patch, reached):
    """A commit that continues on another page loses its second message there."""
    commits = Commits(patch)
    rolled: set[PagingStore] = set()

    @patch.before(PagingStore)
    def _roll(self):
        if commits and self.last is not None:
            rolled.add(self)

    @patch.override(PagingStore)
    def takes(original, self, message, queues, source_entry, full):
        if reached(commits and self in rolled):
            rolled.remove(self)
            return True
        return original(self, message, queues, source_entry, full)


@paged_transactions.mutant(WHOLE)
def a_page_that_ends_in_a_commit_has_a_message_twice(patch, reached):
    """When a commit continues on another page, the first message on that page is written twice."""
    commits = Commits(patch)

    @patch.override(PagingStore)
    def append(original, self, message, queues, source_entry):
        before = self.last
        size = original(self, message, queues, source_entry)
        if reached(commits and before is not None and self.last is not before):
            size += original(self, message, queues, source_entry)
        return size


@paged_transactions.mutant(WHOLE)
def a_commit_overtakes_the_pages(patch, reached):
    """The messages of a commit stay in memory although earlier ones are on pages."""
    commits = Commits(patch)

    @patch.override(PagingStore)
    def takes(original, self, message, queues, source_entry, full):
        if reached(commits and self.active):
            return False
        return original(self, message, queues, source_entry, full)


@paged_transactions.mutant(WHOLE)
def a_rollback_leaves_messages_on_pages(patch, reached):
    """A rollback writes the transaction's messages to the pages of an address that has some."""
    stores: set[PagingStore] = set()
    routers: set[Router] = set()

    @patch.before(PagingStore)
    def append(self, message, queues, source_entry):
        stores.add(self)

    @patch.before(Router)
    def charge_transaction(self, message):
        routers.add(self)

    @patch.override(Transaction)
    def undo(original, self):
        sends = [message for message, _ in self._sends]
        queues = original(self)
        if any(store.active for store in stores):
            for message in sends:
                reached()
                for router in routers:
                    router.publish(message)
        return queues


@paged_transactions.mutant(REMOVED)
def a_rollback_keeps_its_page(patch, reached):
    """The last page of a rolled-back transaction is never removed."""
    stores: set[PagingStore] = set()

    @patch.before(PagingStore)
    def append(self, message, queues, source_entry):
        stores.add(self)

    @patch.before(Transaction)
    def undo(self):
        for store in stores:
            if reached(self._sends and store.last is not None):
                store.last.pending += 1


@paged_transactions.mutant(REMOVED)
def a_commit_keeps_its_pages(patch, reached):
    """The pages begun by a commit are never removed."""
    commits = Commits(patch)

    @patch.result(PagingStore)
    def _roll(last, self):
        if reached(commits):
            last.pending += 1
        return last
