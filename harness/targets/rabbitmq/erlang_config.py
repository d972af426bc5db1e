"""Reads the settings of a classic ``rabbitmq.config`` into a flat list of plain Python values. This
module has its own parser, so that the harness does not depend on the reader of the broker that it
judges.
"""

import bisect
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokerproof.harness.model import input_file
from brokerproof.harness.model.input_file import BadInput
from brokerproof.harness.targets.failure import SetUpFailed

SUFFIX = ".config"
MOST_BYTES = 4 << 20
MOST_DIGITS = 40
"""The most digits that a number may have."""
MOST_DEPTH = 50
"""The deepest nesting of lists and tuples. RabbitMQ's own examples need seven levels."""

_TOKEN = re.compile(
    r"""(?P<space>(?:\s|%[^\n]*)+)
    | (?P<binary><<"(?P<octets>(?:[^"\\]|\\.)*)"(?:/utf8)?>>)
    | (?P<string>"(?P<text>(?:[^"\\]|\\.)*)")
    | (?P<quoted>'(?P<name>(?:[^'\\]|\\.)*)')
    | (?P<based>[+-]?\d{1,2}\#[0-9A-Za-z_]+)
    | (?P<float>[+-]?\d[\d_]*\.\d[\d_]*(?:[eE][+-]?\d+)?)
    | (?P<whole>[+-]?\d[\d_]*)
    | (?P<atom>[a-z][\w@]*)
    | (?P<mark>[][{},.])""",
    re.VERBOSE | re.DOTALL,
)


class Atom(str):
    """An atom, as opposed to a string."""

    __slots__ = ()


class Tuple(tuple[Any, ...]):
    """A tuple, and the line on which it begins."""

    line = 1


@dataclass(frozen=True, slots=True)
class Setting:
    """The setting ``key`` of ``application`` on a line of the file. Lists stay lists, tuples stay
    tuples, and strings and binaries become ``str``."""

    application: str
    key: str
    value: Any
    line: int


def settings(path: Path) -> list[Setting]:
    """Return a file's settings in order. Raises :class:`SetUpFailed` with file, line and remedy."""
    try:
        text = input_file.read_text(path, MOST_BYTES)
    except BadInput as problem:
        raise SetUpFailed(f"{path}: {problem}; name a rabbitmq.config") from None
    reader = _Reader(path, text)
    whole = reader.term()
    reader.mark(".")
    if not isinstance(whole, list) or len(list(_pairs(whole))) != len(whole):
        raise SetUpFailed(
            f"{path}, line 1: is not a list of applications; write [{{rabbit, [{{KEY, VALUE}}]}}]."
        )
    return [
        Setting(application[0], pair[0], pair[1], pair.line)
        for application in _pairs(whole)
        for pair in _pairs(application[1])
    ]


def _pairs(term: Any) -> Iterator[Tuple]:
    for item in term if isinstance(term, list) else ():
        if isinstance(item, Tuple) and len(item) == 2 and isinstance(item[0], Atom):
            yield item


class _Reader:
    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._text = text
        self._at = 0
        self._depth = 0
        self._ends = [end.start() for end in re.finditer("\n", text)]

    def _line(self) -> int:
        return bisect.bisect_left(self._ends, self._at) + 1

    def _next(self) -> re.Match[str]:
        while True:
            match = _TOKEN.match(self._text, self._at)
            if match is None:
                rest = self._text[self._at : self._at + 20].split("\n")[0]
                raise SetUpFailed(
                    f"{self._path}, line {self._line()}: {rest!r} is not an Erlang term; write a"
                    " list or a tuple"
                )
            self._at = match.end()
            if match.lastgroup != "space":
                return match

    def mark(self, expected: str) -> None:
        token = self._next()
        if token[0] != expected:
            raise SetUpFailed(
                f"{self._path}, line {self._line()}: got {token[0]!r}, expected {expected!r}"
            )

    def term(self) -> Any:
        token = self._next()
        line = self._line()
        value: Any
        if token["mark"] in ("[", "{"):
            self._depth += 1
            if self._depth > MOST_DEPTH:
                raise SetUpFailed(
                    f"{self._path}, line {line}: is nested deeper than {MOST_DEPTH} levels"
                )
            items = self._items("]" if token["mark"] == "[" else "}")
            self._depth -= 1
            value = items
            if token["mark"] == "{":
                value = Tuple(items)
                value.line = line
        elif token["mark"]:
            raise SetUpFailed(
                f"{self._path}, line {self._line()}: got {token[0]!r}, expected a term"
            )
        elif token["atom"]:
            value = Atom(token["atom"])
        elif token["quoted"]:
            value = Atom(re.sub(r"\\(.)", r"\1", token["name"]))
        elif token["float"] or token["whole"] or token["based"]:
            value = self._number(token[0].replace("_", ""), line)
        else:
            value = re.sub(r"\\(.)", r"\1", token["octets"] if token["binary"] else token["text"])
        return value

    def _number(self, text: str, line: int) -> int | float:
        base, sharp, digits = text.partition("#")
        try:
            if len(text) > MOST_DIGITS:
                raise ValueError
            if "." in text:
                value = float(text)
                if not math.isfinite(value):
                    raise ValueError
                return value
            if not sharp:
                return int(text)
            return int(digits, abs(int(base))) * (-1 if base.startswith("-") else 1)
        except ValueError:
            raise SetUpFailed(
                f"{self._path}, line {line}: {text[:40]} is not a number; write one like 42, 0.4 or"
                " 16#1F"
            ) from None

    def _items(self, end: str) -> list[Any]:
        items: list[Any] = []
        while True:
            if not items and self._peek() == end:
                self._next()
                return items
            items.append(self.term())
            token = self._next()[0]
            if token == end:
                return items
            if token != ",":
                raise SetUpFailed(
                    f"{self._path}, line {self._line()}: got {token!r}, expected {end!r} or ','"
                )

    def _peek(self) -> str:
        before = self._at
        token = self._next()[0]
        self._at = before
        return token
