"""An independent model of selectors: expressions as small trees, with their text and value.

Drawn expressions are unambiguous in SQL-92: logic has three values, a comparison with a missing
header is unknown, and strings and numbers are never equal. The expressions avoid operations that
documents leave open (division, adding strings) and shapes that have their own cases: NOT precedes
parentheses, and headers that may be missing are on the left.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from hypothesis import strategies as st

Truth = bool | None
Headers = Mapping[str, str]

NAMES = ("color", "size", "kind", "x-y", "a.b")
TEXTS = ("red", "blue", "re", "21", "7", "", "a%b", "it's", "x_y", "RED")
PRIORITY = "AMQPriority"
"""The only number that a STOMP message can have and a selector can test (header priority)."""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name(name: str) -> str:
    return name if name.isidentifier() else f'"{name}"'


@dataclass(frozen=True)
class Text:
    name: str
    sign: str
    text: str

    def __str__(self) -> str:
        return f"{_name(self.name)} {self.sign} {_quoted(self.text)}"

    def value(self, headers: Headers) -> Truth:
        actual = headers.get(self.name)
        return None if actual is None else (actual == self.text) == (self.sign == "=")


@dataclass(frozen=True)
class Listed:
    """``name [NOT] IN (…)``."""

    name: str
    negated: bool
    texts: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{_name(self.name)} {'NOT ' * self.negated}IN ({', '.join(map(_quoted, self.texts))})"
        )

    def value(self, headers: Headers) -> Truth:
        actual = headers.get(self.name)
        return None if actual is None else (actual in self.texts) != self.negated


@dataclass(frozen=True)
class Like:
    """``name [NOT] LIKE 'pattern' [ESCAPE '!']``; ``parts`` are characters, (``%``,), (``_``,)."""

    name: str
    negated: bool
    parts: tuple[str | tuple[str], ...]

    def __str__(self) -> str:
        text = "".join(
            part[0] if isinstance(part, tuple) else self._plain(part) for part in self.parts
        )
        escape = " ESCAPE '!'" if self._escapes else ""
        return f"{_name(self.name)} {'NOT ' * self.negated}LIKE {_quoted(text)}{escape}"

    @property
    def _escapes(self) -> bool:
        return any(part in ("%", "_", "!") for part in self.parts)

    def _plain(self, character: str) -> str:
        return "!" + character if character in ("%", "_", "!") else character

    def value(self, headers: Headers) -> Truth:
        actual = headers.get(self.name)
        return None if actual is None else self._fits(actual, self.parts) != self.negated

    def _fits(self, text: str, parts: tuple[str | tuple[str], ...]) -> bool:
        if not parts:
            return not text
        if parts[0] == ("%",):
            return any(self._fits(text[at:], parts[1:]) for at in range(len(text) + 1))
        return bool(text) and parts[0] in (("_",), text[0]) and self._fits(text[1:], parts[1:])


@dataclass(frozen=True)
class Null:
    """``name IS [NOT] NULL``."""

    name: str
    negated: bool

    def __str__(self) -> str:
        return f"{_name(self.name)} IS {'NOT ' * self.negated}NULL"

    def value(self, headers: Headers) -> Truth:
        return (headers.get(self.name) is None) != self.negated


@dataclass(frozen=True)
class Number:
    """A literal, the priority, or a calculation, written with as few parentheses as possible."""

    sign: str
    """``""`` for a literal, ``p`` for the priority, else one of + - * and ``neg``."""
    of: tuple[Any, ...] = ()

    def __str__(self) -> str:
        match self.sign:
            case "":
                return str(self.of[0])
            case "p":
                return PRIORITY
            case "neg":
                return f"- {self._inside(self.of[0], 3)}"
        left, right = self.of
        rank = _RANK[self.sign]
        return f"{self._inside(left, rank)} {self.sign} {self._inside(right, rank + 1)}"

    def _inside(self, other: Self, rank: int) -> str:
        return f"({other})" if _RANK[other.sign] < rank else str(other)

    def number(self, headers: Headers) -> int:
        match self.sign:
            case "":
                return int(self.of[0])
            case "p":
                return int(headers.get("priority", "4"))
            case "neg":
                return -int(self.of[0].number(headers))
        left, right = (operand.number(headers) for operand in self.of)
        results: dict[str, int] = {"+": left + right, "-": left - right, "*": left * right}
        return results[self.sign]


_RANK = {"+": 1, "-": 1, "*": 2, "neg": 3, "": 4, "p": 4}


@dataclass(frozen=True)
class Compared:
    """Two numbers and the comparison operator between them."""

    left: Number
    sign: str
    right: Number

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"

    def value(self, headers: Headers) -> Truth:
        left, right = self.left.number(headers), self.right.number(headers)
        return {
            "=": left == right, "<>": left != right, "<": left < right, "<=": left <= right, ">": left > right,  # noqa: E501
            ">=": left >= right,
        }[self.sign]  # fmt: skip


@dataclass(frozen=True)
class Between:
    """A number ``[NOT] BETWEEN`` two numbers."""

    number: Number
    negated: bool
    low: Number
    high: Number

    def __str__(self) -> str:
        return f"{self.number} {'NOT ' * self.negated}BETWEEN {self.low} AND {self.high}"

    def value(self, headers: Headers) -> Truth:
        low, number, high = (
            operand.number(headers) for operand in (self.low, self.number, self.high)
        )
        return (low <= number <= high) != self.negated


@dataclass(frozen=True)
class Unlike:
    """A string header compared with a number: false for any string, unknown without the header."""

    name: str
    sign: str
    number: int

    def __str__(self) -> str:
        return f"{_name(self.name)} {self.sign} {self.number}"

    def value(self, headers: Headers) -> Truth:
        return None if headers.get(self.name) is None else False


@dataclass(frozen=True)
class Constant:
    """``TRUE`` or ``FALSE``."""

    truth: bool

    def __str__(self) -> str:
        return str(self.truth).upper()

    def value(self, headers: Headers) -> Truth:
        return self.truth


@dataclass(frozen=True)
class Not:
    """``NOT (…)``, or NOT without parentheses if the tree requires it."""

    of: Any
    bare: bool = False

    def __str__(self) -> str:
        return f"NOT {self.of}" if self.bare else f"NOT ({self.of})"

    def value(self, headers: Headers) -> Truth:
        actual = self.of.value(headers)
        return None if actual is None else not actual


@dataclass(frozen=True)
class All:
    of: tuple[Any, ...]

    def __str__(self) -> str:
        return " AND ".join(
            f"({operand})" if isinstance(operand, Any_) else str(operand) for operand in self.of
        )

    def value(self, headers: Headers) -> Truth:
        actual = [operand.value(headers) for operand in self.of]
        return False if False in actual else None if None in actual else True


@dataclass(frozen=True)
class Any_:
    of: tuple[Any, ...]

    def __str__(self) -> str:
        return " OR ".join(map(str, self.of))

    def value(self, headers: Headers) -> Truth:
        actual = [operand.value(headers) for operand in self.of]
        return True if True in actual else None if None in actual else False


def headers() -> st.SearchStrategy[dict[str, str]]:
    """Draw headers of a message: some of the names, with or without a priority."""
    texts = st.fixed_dictionaries({}, optional={name: st.sampled_from(TEXTS) for name in NAMES})
    priority = st.fixed_dictionaries({}, optional={"priority": st.integers(0, 9).map(str)})
    return st.builds(lambda one, other: {**one, **other}, texts, priority)


def predicates() -> st.SearchStrategy[Any]:
    """Draw conditions that contain no AND or OR and do not begin with NOT."""
    names, texts = st.sampled_from(NAMES), st.sampled_from(TEXTS)
    parts = st.one_of(st.just(("%",)), st.just(("_",)), st.sampled_from("redblue%_!'217"))
    return st.one_of(
        st.builds(Text, names, st.sampled_from(["=", "<>"]), texts),
        st.builds(Listed, names, st.booleans(), st.lists(texts, min_size=1, max_size=6).map(tuple)),
        st.builds(Like, names, st.booleans(), st.lists(parts, max_size=5).map(tuple)),
        st.builds(
            Like, names, st.booleans(), texts.map(lambda text: (*text[:1], ("%",), *text[-1:]))
        ),
        st.builds(Null, names, st.booleans()),
        st.builds(
            Compared, numbers(), st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), numbers()
        ),
        st.builds(Between, numbers(), st.booleans(), numbers(), numbers()),
        st.builds(
            Unlike, names, st.sampled_from(["=", "<", "<=", ">", ">="]), st.sampled_from([0, 7, 21])
        ),
        st.builds(Constant, st.booleans()),
    )


def numbers() -> st.SearchStrategy[Number]:
    """Draw numbers, half of them near the priorities."""
    leaves = st.one_of(
        st.just(Number("p")), st.integers(0, 12).map(lambda value: Number("", (value,)))
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(
                lambda sign, left, right: Number(sign, (left, right)),
                st.sampled_from("+-*"),
                inner,
                inner,
            ),
            st.builds(lambda of: Number("neg", (of,)), inner),
        ),
        max_leaves=3,
    )


def expressions() -> st.SearchStrategy[Any]:
    """Draw conditions of all kinds, with up to eight predicates."""
    return st.recursive(
        predicates(),
        lambda inner: st.one_of(
            st.builds(Not, inner),
            st.lists(inner, min_size=2, max_size=3).map(lambda of: All(tuple(of))),
            st.lists(inner, min_size=2, max_size=3).map(lambda of: Any_(tuple(of))),
        ),
        max_leaves=8,
    )


def spelled(text: str, choice: int) -> str:
    """Return ``text`` with keywords in upper or lower case; strings and names stay unchanged."""
    words = {"AND", "OR", "NOT", "IN", "IS", "LIKE", "NULL", "BETWEEN", "ESCAPE", "TRUE", "FALSE"}
    spell = (str, str.lower, str.title)[choice % 3]
    pieces = []
    for quote, run in itertools.groupby(_outside(text), key=lambda pair: pair[1]):
        piece = "".join(pair[0] for pair in run)
        pieces.append(
            piece
            if quote
            else " ".join(spell(word) if word in words else word for word in piece.split(" "))
        )
    return "".join(pieces)


def _outside(text: str) -> list[tuple[str, bool]]:
    """Return each character, and whether it is inside quotes of either kind."""
    result, within = [], ""
    for character in text:
        if not within and character in "'\"":
            within = character
            result.append((character, True))
        elif character == within:
            within = ""
            result.append((character, True))
        else:
            result.append((character, bool(within)))
    return result
