"""Estimates: a parameter, its bounds, and how they were found."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

Bound: TypeAlias = Fraction | None
"""A bound; None means no bound on that side."""


class Refuted(Exception):
    """Two observations are incompatible, so the hypothesis is wrong. The message names the
    hypothesis."""


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from ``low`` to ``high``, both included; None: no bound on that side."""

    low: Bound = None
    high: Bound = None

    @staticmethod
    def of(low: float | Fraction | None, high: float | Fraction | None) -> Range:
        """Make a range with exact bounds from numbers of any type."""
        return Range(
            None if low is None else Fraction(low), None if high is None else Fraction(high)
        )

    def meet(self, other: Range) -> Range:
        """Return the intersection of two ranges. Raises :class:`Refuted` if it is empty."""
        lows = [bound for bound in (self.low, other.low) if bound is not None]
        highs = [bound for bound in (self.high, other.high) if bound is not None]
        met = Range(max(lows, default=None), min(highs, default=None))
        if met.low is not None and met.high is not None and met.low > met.high:
            raise Refuted(f"{self} and {other} do not overlap")
        return met

    def times(self, other: Range) -> Range:
        """Return the range of all products; both ranges must be non-negative."""
        low = (self.low or Fraction(0)) * (other.low or Fraction(0))
        return Range(
            low, None if self.high is None or other.high is None else self.high * other.high
        )

    def over(self, other: Range) -> Range:
        """Return the range of all quotients; both ranges must be non-negative. Dividing by 0
        removes a bound."""
        low = (
            Fraction(0)
            if other.high is None
            else (self.low or Fraction(0)) / other.high
            if other.high
            else None
        )
        return Range(low, self.high / other.low if self.high is not None and other.low else None)

    @property
    def width(self) -> Bound:
        """``high - low``; None if unbounded."""
        return None if self.low is None or self.high is None else self.high - self.low

    def __contains__(self, value: object) -> bool:
        assert isinstance(value, (int, float, Fraction))
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        if self.low is not None and self.low == self.high:
            return _number(self.low)
        if self.high is None:
            return "any" if not self.low else f"{_number(self.low)} or more"
        return (
            f"at most {_number(self.high)}"
            if self.low is None
            else f"{_number(self.low)} … {_number(self.high)}"
        )


ANY = Range(Fraction(0), None)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimate of one parameter.

    ``parameter`` is its name in profiles (``connection_ttl_min_ms`` …), or a word of our own if
    profiles do not have it. Either ``range`` (numbers in ``unit``) or ``choice`` (one of several
    words) is set. If both are None, the probes could not decide, and ``how`` says why."""

    parameter: str
    range: Range | None
    unit: str
    how: str
    choice: str | None = None

    @property
    def known(self) -> bool:
        return self.choice is not None or (self.range is not None and self.range != ANY)

    @property
    def value(self) -> str:
        if self.choice is not None:
            return self.choice
        return "not measured" if self.range is None else str(self.range)

    def agrees(self, documented: object) -> bool | None:
        """True if the estimate allows a documented value; None if this is unknown."""
        if documented is None or not self.known:
            return None
        if self.choice is not None:
            return self.choice == str(documented)
        assert self.range is not None
        return isinstance(documented, (int, float)) and documented in self.range


def _number(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.9g}"
