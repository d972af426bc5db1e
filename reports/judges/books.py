"""Loss, duplication, phantoms and marks: are the messages that came, as a multiset, those that were sent?

For each queue and producer the summary is two counts and two sums of hashes of the messages' numbers. Sums need no order,
so summaries of parts that were recorded anywhere add up. Equal sums of 64 bits say that the same messages came as were
sent, each once; whatever else is looked at again, message by message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reports.judges.codes import Bools, Cells, Ints, Pairs
from reports.judges.columns import Columns, Messages

_MASK = 2**64 - 1


class Book(NamedTuple):
    """What is known of one producer's messages on one queue. ``odd``: something that only a second look can judge."""

    sent: int = 0
    sent_sum: int = 0
    got: int = 0
    got_sum: int = 0
    odd: bool = False

    def plus(self, other: Book) -> Book:
        """Both together."""
        return Book(
            self.sent + other.sent,
            (self.sent_sum + other.sent_sum) & _MASK,
            self.got + other.got,
            (self.got_sum + other.got_sum) & _MASK,
            self.odd or other.odd,
        )

    @property
    def balanced(self) -> bool:
        """Whether every message came once, unmarked; then nothing can be wrong with any of them but its place."""
        return not self.odd and self.sent == self.got and self.sent_sum == self.got_sum


def mixed(numbers: Ints) -> npt.NDArray[np.uint64]:
    """A hash of each number (splitmix64): neighbours have nothing in common."""
    with np.errstate(over="ignore"):
        z = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


class Books:
    """All books of a stretch."""

    def __init__(self) -> None:
        self._queues = Pairs()
        self.groups = Pairs()
        """Of (scope and queue) and producer; producer 0 is for messages without a stamp."""
        self._cells = Cells(sent=0, sent_sum=np.uint64(0), got=0, got_sum=np.uint64(0), odd=False)

    def note(self, batch: Columns) -> None:
        """Enters a batch."""
        self._add(batch, batch.sent, "sent", batch.strange)
        self._add(batch, batch.got, "got", batch.marked)

    def group(self, scope: Ints, messages: Messages) -> Ints:
        """The book that each message belongs to."""
        return self.groups.of(self._queues.of(scope, messages.queue), messages.producer + 1)

    def parts(self, group: int) -> tuple[int, int, int]:
        """Scope, queue and producer (-1: without a stamp) of a book."""
        of_queue, producer = self.groups.parts(group)
        return (*self._queues.parts(of_queue), producer - 1)

    def _add(self, batch: Columns, messages: Messages, side: str, odd: Bools) -> None:
        if not len(messages.rows):
            return
        groups = self.group(batch.scope[messages.rows], messages)
        self._cells.grow(len(self.groups))
        self._cells[side][: len(self.groups)] += np.bincount(groups, minlength=len(self.groups))
        np.add.at(self._cells[f"{side}_sum"], groups, mixed(messages.number))
        self._cells["odd"][groups[odd | ~messages.stamped]] = True

    def summaries(self) -> Iterator[tuple[int, Book]]:
        """Each book with its number."""
        cells = self._cells
        for group in range(len(self.groups)):
            yield (
                group,
                Book(
                    int(cells["sent"][group]),
                    int(cells["sent_sum"][group]),
                    int(cells["got"][group]),
                    int(cells["got_sum"][group]),
                    bool(cells["odd"][group]),
                ),
            )


def merged(parts: Iterable[Book]) -> Book:
    """One book of the books of all parts, in any order."""
    whole = Book()
    for part in parts:
        whole = whole.plus(part)
    return whole
