"""Durations and large numbers in a form for people."""

import re

from brokerproof.harness.model.time import NS_PER_MS, NS_PER_S

_UNITS: tuple[tuple[str, int], ...] = (
    ("h", 3600 * NS_PER_S),
    ("min", 60 * NS_PER_S),
    ("s", NS_PER_S),
    ("ms", NS_PER_MS),
    ("µs", 1000),
    ("ns", 1),
)

_UNCOUNTED = frozenset(("credit",))


def duration(nanoseconds: int) -> str:
    """Return a duration with up to four significant figures and a suitable unit: ``2.1 s``, ``35
    min``, ``-4 ms``."""
    if nanoseconds == 0:
        return "0 s"
    size = abs(nanoseconds)
    # minutes and hours only if they are exact or large: "90 s" reads better than "1.5 min"
    for unit, scale in _UNITS:
        if size >= scale and (unit not in ("h", "min") or size >= 10 * scale or size % scale == 0):
            return f"{_trimmed(nanoseconds, scale)} {unit}"
    return f"{nanoseconds} ns"


def grouped(number: int) -> str:
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def rounded_up(nanoseconds: int) -> int:
    """Return a duration rounded up to two significant figures, for use after "at most"."""
    scale = int(10 ** max(len(str(abs(nanoseconds))) - 2, 0))
    return -(-nanoseconds // scale) * scale


def counted(number: int, noun: str) -> str:
    """Return a number with a noun in the singular or plural: ``1 delivery``, ``2 deliveries``."""
    one = re.sub(r"ies$", "y", noun).removesuffix("s")
    if abs(number) == 1 or one in _UNCOUNTED:
        return f"{grouped(number)} {one}"
    return f"{grouped(number)} {re.sub('y$', 'ie', one)}s"


def minute(instant: str) -> str:
    """Return the start of a run to the minute: ``2026-11-21T12:00:00+00:00`` as ``2026-11-21
    12:00``."""
    return instant[:16].replace("T", " ")


def _trimmed(value: int, scale: int) -> str:
    text = f"{value / scale:,.3f}" if abs(value) < 1000 * scale else f"{value / scale:,.1f}"
    return text.rstrip("0").rstrip(".").replace(",", "\N{NARROW NO-BREAK SPACE}")
