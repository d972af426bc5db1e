"""A histogram of durations with a fixed size: 32 steps per power of two, so quantiles are accurate
to three percent."""

from collections.abc import Iterable, Mapping

import numpy as np

from brokerproof.harness.model.time import Duration

_STEPS = 6
_CELLS = (64 - _STEPS) << _STEPS
_AT_ONCE = 4096


class Latencies:
    """A histogram of durations. ``worst`` is exact."""

    def __init__(self) -> None:
        self._new: list[Duration] = []
        self._cells = np.zeros(_CELLS, np.int64)
        self.worst: Duration = 0

    def __len__(self) -> int:
        return int(self._cells.sum()) + len(self._new)

    def record(self, values: Iterable[Duration]) -> None:
        """Enter durations; those below zero count as zero."""
        self._new.extend(values)
        if len(self._new) >= _AT_ONCE:
            self._enter()

    def add(self, counts: Mapping[str, int], worst: Duration) -> None:
        """Add another histogram's :meth:`counts`."""
        for cell, count in counts.items():
            self._cells[int(cell)] += count
        self.worst = max(self.worst, worst)

    def counts(self) -> dict[str, int]:
        self._enter()
        used = np.flatnonzero(self._cells)
        return {str(cell): int(self._cells[cell]) for cell in used.tolist()}

    def quantile(self, share: float) -> Duration | None:
        self._enter()
        total = int(self._cells.sum())
        if not total:
            return None
        cell = int(np.searchsorted(np.cumsum(self._cells), max(1, round(share * total))))
        shift, step = cell >> _STEPS, cell & ((1 << _STEPS) - 1)
        return min(self.worst, ((step + 1) << shift) - 1)

    def _enter(self) -> None:
        if not self._new:
            return
        values = np.maximum(np.array(self._new, np.int64), 0)
        self._new.clear()
        self.worst = max(self.worst, int(values.max()))
        bits = np.frexp(np.maximum(values, 1).astype(np.float64))[1].astype(np.int64)
        shift = np.maximum(bits - _STEPS, 0)
        cells = (shift << _STEPS) + np.minimum(values >> shift, (1 << _STEPS) - 1)
        self._cells += np.bincount(cells, minlength=_CELLS)
