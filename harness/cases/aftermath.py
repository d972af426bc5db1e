"""The aftermath: the period after a case in which its connections stay open and are read. General
rules judge everything received (``harness/oracles/*_aftermath.py``).

In virtual time this phase lasts longer than any interval agreed on a connection and longer than the
broker's check interval. Clients still send the heartbeats that they promised. In real time the
phase lasts :data:`REAL`, during which other cases can use the processor."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.time import Duration, Instant, ms, seconds
from brokerproof.harness.oracles import (
    amqp091_aftermath,
    amqp10_aftermath,
    openwire_aftermath,
    stomp_aftermath,
)
from brokerproof.harness.oracles.linger import Linger
from brokerproof.harness.protocols.conversation import PATIENCE, Conversation
from brokerproof.harness.trace.events import ConnectionAbandoned, Event, LinkFaulted
from brokerproof.harness.worlds.bounds import LimitReached

REAL: Duration = ms(1500)
LEAST, MOST = seconds(5), seconds(120)
"""The shortest and the longest aftermath in virtual time."""
MOST_BEATS = 50
"""In virtual time, the aftermath ends after this many heartbeats at the shortest interval."""
GRACE: Duration = ms(1000)
"""In virtual time, how long a broker may take to close a connection after an ERROR frame."""


class Rules(Protocol):
    """The rules of a protocol: a module of ``harness/oracles``."""

    def judge(self, events: Sequence[Event], conn: int, linger: Linger) -> list[Finding]: ...

    def intervals(self, events: Sequence[Event], conn: int) -> tuple[Duration, Duration]: ...


RULES: Mapping[str, Rules] = {
    "AMQP": amqp10_aftermath,
    "AMQP091": amqp091_aftermath,
    "OPENWIRE": openwire_aftermath,
    "STOMP": stomp_aftermath,
}


def observe(bench: Bench) -> None:
    """Continue reading, and add any violations of general rules to the bench's findings."""
    since = bench.now()
    abandoned = {event.conn for event in bench.events if isinstance(event, ConnectionAbandoned)}
    peers = [peer for peer in bench.peers if peer.protocol in RULES]
    if not peers:
        return
    lingering = [peer for peer in peers if peer.ended is None and peer.conn not in abandoned]
    looked_at = since
    if lingering:
        bench.record_note("the case is over; its connections stay open and are read")
        looked_at = _read_on(bench, lingering, since, REAL)
    findings = _judged(bench, peers, since, looked_at, GRACE)
    if findings and not bench.virtual:
        # Give the broker as much time as for any other answer, because measuring its lateness would
        # mean reading the statistics of all its threads.
        if lingering:
            looked_at = _read_on(bench, lingering, since, PATIENCE + REAL)
        late = bench.world.lateness(since)
        findings = _judged(bench, peers, since, looked_at, PATIENCE, late)
    for finding in findings:
        bench.record_aftermath(finding)


def _judged(
    bench: Bench,
    peers: list[Conversation[Any]],
    since: Instant,
    until: Instant,
    grace: Duration,
    late: Duration = 0,
) -> list[Finding]:
    faulted = {event.conn for event in bench.events if isinstance(event, LinkFaulted)}
    jitter = 0 if bench.virtual else ms(100) + late
    events = _by_connection(bench.events)
    findings: list[Finding] = []
    for peer in peers:
        linger = Linger(
            since,
            until,
            grace + late,
            jitter,
            _patience(bench, peer, events[peer.conn]),
            undisturbed=not faulted & {None, peer.conn} and not bench.has_administered,
        )
        findings += RULES[peer.protocol].judge(events[peer.conn], peer.conn, linger)
    return findings


def _by_connection(events: Iterable[Event]) -> Mapping[int | None, Sequence[Event]]:
    """Group the events in one pass: a case may have hundreds of connections."""
    divided: defaultdict[int | None, list[Event]] = defaultdict(list)
    for event in events:
        divided[event.conn].append(event)
    return divided


def _patience(bench: Bench, peer: Conversation[Any], events: Sequence[Event]) -> Duration | None:
    if peer.protocol != "STOMP" or "connection-ttl" not in bench.capabilities:
        return None
    version, promised = stomp_aftermath.promise(events, peer.conn)
    ttl = bench.negotiated(promised, version, peer.acceptor).ttl_ms
    return ttl * ms(1) if ttl > 0 else None


def _read_on(
    bench: Bench, peers: list[Conversation[Any]], since: Instant, real: Duration
) -> Instant:
    """Continue reading. Return the instant up to which everything was read: a thread that was
    delayed may have read nothing."""
    events = _by_connection(bench.events)
    until = since + (_virtual_time(events, peers) if bench.virtual else real)
    for peer in peers:
        interval, _ = RULES[peer.protocol].intervals(events[peer.conn], peer.conn)
        if interval and peer.is_raw:
            _beat_every(bench, peer, interval // 2, until)
    try:
        bench.world.wait_until(
            lambda: not bench.virtual and all(peer.ended is not None for peer in peers), until
        )
    except LimitReached as limit:  # judge only what has arrived so far
        bench.record_note(f"the aftermath ends: {limit}")
    return min(bench.now(), until)


def _virtual_time(
    events: Mapping[int | None, Sequence[Event]], peers: list[Conversation[Any]]
) -> Duration:
    agreed = [
        interval
        for peer in peers
        for interval in RULES[peer.protocol].intervals(events[peer.conn], peer.conn)
        if interval
    ]
    if not agreed:
        return LEAST
    return min(MOST, max(LEAST, 2 * max(agreed)), max(MOST_BEATS * min(agreed), ms(500)))


def _beat_every(bench: Bench, peer: Conversation[Any], interval: Duration, until: Instant) -> None:
    spoke_at = bench.now() if peer.spoke_at is None else peer.spoke_at
    due = max(bench.now(), spoke_at + interval)
    while due < until:
        bench.world.at(due, partial(_beat, peer))
        due += interval


def _beat(peer: Conversation[Any]) -> None:
    if peer.ended is None:
        peer.beat()
