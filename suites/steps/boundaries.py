"""Boundary values of every number that a client can send, and the allowed reactions.

The fields are taken from the codecs' tables (:func:`fields`), so fields added there are tested too.
For each value a case plays a whole conversation with one number replaced. The :class:`Outcome` says
whether the conversation was refused with an error or completed. Silence is neither.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from hypothesis import strategies as st

from brokerproof.suites.api import over

Function = TypeVar("Function", bound=Callable[..., Any])

POWERS = (7, 8, 15, 16, 31, 32, 53, 62, 63, 64)
"""Exponents of 2 where some language's integer width, sign bit or exact floats end."""
RANGES: Mapping[str, tuple[int, int]] = {
    # AMQP 1.0
    "ubyte": (0, 2**8 - 1),
    "ushort": (0, 2**16 - 1),
    "uint": (0, 2**32 - 1),
    "ulong": (0, 2**64 - 1),
    "timestamp": (-(2**63), 2**63 - 1),
    # AMQP 0-9-1
    "octet": (0, 2**8 - 1),
    "short": (0, 2**16 - 1),
    "long": (0, 2**32 - 1),
    "longlong": (0, 2**64 - 1),
}
"""The range of each AMQP wire type."""
JAVA_RANGES: Mapping[str, tuple[int, int]] = {
    "byte": (-(2**7), 2**7 - 1),
    "short": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "long": (-(2**63), 2**63 - 1),
}
"""The range of each CORE and OpenWire wire type."""
ANY = (-(2**64) - 1, 2**64 + 1)
"""The range of a number that is written as text."""


CORNERS = 6
"""The number of values of :func:`around` that are always tried."""


def around(low: int, high: int) -> tuple[int, ...]:
    """The boundary values between ``low`` and ``high``. The most revealing come first: 0, the high
    end, the first value with the sign bit set, 1, for signed 64 bits 2^32 (whose lower half is 0),
    for text 2^31 and 2^63 - 1, and the low end. Then come the values one below, at and one above 0
    and each power of :data:`POWERS` with either sign."""
    middle = (low + high + 1) // 2
    edge = middle or -1  # for signed types, 0 is already in the list
    wide = 2**32 if high == 2**63 - 1 else 2**31 if high > 2**64 else edge - 1
    longest = (2**63 - 1,) if high > 2**64 else ()
    points = {0, *(sign * 2**power for power in POWERS for sign in (1, -1))}
    others = sorted(point + step for point in points for step in (-1, 0, 1))
    inside = [
        value
        for value in (0, high, edge, 1, wide, *longest, edge - 1, low, high - 1, *others)
        if low <= value <= high
    ]
    return tuple(dict.fromkeys(inside))


@dataclass(frozen=True)
class NumberField:
    """A number in a client's frame: its position and the range of its type."""

    frame: str
    name: str
    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.frame}.{self.name}"

    def replaced(self, position: int) -> "Replaced":
        """Return the conversation with this number's boundary value at ``position`` (modulo)."""
        values = around(self.low, self.high)
        return Replaced(self, values[position % len(values)])


def fields(
    frame: str, table: Iterable[tuple[str, str]], ranges: Mapping[str, tuple[int, int]]
) -> tuple[NumberField, ...]:
    """Return the numbers in the (name, type) pairs of ``table``; a type with ``?`` is optional."""
    return tuple(
        NumberField(frame, name, *ranges[kind.rstrip("?")])
        for name, kind in table
        if kind.rstrip("?") in ranges
    )


@dataclass(frozen=True)
class Replaced:
    """The one replaced number of a conversation."""

    field: NumberField
    value: int

    def __str__(self) -> str:
        return f"{self.field}={self.value}"

    def inside(self, frame: str, right: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the fields of ``frame``, with the replaced number if it belongs to this frame."""
        return {
            **(right or {}),
            **({self.field.name: self.value} if frame == self.field.frame else {}),
        }


class Outcome(StrEnum):
    """The result of a conversation with a replaced number."""

    WORKED = "the conversation worked"
    REFUSED = "the broker refused it with an error"
    CUT = "the connection ended without an error"
    SILENT = "nothing arrived"
    FLOODED = "frames arrived without a pause"
    """The broker floods the client, as this number demands, so the conversation was cut short."""


POSITIONS = 64
"""An upper bound on the number of a type's boundary values."""


class ConversationOver(Exception):
    """A conversation with a replaced number ended early."""

    def __init__(self, outcome: Outcome, stage: str, words: str) -> None:
        super().__init__(f"{words} while the client waited for {stage}")
        self.outcome = outcome
        self.stage = stage
        self.words = words


def over_boundaries(function: Function) -> Function:
    """Make a property of a case that has a ``position`` among the values of :func:`around`. The
    corners always run, and some of the other values."""
    return over(
        examples=10,
        always=lambda target: [{"position": position} for position in range(CORNERS)],
        position=st.integers(CORNERS, POSITIONS),
    )(function)
