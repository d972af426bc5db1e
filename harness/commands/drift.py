"""Compares inferred parameters with those inferred earlier."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from brokerproof.harness.commands import errors
from brokerproof.harness.model import strict_json
from brokerproof.harness.model.input_file import BadInput

Row: TypeAlias = dict[str, Any]
"""One parameter, as ``infer --json`` prints it."""
_BOUNDS = ("low", "high")


def read(path: Path) -> list[Row]:
    """Return the parameters in a file that ``infer --json`` printed. Raises ``Usage``."""
    try:
        rows = strict_json.read(path)
    except BadInput as problem:
        raise errors.Usage(f"--baseline {path}: {problem}") from None
    if not isinstance(rows, list) or not all(map(_is_row, rows)):
        raise errors.Usage(f"--baseline {path}: should be the output of brokerproof infer --json")
    return rows


def between(before: Sequence[Row], now: Sequence[Row]) -> Iterator[str]:
    """Yield a sentence for each parameter whose earlier and present values exclude each other or
    which is no longer measured. A wider or narrower interval, or a new parameter, is not drift."""
    measured = {row["parameter"]: row for row in now}
    for former in before:
        if not _known(former):
            continue
        name = former["parameter"]
        current = measured.get(name)
        if current is None or not _known(current):
            how = "" if current is None else f" ({current.get('how')})"
            yield f"{name} was {_value(former)} and is no longer measured{how}"
        elif _excludes(former, current):
            yield f"{name} was {_value(former)} and is {_value(current)}"


def _is_row(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("parameter"), str)
        and all(isinstance(row.get(bound), int | float | None) for bound in _BOUNDS)
        and isinstance(row.get("choice"), str | None)
    )


def _known(row: Row) -> bool:
    return any(row.get(key) is not None for key in (*_BOUNDS, "choice"))


def _excludes(former: Row, current: Row) -> bool:
    if former.get("choice") is not None or current.get("choice") is not None:
        return former.get("choice") != current.get("choice")
    return _below(former, current) or _below(current, former)


def _below(lower: Row, upper: Row) -> bool:
    """True if every value in ``lower`` is below every value in ``upper``; None means no bound."""
    high, low = lower.get("high"), upper.get("low")
    return high is not None and low is not None and high < low


def _value(row: Row) -> str:
    if row.get("choice") is not None:
        return str(row["choice"])
    low, high = row.get("low"), row.get("high")
    unit = f" {row['unit']}" if row.get("unit") else ""
    if low == high:
        return f"{low:g}{unit}"
    if low is None or high is None:
        return f"{'at most' if low is None else 'at least'} {high if low is None else low:g}{unit}"
    return f"{low:g} to {high:g}{unit}"
