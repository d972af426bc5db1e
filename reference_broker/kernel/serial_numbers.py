"""Serial numbers of 32 bits (RFC 1982): counters that wrap, and are compared all the same.

AMQP counts transfers, deliveries and link credit with them (AMQP10-WIN-01, AMQP10-CREDIT-13,
AMQP10-DISP-06). Two numbers are compared by the shorter way round the circle: ``a`` is before ``b``
if going up from ``a`` reaches ``b`` in fewer than 2^31 steps. At exactly 2^31 steps neither is
before the other; RFC 1982 leaves that pair undefined, and here it counts as *not before*.
"""

from __future__ import annotations

MASK = 0xFFFF_FFFF
"""The largest serial number."""
HALF = 0x8000_0000


def add(number: int, steps: int) -> int:
    """``number`` moved by ``steps`` (which may be negative)."""
    return (number + steps) & MASK


def distance(start: int, stop: int) -> int:
    """Steps up from ``start`` to ``stop``, from 0 to 2^32 - 1."""
    return (stop - start) & MASK


def ahead(of: int, number: int) -> int:
    """Return how far ``number`` is ahead of ``of``: from -2^31 (behind) to 2^31 - 1."""
    steps = (number - of) & MASK
    return steps - (MASK + 1) if steps >= HALF else steps


def before(one: int, other: int) -> bool:
    """True if ``one`` comes before ``other``."""
    return 0 < ((other - one) & MASK) < HALF


def between(first: int, number: int, last: int) -> bool:
    """True if ``number`` is one of those from ``first`` up to ``last``, both included."""
    return ((number - first) & MASK) <= ((last - first) & MASK)
