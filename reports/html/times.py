"""Durations and large numbers for people."""

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


def grouped(number: int) -> str:
    """Return a whole number with its digits in groups of three."""
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def counted(number: int, noun: str) -> str:
    """Return a number with what it counts, a regular plural: ``1 message``, ``2 messages``."""
    return f"{grouped(number)} {noun.removesuffix('s') if abs(number) == 1 else noun}"


def _trimmed(value: int, scale: int) -> str:
    text = f"{value / scale:,.3f}" if abs(value) < 1000 * scale else f"{value / scale:,.1f}"
    return text.rstrip("0").rstrip(".").replace(",", "\N{NARROW NO-BREAK SPACE}")
