"""Selectors: parsed once per subscription into a function that is called for each message.

The logic has three values: a property that a message lacks is NULL, a comparison with NULL is
unknown, and a message is selected only if the condition is true. Header values are strings, and a
string is not a number: ``age > 18`` selects no message that STOMP sent. A selector that begins with
``convert_string_expressions:`` reads strings next to numbers as numbers; ``hyphenated_props:`` lets
names have hyphens. ``no_`` before either prefix revokes it, and the last prefix takes precedence.
"""

import functools
from collections.abc import Callable

from lark import Lark, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from brokerproof.reference_broker.selector.building import Builder, Misuse, Part, condition
from brokerproof.reference_broker.selector.grammar import VALUE, WORDS, grammar
from brokerproof.reference_broker.selector.values import Evaluate, Subject

_PREFIXES = {
    "convert_string_expressions:": ("convert", True),
    "no_convert_string_expressions:": ("convert", False),
    "hyphenated_props:": ("hyphenated", True),
    "no_hyphenated_props:": ("hyphenated", False),
}


class SelectorError(Exception):
    """The text is not a selector. The message gives the position (``at``), in characters from 1."""

    def __init__(self, at: int, sentence: str) -> None:
        super().__init__(f"at character {at}: {sentence}")
        self.at = at


class Selector:
    """One condition. ``text`` is the original text."""

    __slots__ = ("_evaluate", "text")

    def __init__(self, text: str, evaluate: Evaluate) -> None:
        self.text = text
        self._evaluate = evaluate

    def matches(self, subject: Subject) -> bool:
        """Return True if the condition is true, and False if it is false or unknown."""
        return self._evaluate(subject) is True


def parse(text: str) -> Selector:
    """Return the selector in ``text``. Raises :class:`SelectorError`."""
    options = {"convert": False, "hyphenated": False}
    rest = text
    while (
        prefix := next((known for known in _PREFIXES if rest.startswith(known)), None)
    ) is not None:
        name, value = _PREFIXES[prefix]
        options[name] = value
        rest = rest.removeprefix(prefix)
    before = len(text) - len(rest)
    if not rest.strip():
        raise SelectorError(before + 1, "there is no condition")
    try:
        part = condition(_parser(**options)(rest))
    except Misuse as problem:
        raise SelectorError(before + problem.at + 1, str(problem)) from None
    except UnexpectedInput as problem:
        at_end = isinstance(problem, UnexpectedToken) and problem.token.type == "$END"
        place = len(rest) if at_end else problem.pos_in_stream or 0
        raise SelectorError(before + place + 1, _unexpected(problem, rest, place)) from None
    return Selector(text, part.evaluate)


@functools.cache
def _parser(convert: bool, hyphenated: bool) -> Callable[[str], Part]:
    return Lark(
        grammar(hyphenated), parser="lalr", lexer="basic", transformer=Builder(convert)
    ).parse  # type: ignore[return-value]


def _unexpected(problem: UnexpectedInput, text: str, place: int) -> str:
    if isinstance(problem, UnexpectedCharacters):
        return f"{text[place : place + 10]!a} cannot begin any part of a selector"
    if not isinstance(problem, UnexpectedToken):
        return "this is not a selector"
    expected = problem.accepts or problem.expected
    token_text = "the end" if problem.token.type == "$END" else ascii(str(problem.token)[:20])
    names = {WORDS.get(token, token.lstrip("_")) for token in expected} or {"something else"}
    if VALUE in names:
        names = {VALUE}
    *others, last = sorted(names)
    listed = f"{', '.join(others)} or {last}" if others else last
    return f"found {token_text}, expected {listed}"
