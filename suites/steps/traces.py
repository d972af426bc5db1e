"""Read a case's trace: oracles' findings, and signs of life."""

from collections.abc import Callable, Sequence
from typing import Protocol

from brokerproof.harness.model.finding import Finding, combine
from brokerproof.harness.model.verdicts import Seen
from brokerproof.suites.api import Bench, Event, FrameReceived, HeartBeatReceived, Instant

Oracle = Callable[[Sequence[Event], int], list[Finding]]


class Peer(Protocol):
    @property
    def conn(self) -> int: ...


def judge_trace(target: Bench, peer: Peer, *oracles: Oracle) -> None:
    """Judge the trace of ``peer`` so far with these oracles. Findings on requirements that the case
    does not cite are dropped."""
    for oracle in oracles:
        for finding in combine(oracle(target.events, peer.conn)):
            if finding.requirement in target.cited and finding.seen is not Seen.NEVER_REACHED:
                held = finding.seen is Seen.HELD
                target.record_finding(finding.requirement, held, finding.detail)


def frames_received(target: Bench, peer: Peer, command: str | None = None) -> list[FrameReceived]:
    """Return the broker's frames that arrived at ``peer``, either all or those of one command."""
    return [
        event
        for event in target.events
        if isinstance(event, FrameReceived)
        and event.conn == peer.conn
        and command in (None, event.command)
    ]


def beats_received(target: Bench, peer: Peer, since: Instant = -1) -> list[Instant]:
    """Return when heartbeats and empty frames of the broker arrived after ``since``."""
    return [
        event.at_ns
        for event in target.events
        if isinstance(event, HeartBeatReceived) and event.conn == peer.conn and event.at_ns > since
    ]


def signs_of_life(target: Bench, peer: Peer, since: Instant = -1) -> list[Instant]:
    """Return when frames of the broker, empty ones included, arrived after ``since``."""
    return [
        event.at_ns
        for event in target.events
        if isinstance(event, (HeartBeatReceived, FrameReceived))
        and event.conn == peer.conn
        and event.at_ns > since
    ]
