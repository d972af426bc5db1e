"""Measures how long a broker's threads waited for a core. A harness whose own threads are woken on
time could not notice such waits otherwise.

Linux counts the nanoseconds for which each thread was runnable but not running (the second field of
``/proc/PID/task/TID/schedstat``). If the count is missing or the process is inaccessible, the
answer is 0.

The JIT compiler threads of a Java VM are ignored, because nothing waits for them: code not yet
compiled is interpreted. Shortly after a broker starts, the compiler threads need more processor
time than all other threads. In the first sixteen seconds after an Artemis broker started, the
compiler threads waited for seven seconds; no other thread waited for more than 0.25 s."""

from collections.abc import Iterator
from pathlib import Path

from brokerproof.harness.model.time import Duration

COMPILERS = ("C1 Compiler", "C2 Compiler")
"""The prefixes of the names of HotSpot's compiler threads."""


class SchedulerDelay:
    """The threads of process ``pid`` and its descendants. ``proc`` is the kernel's process
    folder."""

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        self._pid, self._proc = pid, proc
        self._waited: dict[Path, Duration] = {}
        self._compilers: set[Path] = set()

    def worst(self) -> Duration:
        """Return the longest total time for which one thread waited for a core since the last call.
        Time before a thread was first seen is ignored. A wait is counted once the thread runs."""
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
        except OSError:  # the thread has ended
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
