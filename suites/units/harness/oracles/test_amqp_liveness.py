"""The AMQP oracle of idle time-outs, on handmade traces."""

import pytest

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import ms
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.oracles import amqp_liveness
from brokerproof.harness.trace.events import ConnectionClosed, Event, HeartBeatReceived, Noted
from brokerproof.suites.units.drivers.amqp_traces import broker, opened, outcome, violations, we


def beats(*instants: int) -> list[Event]:
    return [HeartBeatReceived(at_ns=ms(at), conn=1, protocol="AMQP", size=8) for at in instants]


def trace_until(at: int) -> Event:
    return Noted(at_ns=ms(at), detail="the end")


def test_signs_of_life_in_time_hold() -> None:
    events = [
        *opened(idle_time_out=1000),
        *beats(500, 1500),
        broker("flow", 2400),
        trace_until(3400),
    ]
    assert outcome(amqp_liveness.idle, events) == {amqp_liveness.SILENCE: Seen.HELD}


@pytest.mark.parametrize(
    "events",
    [[*beats(500, 1501)], [*beats(900, 1900)], [], [we("flow", 500), we("flow", 1500)]],
    ids=["one late", "none at the end", "none at all", "only ours"],
)
def test_silence_is_seen(events: list[Event]) -> None:
    trace = [*opened(idle_time_out=1000), *events, trace_until(2901)]
    assert violations(amqp_liveness.idle, trace) == {amqp_liveness.SILENCE}
    assert not violations(amqp_liveness.idle, trace, slack=ms(2000))


@pytest.mark.parametrize("asked", [{}, {"idle_time_out": 0}], ids=["absent", "0"])
def test_nobody_asked_for_signs_of_life(asked: dict[str, int]) -> None:
    events = [*opened(**asked), trace_until(99_999)]
    assert outcome(amqp_liveness.idle, events) == {amqp_liveness.SILENCE: Seen.NEVER_REACHED}


def test_silence_after_the_end_is_none() -> None:
    ended = ConnectionClosed(at_ns=ms(900), conn=1, how=CloseHow.EOF)
    assert not violations(
        amqp_liveness.idle, [*opened(idle_time_out=1000), ended, trace_until(9000)]
    )
    closed = broker("close", 900)
    assert not violations(
        amqp_liveness.idle, [*opened(idle_time_out=1000), closed, trace_until(9000)]
    )
