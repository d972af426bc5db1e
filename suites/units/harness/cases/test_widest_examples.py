"""Few examples are chosen out of many so that their values differ most."""

from dataclasses import dataclass
from typing import Any

from brokerproof.harness.cases.widest_examples import widest


@dataclass(frozen=True)
class Step:
    kind: str


def chosen(values: list[Any], wanted: int, fixed: list[Any] | None = None) -> list[Any]:
    found = widest([{"x": each} for each in values], wanted, [{"x": each} for each in fixed or []])
    return [plan["x"] for plan in found]


def test_members_come_before_repetitions_and_before_what_is_fixed() -> None:
    assert chosen(["get", "get", "get", "nack", "ttl", "ttl", "nack"], 3) == ["get", "nack", "ttl"]
    assert chosen(["get", "get", "ttl", "ttl"], 1, ["get"]) == ["ttl"]


def test_sizes_differ_in_their_order_of_magnitude() -> None:
    assert {each.bit_length() for each in chosen([5, 6, 7, 5000, 6000], 2)} == {3, 13}


def test_sequences_of_steps_count_but_long_examples_come_last() -> None:
    one, other, third = Step("send"), Step("ack"), Step("nack")
    assert chosen([[one, other], [one, other], [other, one], [other, one]], 2) == [
        [one, other],
        [other, one],
    ]
    short, long = [[one], [one], [other], [other]], [one, other, third] * 9
    assert chosen([*short, long, long], 2) == [[one], [other]]


def test_no_more_than_there_are() -> None:
    assert chosen([], 3) == []
    assert chosen([1, 1], 3) == [1, 1]
