"""Order: do the numbers of one producer's messages rise, on their way through one queue to one
subscription?

The summary of a part is its least and its greatest number, and what did not rise inside. Two
neighbouring parts are in order when both are, and the least of the second is above the greatest of
the first. Redeliveries, which say so, are left out: they may come again behind others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from brokerproof.reports.judging.columns import Columns
from brokerproof.reports.judging.dense_ids import Cells, Ints, Pairs, in_groups, starts

FAR = 2**62
MOST = 256
"""So many falls of one line are told one by one; of more, only what lies between the least and the
greatest of them."""
NEAR = 4096
"""A fall that spans no more numbers is told with all between."""
_LIFT = np.int64(1) << 41
"""Above all numbers of messages."""


class Fall(NamedTuple):
    """Message ``low`` came behind ``high``, the greatest that had come; or, if ``all_between``,
    some of those between did."""

    low: int
    high: int
    all_between: bool


class Rise(NamedTuple):
    """One part."""

    least: int = FAR
    greatest: int = -1
    falls: tuple[Fall, ...] = ()

    @property
    def broken(self) -> bool:
        """Whether some number did not rise above one before it."""
        return bool(self.falls)

    def then(self, later: Rise) -> Rise:
        """This part and the one behind it."""
        falls = (*self.falls, *later.falls)
        if later.least <= self.greatest:
            falls = (*falls, Fall(later.least, self.greatest, all_between=True))
        return Rise(
            min(self.least, later.least), max(self.greatest, later.greatest), _bounded(falls)
        )


class Order:
    """All lines of order of a stretch."""

    def __init__(self) -> None:
        self._subscriptions, self._flows = Pairs(), Pairs()
        self.groups = Pairs()
        """Of (line and subscription) and (queue and producer)."""
        self._cells = Cells(least=FAR, greatest=-1)
        self._falls: dict[int, tuple[Fall, ...]] = defaultdict(tuple)

    def note(self, batch: Columns) -> None:
        """Enters a batch."""
        chosen = np.flatnonzero(~batch.marked & batch.got.stamped)
        if not len(chosen):
            return
        of = self.groups.of(
            self._subscriptions.of(batch.line[batch.got.rows[chosen]], batch.subscription[chosen]),
            self._flows.of(batch.got.queue[chosen], batch.got.producer[chosen]),
        )
        self._cells.grow(len(self.groups))
        order = in_groups(of, len(self.groups))
        groups, numbers = of[order], batch.got.number[chosen][order]
        first = starts(groups)
        fell = ~first[1:] & (numbers[1:] <= numbers[:-1])
        at = np.flatnonzero(first)
        seen = groups[at]
        least, greatest = np.minimum.reduceat(numbers, at), np.maximum.reduceat(numbers, at)
        cells = self._cells
        if fell.any() or (least <= cells["greatest"][seen]).any():
            self._told(groups, numbers, at)
        cells["least"][seen] = np.minimum(cells["least"][seen], least)
        cells["greatest"][seen] = np.maximum(cells["greatest"][seen], greatest)

    def _told(self, groups: Ints, numbers: Ints, begin: Ints) -> None:
        """Enters which numbers did not rise."""
        lift = np.repeat(np.arange(len(begin)) * _LIFT, np.diff([*begin.tolist(), len(groups)]))
        before = np.empty_like(numbers)
        before[1:] = numbers[:-1]
        before[begin] = self._cells["greatest"][groups[begin]]
        greatest = np.maximum.accumulate(before + lift) - lift
        fell = np.flatnonzero(numbers <= greatest)
        for group, low, high in zip(
            *(each[fell].tolist() for each in (groups, numbers, greatest)), strict=True
        ):
            self._falls[group] = _bounded(
                (*self._falls[group], Fall(low, high, high - low <= NEAR))
            )

    def parts(self, group: int) -> tuple[int, int, int, int]:
        """Line, subscription, queue and producer."""
        of_line, flow = self.groups.parts(group)
        return (*self._subscriptions.parts(of_line), *self._flows.parts(flow))

    def summaries(self) -> Iterator[tuple[int, Rise]]:
        """Each line of order with its number."""
        cells = self._cells
        for group in range(len(self.groups)):
            rise = Rise(
                int(cells["least"][group]),
                int(cells["greatest"][group]),
                self._falls.get(group, ()),
            )
            yield group, rise


def _bounded(falls: tuple[Fall, ...]) -> tuple[Fall, ...]:
    if len(falls) <= MOST:
        return falls
    return (
        Fall(min(each.low for each in falls), max(each.high for each in falls), all_between=True),
    )


def merged(parts: Iterable[Rise]) -> Rise:
    """One summary of parts in their order."""
    whole = Rise()
    for part in parts:
        whole = whole.then(part)
    return whole
