"""Time as integers: nanoseconds everywhere, milliseconds only where a value crosses the wire or a
configuration file.

Floats never carry time."""

from typing import TypeAlias

Instant: TypeAlias = int
"""Nanoseconds since the world began (virtual) or on the host's monotonic clock (real)."""

Duration: TypeAlias = int
"""Nanoseconds."""

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000


def ms(value: int) -> Duration:
    """Return ``value`` milliseconds as a :data:`Duration`."""
    return value * NS_PER_MS


def seconds(value: int) -> Duration:
    return value * NS_PER_S


def in_ms(value: Duration) -> str:
    """Return milliseconds with six digits, or with more if six would need an exponent."""
    return f"{value / NS_PER_MS:.0f}" if value >= ms(10**6) else f"{value / NS_PER_MS:g}"
