"""Order: do the numbers of one producer's messages ascend from one queue to one subscription? The
summary of a piece has the lowest and the highest number, and the inversions. Two consecutive pieces
are in order if each of them is, and the lowest number in the second exceeds the highest in the
first. Deliveries marked as redelivered are ignored, because they may arrive after others."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from brokerproof.reports.judging.columns import Columns
from brokerproof.reports.judging.dense_ids import Cells, Ints, Pairs, in_groups, starts
from brokerproof.reports.judging.summary import Summary

FAR = 2**62
MOST = 256
"""The maximum number of inversions of a group that are named individually. If there are more, only
bounds are kept."""
NEAR = 4096
"""An inversion that spans at most this many numbers is named with all numbers in between."""
_LIFT = np.int64(1) << 41
"""A number above all message numbers."""


class Inversion(NamedTuple):
    """Message ``low`` arrived after ``high``, the highest so far. With ``all_between``, any message
    between them may have arrived late too."""

    low: int
    high: int
    all_between: bool


@dataclass(frozen=True)
class OrderSummary(Summary["OrderSummary"]):
    """The numbers of one producer's messages on the way to one subscription."""

    least: int = FAR
    greatest: int = -1
    inversions: tuple[Inversion, ...] = ()

    def merge(self, later: "OrderSummary") -> "OrderSummary":
        inversions = (*self.inversions, *later.inversions)
        if later.least <= self.greatest:
            inversions = (*inversions, Inversion(later.least, self.greatest, all_between=True))
        return OrderSummary(
            min(self.least, later.least), max(self.greatest, later.greatest), _bounded(inversions)
        )

    @property
    def needs_recheck(self) -> bool:
        """True if a number does not exceed all earlier ones."""
        return bool(self.inversions)


class OrderSummaries:
    def __init__(self) -> None:
        self._subscriptions = Pairs()
        self._flows = Pairs()
        self.groups = Pairs()
        """Groups: pairs of (connection and subscription) and (queue and producer)."""
        self._cells = Cells(least=FAR, greatest=-1)
        self._inversions: dict[int, tuple[Inversion, ...]] = defaultdict(tuple)

    def update(self, batch: Columns) -> None:
        got = batch.got
        chosen = np.flatnonzero(~batch.marked & got.stamped)
        if not len(chosen):
            return
        of = self.groups.of(
            self._subscriptions.of(batch.connection[got.rows[chosen]], batch.subscription[chosen]),
            self._flows.of(got.queue[chosen], got.producer[chosen]),
        )
        self._cells.grow(len(self.groups))
        order = in_groups(of, len(self.groups))
        groups, numbers = of[order], got.number[chosen][order]
        first = starts(groups)
        inverted = ~first[1:] & (numbers[1:] <= numbers[:-1])
        begin = np.flatnonzero(first)
        seen = groups[begin]
        least = np.minimum.reduceat(numbers, begin)
        greatest = np.maximum.reduceat(numbers, begin)
        cells = self._cells
        if inverted.any() or (least <= cells["greatest"][seen]).any():
            self._add_inversions(groups, numbers, begin)
        cells["least"][seen] = np.minimum(cells["least"][seen], least)
        cells["greatest"][seen] = np.maximum(cells["greatest"][seen], greatest)

    def _add_inversions(self, groups: Ints, numbers: Ints, begin: Ints) -> None:
        # The numbers of each group are shifted above those of the group before it, so that one
        # running maximum serves all groups.
        lift = np.repeat(np.arange(len(begin)) * _LIFT, np.diff([*begin.tolist(), len(groups)]))
        before = np.empty_like(numbers)
        before[1:] = numbers[:-1]
        before[begin] = self._cells["greatest"][groups[begin]]
        greatest = np.maximum.accumulate(before + lift) - lift
        inverted = np.flatnonzero(numbers <= greatest)
        for group, low, high in zip(
            *(column[inverted].tolist() for column in (groups, numbers, greatest)), strict=True
        ):
            self._inversions[group] = _bounded(
                (*self._inversions[group], Inversion(low, high, high - low <= NEAR))
            )

    def parts(self, group: int) -> tuple[int, int, int, int]:
        pair, flow = self.groups.parts(group)
        return (*self._subscriptions.parts(pair), *self._flows.parts(flow))

    def summaries(self) -> Iterator[tuple[int, OrderSummary]]:
        """Yield the number and the summary of each group."""
        cells = self._cells
        for group in range(len(self.groups)):
            least, greatest = int(cells["least"][group]), int(cells["greatest"][group])
            yield group, OrderSummary(least, greatest, self._inversions.get(group, ()))


def _bounded(inversions: tuple[Inversion, ...]) -> tuple[Inversion, ...]:
    if len(inversions) <= MOST:
        return inversions
    low = min(inversion.low for inversion in inversions)
    high = max(inversion.high for inversion in inversions)
    return (Inversion(low, high, all_between=True),)
