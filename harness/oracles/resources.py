"""When a RabbitMQ-like broker is short of memory or disk space, and how often it checks
(RABBITMQ-FLOW-mem-*, -disk-*).

The rules are derived from the chapter and the source of 3.10.8 and 4.0.5 (``vm_memory_monitor``,
``rabbit_disk_monitor``), independently of any broker under test."""

from brokerproof.harness.model.time import Duration, ms

LOOKS_AT_MEMORY: Duration = ms(1000)
"""The interval between two checks of memory use."""
LEAST_MS, MOST_MS = 100, 10_000
"""The shortest and the longest interval between two checks of the disk: at most ten checks a
second, and at least one check every 10 s."""
FAST = 250_000
"""Bytes per millisecond: the speed at which the disk is assumed to fill up."""
ASSUMED = 1024**3
"""The bytes of memory that are assumed if its size is unknown."""


def memory_limit(
    watermark: float | int, total: int | None, address_space: int | None = None
) -> int:
    """Return the number of bytes in use above which memory is short. ``watermark`` is a fraction
    (float) or a number of bytes."""
    known = ASSUMED if total is None else total
    usable = known if address_space is None else min(known, address_space)
    return int(watermark * usable) if isinstance(watermark, float) else min(watermark, usable)


def disk_limit(limit: float | int, total: int) -> int:
    """Return the number of free bytes below which disk space is short. ``limit`` is a multiple of
    the memory (float) or a number of bytes."""
    return int(limit * total) if isinstance(limit, float) else limit


def disk_interval(free: int, limit: int) -> Duration:
    """Return the time between a check that found ``free`` bytes and the next check."""
    if free < limit:
        return ms(MOST_MS)
    return ms(max(LEAST_MS, min(MOST_MS, 2 * (free - limit) // FAST)))
