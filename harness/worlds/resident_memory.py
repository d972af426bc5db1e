"""The memory of this process, which a run limits. Before measuring, unused memory is returned to
the system. Dozens of threads that receive large bodies fragment glibc's heaps. Measured in one of
two processes that judge the reference, with about 100 MB in use: 430 to 660 MB resident, once over
1,024 MB; with two heaps, 370 to 510 MB."""

import ctypes
import gc
import os
from contextlib import suppress
from pathlib import Path

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""Parameters of glibc's mallopt(3)."""
HEAPS = 2
"""The number of heaps for all threads; glibc would make eight per core."""
LARGE_BLOCK = 256 * 1024
"""Blocks of at least this many bytes return to the system as soon as they are freed. glibc begins
with half of this size, and raises it with each freed block."""


def resident_bytes() -> int:
    """Return the resident memory of this process; 0 if unknown."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def use_few_heaps() -> None:
    """Make glibc retain less free memory; no effect with other C libraries."""
    with suppress(AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_ARENA_MAX, HEAPS)
        libc.mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK)


def give_back() -> None:
    """Collect garbage and return free memory to the system."""
    gc.collect()
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
