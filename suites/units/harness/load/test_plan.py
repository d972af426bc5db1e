"""Load plans as users write them, and their division among drivers."""

import random

import numpy as np
import pytest

from brokerproof.harness.load.clocks import ClockSample, Exchange, stated
from brokerproof.harness.load.latencies import Latencies
from brokerproof.harness.load.plan import (
    BadPlan,
    Fault,
    Place,
    Plan,
    Sizes,
    byte_count,
    duration,
    roles,
)
from brokerproof.harness.model.time import NS_PER_MS, NS_PER_S


def plan(
    producers: int = 5, consumers: int = 3, queues: int = 2, lines: int = 4, messages: int = 0
) -> Plan:
    senders, takers = roles(producers, consumers, queues, lines, messages)
    places = tuple(Place(f"q{number}", (("a", "b"),)) for number in range(queues))
    return Plan(
        "stomp",
        "stomp",
        "/",
        "me",
        "secret",
        places,
        senders,
        takers,
        lines,
        faults=(Fault("cut", 5, 0),),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", 500 * NS_PER_MS),
        ("2s", 2 * NS_PER_S),
        ("1.5m", 90 * NS_PER_S),
        ("1h", 3600 * NS_PER_S),
    ],
)
def test_times(text: str, expected: int) -> None:
    assert duration(text) == expected


@pytest.mark.parametrize(
    ("text", "low", "high"), [("512", 512, 512), ("1k", 1024, 1024), ("100..10k", 100, 10240)]
)
def test_sizes(text: str, low: int, high: int) -> None:
    sizes = Sizes.read(text)
    assert (sizes.low, sizes.high) == (low, high)
    drawn = {sizes.draw(random.Random(seed)) for seed in range(50)}
    assert low <= min(drawn) <= max(drawn) <= high


def test_bytes() -> None:
    assert [byte_count(text) for text in ("0", "100", "3k", "2G")] == [0, 100, 3072, 2**31]
    with pytest.raises(BadPlan, match="8m or 2g"):
        byte_count("2t")


def test_faults() -> None:
    assert Fault.read("cut:5s") == Fault("cut", 5 * NS_PER_S)
    assert Fault.read("stall:2s/500ms") == Fault("stall", 2 * NS_PER_S, 500 * NS_PER_MS)
    assert Fault.read("restart:30s") == Fault("restart", 30 * NS_PER_S)


@pytest.mark.parametrize(
    "text", ["", "cut", "cut:5", "cut:5s/1s", "stall:2s", "burn:1s", "cut:1ms"]
)
def test_what_is_no_fault_is_refused(text: str) -> None:
    with pytest.raises(BadPlan):
        Fault.read(text)


@pytest.mark.parametrize("text", ["", "45", "10..5", "1g", "10k..1k", "65m"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(BadPlan, match="size"):
        Sizes.read(text)


def test_a_plan_survives_its_way_to_a_driver() -> None:
    whole = plan()
    assert Plan.of(whole.data()) == whole


@pytest.mark.parametrize("drivers", [1, 2, 3, 9])
def test_parts_do_everything_once(drivers: int) -> None:
    whole = plan(messages=103)
    parts = whole.parts(drivers)
    assert len(parts) == min(drivers, whole.lines)
    assert sorted(producer.number for part in parts for producer in part.producers) == list(
        range(5)
    )
    assert sorted(consumer.number for part in parts for consumer in part.consumers) == list(
        range(3)
    )
    assert sum(producer.messages for part in parts for producer in part.producers) == 103
    lines = [{client.line for client in (*part.producers, *part.consumers)} for part in parts]
    assert not any(one & other for at, one in enumerate(lines) for other in lines[at + 1 :]), (
        "a connection has one driver"
    )


def test_quantiles_are_right_within_three_percent() -> None:
    values = np.random.default_rng(1).lognormal(15, 2, 20_000).astype(np.int64)
    first, second = Latencies(), Latencies()
    first.record(values[:7000].tolist())
    second.record(values[7000:].tolist())
    first.add(second.counts(), second.worst)
    assert len(first) == len(values)
    assert first.worst == values.max()
    for share in (0.5, 0.95, 0.99):
        exact = np.quantile(values, share, method="inverted_cdf")
        assert first.quantile(share) == pytest.approx(exact, rel=0.033)


def test_no_latency_has_no_quantile() -> None:
    assert Latencies().quantile(0.5) is None
    once = Latencies()
    once.record([-5])
    assert once.quantile(0.5) == 0


def test_the_quickest_answer_tells_the_offset() -> None:
    ahead = 5_000_000
    slow = Exchange(1_000, 1_000 + 400 + ahead, 2_000)
    quick = Exchange(3_000, 3_000 + 60 + ahead, 3_100)
    reading = ClockSample.of([slow, quick])
    assert abs(reading.offset - ahead) <= reading.uncertainty == 50
    told = stated(
        2, "other", False, reading.data(), ClockSample(9_000, reading.offset + 7, 50).data()
    )
    assert told["added_ns"] == reading.offset
    assert (told["drift_ns"], told["drift_uncertainty_ns"]) == (7, 100)
    assert stated(0, "here", True, reading.data(), None)["added_ns"] == 0
