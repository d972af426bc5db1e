"""Faults of paged queues that only certain histories of their consumers reveal: effects of pages on
returned messages, windows, and acknowledgements."""

from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.persistence.cursor import PageRef
from brokerproof.reference_broker.protocols.core.consumer import CoreConsumer
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group

paged_histories = Group("paged-histories")

STOMP_WINDOW, CORE_WINDOW = "ARTEMIS-STOMP-window-3", "ARTEMIS-FLOW-consumer-1"
EACH_ONCE, GONE = "ARTEMIS-CONCEPTS-queue-1", "ARTEMIS-CONCEPTS-queue-2"
FIFO = "ARTEMIS-GROUPING-fifo-1"


class NoClaim:
    """A claim on nothing."""

    def release(self) -> None:
        """Do nothing."""

    def failed(self, failures: int) -> None:
        """Do nothing."""


@paged_histories.override(Queue, "_take_back", breaks=FIFO)
def what_returns_goes_behind_what_was_read(original, reached, self, back):
    """A returned message of a page goes after those read from pages since."""
    paged = [entry for entry in back if isinstance(entry.charge, PageRef)]
    original(self, [entry for entry in back if entry not in paged])
    reached(paged and self._ready and self._ready[-1].order > paged[0].order)
    for entry in paged:
        self._order += 1
        entry.order = self._order
        self._ready.append(entry)


@paged_histories.override(Queue, "_take_back", breaks=EACH_ONCE)
def the_last_of_a_page_does_not_return(original, reached, self, back):
    """A message returned after its page was read completely is lost."""
    kept = []
    for entry in back:
        if reached(isinstance(entry.charge, PageRef) and not entry.charge.page.left.get(self.id)):
            self.discard(entry)
        else:
            kept.append(entry)
    original(self, kept)


@paged_histories.override(Queue, "_take_back", breaks=f"{EACH_ONCE} {GONE}")
def what_returns_to_a_page_comes_twice(original, reached, self, back):
    """A returned message of a page is delivered twice."""
    again = []
    for entry in back:
        if reached(isinstance(entry.charge, PageRef)):
            copy = Entry(entry.message, entry.order, NoClaim())
            again.append(copy)
    original(self, [*back, *again])


@paged_histories.mutant(f"{STOMP_WINDOW} {CORE_WINDOW}")
def pages_are_read_every_second_time(patch, reached):
    """Every second time that consumers have room while memory is empty, pages are not read."""
    asked: dict[Queue, int] = {}

    @patch.override(Queue)
    def read_on(original, self):
        if self.behind is not None and self.behind.left and not self._ready:
            asked[self] = asked.get(self, 0) + 1
            if reached(asked[self] % 2 == 0):
                return
        original(self)


@paged_histories.override(Subscription, "deliver", breaks=STOMP_WINDOW)
def what_was_paged_costs_no_window(original, reached, self, entry):
    """A message read from a page is not charged to its window."""
    before = self.window.credit
    original(self, entry)
    if reached(isinstance(entry.charge, PageRef) and self.window.size > 0):
        self.window.credit = before


@paged_histories.override(CoreConsumer, "deliver", breaks=CORE_WINDOW)
def what_was_paged_costs_no_credit(original, reached, self, entry):
    """A message that was read from a page costs its consumer no credit."""
    before = self.credit.credit
    original(self, entry)
    if reached(isinstance(entry.charge, PageRef)):
        self.credit.credit = before


@paged_histories.amends(Subscription, "take", breaks=GONE)
def ranges_end_at_a_page(reached, taken, self, delivery):
    """A cumulative ACK does not cover messages on earlier pages than its own."""
    last = delivery.entry.charge
    for entry in taken[:-1]:
        claim = entry.charge
        if reached(
            isinstance(claim, PageRef) and isinstance(last, PageRef) and claim.page is not last.page
        ):
            taken.remove(entry)
            self.queue.unsettled -= 1
            self.queue._take_back([entry])
