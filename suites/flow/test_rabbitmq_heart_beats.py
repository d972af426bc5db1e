"""RabbitMQ's STOMP heartbeats: whole seconds, one each half interval, a close after two misses.

(RabbitMQ documentation, "Heartbeats"; the profile describes how intervals are measured.)
"""

from typing import Any

from hypothesis import strategies as st

from brokerproof.harness.oracles.rabbitmq_heartbeats import Rules, agreed
from brokerproof.suites.api import PATIENCE, Bench, Clock, Target, case, ms, over
from brokerproof.suites.steps.silence import unread_for
from brokerproof.suites.steps.strategies import waited_for
from brokerproof.suites.steps.traces import beats_received

AGREED = "RABBITMQ-STOMP-hb-1"
GIVEN_UP = "RABBITMQ-STOMP-hb-2"
HALVES = "RABBITMQ-STOMP-hb-3"
NEEDS = {"whole-second-beats"}
REAL_MS = [1000, 1500, 1999]
VIRTUAL_MS = [*REAL_MS, 1, 999, 2000, 2700, 60_000, 61_999]


def intervals(target: Target) -> st.SearchStrategy[int]:
    """Draw an interval in milliseconds to announce or to request; only a short one in real time."""
    return st.sampled_from(
        waited_for(target, *REAL_MS) if target.clock is Clock.REAL else VIRTUAL_MS
    )


def corners(target: Target) -> list[dict[str, Any]]:
    return [
        {"promised": 1500, "expected": 2700},
        {"promised": 1, "expected": 0},
        {"promised": 0, "expected": 999},
    ]


def rules(target: Bench) -> Rules:
    return Rules.of(target.target.identity.profile.parameters)


@case(AGREED, needs=NEEDS)
@over(
    examples=20,
    always=corners,
    promised=st.one_of(st.just(0), st.integers(1, 5000), st.integers(1, 600_000)),
    expected=st.one_of(st.just(0), st.integers(1, 5000), st.integers(1, 600_000)),
)
def test_intervals_are_the_whole_seconds_of_what_was_asked_for(
    target: Bench, promised: int, expected: int
) -> None:
    """CONNECT offers and requests heartbeats in milliseconds. CONNECTED answers with whole seconds,
    the server's interval first."""
    peer = target.stomp("1.2", heart_beat=f"{promised},{expected}")
    assert peer.connected is not None
    value = peer.connected.get("heart-beat")
    should = agreed(rules(target), promised, expected)
    words = f"heart-beat:{promised},{expected} was answered with {value}; expected {should}"
    target.record_finding(AGREED, value == should, words)
    peer.settle()


@case(GIVEN_UP, needs=NEEDS)
@over(examples=10, promised=intervals, beats=st.integers(0, 3))
def test_a_client_that_misses_two_beats_is_given_up(
    target: Bench, promised: int, beats: int
) -> None:
    """A client sends heartbeats as agreed and falls silent. The connection is closed two to three
    intervals later, and not before."""
    peer = target.stomp("1.2", heart_beat=f"{promised},0")
    every = ms(rules(target).rounded(promised))
    for _ in range(beats):
        target.advance(every * 3 // 4)
        peer.beat()
    target.require(
        GIVEN_UP,
        peer.ended is None,
        f"the client sent a heartbeat every {every * 3 // 4 // ms(1)} ms: {peer.instead()}",
        uncertain=peer.overdue(every),
    )
    since = peer.spoke_at
    assert since is not None
    least, most = rules(target).silence(promised)
    bounds = (least, most + target.punctuality(every) + unread_for(target, peer))
    target.expect_interval(GIVEN_UP, "the end of the silent connection", since, bounds)
    target.wait_until(lambda: peer.ended is not None, bounds[1] + PATIENCE)
    ended = target.now() if peer.ended is None else peer.ended.at
    target.judge_duration(GIVEN_UP, "silence until the end", ended - since, bounds, since)


@case(HALVES, needs=NEEDS)
@over(examples=6, expected=intervals)
def test_the_server_beats_every_half_of_its_interval(target: Bench, expected: int) -> None:
    """A client requests heartbeats and promises none. They arrive every half of the agreed
    interval, neither more nor less often."""
    peer = target.stomp("1.2", heart_beat=f"0,{expected}")
    half = ms(rules(target).rounded(expected)) // rules(target).fraction
    since = target.now()
    target.advance(half * 13 // 2)
    beats = beats_received(target, peer, since)
    target.judge_count(
        HALVES, "heartbeats in 6.5 half intervals", len(beats), (5, 7), "heart-beats"
    )
    target.require(HALVES, len(beats) > 1, f"{len(beats)} heart-beats arrived")
    target.judge_period(HALVES, "between two heart-beats", beats, (half, half))
