"""A recheck in this process gives the oracles' results, message by message."""

from dataclasses import replace
from typing import Any

import pytest

from brokerproof.harness.oracles import connection_reader, recorded_anomalies
from brokerproof.harness.trace import events as ev
from brokerproof.harness.trace.facts import Delivered, End, Sent, Subscribed, Unsubscribed
from brokerproof.reports.judging import recheck
from brokerproof.reports.judging.event_filter import EventFilter
from brokerproof.reports.judging.executors import InProcess
from brokerproof.reports.judging.recheck_plan import RecheckPlan
from brokerproof.reports.judging.summary import SCOPE as SCOPE_NAMES
from brokerproof.suites.units.drivers import (
    model_recordings,
    model_recordings_amqp091,
    model_recordings_core,
)
from brokerproof.suites.units.reports.judging.test_event_filter import SCOPE, cut, facts_of
from brokerproof.suites.units.reports.judging.test_segment_summary import GROUND
from brokerproof.suites.units.reports.judging.test_summaries import (
    _rows,
    looking_for,
    message,
    said,
)


def by_recheck(events: list[ev.Event]) -> list[Any]:
    """Return the anomalies that the recheck finds in this process, in all events of a recording."""
    everything = RecheckPlan(everything=True)
    event_filter = EventFilter(everything, 0)
    rows: list[Any] = [row for part in cut(events, [40]) for row in _rows(event_filter.of(part))]
    queues = {
        fact.queue for fact in recorded_anomalies.facts(events, GROUND) if isinstance(fact, Sent)
    }
    scope = dict(zip(SCOPE_NAMES, SCOPE, strict=True))
    destinations: list[Any] = [{**scope, "queue": queue, "sent_to": True} for queue in queues]
    scopes: list[Any] = [{**scope, "complete": recorded_anomalies.readable(events)}]
    context = recheck.QueueContext(destinations, scopes)
    return sorted(
        (
            row["kind"],
            row["queue"],
            row["conn"],
            row["subscription"],
            row["what"],
            row["uncertain"],
            tuple((place["at_ns"], place["seq"]) for place in row["witness"]),
        )
        for row in recheck.anomalies(InProcess(), rows, context, GROUND, everything)
    )


def by_oracle(events: list[ev.Event]) -> list[Any]:
    return sorted(
        (
            anomaly.kind,
            anomaly.queue,
            anomaly.conn,
            anomaly.subscription,
            anomaly.what,
            anomaly.uncertain,
            anomaly.witness,
        )
        for anomaly in recorded_anomalies.find_anomalies(events, GROUND)
    )


@pytest.mark.parametrize("seed", range(2))
def test_message_by_message_the_same_is_found(seed: int) -> None:
    for play in (model_recordings, model_recordings_amqp091):
        for fault in play.FAULTS:
            events = play.recording(seed, fault, 70)
            assert by_recheck(events) == by_oracle(events)
    events = model_recordings_core.recording(seed, "double", 70)
    assert by_recheck(events) == by_oracle(events)


def test_facts_survive_being_written_down() -> None:
    for seed, fault in enumerate(model_recordings_amqp091.FAULTS):
        for fact in recorded_anomalies.facts(model_recordings_amqp091.recording(seed, fault, 60)):
            row = recheck.fact_row(SCOPE, fact)
            assert (row["run"], row["target"], row["case"], row["example"]) == SCOPE
            if isinstance(fact, Sent):
                assert recheck._sent(row, fact.key) == fact
            elif isinstance(fact, Delivered):
                assert recheck._delivered(row, fact.key) == fact
            elif isinstance(fact, Subscribed):
                assert row["queue"] == fact.queue
                assert row["conn"] == fact.conn
                assert row["flag"] == fact.selective
            elif isinstance(fact, Unsubscribed):
                assert (row["subscription"], row["flag"]) == (fact.subscription, fact.noticed)
    assert {End(end.value) for end in End} == set(End)


def test_what_is_read_again_says_what_the_events_said() -> None:
    plays = [
        model_recordings.recording(4, "double", 50),
        model_recordings_amqp091.recording(3, "mark", 50),
        model_recordings_core.recording(2, None, 50),
    ]
    twice = said((True, "SEND", {"destination": "/queue/a"}, 1))
    twice[0] = replace(twice[0], headers=(*twice[0].headers, ("destination", "/queue/b")))
    for events in (
        *plays,
        twice,
        [replace(twice[0], headers=(), protocol="AMQP", command="transfer")],
    ):
        rows = [
            row
            for segment in cut(events, [30])
            for row in _rows(EventFilter(RecheckPlan(everything=True), 0).of(segment))
        ]
        numbers = [events.index(event) for event in events]
        read = {
            (row["at_ns"], row["conn"], row["command"]): recheck._reader_row(row) for row in rows
        }
        assert read or events[0].protocol == "AMQP"
        for number, event in zip(numbers, events, strict=True):
            found = read.get((event.at_ns, event.conn, getattr(event, "command", None)))
            assert found is None or found._replace(when=(0, 0)) == connection_reader.row(
                number, event
            )._replace(when=(0, 0))


def test_a_queue_has_the_name_that_its_subscription_gave_it() -> None:
    other = (True, "SUBSCRIBE", {"id": "x", "destination": "c", "ack": "auto"}, None)
    first = (True, "SUBSCRIBE", {"id": "s", "destination": "a", "ack": "auto"}, None)
    events = said(
        first, other, message(1, "t1"), message(2, "t2"), message(1, "t3", "x", "/queue/c")
    )
    facts = facts_of(looking_for(1), cut(events, []))
    assert [(fact.queue, fact.key.number) for fact in facts if isinstance(fact, Delivered)] == [
        ("a", 1)
    ]
