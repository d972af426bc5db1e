"""The idle share of the processor: a real-time run starts more cases while the processor is partly
idle.

Linux counts the idle time of each core in hundredths of a second (``/proc/stat``). If that file is
unreadable, nothing counts as idle."""

import os
from collections.abc import Collection
from pathlib import Path

_IDLE, _IO_WAIT = 3, 4
"""The positions of two fields in a core's line, after the name (see proc_stat(5))."""


class IdleCores:
    """The cores with these ``numbers``, taken together (default: those usable by this process).
    ``stat`` is the kernel's file."""

    def __init__(
        self, numbers: Collection[int] | None = None, stat: Path = Path("/proc/stat")
    ) -> None:
        self._names = {f"cpu{number}" for number in numbers or os.sched_getaffinity(0)}
        self._stat = stat
        self._before = self._ticks()

    def share(self) -> float:
        """Return the idle share of the cores' time since the last call, 0 to 1; 0 if nothing was
        counted."""
        before, self._before = self._before, self._ticks()
        idle, total = (now - then for now, then in zip(self._before, before, strict=True))
        return idle / total if total > 0 else 0.0

    def _ticks(self) -> tuple[int, int]:
        idle = total = 0
        try:
            lines = self._stat.read_text("ascii").splitlines()
        except OSError:
            return 0, 0
        for name, *fields in (line.split() for line in lines):
            if name in self._names:
                ticks = [int(field) for field in fields[:8]]  # guest time is part of the first two
                idle += ticks[_IDLE] + ticks[_IO_WAIT]
                total += sum(ticks)
        return idle, total
