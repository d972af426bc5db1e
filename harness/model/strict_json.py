"""Reads untrusted JSON strictly: rejects what ``json`` accepts beyond RFC 8259, and values that
would raise an exception later. It rejects NaN and infinities, numbers too large for a double
(``1e999`` is not infinity), integers of more than :data:`MOST_DIGITS` digits, values nested deeper
than :data:`MOST_DEPTH`, and objects with duplicate keys. Each reason is one sentence with the
position."""

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

from brokerproof.harness.model import input_file
from brokerproof.harness.model.input_file import BadInput

MOST_DEPTH = 64
"""The deepest permitted nesting of arrays and objects. Our own files (drawn arguments) stay below
20."""
MOST_DIGITS = 100
"""The most digits of an integer. Our largest integer, an unsigned 64-bit number, has 20."""

_MARKS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
"""Strings and brackets. The possessive star keeps the time linear for a text with many escapes."""


class BadJson(BadInput, ValueError):
    """A text is not acceptable JSON. The message gives the position and the error."""


def loads(text: str) -> Any:
    """Return the value of a JSON text. Raises :class:`BadJson`."""
    _check_depth(text)
    try:
        return _DECODER.decode(text)
    except BadJson:
        raise
    except json.JSONDecodeError as problem:
        raise BadJson(f"is not JSON (column {problem.pos + 1}: {problem.msg})") from None
    except (ValueError, RecursionError) as problem:
        raise BadJson(f"is not JSON ({problem})") from None


def read(path: Path) -> Any:
    """Return the value of a JSON file. Raises :class:`BadInput` without the file's name."""
    return loads(input_file.read_text(path))


def _check_depth(text: str) -> None:
    if text.count("[") + text.count("{") <= MOST_DEPTH:
        return
    depth = 0
    for mark in _MARKS.finditer(text):
        if mark[0] in "[{":
            depth += 1
            if depth > MOST_DEPTH:
                raise BadJson(
                    f"values are nested deeper than {MOST_DEPTH} levels (column {mark.start() + 1})"
                )
        elif mark[0] in "]}":
            depth -= 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise BadJson(f"one object has the key {twice[:60]!r} twice; keep one of them")
    return values


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise BadJson(f"a whole number has {len(digits)} digits; at most {MOST_DIGITS} are allowed")
    return int(digits)


def _fraction(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise BadJson(f"the number {text[:40]} is too large for a double")
    return value


def _constant(name: str) -> float:
    raise BadJson(f"{name} is not JSON; write a number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
)
