"""Reads values from configuration files strictly. A refusal is one sentence that gives the file,
line and name."""

import difflib
import enum
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from brokerproof.reference_broker.settings.acceptor import LONG_MAX
from brokerproof.reference_broker.settings.settings import BadSetting

INT_MAX = 2**31 - 1
LONG_MIN = -(2**63)

_WHOLE = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", re.ASCII)
_BYTES = re.compile(r"(?P<count>[0-9]{1,19})\s*(?P<unit>[kmg]?)i?b?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")

Member = TypeVar("Member", bound=enum.StrEnum)


@dataclass(frozen=True, slots=True)
class Where:
    """The location of a setting, for messages: a file, a line (from 1) and a name."""

    file: Path
    line: int
    name: str = ""

    def named(self, name: str) -> "Where":
        return Where(self.file, self.line, name)

    def bad(self, problem: str, right: str = "") -> BadSetting:
        """Return the refusal, which says what is wrong here and what would be right."""
        name = f"{self.name}: " if self.name else ""
        return BadSetting(
            f"{self.file}, line {self.line}: {name}{problem}" + (f"; {right}" if right else "")
        )


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean x?`` for the name most similar to ``name``, if any."""
    by_lower = {name.lower(): name for name in sorted(known)}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7)
    return f"did you mean {by_lower[close[0]]}?" if close else ""


def filled_in(text: str, where: Where, environment: Mapping[str, str]) -> str:
    """Return ``text`` with ``${NAME}`` and ``${NAME:default}`` replaced from the environment.

    Raises :class:`BadSetting` for a name that is not in the environment and has no default. Artemis
    would use an empty text, but nobody ever intends that.
    """

    def value(match: re.Match[str]) -> str:
        name, colon, default = match[1].partition(":")
        replacement = environment.get(name.strip())
        if replacement is None and not colon:
            raise where.bad(
                f"${{{name}}} has no value",
                f"set the environment variable {name.strip()} or write ${{{name}:default}}",
            )
        return default.strip() if replacement is None else replacement

    return _PLACEHOLDER.sub(value, text)


def boolean(text: str, where: Where) -> bool:
    """Read ``true`` or ``false``, in upper or lower case."""
    known = {"true": True, "false": False}
    if text.lower() not in known:
        raise where.bad(f"{text!r} is neither true nor false", "write true or false")
    return known[text.lower()]


def whole(
    lowest: int, highest: int = LONG_MAX, *, or_else: int | None = None
) -> Callable[[str, Where], int]:
    """Return a reader of integers from ``lowest`` to ``highest`` that also accepts the value
    ``or_else`` (usually -1)."""
    also = "" if or_else is None else f", or {or_else}"

    def read(text: str, where: Where) -> int:
        right = f"write a whole number from {lowest} to {highest}{also}"
        if not _WHOLE.fullmatch(text):
            raise where.bad(f"{text!r} is not a whole number", right)
        value = int(text)
        if not lowest <= value <= highest and value != or_else:
            raise where.bad(f"{value} is out of range", right)
        return value

    return read


def decimal(*, above: float) -> Callable[[str, Where], float]:
    """Return a reader of finite decimal numbers greater than ``above``."""

    def read(text: str, where: Where) -> float:
        right = f"write a decimal number greater than {above:g}, such as 2.0"
        if not _DECIMAL.fullmatch(text):
            raise where.bad(f"{text!r} is not a decimal number", right)
        value = float(text)
        if not math.isfinite(value) or value <= above:
            raise where.bad(f"{text} is out of range", right)
        return value

    return read


def byte_size(
    lowest: int, highest: int = LONG_MAX, *, or_else: int | None = None
) -> Callable[[str, Where], int]:
    """Return a reader of sizes in bytes: an integer with an optional unit K, M or G (powers of
    1024; ``Ki``, ``KB`` and so on are accepted too)."""
    plain = whole(lowest, highest, or_else=or_else)

    def read(text: str, where: Where) -> int:
        match = _BYTES.fullmatch(text)
        if match is None and not _WHOLE.fullmatch(text):
            raise where.bad(
                f"{text!r} is not a size", "write bytes, optionally with K, M or G: 10485760 or 10M"
            )
        size = int(text) if match is None else int(match["count"]) * _UNITS[match["unit"].lower()]
        return plain(str(size), where)

    return read


def member(kind: type[Member]) -> Callable[[str, Where], Member]:
    """Return a reader of the members of an enumeration by their exact names."""

    def read(text: str, where: Where) -> Member:
        try:
            return kind(text)
        except ValueError:
            raise where.bad(f"{text!r} is unknown", f"write one of {', '.join(kind)}") from None

    return read


def one_of(*allowed: str) -> Callable[[str, Where], str]:
    """Return a reader that accepts only these words."""

    def read(text: str, where: Where) -> str:
        if text not in allowed:
            raise where.bad(f"{text!r} is unknown", f"write one of {', '.join(allowed)}")
        return text

    return read


def words(text: str, where: Where) -> str:
    """Return any non-empty text."""
    if not text:
        raise where.bad("is empty", "give it a value or leave it out")
    return text


def maybe_words(text: str, where: Where) -> str:
    return text
