"""Values of selectors and their operations. None is SQL's NULL and the truth value "unknown".

Numbers are 64-bit integers, which wrap as in Java, and floating-point numbers. As in release
2.56.0, division and remainder are always done in floating point; a result that cannot be
represented is infinite or NaN, never an error.

Any comparison of values of different kinds (strings, numbers, truth values) is false. With
``convert``, a string that is compared with a number or a truth value is read as one.
"""

import math
import operator
import re
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

Value: TypeAlias = str | int | float | bool | None


class Subject(Protocol):
    @property
    def body(self) -> bytes:
        """Return the bytes that XPATH examines."""

    def property(self, name: str) -> Value:
        """Return the value of the property ``name``; None if there is none."""


Evaluate: TypeAlias = Callable[[Subject], Value]

_WHOLE = re.compile(r"[+-]?[0-9]{1,30}")
_DECIMAL = re.compile(
    r"[+-]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,5})?"
)

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def number(text: str) -> int | float | None:
    if _WHOLE.fullmatch(text) and -(2**63) <= int(text) < 2**63:
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else None


def _kind(value: Value) -> type:
    return bool if isinstance(value, bool) else str if isinstance(value, str) else float


def compare(
    left: Value, right: Value, holds: Callable[[Any, Any], bool], convert: bool
) -> bool | None:
    """Return True if ``holds`` is true of both; None if either is NULL; False if kinds differ."""
    if left is None or right is None:
        return None
    kinds = _kind(left), _kind(right)
    if kinds[0] is not kinds[1]:
        if not convert:
            return False
        left, right = _alike(left, kinds[1]), _alike(right, kinds[0])
        if left is None or right is None:
            return False
    return holds(left, right)


def _alike(value: Value, kind: type) -> Value:
    """Return a string as a value of ``kind`` (None if it is no such value), and anything else
    unchanged (None if a string is wanted)."""
    if not isinstance(value, str):
        return value if kind is str else None
    return number(value) if kind is float else value.lower() == "true" if kind is bool else value


def calculate(left: Value, right: Value, sign: str, convert: bool) -> Value:
    """Return ``left sign right``; NULL if either is NULL or not a number. As in release 2.56.0,
    ``+`` joins a string on its left with the value on its right, unless ``convert`` turns strings
    into numbers.
    """
    if left is None or right is None:
        return None
    if sign == "+" and isinstance(left, str) and not convert:
        return left + _written(right)
    one, other = _number(left, convert), _number(right, convert)
    if one is None or other is None:
        return None
    match sign:
        case "+":
            return wrapped(one + other)
        case "-":
            return wrapped(one - other)
        case "*":
            return wrapped(one * other)
        case "/":
            return _divided(float(one), float(other))
        case _:
            return math.fmod(one, other) if other and math.isfinite(one) else math.nan


def negative(value: Value, convert: bool) -> Value:
    """Return ``-value``; NULL if ``value`` is not a number."""
    parsed = _number(value, convert)
    return None if parsed is None else wrapped(-parsed)


def wrapped(value: int | float) -> int | float:
    """Return an integer wrapped to 64 bits; a floating-point number is unchanged."""
    return value if isinstance(value, float) else (value + 2**63) % 2**64 - 2**63


def _number(value: Value, convert: bool) -> int | float | None:
    if isinstance(value, str):
        return number(value) if convert else None
    return None if isinstance(value, bool) else value


def _divided(left: float, right: float) -> float:
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _written(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def pattern(like: str, escape: str | None) -> re.Pattern[str]:
    """Return the LIKE pattern's meaning: ``%`` matches any characters, ``_`` matches one; after
    ``escape``, each of these and ``escape`` itself stand for themselves.

    Each run between two ``%`` is matched at its first occurrence and never searched again, so that
    a match never takes more steps than the product of the two lengths, whatever a peer writes.
    """
    runs = [""]
    at = 0
    while at < len(like):
        character = like[at]
        if character == escape and like[at + 1 : at + 2] in ("_", "%", escape):
            at += 1
            runs[-1] += re.escape(like[at])
        elif character == "%":
            runs.append("")
        else:
            runs[-1] += "." if character == "_" else re.escape(character)
        at += 1
    text = runs[0]
    if len(runs) > 1:
        text += "".join(f"(?>.*?{run})" for run in runs[1:-1] if run) + f".*{runs[-1]}"
    return re.compile(text, re.DOTALL)
