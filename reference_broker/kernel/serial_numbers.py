"""32-bit serial numbers (RFC 1982): wrapping counters that can still be compared.

AMQP uses them for transfers, deliveries and link credit (AMQP10-WIN-01, AMQP10-CREDIT-13,
AMQP10-DISP-06). ``a`` is before ``b`` if counting up from ``a`` reaches ``b`` in fewer than 2^31
steps. At exactly 2^31 steps, RFC 1982 leaves the order undefined; here, neither number is before
the other.
"""

import bisect
from collections.abc import Container, Iterable

MASK = 0xFFFF_FFFF
"""The largest serial number."""
HALF = 0x8000_0000


def add(number: int, steps: int) -> int:
    """Return ``number`` moved by ``steps``, which may be negative."""
    return (number + steps) & MASK


def distance(start: int, stop: int) -> int:
    """Return the number of steps up from ``start`` to ``stop``, from 0 to 2^32 - 1."""
    return (stop - start) & MASK


def ahead(of: int, number: int) -> int:
    """Return how far ``number`` is ahead of ``of``: from -2^31 (behind) to 2^31 - 1."""
    steps = (number - of) & MASK
    return steps - (MASK + 1) if steps >= HALF else steps


def before(one: int, other: int) -> bool:
    return 0 < ((other - one) & MASK) < HALF


def between(first: int, number: int, last: int) -> bool:
    """Return True if ``number`` is between ``first`` and ``last``, both included."""
    return ((number - first) & MASK) <= ((last - first) & MASK)


class NumberIndex:
    """Serial numbers in order, so that a range is found without examining numbers outside it.

    Finished numbers need not be removed: the first range that includes them drops them, so each
    number costs one step in total."""

    def __init__(self) -> None:
        self._numbers: list[int] = []

    def append(self, number: int, live: Iterable[int], count: int) -> None:
        """Add ``number``, the highest so far. ``live`` has the ``count`` unfinished numbers."""
        if len(self._numbers) > 2 * count + 64:
            self._numbers = list(live)
        self._numbers.append(number)

    def add(self, number: int) -> None:
        start = self._numbers[0] if self._numbers else number
        if before(number, start):
            self._numbers.insert(0, number)
        else:
            bisect.insort(self._numbers, number, key=lambda other: distance(start, other))

    def between(self, first: int, last: int, live: Container[int]) -> list[int]:
        numbers = self._numbers
        if not numbers or before(last, numbers[0]):
            return []
        start = numbers[0]

        def place(number: int) -> int:
            return distance(start, number)

        begin = 0 if before(first, start) else bisect.bisect_left(numbers, place(first), key=place)
        end = bisect.bisect_right(numbers, place(last), key=place)
        alive = [number for number in numbers[begin:end] if number in live]
        if len(alive) < end - begin:
            numbers[begin:end] = alive
        return alive
