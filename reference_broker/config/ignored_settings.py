"""Settings that a broker's own configuration file may have but that have no effect here."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from brokerproof.reference_broker.config.values import (
    INT_MAX,
    LONG_MIN,
    Where,
    boolean,
    byte_size,
    decimal,
    maybe_words,
    one_of,
    whole,
    words,
)
from brokerproof.reference_broker.settings.acceptor import LONG_MAX

Read: TypeAlias = Callable[[str, Where], Any]


@dataclass(frozen=True, slots=True)
class NoEffect:
    """A setting whose value is checked but not used. ``read`` is None if there are children."""

    read: Read | None
    reason: str


@dataclass(frozen=True, slots=True)
class Only:
    """A setting that is accepted only with values that describe what this broker does; any other
    value would promise something else."""

    read: Read
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """A known setting that cannot be honoured here; ``instead`` says what to do."""

    instead: str


Entry: TypeAlias = NoEffect | Only | Refused

_TEXTS: dict[str, Read] = {"boolean": boolean, "words": words, "maybe_words": maybe_words}


def tables(path: Path) -> dict[str, dict[str, Entry]]:
    """Return a file's tables by name; a table has an entry for each setting."""
    found: dict[str, dict[str, Entry]] = {}
    for name, groups in tomllib.loads(path.read_text("utf-8")).items():
        table = found.setdefault(name, {})
        for group in groups:
            table |= dict.fromkeys(group["names"], _entry(group))
    return found


def _entry(group: dict[str, Any]) -> Entry:
    if "refused" in group:
        return Refused(group["refused"])
    read = _reader(group["type"]) if "type" in group else None
    if "only" in group:
        assert read is not None
        return Only(read, tuple(group["only"]))
    return NoEffect(read, group["no-effect"])


def _reader(text: str) -> Read:
    """Return the reader of a type: ``words``, ``one_of A B``, ``decimal above 0``, ``whole``, or
    ``byte_size 1..INT_MAX or -1``."""
    kind, _, rest = text.partition(" ")
    if kind in _TEXTS:
        return _TEXTS[kind]
    if kind == "one_of":
        return one_of(*rest.split())
    if kind == "decimal":
        return decimal(above=float(rest.removeprefix("above ")))
    bounds, _, or_else = rest.partition(" or ")
    low, _, high = bounds.partition("..")
    make = {"whole": whole, "byte_size": byte_size}[kind]
    return make(
        int(low or LONG_MIN),
        INT_MAX if high == "INT_MAX" else int(high or LONG_MAX),
        or_else=int(or_else) if or_else else None,
    )
