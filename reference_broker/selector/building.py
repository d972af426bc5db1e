"""Turns the rules that the grammar recognises into functions; each rule becomes a :class:`Part`."""

import enum
from dataclasses import dataclass

from lark import Token, Transformer, v_args

from brokerproof.reference_broker.selector.values import (
    COMPARISONS,
    Evaluate,
    Subject,
    Value,
    calculate,
    compare,
    negative,
    number,
    pattern,
)

DEPTH = 200
"""The deepest nesting of a selector, since its evaluation is recursive."""


class Kind(enum.Enum):
    """The statically known type of a part's value."""

    CONDITION = "a condition"
    TRUTH = "a truth value"
    NULL = "NULL"
    NUMBER = "a number"
    STRING = "a string"
    NAME = "a name"
    CALCULATION = "a calculation"


class Misuse(Exception):
    """The text is grammatical but has no meaning; ``at`` is the position in the text, from 0."""

    def __init__(self, at: int, sentence: str) -> None:
        super().__init__(sentence)
        self.at = at


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a selector: its evaluation, position and depth."""

    evaluate: Evaluate
    kind: Kind
    at: int
    depth: int = 0


_ORDERED = (Kind.NUMBER, Kind.NAME, Kind.CALCULATION)
_CONDITIONS = (Kind.CONDITION, Kind.TRUTH, Kind.NULL)


def condition(part: Part) -> Part:
    """Return ``part`` as an operand of AND, OR and NOT, or as a whole selector. Raises
    :class:`Misuse`.

    A name may be a condition: it stands for its value if that is a truth value, else for false (as
    in release 2.56.0).
    """
    if part.kind in _CONDITIONS:
        return part
    if part.kind is not Kind.NAME:
        raise Misuse(part.at, f"a condition is needed here; this is {part.kind.value}")
    value = part.evaluate

    def evaluate(subject: Subject) -> Value:
        result = value(subject)
        return result if result is None or isinstance(result, bool) else False

    return Part(evaluate, Kind.CONDITION, part.at, part.depth)


def _text(token: Token) -> str:
    mark = token[0]
    return token[1:-1].replace(mark * 2, mark)


def _at(token: Token) -> int:
    return token.start_pos or 0


def _within(value: int, token: Token) -> int:
    if value > 2**63:
        raise Misuse(_at(token), "whole numbers have at most 64 bits")
    return value


def _number(value: int | float, token: Token) -> Part:
    return Part(lambda subject: value, Kind.NUMBER, _at(token))


def _named(name: str, token: Token) -> Part:
    return Part(lambda subject: subject.property(name), Kind.NAME, _at(token))


@v_args(inline=True)
class Builder(Transformer[Token, Part]):
    """With ``convert``, strings next to numbers are read as numbers."""

    def __init__(self, convert: bool) -> None:
        super().__init__()
        self._convert = convert

    # literals and names

    def string(self, token: Token) -> Part:
        text = _text(token)
        return Part(lambda subject: text, Kind.STRING, _at(token))

    def decimal(self, token: Token) -> Part:
        return _number(_within(int(token.rstrip("lL")), token), token)

    def hexadecimal(self, token: Token) -> Part:
        return _number(_within(int(token, 16), token), token)

    def octal(self, token: Token) -> Part:
        return _number(_within(int(token, 8), token), token)

    def floating(self, token: Token) -> Part:
        value = number(token)
        if value is None:
            raise Misuse(_at(token), "this number is too long")
        return _number(float(value), token)

    def truth(self, token: Token) -> Part:
        value = token.lower() == "true"
        return Part(lambda subject: value, Kind.TRUTH, _at(token))

    def null(self, token: Token) -> Part:
        return Part(lambda subject: None, Kind.NULL, _at(token))

    def name(self, token: Token) -> Part:
        return _named(str(token), token)

    def quoted(self, token: Token) -> Part:
        return _named(_text(token), token)

    def xpath(self, word: Token, token: Token) -> Part:
        from brokerproof.reference_broker.selector import xpath  # lxml is needed only for this

        try:
            return Part(xpath.compiled(_text(token)), Kind.CONDITION, _at(word))
        except xpath.BadXPath as problem:
            raise Misuse(_at(token), str(problem)) from None

    def xquery(self, word: Token, token: Token) -> Part:
        raise Misuse(_at(word), "XQUERY is not supported by this broker; XPATH is")

    # arithmetic

    def signed(self, sign: Token, part: Part) -> Part:
        value, convert = part.evaluate, self._convert
        if sign == "+":
            return part
        return _over(
            Kind.CALCULATION, _at(sign), lambda subject: negative(value(subject), convert), part
        )

    def calculated(self, left: Part, sign: Token, right: Part) -> Part:
        one, other, convert, how = left.evaluate, right.evaluate, self._convert, str(sign)
        return _over(
            Kind.CALCULATION,
            left.at,
            lambda subject: calculate(one(subject), other(subject), how, convert),
            left,
            right,
        )

    # comparisons

    def equal(self, left: Part, right: Part) -> Part:
        return self._compared("=", left, right)

    def unequal(self, left: Part, right: Part) -> Part:
        return self._compared("<>", left, right)

    def _compared(self, sign: str, left: Part, right: Part) -> Part:
        for operand in (left, right):
            if operand.kind is Kind.NULL:
                raise Misuse(operand.at, "NULL cannot be compared; write IS NULL or IS NOT NULL")
        return self._comparison(sign, left, right)

    def ordered(self, left: Part, sign: Token, right: Part) -> Part:
        for operand in (left, right):
            if operand.kind not in _ORDERED:
                raise Misuse(operand.at, f"{sign} compares numbers; this is {operand.kind.value}")
        return self._comparison(str(sign), left, right)

    def _comparison(self, sign: str, left: Part, right: Part) -> Part:
        one, other, holds, convert = left.evaluate, right.evaluate, COMPARISONS[sign], self._convert
        return _over(
            Kind.CONDITION,
            left.at,
            lambda subject: compare(one(subject), other(subject), holds, convert),
            left,
            right,
        )

    def is_null(self, part: Part, null: Token) -> Part:
        value = part.evaluate
        return _over(Kind.CONDITION, part.at, lambda subject: value(subject) is None, part)

    def is_not_null(self, part: Part, word: Token, null: Token) -> Part:
        value = part.evaluate
        return _over(Kind.CONDITION, part.at, lambda subject: value(subject) is not None, part)

    def between(self, part: Part, low: Part, high: Part) -> Part:
        for operand in (part, low, high):
            if operand.kind not in _ORDERED:
                raise Misuse(operand.at, f"BETWEEN compares numbers; this is {operand.kind.value}")
        return self.conjunction(
            self._comparison(">=", part, low), self._comparison("<=", part, high)
        )

    def not_between(self, part: Part, word: Token, low: Part, high: Part) -> Part:
        return _not(self.between(part, low, high), part.at)

    def like(self, part: Part, text: Token, escape: Token | None = None) -> Part:
        mark = None if escape is None else _text(escape)
        if escape is not None and len(mark or "") != 1:
            raise Misuse(_at(escape), "ESCAPE needs exactly one character")
        value, fits = part.evaluate, pattern(_text(text), mark).fullmatch

        def evaluate(subject: Subject) -> Value:
            result = value(subject)
            return None if result is None else isinstance(result, str) and fits(result) is not None

        return _over(Kind.CONDITION, part.at, evaluate, part)

    def not_like(self, part: Part, word: Token, text: Token, escape: Token | None = None) -> Part:
        return _not(self.like(part, text, escape), part.at)

    def one_of(self, part: Part, *texts: Token) -> Part:
        if part.kind is not Kind.NAME:
            raise Misuse(part.at, f"IN needs a name; this is {part.kind.value}")
        value, listed = part.evaluate, frozenset(map(_text, texts))

        def evaluate(subject: Subject) -> Value:
            result = value(subject)
            return result in listed if isinstance(result, str) else None

        return _over(Kind.CONDITION, part.at, evaluate, part)

    def none_of(self, part: Part, word: Token, *texts: Token) -> Part:
        return _not(self.one_of(part, *texts), part.at)

    # logic, with three values

    def negated(self, word: Token, part: Part) -> Part:
        return _not(condition(part), _at(word))

    def conjunction(self, *parts: Part) -> Part:
        return _joined(parts, False)

    def disjunction(self, *parts: Part) -> Part:
        return _joined(parts, True)


def _joined(parts: tuple[Part, ...], decides: bool) -> Part:
    """Evaluate AND (false decides) or OR (true decides). If nothing decides, the result is unknown
    if any part is, and otherwise the other value."""
    conditions = [condition(part) for part in parts]
    evaluates = tuple(condition.evaluate for condition in conditions)
    otherwise = not decides

    def evaluate(subject: Subject) -> Value:
        result: Value = otherwise
        for operand in evaluates:
            value = operand(subject)
            if value is decides:
                return decides
            if value is None:
                result = None
        return result

    return _over(Kind.CONDITION, parts[0].at, evaluate, *conditions)


def _not(part: Part, at: int) -> Part:
    value = part.evaluate

    def evaluate(subject: Subject) -> Value:
        result = value(subject)
        return None if result is None else not result

    return _over(Kind.CONDITION, at, evaluate, part)


def _over(kind: Kind, at: int, evaluate: Evaluate, *parts: Part) -> Part:
    depth = 1 + max(part.depth for part in parts)
    if depth > DEPTH:
        raise Misuse(at, f"it is nested more than {DEPTH} deep")
    return Part(evaluate, kind, at, depth)
