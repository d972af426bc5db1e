"""Suspicions while a recording grows, and input that raises none."""

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from brokerproof.harness.model.time import NS_PER_S
from brokerproof.harness.oracles import recorded_anomalies
from brokerproof.harness.oracles.expectations import NOTHING
from brokerproof.reports.judging.delivery_bitmaps import BLOCK, DeliveryBitmap
from brokerproof.reports.judging.order import OrderSummary
from brokerproof.reports.judging.segment_summary import DELIVERIES, ORDER
from brokerproof.reports.soak import preflight
from brokerproof.reports.soak.incremental import FULL, GRACE, Suspicions
from brokerproof.reports.spark.load import SparkCrew


def row(what: str, place: int, summary: Any, block: int = 0) -> dict[str, Any]:
    named = {
        "run": "r",
        "target": "t",
        "case": "load",
        "example": 0,
        "queue": "q",
        "producer": 1,
        "conn": 7,
    }
    return {
        **named,
        "kind": what,
        "subscription": "",
        "block": block,
        "place": place,
        "summary": pickle.dumps(summary),
    }


def test_messages_under_way_are_no_suspicion() -> None:
    state = Suspicions(NOTHING)
    assert not state.enter(
        [row(DELIVERIES, 0, DeliveryBitmap(sent=0b1111, got=0b0011, one_copy=True))], 0
    )
    assert state.under_way == 2
    assert not state.enter(
        [row(DELIVERIES, 1, DeliveryBitmap(got=0b1100, one_copy=True))], 60 * NS_PER_S
    )
    assert state.under_way == 0


def test_a_message_that_was_overtaken_and_does_not_come_is_one() -> None:
    state = Suspicions(NOTHING)
    assert not state.enter(
        [row(DELIVERIES, 0, DeliveryBitmap(sent=0b1111, got=0b1101, one_copy=True))], NS_PER_S
    )
    assert not state.enter([], GRACE)
    (why,) = state.enter([], NS_PER_S + GRACE)
    assert "have not arrived" in why
    assert not state.enter([], NS_PER_S + 3 * GRACE), "once is enough"


def test_the_last_ones_wait_for_as_long_as_nothing_overtakes_them() -> None:
    state = Suspicions(NOTHING)
    state.enter([row(DELIVERIES, 0, DeliveryBitmap(sent=0b1111, got=0b0011, one_copy=True))], 0)
    assert not state.enter([], 10 * GRACE)
    state.enter(
        [row(DELIVERIES, 1, DeliveryBitmap(sent=1, got=1, one_copy=True), block=1)], 10 * GRACE
    )
    assert state.enter([], 11 * GRACE), "a message of the next block overtook them"


def test_what_comes_twice_is_suspicious_at_once_and_only_once() -> None:
    state = Suspicions(NOTHING)
    state.enter([row(DELIVERIES, 0, DeliveryBitmap(sent=0b11, got=0b11, one_copy=True))], 0)
    (why,) = state.enter([row(DELIVERIES, 1, DeliveryBitmap(got=0b01, one_copy=True))], 0)
    assert "twice" in why
    assert not state.enter(
        [row(DELIVERIES, 2, DeliveryBitmap(sent=0b100, got=0b100, one_copy=True))], 0
    )


def test_what_another_driver_recorded_may_be_read_later() -> None:
    early = row(DELIVERIES, 0, DeliveryBitmap(got=0b1, one_copy=True))
    assert Suspicions(NOTHING, drivers=1).enter([early], 0)
    state = Suspicions(NOTHING, drivers=2)
    assert not state.enter([early], 0)
    assert not state.enter([row(DELIVERIES, 1, DeliveryBitmap(sent=0b1, one_copy=True))], GRACE)
    lasting = Suspicions(NOTHING, drivers=2)
    lasting.enter([early], 0)
    assert lasting.enter([], GRACE)


def test_full_blocks_are_let_go_and_a_late_copy_is_seen_all_the_same() -> None:
    state = Suspicions(NOTHING)
    state.enter([row(DELIVERIES, 0, DeliveryBitmap(sent=FULL, got=FULL, one_copy=True))], 0)
    assert not state.groups
    assert FULL.bit_length() == BLOCK
    assert state.enter([row(DELIVERIES, 1, DeliveryBitmap(got=0b1, one_copy=True))], 0)


def test_order_is_judged_at_once() -> None:
    state = Suspicions(NOTHING)
    assert not state.enter([row(ORDER, 0, OrderSummary(0, 5))], 0)
    (why,) = state.enter([row(ORDER, 1, OrderSummary(4, 9))], 0)
    assert "order" in why


def test_the_judges_of_a_soak_need_a_core_besides_its_drivers() -> None:
    """A driver uses its core throughout the load, so nothing would be judged before the end."""
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
    crew = SparkCrew("spark://nowhere:1", spark, spare=1)
    crew.start("127.0.0.1:1", "token", 2)
    crew.stop()
    found = crew.problem()
    assert found == "spark://nowhere:1 has 2 cores for 2 drivers and the judges; use --drivers 1"


def test_the_rehearsal_has_two_messages_that_came_twice() -> None:
    """One of them is delivered again under its earlier ack name, so one ACK applies to both
    deliveries."""
    found = recorded_anomalies.find_anomalies(
        [event for event in preflight.events() if event.conn == 1]
    )
    expected = [("revived", 10), ("shared", 14)]
    assert [(anomaly.kind, anomaly.witness[0][1]) for anomaly in found] == expected


def test_judges_that_find_nothing_in_the_rehearsal_begin_no_soak(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blind: Any = SimpleNamespace(wrong=[], release=lambda: None)
    monkeypatch.setattr(preflight, "find_anomalies", lambda *_: blind)
    monkeypatch.setattr(preflight, "conclude", lambda *_: blind)
    with pytest.raises(preflight.NotFound, match="found nothing"):
        preflight.rehearse(blind, lambda _: None)
