"""Chooses a few of many drawn examples, so that together they have as many different values as
possible. In real time a property runs three to five examples. Three that were drawn at random often
have the same version, mode or size."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from itertools import pairwise
from statistics import median
from typing import Any

TOO_LONG = 2
"""Examples with more than this many times the median number of traits are passed over, because each
trait takes real time."""


def widest(
    drawn: Sequence[Mapping[str, Any]], wanted: int, fixed: Iterable[Mapping[str, Any]] = ()
) -> list[Mapping[str, Any]]:
    """Return ``wanted`` of the ``drawn`` examples. Each adds the most traits that neither the
    ``fixed`` examples nor those chosen before it have. Of equally good ones, the one drawn first is
    chosen. A trait that only one drawn example has, such as one of many texts, is due to chance and
    does not count."""
    had = [frozenset(traits(plan)) for plan in drawn]
    often = Counter(trait for has in had for trait in has)
    seen = {trait for plan in fixed for trait in traits(plan)}
    seen |= {trait for trait, times in often.items() if times == 1}
    most = TOO_LONG * median([len(has) for has in had] or [0])
    left, chosen = [*range(len(drawn))], list[int]()
    while left and len(chosen) < wanted:
        chosen.append(max(left, key=lambda at: (len(had[at]) <= most, len(had[at] - seen))))
        left.remove(chosen[-1])
        seen |= had[chosen[-1]]
    return [drawn[at] for at in chosen]


def traits(value: object, place: str = "") -> Iterator[tuple[object, ...]]:
    """Yield an argument's traits: its values, kinds of step, sequences of two steps, and orders of
    magnitude, each with its place in the argument."""
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
        if isinstance(value, int | str | bytes):
            yield place, type(value), value


def _kind(value: object) -> object:
    if value is None or isinstance(value, bool | Enum):
        return value
    if isinstance(value, int):
        return value < 0, value.bit_length(), value & (value + 1) == 0 or value & (value - 1) == 0
    if isinstance(value, str | bytes):
        return len(value).bit_length(), value.isascii()
    parts = fields(value) if is_dataclass(value) and not isinstance(value, type) else ()
    named = [getattr(value, part.name) for part in parts]
    return type(value).__name__, *(each for each in named if isinstance(each, str | bool | Enum))
