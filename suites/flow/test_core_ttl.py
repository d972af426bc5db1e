"""The broker keeps a silent CORE connection for the TTL that the client's pings state.

Both bounds of the interval are judged: closing early is as wrong as never closing.
"""

from hypothesis import strategies as st

from brokerproof.suites.api import PATIENCE, Bench, Clock, Target, case, ms, over, seconds
from brokerproof.suites.api.core import CorePeer
from brokerproof.suites.steps.core import CORE
from brokerproof.suites.steps.silence import SPREAD, judge_close, judge_spread_closes
from brokerproof.suites.steps.strategies import waited_for

CLOSED = "ARTEMIS-TTL-core-1"
KEPT = "ARTEMIS-TTL-core-2"
NEVER = "ARTEMIS-TTL-core-3"

TTL_MS = 10_000
"""A tenth of this exceeds the time that a real broker may need to close."""


def judge_silence(target: Bench, peer: CorePeer, ttl_ms: int) -> None:
    """Wait for the end of a connection that has fallen silent after a ping, and judge the time of
    that end.

    The broker read the ping at some time between its sending and the answer. A real broker cleans
    up sessions before it closes, so one more check of its connections is allowed.
    """
    since = peer.spoke_at
    assert since is not None
    low, high = target.silence_interval(ttl_ms, peer.acceptor)
    slack = (
        0
        if target.virtual
        else int(target.parameters(peer.acceptor)["connection_ttl_check_interval_ms"] or 0)
    )
    bounds = low, high + peer.answered_after + ms(slack)
    judge_close(target, peer, CLOSED, since, bounds, f"a TTL of {ttl_ms} ms")


def ping(target: Bench, peer: CorePeer, ttl_ms: int) -> None:
    """Ping with this TTL. Control: the broker answers."""
    peer.heard_at = None
    peer.ping(ttl_ms)
    target.control(
        target.wait_until(lambda: peer.heard_at is not None, PATIENCE), "the ping should return"
    )


def ttls(target: Target) -> st.SearchStrategy[int]:
    """TTLs in milliseconds; in real time only short ones."""
    if target.clock is Clock.VIRTUAL:
        return st.sampled_from([1, 499, 500, 501, 1000, 2001, 60_000, 86_400_000])
    return st.sampled_from(waited_for(target, 501, 1000, 1700))


@case(CLOSED, needs={CORE})
@over(examples=12, always=lambda target: [{"ttl_ms": 1000}], ttl_ms=ttls)
def test_a_silent_connection_ends_with_its_ttl(target: Bench, ttl_ms: int) -> None:
    """A client pings with a TTL and falls silent. The connection is closed inside its interval."""
    peer = target.core()
    peer.settle()
    ping(target, peer, ttl_ms)
    judge_silence(target, peer, ttl_ms)


@case(CLOSED, needs={CORE})
def test_a_broker_with_timers_of_its_own_is_held_to_them(target: Bench) -> None:
    """Eight connections ping with the same TTL and fall silent, spread over a check interval. The
    broker closes each inside its interval, at most one check interval after its TTL; the closes
    reveal the check interval."""
    peers = [target.core() for _ in range(SPREAD)]
    interval = ms(int(target.parameters()["connection_ttl_check_interval_ms"] or 0))
    low, high = target.silence_interval(TTL_MS, peers[0].acceptor)
    # A real broker has sessions to clean up before it closes, as in judge_silence.
    slack = 0 if target.virtual else interval
    judge_spread_closes(
        target,
        peers,
        lambda peer: ping(target, peer, TTL_MS),
        CLOSED,
        (low, high + slack),
        interval,
        rounding=slack,
    )


@case(KEPT, CLOSED, needs={CORE})
def test_pings_keep_a_connection_alive(target: Bench) -> None:
    """A client pings within its TTL for several times as long, and its session works. Once it
    stops, the connection is closed."""
    ttl_ms = waited_for(target.target, 1500)[-1]
    peer = target.core()
    peer.ping(ttl_ms)
    for _ in range(7):
        target.advance(ms(ttl_ms // 3))
        peer.ping(ttl_ms)
    detail = f"a ping every {ttl_ms // 3} ms with a TTL of {ttl_ms} ms: {peer.instead()}"
    target.record_finding(KEPT, peer.ended is None, detail, uncertain=peer.overdue(ms(ttl_ms)))
    if peer.ended is None:
        peer.settle()
        ping(target, peer, ttl_ms)
        judge_silence(target, peer, ttl_ms)


@case(NEVER, needs={CORE})
def test_a_ttl_of_minus_one_is_for_ever(target: Bench) -> None:
    """A client pings with a short TTL, then with -1, and falls silent for longer than the first (in
    virtual time for a day). The connection stays open."""
    peer = target.core()
    peer.ping(500)
    peer.ping(-1)
    target.advance(seconds(86_400) if target.virtual else seconds(3))
    target.record_finding(NEVER, peer.ended is None, f"silence, with a TTL of -1: {peer.instead()}")
    if peer.ended is None:
        peer.settle()
