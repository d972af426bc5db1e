"""Order: do the numbers of one producer's messages rise, on their way through one queue to one subscription?

The summary of a part is its least and its greatest number, and whether they rose inside. Two neighbouring parts are in
order when both are, and the least of the second is above the greatest of the first. Redeliveries, which say so, are left
out: they may come again behind others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from reports.judges.codes import Cells, Pairs, in_groups, starts
from reports.judges.columns import Columns

FAR = 2**62


class Rise(NamedTuple):
    """One part; ``broken``: some number did not rise above one before it."""

    least: int = FAR
    greatest: int = -1
    broken: bool = False

    def then(self, later: Rise) -> Rise:
        """This part and the one behind it."""
        broken = self.broken or later.broken or later.least <= self.greatest
        return Rise(min(self.least, later.least), max(self.greatest, later.greatest), broken)


class Order:
    """All lines of order of a stretch."""

    def __init__(self) -> None:
        self._subscriptions, self._flows = Pairs(), Pairs()
        self.groups = Pairs()
        """Of (line and subscription) and (queue and producer)."""
        self._cells = Cells(least=FAR, greatest=-1, broken=False)

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
        cells["broken"][seen] |= least <= cells["greatest"][seen]
        cells["broken"][groups[1:][fell]] = True
        cells["least"][seen] = np.minimum(cells["least"][seen], least)
        cells["greatest"][seen] = np.maximum(cells["greatest"][seen], greatest)

    def parts(self, group: int) -> tuple[int, int, int, int]:
        """Line, subscription, queue and producer."""
        of_line, flow = self.groups.parts(group)
        return (*self._subscriptions.parts(of_line), *self._flows.parts(flow))

    def summaries(self) -> Iterator[tuple[int, Rise]]:
        """Each line of order with its number."""
        cells = self._cells
        for group in range(len(self.groups)):
            yield (
                group,
                Rise(int(cells["least"][group]), int(cells["greatest"][group]), bool(cells["broken"][group])),
            )


def merged(parts: Iterable[Rise]) -> Rise:
    """One summary of parts in their order."""
    whole = Rise()
    for part in parts:
        whole = whole.then(part)
    return whole
