"""Faults of paging: what comes back from pages, who sees what lies there, how much may, and which
addresses page."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.families.artemis.accounting import Account, Accounting, Charge
from brokerproof.reference_broker.families.artemis.admission import Admission
from brokerproof.reference_broker.kernel.admission import Verdict
from brokerproof.reference_broker.kernel.message import Claim, Entry, Message
from brokerproof.reference_broker.kernel.queue import Browser, Queue
from brokerproof.suites.mutation.mutant import Group, Reached

paging = Group("paging")

ORDER = "ARTEMIS-PAGING-11 ARTEMIS-PAGING-10"


# --- what comes back ------------------------------------------------------------------------------


@paging.mutant(ORDER)
def what_was_paged_overtakes(parts: Parts, reached: Reached) -> Parts:
    """What is read from a page goes in front of what waits in memory."""

    class Faulty(Queue):
        def append(self, message: Message, given_up: Entry | None, charge: Claim) -> Entry:
            entry = super().append(message, given_up, charge)
            if len(self._ready) > 1:
                reached()
                self._ready.rotate(1)
            return entry

    return replace(parts, queue=Faulty)


@paging.mutant(ORDER)
def one_of_a_page_is_lost(parts: Parts, reached: Reached) -> Parts:
    """The tenth message that a queue reads from pages is lost."""

    class Faulty(Queue):
        count = 0

        def append(self, message: Message, given_up: Entry | None, charge: Claim) -> Entry:
            entry = super().append(message, given_up, charge)
            self.count += 1
            if self.count == 10:
                reached()
                self._ready.pop()
            return entry

    return replace(parts, queue=Faulty)


@paging.mutant(ORDER)
def one_of_a_page_comes_twice(parts: Parts, reached: Reached) -> Parts:
    """The tenth message that a queue reads from pages is delivered twice."""

    class Faulty(Queue):
        count = 0

        def append(self, message: Message, given_up: Entry | None, charge: Claim) -> Entry:
            self.count += 1
            if self.count == 10:
                reached()
                super().append(message, None, _Nothing())
            return super().append(message, given_up, charge)

    return replace(parts, queue=Faulty)


class _Nothing:
    """A claim on nothing."""

    def release(self) -> None: ...

    def failed(self, failures: int) -> None: ...


@paging.mutant("ARTEMIS-PAGING-5")
def selectors_see_memory_alone(parts: Parts, reached: Reached) -> Parts:
    """A queue whose consumers have selectors reads nothing from its pages."""

    class Faulty(Queue):
        def dispatch(self) -> None:
            if self._choosy and self.behind is not None and self.behind.left:
                reached()
                self._serve()
            else:
                super().dispatch()

    return replace(parts, queue=Faulty)


@paging.mutant("ARTEMIS-PAGING-4")
def browsers_see_memory_alone(parts: Parts, reached: Reached) -> Parts:
    """A browser does not see what lies on pages."""

    class Faulty(Queue):
        def show(self, browser: Browser) -> None:
            behind, self.behind = self.behind, None
            if behind is not None and behind.left:
                reached()
            super().show(browser)
            self.behind = behind

    return replace(parts, queue=Faulty)


# --- how much -------------------------------------------------------------------------------------


@paging.mutant("ARTEMIS-PAGING-14 ARTEMIS-PAGING-15")
def pages_know_no_limit(parts: Parts, reached: Reached) -> Parts:
    """However much an address has on pages, more is taken."""

    class Faulty(Admission):
        def judge(self, address: str, *, by_credit: bool) -> Verdict:
            storing, self.storing = self.storing, None
            try:
                verdict = super().judge(address, by_credit=by_credit)
            finally:
                self.storing = storing
            return reached.instead(super().judge(address, by_credit=by_credit), verdict)

    return replace(parts, admission=Faulty)


@paging.mutant("ARTEMIS-PAGING-14 ARTEMIS-PAGING-15")
def full_pages_always_drop(parts: Parts, reached: Reached) -> Parts:
    """An address that has too much on pages drops further messages, also where it should refuse
    them."""

    class Faulty(Admission):
        def judge(self, address: str, *, by_credit: bool) -> Verdict:
            verdict = super().judge(address, by_credit=by_credit)
            storing = Verdict.TAKE if self.storing is None else self.storing(address)
            return reached.instead(verdict, Verdict.DROP) if storing is Verdict.REFUSE else verdict

    return replace(parts, admission=Faulty)


# --- which ----------------------------------------------------------------------------------------


@paging.mutant("ARTEMIS-PAGING-1")
def one_full_address_takes_all_to_disk(parts: Parts, reached: Reached) -> Parts:
    """As soon as one address is full every address pages."""

    class Faulty(Account):
        @property
        def full(self) -> bool:
            everybody = self.accounting._accounts.values()
            alike = any(super(Faulty, each).full for each in everybody if isinstance(each, Faulty))
            return reached.instead(super().full, super().full or alike)

    class Faulted(Accounting):
        account_class = Faulty

    return replace(parts, accounting=Faulted)


@paging.mutant("ARTEMIS-FLOW-block-2")
def the_first_queue_makes_room(parts: Parts, reached: Reached) -> Parts:
    """A message counts for its address until the first of its queues is done with it."""

    class Early(Charge):
        def release(self) -> None:
            if self._octets and self._holders > 1:
                reached()
                self._account.size -= self._octets
                self._account.accounting.size -= self._octets
                self._octets = 0
            super().release()

    class Faulty(Account):
        new_charge = Early

    class Faulted(Accounting):
        account_class = Faulty

    return replace(parts, accounting=Faulted)
