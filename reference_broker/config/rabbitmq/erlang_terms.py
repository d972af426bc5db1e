"""Reads the Erlang terms of a configuration file: one term followed by a full stop. Terms are
lists, tuples, atoms, strings, binaries, numbers and characters, each with its line. Anything else
is refused, including terms that do not occur in configurations (variables, maps, functions).
"""

import functools
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from lark import Lark, Token, Transformer, UnexpectedInput, UnexpectedToken, v_args
from lark.exceptions import VisitError
from lark.tree import Meta

from brokerproof.harness.model import input_file
from brokerproof.harness.model.input_file import BadInput
from brokerproof.reference_broker.config.values import Where
from brokerproof.reference_broker.settings.settings import BadSetting

_ESCAPES = {
    "b": "\b",
    "d": "\x7f",
    "e": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "s": " ",
    "t": "\t",
    "v": "\v",
    "0": "\0",
}
MOST_BYTES = 4 << 20
MOST_DEPTH = 50
"""The deepest nesting of lists and tuples. RabbitMQ's own examples need seven levels."""
MOST_DIGITS = 40
"""The maximum number of digits in a number."""
_BRACKETS = re.compile(
    r"""%[^\n]*+|\$(?:\\.|[^\\])|"(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?|[\[\]{}]""", re.DOTALL
)
"""Comments, characters and texts, whose brackets are ignored, and brackets."""
_ESCAPE = re.compile(r"\\(x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|[0-7]{1,3}|\^.|.)", re.DOTALL)
_TERM = "a term"
_WORD = re.compile(r"[\w@]+")
_NAMES = {
    "COMMA": "a comma",
    "RSQB": "]",
    "RBRACE": "}",
    "__ANON_1": ">>",
    "_STOP": "a full stop",
    "$END": "the end",
}


@dataclass(frozen=True, slots=True)
class Atom:
    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Text:
    """A string, or a binary of characters if ``binary``."""

    text: str
    binary: bool
    line: int


@dataclass(frozen=True, slots=True)
class Number:
    value: int | float
    line: int


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list of terms, or a tuple if ``is_tuple``."""

    items: "tuple[Term, ...]"
    is_tuple: bool
    line: int


Term: TypeAlias = Atom | Text | Number | Sequence


def shown(term: Term) -> str:
    """Return a term as written in a file, shortened."""
    match term:
        case Atom(name):
            text = name
        case Text(content, binary):
            text = f'<<"{content}">>' if binary else f'"{content}"'
        case Number(value):
            text = str(value)
        case Sequence(items, is_tuple):
            inside = ", ".join(map(shown, items[:4])) + (", …" if len(items) > 4 else "")
            text = f"{{{inside}}}" if is_tuple else f"[{inside}]"
    return text if len(text) <= 60 else text[:57] + "…"


def read(path: Path) -> Term:
    """Return the term in a file. Raises :class:`BadSetting` with the file and the line."""
    try:
        text = input_file.read_text(path, MOST_BYTES)
    except BadInput as problem:
        raise BadSetting(f"{path}: {problem}; name a rabbitmq.config") from None
    _check_depth(path, text)
    try:
        term: Term = _Building().transform(_parser().parse(text))
    except UnexpectedInput as problem:
        raise Where(path, max(1, problem.line)).bad(*_wrong(problem, text)) from None
    except VisitError as problem:
        if not isinstance(problem.orig_exc, _BadToken):
            raise
        token, reason, right = problem.orig_exc.args
        raise Where(path, token.line).bad(f"{token[:40]} {reason}", right) from None
    return term


class _BadToken(Exception):
    """An invalid token, what is wrong with it, and what would be right."""


def _check_depth(path: Path, text: str) -> None:
    """Raise :class:`BadSetting` for terms nested too deeply to be built recursively."""
    depth = 0
    for mark in _BRACKETS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(mark[0], 0)
        if depth > MOST_DEPTH:
            line = text.count("\n", 0, mark.start()) + 1
            raise Where(path, line).bad(
                f"lists and tuples are nested deeper than {MOST_DEPTH} levels",
                "no setting needs more than seven",
            )


@functools.cache
def _parser() -> Lark:
    grammar = Path(__file__).with_suffix(".lark").read_text("utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def _wrong(problem: UnexpectedInput, text: str) -> tuple[str, str]:
    if isinstance(problem, UnexpectedToken):
        ends = problem.token.type == "$END"
        expected = problem.accepts or problem.expected
        acceptable = sorted(
            {_NAMES[name] for name in expected if name in _NAMES}
            | ({_TERM} if "ATOM" in expected else set())
        )
        came = "the file ends here" if ends else f"{str(problem.token)[:40]} does not belong here"
        if _NAMES["$END"] in acceptable:
            return came, "a file has one term and nothing after its full stop"
        return came, f"write {' or '.join(acceptable)}"
    place = problem.pos_in_stream or 0
    match = _WORD.match(text, place)
    word = match[0][:40] if match else text[place : place + 1]
    if word in ("'", '"'):
        return f"{word} begins a string that does not end", f"close it with {word}"
    if word[:1].isupper() or word[:1] == "_":
        return f"{word} is a variable", f"write '{word}' for the atom, or \"{word}\" for the string"
    if word == "#":
        return "a map does not belong here", "write a list of {key, value}"
    return (
        f"{word} is not an Erlang term",
        "write a list, a tuple, an atom, a string, a binary or a number",
    )


class _Building(Transformer[Token, Any]):
    def start(self, items: list[Term]) -> Term:
        return items[0]

    def atom(self, tokens: list[Token]) -> Atom:
        return Atom(str(tokens[0]), _line(tokens[0]))

    def quoted(self, tokens: list[Token]) -> Atom:
        return Atom(_unescaped(tokens[0]), _line(tokens[0]))

    def string(self, tokens: list[Token]) -> Text:
        return Text("".join(map(_unescaped, tokens)), False, _line(tokens[0]))

    def character(self, tokens: list[Token]) -> Number:
        return Number(ord(_unescaped(f"${tokens[0][1:]}$")), _line(tokens[0]))

    def number(self, tokens: list[Token]) -> Number:
        token = tokens[0]
        text = token.replace("_", "")
        base, sharp, digits = text.partition("#")
        sign = -1 if base.startswith("-") else 1
        try:
            if len(text) > MOST_DIGITS:
                raise ValueError
            if "." in text:
                fraction = float(text)
                if not math.isfinite(fraction):
                    raise ValueError
                return Number(fraction, _line(token))
            if not sharp:
                return Number(int(text), _line(token))
            if not 2 <= abs(int(base)) <= 36:
                raise ValueError
            return Number(sign * int(digits, abs(int(base))), _line(token))
        except ValueError:
            raise _BadToken(token, "is not a number", "write a number like 16#1F or 42") from None

    @v_args(meta=True)
    def list(self, meta: Meta, items: Any) -> Sequence:
        return Sequence(tuple(items), False, meta.line)

    @v_args(meta=True)
    def tuple(self, meta: Meta, items: Any) -> Sequence:
        return Sequence((*items,), True, meta.line)

    @v_args(meta=True)
    def binary(self, meta: Meta, items: Any) -> Text:
        text = "".join(
            part.text if isinstance(part, Text) else chr(int(part.value) & 255) for part in items
        )
        return Text(text, True, meta.line)


def _line(token: Token) -> int:
    return token.line or 0


def _unescaped(token: str) -> str:
    """Return the text between the quotation marks without its escapes."""
    try:
        text = _ESCAPE.sub(_escaped, token[1:-1])
        text.encode()
    except (ValueError, OverflowError):
        raise _BadToken(
            token,
            "has an escape that denotes no character",
            "write one up to \\x{10FFFF}, no surrogate",
        ) from None
    return text


def _escaped(match: re.Match[str]) -> str:
    given = match[1]
    if given[0] == "x" and len(given) > 1:
        return chr(int(given.strip("x{}"), 16))
    if given[0].isdigit() and given.isascii() and given[0] < "8":
        return chr(int(given, 8))
    if given[0] == "^" and len(given) > 1:
        return chr(ord(given[1]) & 31)
    return _ESCAPES.get(given, given)
