"""Silences and late closes in a recording: they are certain only far enough beyond the bounds."""

from dataclasses import replace

import pytest

from brokerproof.harness.model.enums import CloseHow, Vantage
from brokerproof.harness.model.time import Duration, ms, seconds
from brokerproof.harness.oracles import amqp091_rules, amqp_liveness
from brokerproof.harness.oracles.connection_lifetimes import (
    LATE,
    SILENT,
    Lifetime,
    find_anomalies,
    is_captured,
    lifetimes,
)
from brokerproof.harness.oracles.expectations import Expectations
from brokerproof.harness.trace.events import ConnectionClosed, Event, FrameReceived, FrameSent

BEATS = Lifetime(1, asked={"heart-beat": "0,10000"}, agreed={"heart-beat": "10000,0"})
ALLOWED = seconds(11)
"""Ten seconds, and a tenth for the timer."""
RECORDED, CAPTURED = Vantage.PEER, Vantage.CAPTURE
BOUNDS = [(RECORDED, 4 * ALLOWED + seconds(1)), (CAPTURED, ALLOWED + seconds(1))]
"""Up to this silence a finding is uncertain."""


@pytest.mark.parametrize(("vantage", "most"), BOUNDS)
def test_a_silence_is_sure_beyond_what_made_it_late(vantage: Vantage, most: Duration) -> None:
    life = replace(BEATS, captured=vantage is CAPTURED)
    assert not [*find_anomalies(replace(life, longest=ALLOWED))]
    for longest, uncertain in ((ALLOWED + 1, True), (most, True), (most + 1, False)):
        (anomaly,) = find_anomalies(replace(life, longest=longest))
        assert (anomaly.kind, anomaly.uncertain) == (SILENT, uncertain), longest


def test_a_silence_is_uncertain_where_bytes_are_missing() -> None:
    life = replace(BEATS, captured=True, longest=seconds(100), until=seconds(120))
    (anomaly,) = find_anomalies(replace(life, unseen=seconds(1)))
    assert anomaly.uncertain


@pytest.mark.parametrize(
    ("captured", "unseen", "most"),
    # With a TTL of 2000 ms and checks every 500 ms the broker closes after at most 2550 ms; the
    # answer allows up to 2 ms more.
    [
        (False, None, 2 * ms(2552)),
        (True, None, ms(2552) + ms(2552) // 50 + seconds(1)),
        (True, seconds(1), 2 * ms(2552)),
    ],
)
def test_a_late_close_is_sure_beyond_what_made_it_late(
    captured: bool, unseen: int | None, most: Duration
) -> None:
    ground = Expectations(modifier=2.0, check_interval_ms=500)
    life = Lifetime(1, agreed={"heart-beat": "0,1000"}, spoken=0, ended_by="broker")
    life = replace(life, captured=captured, unseen=unseen)
    for ended, uncertain in ((most, True), (most + 1, False)):
        (anomaly,) = find_anomalies(replace(life, ended=ended), ground)
        assert (anomaly.kind, anomaly.uncertain) == (LATE, uncertain)


def amqp10(silence: Duration, vantage: Vantage) -> list[Event]:
    """A client requests an idle-time-out of 10 s, and the broker is silent before it closes."""
    asked = (("idle-time-out", "10000"),)
    return [
        FrameSent(at_ns=0, conn=1, vantage=vantage, protocol="AMQP", command="open", headers=asked),
        FrameReceived(at_ns=0, conn=1, vantage=vantage, protocol="AMQP", command="open"),
        ConnectionClosed(at_ns=silence, conn=1, vantage=vantage, how=CloseHow.EOF),
    ]


def amqp091(silence: Duration, vantage: Vantage) -> list[Event]:
    """A client agrees on heartbeats every 10 s, and the broker is silent before it closes."""
    agreed = (("heartbeat", "10"),)
    return [
        FrameSent(
            at_ns=0,
            conn=1,
            vantage=vantage,
            protocol="AMQP091",
            command="connection.tune-ok",
            headers=agreed,
        ),
        ConnectionClosed(at_ns=silence, conn=1, vantage=vantage, how=CloseHow.EOF),
    ]


@pytest.mark.parametrize(("vantage", "most"), BOUNDS)
def test_amqp_is_held_to_the_same_bounds(vantage: Vantage, most: Duration) -> None:
    for silence, uncertain in ((ALLOWED + 1, True), (most, True), (most + 1, False)):
        for (finding,) in (
            amqp_liveness.idle_as_recorded(amqp10(silence, vantage), 1),
            amqp091_rules.beats(amqp091(silence, vantage), 1),
        ):
            assert (finding.uncertain is not None) is uncertain, (silence, finding)


def test_who_saw_the_events_is_part_of_a_life() -> None:
    for vantage in (RECORDED, CAPTURED):
        events = amqp091(seconds(1), vantage)
        assert lifetimes(events)[1].captured is is_captured(events, 1) is (vantage is CAPTURED)
    assert not is_captured(amqp091(seconds(1), CAPTURED), 2)
