"""Summaries and oracles on synthetic recordings: a summary misses nothing, however the recording is
cut."""

import pickle
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokerproof.harness.model.enums import Clock
from brokerproof.harness.oracles import connection_lifetimes as life_oracle
from brokerproof.harness.oracles import recorded_anomalies
from brokerproof.harness.oracles.expectations import Expectations
from brokerproof.harness.oracles.recorded_anomalies import Anomaly
from brokerproof.harness.trace import events as ev
from brokerproof.harness.trace.recorder import Recorder
from brokerproof.reports.judging.judge import lifetime
from brokerproof.reports.judging.merge import EMPTY
from brokerproof.reports.judging.segment_summary import SegmentSummaries
from brokerproof.reports.judging.summary import GROUP
from brokerproof.suites.units.drivers.model_recordings import recordings

GROUND = Expectations("artemis", {"consumer-window-size": "octets"}, 10_240, 2.0, 2000, queues=True)
OF_BOOKS = {"phantom", "shared", "revived", "lost", "mismarked", "unmarked"}


def batch(events: Sequence[ev.Event]) -> pa.RecordBatch:
    return Recorder(None, "r", "t", Clock.VIRTUAL)._batch("c", events)


def summed_up(
    events: Sequence[ev.Event], cuts: Sequence[int], expectations: Expectations = GROUND
) -> dict[str, dict[Any, Any]]:
    """Return the merged summaries of a recording that was cut into pieces, each read in two
    batches, by kind and group."""
    whole = batch(events)
    edges = sorted({0, *(cut for cut in cuts if cut < len(events)), len(events)})
    merged: dict[str, dict[Any, Any]] = defaultdict(dict)
    for place, (begin, end) in enumerate(pairwise(edges)):
        piece = SegmentSummaries(expectations)
        middle = begin + (end - begin) // 2
        for low, high in ((begin, middle), (middle, end)):
            piece.update(whole.slice(low, high - low))
        for row in piece.rows(place):
            kind, *group = (row[name] for name in GROUP)
            summary = merged[kind].get(tuple(group)) or EMPTY[kind]()
            merged[kind][tuple(group)] = summary.merge(pickle.loads(row["summary"]))
    return merged


def suspicious(merged: dict[str, dict[Any, Any]]) -> tuple[set[str], set[int]]:
    queues = {
        key[4]
        for kind in ("deliveries", "order")
        for key, summary in merged[kind].items()
        if summary.needs_recheck
    }
    return queues, {key[6] for key, ledger in merged["windows"].items() if ledger.needs_recheck}


def check(events: list[ev.Event], cuts: list[int]) -> list[Anomaly]:
    """Fail if a summary misses what an oracle detects."""
    found = summed_up(events, cuts)
    queues, conns = suspicious(found)
    wrong = recorded_anomalies.find_anomalies(events, GROUND)
    for anomaly in wrong:
        if anomaly.kind == "overrun":
            assert anomaly.conn in conns, f"the summaries of windows missed {anomaly}"
        elif anomaly.kind in (OF_BOOKS | {"disordered"}):
            assert anomaly.queue in queues, f"the summaries of messages missed {anomaly}"
    of_oracle = {
        conn: list(life_oracle.find_anomalies(life, GROUND))
        for conn, life in life_oracle.lifetimes(events).items()
    }
    of_summary = {
        key[6]: list(life_oracle.find_anomalies(lifetime(key[6], life), GROUND))
        for key, life in found["connection"].items()
    }
    assert of_oracle == of_summary
    return wrong


@given(recordings(), st.lists(st.integers(1, 200), max_size=3))
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_a_summary_misses_nothing_however_the_recording_is_cut(
    events: list[ev.Event], cuts: list[int]
) -> None:
    check(events, cuts)


@given(recordings(right=True), st.lists(st.integers(1, 200), max_size=3))
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_a_broker_that_works_is_not_accused(events: list[ev.Event], cuts: list[int]) -> None:
    assert check(events, cuts) == []


@given(recordings(), st.lists(st.integers(1, 200), max_size=4))
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_windows_are_summarised_exactly_while_every_subscribe_is_seen(
    events: list[ev.Event], cuts: list[int]
) -> None:
    exact = {
        anomaly.conn
        for anomaly in recorded_anomalies.find_anomalies(events, GROUND)
        if anomaly.kind == "overrun"
    }
    assert suspicious(summed_up(events, cuts))[1] == exact
