"""When a RabbitMQ-like broker is short of memory or disk space, and how often it checks
(RABBITMQ-FLOW-mem-*, -disk-*).

Derived from the chapter and the source of 3.10.8 and 4.0.5 (``vm_memory_monitor``,
``rabbit_disk_monitor``), independently of any broker under test."""

from __future__ import annotations

from brokerproof.harness.model.time import Duration, ms

LOOKS_AT_MEMORY: Duration = ms(1000)
"""Interval between two checks of the memory in use."""
LEAST_MS, MOST_MS = 100, 10_000
"""Shortest and longest interval between two checks of the disk: ten times a second at most, and
every 10 s at least."""
FAST = 250_000
"""Bytes a millisecond: how quickly the disk is taken to fill up."""
ASSUMED = 1024**3
"""Bytes of memory where nobody knows how much there is."""


def memory_limit(
    watermark: float | int, total: int | None, address_space: int | None = None
) -> int:
    """The bytes in use above which memory is short. ``watermark`` is a fraction (float) or a number
    of bytes."""
    known = ASSUMED if total is None else total
    usable = known if address_space is None else min(known, address_space)
    return int(watermark * usable) if isinstance(watermark, float) else min(watermark, usable)


def disk_limit(limit: float | int, total: int) -> int:
    """The free bytes below which disk space is short. ``limit`` is a multiple of the memory (float)
    or a number of bytes."""
    return int(limit * total) if isinstance(limit, float) else limit


def disk_interval(free: int, limit: int) -> Duration:
    """Return the time until the next check after one that found ``free`` bytes."""
    if free < limit:
        return ms(MOST_MS)
    return ms(max(LEAST_MS, min(MOST_MS, 2 * (free - limit) // FAST)))
