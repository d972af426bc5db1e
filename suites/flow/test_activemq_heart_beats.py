"""When ActiveMQ disconnects a silent STOMP client, and how late the heartbeats may be.

(ActiveMQ documentation, STOMP, "Heart-Beat Grace Periods"; the connectors of
fixtures/brokers/activemq/activemq.xml.)
"""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from brokerproof.harness.targets.parameters import speaking
from brokerproof.harness.targets.target import Parameters
from brokerproof.suites.api import PATIENCE, Bench, Duration, Target, case, ms, over
from brokerproof.suites.steps.silence import unread_for
from brokerproof.suites.steps.strategies import waited_for

SILENCE = "ACTIVEMQ-STOMP-hb-1"
NO_LESS = "ACTIVEMQ-STOMP-hb-2"
GRACE = "ACTIVEMQ-STOMP-hb-3"
NEEDS = {"stomp-1.2", "heart-beat", "heart-beat-grace"}
LOOKS = 3
"""The broker disconnects a silent client at the third check at the latest."""


def multiplier(parameters: Parameters) -> float:
    value = parameters["heart_beat_grace_multiplier"]
    assert isinstance(value, (int, float))
    return float(value)


def promises(*intervals_ms: int) -> Callable[[Target], st.SearchStrategy[int]]:
    """Draw the heartbeat interval in milliseconds that a client announces."""
    return lambda target: st.sampled_from(waited_for(target, *intervals_ms))


def acceptors(target: Target) -> st.SearchStrategy[str]:
    """Every connector that speaks STOMP."""
    return st.sampled_from(sorted(speaking(target.acceptors(), "STOMP")))


def each_acceptor(target: Target) -> list[dict[str, Any]]:
    return [
        {"acceptor": name, "promised": 600, "beats": 2}
        for name in sorted(speaking(target.acceptors(), "STOMP"))
    ]


def allowed(target: Bench, acceptor: str, promised: int) -> Duration:
    """Return how long a client that announced a heartbeat every ``promised`` ms may be silent
    according to the documentation."""
    return ms(int(promised * multiplier(target.parameters(acceptor))))


@case(SILENCE, NO_LESS, needs=NEEDS)
@over(
    examples=40,
    always=each_acceptor,
    acceptor=acceptors,
    promised=promises(300, 501, 1000, 1999),
    beats=st.integers(0, 4),
)
def test_a_silent_client_is_given_up_in_time_and_not_before(
    target: Bench, acceptor: str, promised: int, beats: int
) -> None:
    """A client sends heartbeats as agreed and falls silent. The broker closes the connection after
    the agreed interval times the connector's multiplier, and not before."""
    requirements = (
        (SILENCE, NO_LESS) if multiplier(target.parameters(acceptor)) == 1.0 else (SILENCE,)
    )
    peer = target.stomp("1.2", acceptor=acceptor, heart_beat=f"{promised},0")
    for _ in range(beats):
        target.advance(ms(promised) * 7 // 10)
        peer.beat()
    target.require(
        requirements,
        peer.ended is None,
        f"the client sent a heartbeat every {promised * 7 // 10} ms: {peer.instead()}",
        uncertain=peer.overdue(ms(promised)),
    )
    since, least = peer.spoke_at, allowed(target, acceptor, promised)
    assert since is not None
    most = LOOKS * least + target.punctuality(LOOKS * least) + unread_for(target, peer)
    bounds = (least, most)
    target.expect_interval(requirements, "the end of the silent connection", since, bounds)
    target.wait_until(lambda: peer.ended is not None, bounds[1] + PATIENCE)
    ended = target.now() if peer.ended is None else peer.ended.at
    target.judge_duration(requirements, "silence until the end", ended - since, bounds, since)


@case(GRACE, needs=NEEDS)
@over(examples=10, promised=promises(400, 1000, 1500), beats=st.integers(4, 8))
def test_late_beats_are_forgiven_within_the_grace(target: Bench, promised: int, beats: int) -> None:
    """On a connector with a grace of one half, a client sends heartbeats a fifth too late. Its
    connection stays open and works."""
    forgiving = [
        name
        for name, parameters in speaking(target.target.acceptors(), "STOMP").items()
        if multiplier(parameters) > 1.0
    ]
    target.control(bool(forgiving), "no connector has a multiplier above 1.0")
    acceptor = forgiving[0]
    grace = allowed(target, acceptor, promised)
    every = min(ms(promised) * 6 // 5, grace - target.punctuality(ms(promised)))
    peer = target.stomp("1.2", acceptor=acceptor, heart_beat=f"{promised},0")
    for _ in range(beats):
        target.advance(every)
        peer.beat()
    words = (
        f"the client promised a heartbeat every {promised} ms and sent {beats}, one every"
        f" {every // ms(1)} ms; {peer.instead()}"
    )
    if target.record_finding(GRACE, peer.ended is None, words, uncertain=peer.overdue(grace)):
        peer.settle()
