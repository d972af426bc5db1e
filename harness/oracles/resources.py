"""When a broker of RabbitMQ's family is short of memory or disk space, and when it looks
(RABBITMQ-FLOW-mem-*, -disk-*).

Worked out from the chapter and from the source of 3.10.8 and 4.0.5 (``vm_memory_monitor``,
``rabbit_disk_monitor``), independently of any broker under test.
"""

from __future__ import annotations

from brokerproof.harness.model.time import Duration, ms

LOOKS_AT_MEMORY: Duration = ms(1000)
"""How often the memory in use is looked at."""
LEAST_MS, MOST_MS = 100, 10_000
"""How long it may be until the disk is looked at again: ten times a second at most, and every 10 s
at least."""
FAST = 250_000
"""Octets a millisecond: how quickly the disk is taken to fill up."""
ASSUMED = 1024**3
"""Octets of memory where nobody knows how much there is."""


def memory_limit(
    watermark: float | int, total: int | None, address_space: int | None = None
) -> int:
    """Above how many octets in use memory is short. ``watermark`` is a fraction (float) or a number
    of octets."""
    known = ASSUMED if total is None else total
    usable = known if address_space is None else min(known, address_space)
    return int(watermark * usable) if isinstance(watermark, float) else min(watermark, usable)


def disk_limit(limit: float | int, total: int) -> int:
    """Below how many free octets disk space is short. ``limit`` is a multiple of the memory (float)
    or a number of octets."""
    return int(limit * total) if isinstance(limit, float) else limit


def disk_interval(free: int, limit: int) -> Duration:
    """How long after a look that found ``free`` octets the next comes."""
    if free < limit:
        return ms(MOST_MS)
    return ms(max(LEAST_MS, min(MOST_MS, 2 * (free - limit) // FAST)))
