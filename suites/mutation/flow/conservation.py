"""Faults in the accounting of an address: charges that are made twice, never released, or released
in excess."""

from collections.abc import Callable, Iterable

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.families.artemis.accounting import REFERENCE, Charge
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.kernel.transactions import Transaction
from brokerproof.suites.mutation.mutant import Group, Reached

conservation = Group("conservation")

EMPTY, THRESHOLD = "ARTEMIS-PAGING-9", "ARTEMIS-PAGING-8"


def _charges(entries: Iterable[Entry]) -> list[Charge]:
    return [entry.charge for entry in entries if isinstance(entry.charge, Charge)]


@conservation.before(Transaction, "undo", breaks=EMPTY)
def aborted_sends_stay_charged(reached, self):
    """Messages of an aborted transaction stay charged forever."""
    if reached(self._sends):
        self._sends.clear()


@conservation.before(Transaction, "commit", breaks=EMPTY)
def committed_sends_charged_twice(reached, self, publish):
    """Messages of a transaction stay charged to it when it is committed."""
    for _, charge in self._sends:
        if reached(isinstance(charge, Charge)):
            charge._holders += 1


def _taking_back(name: str, fault: str, change: Callable[[Charge], None]) -> None:
    def taken_back(original, reached: Reached, self, back):
        for charge in _charges(back):
            reached()
            change(charge)
        original(self, back)

    taken_back.__name__ = name
    taken_back.__doc__ = fault
    conservation.override(Queue, "_take_back", breaks=f"{EMPTY} {THRESHOLD}")(taken_back)


def _one_more_place(charge: Charge) -> None:
    charge._account.size += REFERENCE


def _one_place_less(charge: Charge) -> None:
    charge._account.size -= REFERENCE


def _one_more_message(charge: Charge) -> None:
    charge._account.messages += 1


_taking_back(
    "returned_messages_charged_again",
    "A message that comes back is charged a second place in its queue.",
    _one_more_place,
)
_taking_back(
    "returned_messages_freed",
    "A message that comes back gives up its place, and later once more.",
    _one_place_less,
)
_taking_back(
    "returned_messages_counted_again",
    "A message that comes back counts once more towards max-size-messages.",
    _one_more_message,
)


@conservation.before(Queue, "settle", breaks=EMPTY)
def rejected_messages_stay_charged(reached, self, entries, outcome):
    """A rejected message is removed but stays charged."""
    if outcome is Outcome.REJECTED:
        for charge in _charges(entries):
            reached()
            charge._holders += 1
