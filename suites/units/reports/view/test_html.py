"""Durations, docstrings, measurements and file names of pages, without Spark.
``suites/browser/drawings.py`` tests what the browser draws."""

import json

import pytest

from brokerproof.harness.model.time import ms, seconds
from brokerproof.harness.results.records import measurements_of
from brokerproof.reports.model.quantities import counted, duration, grouped, rounded_up
from brokerproof.reports.model.slugs import slug
from brokerproof.reports.view.templates import paragraphs, took


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0 s"),
        (1, "1 ns"),
        (1500, "1.5 µs"),
        (ms(4) + 20_000, "4.02 ms"),
        (-ms(4), "-4 ms"),
        (seconds(90), "90 s"),
        (seconds(120), "2 min"),
        (seconds(3600), "1 h"),
        (seconds(2100), "35 min"),
        (seconds(3601), "60.017 min"),
    ],
)
def test_durations_for_people(nanoseconds: int, text: str) -> None:
    assert duration(nanoseconds) == text


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "messages", "1 message"),
        (-1, "messages", "-1 message"),
        (0, "messages", "0 messages"),
        (1, "deliveries", "1 delivery"),
        (2, "deliveries", "2 deliveries"),
        (2, "delivery", "2 deliveries"),
        (1, "bytes", "1 byte"),
        (7, "credit", "7 credit"),
        (2720, "result", "2\N{NARROW NO-BREAK SPACE}720 results"),
    ],
)
def test_nouns_agree_with_their_number(number: int, noun: str, text: str) -> None:
    assert counted(number, noun) == text


def test_at_most_is_never_less_than_what_was_measured() -> None:
    values = [0, 7, 99, 101, ms(12), 2_041_433, 139_718_374]
    assert list(map(rounded_up, values)) == [0, 7, 99, 110, ms(12), 2_100_000, ms(140)]


def test_docstrings_are_set_anew_times_are_short_and_digits_in_groups() -> None:
    expected = ["One line, and more.", "Another."]
    assert paragraphs("One line,\n    and more.\n\n  Another.\n") == expected
    assert [grouped(0), grouped(999), grouped(2720)] == [
        "0",
        "999",
        "2\N{NARROW NO-BREAK SPACE}720",
    ]
    assert [took(0.0004), took(0.0351), took(75.5)] == ["0 s", "35 ms", "75.5 s"]


@pytest.mark.parametrize(
    "measurements",
    [
        '{"a": 1}',
        '{"b": {"value": "x", "unit": ""}}',
        '{"c": {"value": 5}}',
        '{"d": {"value": 3, "unit": "ns", "low": "low"}}',
        '{"e": {"value": 3, "unit": "ns", "lo": 1}}',
        "[]",
    ],
)
def test_measurements_of_another_shape_are_refused(measurements: str) -> None:
    with pytest.raises(TypeError):
        measurements_of(json.loads(measurements))


def test_slugs_keep_apart_what_reads_alike() -> None:
    names = {
        slug("r", "t", number) for number in ("a.b[1]", "a.b[1 ]", "a-b-1", "../a/b/1", "Ä" * 300)
    }
    assert len(names) == 5
    assert all(
        name.isascii() and "/" not in name and "." not in name and len(name) <= 90 for name in names
    )
