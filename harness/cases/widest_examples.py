"""Chooses few examples out of many drawn ones, so that together they have as many different values
as possible. In real time a property runs three to five examples, and three that were drawn at
random often agree in a version, a mode or a size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from itertools import pairwise
from statistics import median
from typing import Any

TOO_LONG = 2
"""Examples with more than this many times the median number of traits are passed over, since each
trait costs real time."""


def widest(
    drawn: Sequence[Mapping[str, Any]], wanted: int, fixed: Iterable[Mapping[str, Any]] = ()
) -> list[Mapping[str, Any]]:
    """Return ``wanted`` of the ``drawn`` examples. Each adds the most traits that neither the
    ``fixed`` examples nor those chosen before it have; of equals the first drawn is chosen."""
    seen = {trait for plan in fixed for trait in traits(plan)}
    left = [(plan, frozenset(traits(plan))) for plan in drawn]
    most = TOO_LONG * median([len(has) for _, has in left] or [0])
    chosen: list[Mapping[str, Any]] = []
    while left and len(chosen) < wanted:
        best = max(range(len(left)), key=lambda at: (len(left[at][1]) <= most, len(left[at][1] - seen)))
        plan, has = left.pop(best)
        chosen.append(plan)
        seen |= has
    return chosen


def traits(value: object, place: str = "") -> Iterator[tuple[object, ...]]:
    """Yield what distinguishes an argument: where in it which member, flag, kind of step, sequence
    of two steps, or order of magnitude stands."""
    if is_dataclass(value) and not isinstance(value, type):
        yield place, type(value).__name__
        for field in fields(value):
            yield from traits(getattr(value, field.name), f"{place}.{field.name}")
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from traits(each, f"{place}[{key}]")
    elif isinstance(value, list | tuple | set | frozenset):
        yield place, "of", len(value).bit_length()
        for each in value:
            yield from traits(each, f"{place}[]")
        for one, other in pairwise(value) if isinstance(value, list | tuple) else ():
            yield place, _kind(one), _kind(other)
    else:
        yield place, _kind(value)


def _kind(value: object) -> object:
    if value is None or isinstance(value, bool | Enum):
        return value
    if isinstance(value, int):
        return value < 0, value.bit_length(), value & (value + 1) == 0 or value & (value - 1) == 0
    if isinstance(value, str | bytes):
        return len(value).bit_length(), value.isascii()
    return type(value).__name__
