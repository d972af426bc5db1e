"""Time that a broker's threads waited for a core: a harness that wakes in time itself cannot know
it.

Linux counts for each thread the nanoseconds in which it could have run and did not (the second
field of ``/proc/PID/task/TID/schedstat``). Where that is not counted, or the process cannot be
looked at, nothing is known and the answer is 0.

Nobody waits for the compilers of a Java virtual machine: what they have not compiled yet is
interpreted. They need more of a core than all other threads while a broker is young, and waited
seven seconds of an Artemis' first sixteen, where no other thread waited for more than 0.25.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from brokerproof.harness.model.time import Duration

COMPILERS = ("C1 Compiler", "C2 Compiler")
"""Beginnings of the names of HotSpot's compiler threads."""


class SchedulerDelay:
    """The threads of process ``pid`` and of its descendants. ``proc`` is where the kernel tells of
    processes."""

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        self._pid, self._proc = pid, proc
        self._waited: dict[Path, Duration] = {}
        self._compilers: set[Path] = set()

    def worst(self) -> Duration:
        """The longest that one thread waited for a core, in all, since this was asked last.

        What a thread waited before it was seen for the first time does not count, and one that
        waits now is counted once it runs.
        """
        before, self._waited = self._waited, {}
        for thread in self._threads(self._pid):
            if thread in self._compilers:
                continue
            if thread not in before and self._read(thread / "comm").startswith(COMPILERS):
                self._compilers.add(thread)
                continue
            counted = self._read(thread / "schedstat").split()
            if len(counted) > 1:
                self._waited[thread] = int(counted[1])
        return max(
            (now - before[thread] for thread, now in self._waited.items() if thread in before),
            default=0,
        )

    def _threads(self, pid: int | str) -> Iterator[Path]:
        try:
            threads = list((self._proc / str(pid) / "task").iterdir())
        except OSError:  # it has ended
            return
        yield from threads
        for thread in threads:
            for child in self._read(thread / "children").split():
                yield from self._threads(child)

    @staticmethod
    def _read(file: Path) -> str:
        try:
            return file.read_text("ascii")
        except OSError:
            return ""
