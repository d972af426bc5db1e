"""Bisection: where something that holds stops holding."""

from __future__ import annotations

from collections.abc import Callable


def last_that(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The last number from ``low`` on and below ``high`` for which ``holds``.

    It does at ``low``, does not at ``high``, and once it does not it does no more: neither end is
    asked.
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
