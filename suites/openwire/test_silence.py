"""maxInactivityDuration: how long a client may be silent, and how long the broker may be.

Both bounds of an interval are judged: closing early is as wrong as never closing.
"""

from hypothesis import strategies as st

from brokerproof.harness.oracles.openwire_liveness import (
    agreed_ms,
    longest_silence,
    silence_interval,
)
from brokerproof.suites.api import Bench, Clock, Target, case, ms, over, seconds, shown
from brokerproof.suites.api.openwire import OpenWirePeer
from brokerproof.suites.openwire.steps import OPENWIRE
from brokerproof.suites.steps.silence import judge_close
from brokerproof.suites.steps.strategies import waited_for
from brokerproof.suites.steps.traces import signs_of_life

SILENT_CONNECTION_CLOSED = "OPENWIRE-INACT-1"
BROKER_NEVER_SILENT = "OPENWIRE-INACT-2"
LESSER_DURATION = "OPENWIRE-INACT-3"
ZERO_DISABLES = "OPENWIRE-INACT-4"
KEEPALIVE_KEEPS = "OPENWIRE-INACT-5"


BEYOND_32_BITS = (2**31 + 1000, 2**32 + 1000, 2**62, 2**63 - 1)
"""In 32 bits, these durations become a small number of milliseconds, or a negative one."""


def watched(target: Bench, duration_ms: int, delay_ms: int) -> OpenWirePeer:
    """Connect with this duration and initial delay."""
    return target.openwire(
        MaxInactivityDuration=duration_ms, MaxInactivityDurationInitalDelay=delay_ms
    )


def counting(target: Bench, duration_ms: int, delay_ms: int) -> tuple[int, int]:
    """Return the duration and the delay in force: the lower of the client's and the broker's."""
    parameters = target.parameters("openwire")
    ours = (
        int(parameters["openwire_max_inactivity_ms"] or 0),
        int(parameters["openwire_initial_delay_ms"] or 0),
    )
    return agreed_ms(ours[0], duration_ms), agreed_ms(ours[1], delay_ms)


def judge_silence(
    target: Bench, peer: OpenWirePeer, duration_ms: int, delay_ms: int, *proves: str
) -> None:
    """Wait for the end of a connection that fell silent after an answer, and judge the time of that
    end.

    The broker received the command at some time between the sending and the answer. A real broker
    may need one more check, because its timers run from the time when they last fired late.
    """
    since = peer.spoke_at
    assert since is not None
    low, high = silence_interval(duration_ms, delay_ms)
    slack = 0 if target.virtual else ms(duration_ms)
    bounds = low, high + peer.answered_after + slack
    judge_close(target, peer, proves, since, bounds, f"{duration_ms} ms agreed on")


def durations(target: Target) -> st.SearchStrategy[int]:
    """Durations in milliseconds: short ones in real time, and in virtual time also some above the
    broker's own."""
    if target.clock is Clock.VIRTUAL:
        usual = [1, 4, 500, 501, 1000, 29_999, 30_000, 30_001, 86_400_000]
        return st.sampled_from([*usual, *BEYOND_32_BITS])
    return st.sampled_from(waited_for(target, 700, 1000, 1300)[:3])


def delays(target: Target) -> st.SearchStrategy[int]:
    """Initial delays in milliseconds."""
    if target.clock is Clock.VIRTUAL:
        return st.sampled_from([0, 1, 499, 1000, 9_999, 10_000, 60_000, *BEYOND_32_BITS])
    return st.sampled_from(waited_for(target, 0, 300, 1500)[:3])


@case(SILENT_CONNECTION_CLOSED, LESSER_DURATION, needs={OPENWIRE})
@over(
    examples=24,
    always=lambda target: [
        {"duration_ms": waited_for(target, 1000)[0], "delay_ms": 0, "after_ms": 0},
        *(
            {"duration_ms": duration, "delay_ms": 0, "after_ms": 0}
            for duration in BEYOND_32_BITS
            if target.clock is Clock.VIRTUAL
        ),
    ],
    duration_ms=durations,
    delay_ms=delays,
    after_ms=st.sampled_from([0, 0, 1, 250, 700]),
)
def test_a_silent_connection_ends(
    target: Bench, duration_ms: int, delay_ms: int, after_ms: int
) -> None:
    """A client announces a duration and a delay, sends one command, and falls silent after the
    answer. The broker closes the connection within the interval for the lower duration, the
    client's or its own."""
    duration, delay = counting(target, duration_ms, delay_ms)
    peer = watched(target, duration_ms, delay_ms)
    target.advance(ms(min(after_ms, duration // 2)))
    peer.settle()
    judge_silence(target, peer, duration, delay, *(SILENT_CONNECTION_CLOSED, LESSER_DURATION))


@case(KEEPALIVE_KEEPS, SILENT_CONNECTION_CLOSED, needs={OPENWIRE})
def test_signs_of_life_keep_a_connection(target: Bench) -> None:
    """A client sends KeepAliveInfo well within the duration. It stays connected for several
    durations, and its session works. When it stops, the connection is closed."""
    duration_ms = waited_for(target.target, 1200)[0]
    peer = watched(target, duration_ms, 0)
    for _ in range(8):
        target.advance(ms(duration_ms // 3))
        peer.keep_alive()
    every = duration_ms // 3
    words = f"the client sent a KeepAliveInfo every {every} ms with a duration of {duration_ms} ms"
    detail = f"{words}: {peer.instead()}"
    overdue = peer.overdue(ms(duration_ms))
    target.record_finding(KEEPALIVE_KEEPS, peer.ended is None, detail, uncertain=overdue)
    if peer.ended is None:
        peer.settle()
        judge_silence(target, peer, duration_ms, 0, SILENT_CONNECTION_CLOSED)


@case(KEEPALIVE_KEEPS, needs={OPENWIRE})
def test_a_sign_of_life_that_asks_for_one_gets_one(target: Bench) -> None:
    """KeepAliveInfo with responseRequired is answered by KeepAliveInfo, even with no duration."""
    peer = watched(target, 0, 0)
    peer.keep_alive(response=True)
    answered = target.wait_until(lambda: bool(peer.beats), seconds(5))
    words = f"within 5000 ms, {len(peer.beats)} KeepAliveInfo answered one with responseRequired"
    target.record_finding(KEEPALIVE_KEEPS, answered, words)
    asks = any(keepalive["responseRequired"] for keepalive in peer.beats)
    detail = f"the answer has responseRequired {shown(asks)}"
    target.record_finding(KEEPALIVE_KEEPS, not asks, detail)


@case(BROKER_NEVER_SILENT, needs={OPENWIRE})
@over(
    examples=10,
    always=lambda target: [
        {"duration_ms": waited_for(target, 900)[0], "delay_ms": 0, "busy": False}
    ],
    duration_ms=lambda target: st.sampled_from(waited_for(target, 600, 900, 1500)[:3]),
    delay_ms=st.sampled_from([0, 400]),
    busy=st.booleans(),
)
def test_the_broker_is_never_silent_for_so_long(
    target: Bench, duration_ms: int, delay_ms: int, busy: bool
) -> None:
    """For four durations the client is idle or sends one command. After the initial delay the
    broker is never silent for so long that its peer would close the connection."""
    peer = watched(target, duration_ms, delay_ms)
    begin = target.now() + ms(delay_ms)
    for number in range(16):
        target.advance(ms(duration_ms) // 4)
        if busy and number == 2:
            peer.settle()
        else:
            peer.keep_alive()
    end = target.now()
    target.control(peer.ended is None, "the connection should stay open")
    detail = (
        f"{len(peer.beats)} KeepAliveInfo arrived in {(end - begin) // ms(1)} ms, of which"
        f" {delay_ms}"
        " were the initial delay"
    )
    target.record_finding(BROKER_NEVER_SILENT, bool(peer.beats), detail)
    target.judge_period(
        BROKER_NEVER_SILENT,
        "longest silence of the broker",
        [begin, *signs_of_life(target, peer, begin - 1)],
        (0, longest_silence(duration_ms)),
        until=end,
    )


@case(ZERO_DISABLES, needs={OPENWIRE})
@over(examples=2, always=lambda target: [{"duration_ms": 0}], duration_ms=st.sampled_from([0, -1]))
def test_a_duration_of_zero_switches_it_off(target: Bench, duration_ms: int) -> None:
    """A client announces a duration of 0 or -1 and is silent, in virtual time for a day. It stays
    connected, and no KeepAliveInfo arrives."""
    peer = watched(target, duration_ms, 0)
    target.advance(seconds(86_400) if target.virtual else seconds(3))
    detail = f"the client was silent with a duration of {duration_ms}: {peer.instead()}"
    target.record_finding(ZERO_DISABLES, peer.ended is None, detail)
    detail = f"{len(peer.beats)} KeepAliveInfo arrived with a duration of {duration_ms}"
    target.record_finding(ZERO_DISABLES, not peer.beats, detail)
    if peer.ended is None:
        peer.settle()
