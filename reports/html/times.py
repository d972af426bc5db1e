"""Durations and quantities for people."""

from __future__ import annotations

from brokerproof.harness.model.time import NS_PER_MS, NS_PER_S

_UNITS: tuple[tuple[str, int], ...] = (
    ("h", 3600 * NS_PER_S),
    ("min", 60 * NS_PER_S),
    ("s", NS_PER_S),
    ("ms", NS_PER_MS),
    ("µs", 1000),
    ("ns", 1),
)


def duration(nanoseconds: int) -> str:
    """A duration with up to four significant figures after the unit that suits it: ``2.1 s``, ``35
    min``, ``-4 ms``."""
    if nanoseconds == 0:
        return "0 s"
    size = abs(nanoseconds)
    # minutes and hours only where they are exact or large: "90 s" reads better than "1.5 min"
    for unit, scale in _UNITS:
        if size >= scale and (unit not in ("h", "min") or size >= 10 * scale or size % scale == 0):
            return f"{_trimmed(nanoseconds, scale)} {unit}"
    return f"{nanoseconds} ns"


def _trimmed(value: int, scale: int) -> str:
    text = f"{value / scale:,.3f}" if abs(value) < 1000 * scale else f"{value / scale:,.1f}"
    return text.rstrip("0").rstrip(".").replace(",", "\N{NARROW NO-BREAK SPACE}")


_SHOWN_AS = {"octets": "bytes"}  # recordings use the specifications' word


def quantity(value: int | None, unit: str) -> str:
    """``value`` in ``unit``; nanoseconds become a duration, a missing bound an infinity sign."""
    if value is None:
        return "∞"
    if unit == "ns":
        return duration(value)
    unit = _SHOWN_AS.get(unit, unit)
    named = unit.removesuffix("s") if abs(value) == 1 else unit
    return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}") + f" {named}"


def clock(nanoseconds: int) -> str:
    """An instant for the wire log: seconds with six decimals."""
    sign = "-" if nanoseconds < 0 else ""
    whole, rest = divmod(abs(nanoseconds) // 1000, 1_000_000)
    return f"{sign}{whole}.{rest:06d}"


def step(span: int, most: int) -> int:
    """The smallest round step (1, 2, 5 × 10ⁿ; 1, 2, 5, 10, 15, 30 above a second) that cuts
    ``span`` in at most ``most``."""
    least = max(span, 1) / most
    for width in _STEPS:
        if width >= least:
            return width
    return _STEPS[-1] * -(-int(least) // _STEPS[-1])


_STEPS: tuple[int, ...] = (
    *[factor * 10**power for power in range(9) for factor in (1, 2, 5)],
    *[seconds * NS_PER_S for seconds in (1, 2, 5, 10, 15, 30)],
    *[minutes * 60 * NS_PER_S for minutes in (1, 2, 5, 10, 15, 30)],
    *[hours * 3600 * NS_PER_S for hours in (1, 2, 6, 12, 24)],
)
