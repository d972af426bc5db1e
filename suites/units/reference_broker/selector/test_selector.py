"""Selectors alone: the grammar, three truth values, values of different kinds, and the position of
an error."""

import fnmatch
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.reference_broker.kernel.message import Envelope, Message
from brokerproof.reference_broker.selector.selector import SelectorError, parse
from brokerproof.reference_broker.selector.values import Value, calculate, number, pattern
from brokerproof.suites.steps.selector_model import Not, expressions, headers, predicates, spelled
from brokerproof.suites.units.drivers.broker import patient


class Subject:
    def __init__(self, **properties: Value) -> None:
        self.properties = properties
        self.body = b"<order><item price='3'/></order>"

    def property(self, name: str) -> Value:
        return self.properties.get(name)


SUBJECT = Subject(
    color="red",
    age="21",
    half="1.5",
    n=3,
    x=0.5,
    yes=True,
    no=False,
    percent="a%b",
    **{"x-y": "v", "a.b": "dot", 'q"q': "q"},
)


@pytest.mark.parametrize(
    "text",
    [
        "color = 'red'", "color <> 'blue'", "'red' = color", "n = 3", "n = 3.0", "x = .5", "x = 5e-1", "n = 0x3 AND n = 03",  # noqa: E501
        "n = 3L", "n < 4 and n <= 3 AND n > 2 And n >= 3", "n + 1 = 4", "1 + 2 * n = 7", "(1 + 2) * n = 9", "-n = -3",  # noqa: E501
        "- -n = +3", "7 - 2 - 1 = 4", "7 / 2 = 3.5", "n % 2 = 1", "-7 % 4 = -3", "1 / 0 > 5", "-1 / 0 < 5",  # noqa: E501
        "n BETWEEN 3 AND 3", "n BETWEEN 1 AND 2 + 1 AND TRUE", "n NOT BETWEEN 4 AND 9", "NOT n BETWEEN 4 AND 9",  # noqa: E501
        "color IN ('blue', 'red')", "color NOT IN ('blue')", "NOT color IN ('blue')", "color LIKE 'r_d'",  # noqa: E501
        "color LIKE '%'", "color NOT LIKE 'b%'", "percent LIKE 'a!%b' ESCAPE '!'", "percent LIKE 'a_b'",  # noqa: E501
        "nothing IS NULL", "color IS NOT NULL", "n + nothing IS NULL", "NOT color = 'blue'", "NOT NOT color = 'red'",  # noqa: E501
        "yes", "NOT no", "yes = TRUE", "yes <> no", "TRUE OR nothing = 1", "nothing = 1 OR yes", "NOT (FALSE AND nothing = 1)",  # noqa: E501
        "FALSE AND FALSE OR TRUE", "TRUE OR TRUE AND FALSE", "NOT FALSE AND TRUE", "\"x-y\" = 'v'", "\"a.b\" = 'dot'",  # noqa: E501
        '"q""q" = \'q\'', "hyphenated_props:x-y = 'v'", "'it''s' = 'it''s'",
        "color = /* a * b */ 'red'", "color -- x\n = 'red'",
        "convert_string_expressions:age = 21", "convert_string_expressions:age > 18 AND half > 1 AND half < 2",  # noqa: E501
        "convert_string_expressions:age + 1 = 22", "convert_string_expressions:-age = -21", "age + 1 = '211'",  # noqa: E501
        "convert_string_expressions:hyphenated_props:no_convert_string_expressions:NOT age = 21",
        "NOT (age > 18)", "NOT (age = 21)", "XPATH '//item[@price > 2]'", "XPATH 'count(//item) = 1'",  # noqa: E501
        "color LIKE 'RED' = FALSE",
        "9223372036854775807 + 1 < 0", "-9223372036854775808 < 0",
    ],
)  # fmt: skip
def test_what_is_selected(text: str) -> None:
    assert parse(text).matches(SUBJECT)


@pytest.mark.parametrize(
    "text",
    [
        "color = 'blue'", "color <> 'red'", "color = 'RED'", "Color = 'red'", "age > 18", "age = 21", "age <> 21", "n = '3'",  # noqa: E501
        "age BETWEEN 20 AND 22", "nothing = 'x'", "nothing <> 'x'", "'x' <> nothing", "NOT (nothing = 'x')",  # noqa: E501
        "NOT ('x' = nothing)", "nothing = nothing", "NOT (nothing = nothing)", "nothing <> nothing", "nothing IN ('x')",  # noqa: E501
        "nothing NOT IN ('x')", "nothing LIKE '%'", "nothing NOT LIKE 'x'", "NOT nothing", "nothing", "NOT (nothing > 1)",  # noqa: E501
        "nothing BETWEEN 1 AND 2", "nothing NOT BETWEEN 1 AND 2", "5 NOT BETWEEN 4 AND nothing", "nothing = 1 AND TRUE",  # noqa: E501
        "nothing = 1 OR FALSE", "NOT (TRUE AND nothing = 1)", "nothing + 1 > 0", "-nothing < 1", "color", "NULL", "NOT NULL",  # noqa: E501
        "color LIKE 'r'", "color LIKE 'RED'", "n LIKE '%'", "x-y = 'v'", "-color = 1", "1 + color = 2", "FALSE", "NOT yes",  # noqa: E501
        "XPATH '//none'", "convert_string_expressions:color > 0", "0 / 0 = 0",
    ],
)  # fmt: skip
def test_what_is_not_selected(text: str) -> None:
    assert not parse(text).matches(SUBJECT)


@pytest.mark.parametrize(
    ("text", "at", "sentence"),
    [
        ("", 1, "there is no condition"),
        ("  ", 1, "there is no condition"),
        ("convert_string_expressions:", 28, "there is no condition"),
        ("color =", 8, "found the end, expected a value"),
        ("color == 'x'", 8, "found '=', expected a value"),
        ("color 'x'", 7, "expected AND, OR, an operator or the end"),
        ("a.b = 1", 2, "'.b = 1' cannot begin any"),
        ("(a = 1", 7, "found the end, expected )"),
        ("a = 'x", 5, "cannot begin any"),
        ("a IN ('x' 'y')", 11, "expected ) or ,"),
        ("a IN (1)", 7, "expected a string in quotes"),
        ("hyphenated_props:a IN ()", 24, "expected a string in quotes"),
        ("'a' < 'b'", 1, "< compares numbers; this is a string"),
        ("a > 'b'", 5, "> compares numbers"),
        ("a > TRUE", 5, "> compares numbers; this is a truth value"),
        ("a BETWEEN 1 AND 'b'", 17, "BETWEEN compares numbers"),
        ("a = NULL", 5, "write IS NULL"),
        ("1", 1, "a condition is needed here; this is a number"),
        ("a = 1 AND 'b'", 11, "a condition is needed here; this is a string"),
        ("NOT a + 1", 5, "a condition is needed here; this is a calculation"),
        ("'a' IN ('a')", 1, "IN needs a name"),
        ("a LIKE 'b' ESCAPE 'cc'", 19, "ESCAPE needs exactly one character"),
        ("a LIKE b", 8, "expected a string in quotes"),
        ("a = 9223372036854775809", 5, "at most 64 bits"),
        ("XPATH '//['", 7, "not an XPath expression"),
        ("XQUERY 'x'", 1, "XQUERY is not supported"),
        ("a AND AND b", 7, "expected a value"),
        ("IN = 1", 1, "expected a value"),
        ("a = 1;", 6, "';' cannot begin any"),
    ],
)
def test_a_mistake_is_shown_in_its_place(text: str, at: int, sentence: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse(text)
    assert (caught.value.at, sentence in str(caught.value)) == (at, True), str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["NOT " * 5000 + "a", "-" * 5000 + "a = 1", "a + 1" * 5000, "a" + " + 1" * 5000 + " = 1"],
)
def test_depth_is_limited_and_never_ends_in_a_crash(text: str) -> None:
    with pytest.raises(SelectorError):
        parse(text)


def test_length_is_not_limited() -> None:
    assert parse("(" * 5000 + "TRUE" + ")" * 5000).matches(SUBJECT)
    assert parse(" OR ".join(["color = 'x'"] * 2000 + ["yes"])).matches(SUBJECT)


WORDS = (
    "a", "b", "'x'", "1", "1.5", "(", ")", "=", "<>", "<", "NOT", "AND", "OR", "IN", "LIKE",
    "BETWEEN", "IS", "NULL", ",", "+", "-", "*", "/", "%", "ESCAPE",
)  # fmt: skip


@patient
@given(
    st.text(st.characters(codec="utf-8"), max_size=40)
    | st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
)
def test_any_text_is_a_selector_or_a_sentence(text: str) -> None:
    mistake = None
    try:
        assert parse(text).matches(Subject(a="1", b=2)) in (True, False)
    except SelectorError as problem:
        mistake = problem
    assert mistake is None or (1 <= mistake.at <= len(text) + 1 and "\n" not in str(mistake))


@patient
@given(st.text("ab%_!\n", max_size=8), st.text("ab%_!\n", max_size=8))
def test_like_agrees_with_the_plainest_reading_of_it(like: str, text: str) -> None:
    plain = "".join(
        ".*" if word == "%" else "." if word == "_" else re.escape(word) for word in like
    )
    assert bool(pattern(like, None).fullmatch(text)) == bool(re.fullmatch(plain, text, re.DOTALL))
    if not set(like) & {"!", "_"}:
        shell = like.replace("%", "*")
        assert bool(pattern(like, None).fullmatch(text)) == fnmatch.fnmatchcase(text, shell)


def test_like_costs_little_whatever_it_says() -> None:
    assert not pattern("%a" * 2000, None).fullmatch("a" * 1999 + "b")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), ("-07", -7), ("+3", 3), ("1.", 1.0), (".5", 0.5), ("1e3", 1000.0), ("", None), (" 1", None), ("1_0", None),  # noqa: E501
        ("nan", None), ("0x10", None), ("９", None), (str(2**63), float(2**63)), ("1e99999", float("inf")),  # noqa: E501
    ],
)  # fmt: skip
def test_numbers_in_strings(text: str, value: Value) -> None:
    assert number(text) == value


@patient
@given(
    *[
        st.none()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats()
        | st.text(max_size=3)
        | st.booleans()
    ]
    * 2,
    st.sampled_from("+-*/%"),
)
def test_no_calculation_raises(left: Value, right: Value, sign: str) -> None:
    result = calculate(left, right, sign, convert=True)
    assert not isinstance(result, int) or -(2**63) <= result < 2**63


@patient
@given(expressions() | st.builds(Not, predicates(), st.just(True)), headers(), st.integers(0, 2))
def test_the_broker_and_the_suites_read_selectors_alike(
    expression: Any, sent: dict[str, str], spelling: int
) -> None:
    message = Message(1, Envelope("a", "a", None, tuple(sent.items()), True), b"")
    assert parse(spelled(str(expression), spelling)).matches(message) == (
        expression.value(sent) is True
    )


def test_the_names_of_the_broker_where_headers_say_nothing() -> None:
    message = Message(
        1, Envelope("a", "a", None, (("priority", "ten"), ("expires", "1.5")), True), b""
    )
    for text in (
        "AMQPriority = 4",
        "AMQDurable = 'NON_DURABLE'",
        "AMQExpiration = 0",
        "AMQGroupID IS NULL",
    ):
        assert parse(text).matches(message), text
