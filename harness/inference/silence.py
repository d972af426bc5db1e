"""Lifetimes of silent connections: when a broker closed them, and the grid on which it checks.

A broker that checks its connections every ``check`` ms closes them only then, and counts silence
from the first check after the last byte (harness/oracles/liveness.py). A broker with one timer per
connection has no such grid."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.inference.estimate import Range
from brokerproof.harness.model.time import Duration, Instant, ms
from brokerproof.harness.protocols.stomp.raw_peer import StompPeer


@dataclass(frozen=True, slots=True)
class Closed:
    """A silent connection: its last activity, and when the broker closed the connection (None: not
    while we waited)."""

    since: Instant
    at: Instant | None

    @property
    def silence(self) -> Duration:
        assert self.at is not None
        return self.at - self.since


@dataclass(frozen=True, slots=True)
class Grid:
    """The broker's check interval in ns; ``Range.of(0, 0)`` for a broker that uses timers instead.
    ``slip`` is the uncertainty of instants: zero in virtual time, the host's lateness in real
    time."""

    check: Range
    slip: Duration

    def ttl_ms(self, closed: Closed) -> Range:
        """Return the range of the TTL, in ms, with which a connection is closed after a silence of
        that length."""
        low_check, high_check = self.check.low or 0, self.check.high or 0
        silence = closed.silence
        if not high_check:
            return Range.of(
                math.floor((silence - self.slip) / ms(1)), math.ceil((silence + self.slip) / ms(1))
            )
        # A silence of k to k + 1 checks implies a TTL of more than k - 1 and at most k checks. If
        # the check interval is known only roughly, both ends of it are tried.
        lows = [
            (math.floor((silence - self.slip) / check) - 1) * check
            for check in (low_check, high_check)
            if check
        ]
        highs = [
            math.floor((silence + self.slip) / check) * check
            for check in (low_check, high_check)
            if check
        ]
        low, high = min(lows) - self.slip, max(highs) + self.slip
        exact = self.slip == 0 and low_check == high_check
        return Range.of(
            max(0, math.floor(low / ms(1)) + 1 if exact else math.floor(low / ms(1))), high / ms(1)
        )


def watch(bench: Bench, peers: Sequence[StompPeer], patience: Duration) -> list[Closed]:
    """Keep every peer silent until the broker has closed it, for at most ``patience``."""
    bench.wait_until(lambda: all(peer.ended is not None for peer in peers), patience)
    closed = [
        Closed(peer.spoke_at or 0, None if peer.ended is None else peer.ended.at) for peer in peers
    ]
    for peer in peers:
        peer.close_socket()
    return closed


def grid(closed: Sequence[Closed], stagger: Duration, slip: Duration) -> Grid | None:
    """Return the grid on which connections with the same TTL, opened at most ``stagger`` apart,
    were closed; None if fewer than two were closed."""
    ended = [probe for probe in closed if probe.at is not None]
    if len(ended) < 2:
        return None
    instants = sorted({probe.at for probe in ended if probe.at is not None})
    silences = [probe.silence for probe in ended]
    spread = max(silences) - min(silences)
    if slip == 0:
        if spread == 0:
            return Grid(Range.of(0, 0), slip)
        step = math.gcd(*(later - earlier for earlier, later in pairwise(instants)))
        return Grid(Range.of(step, step), slip)
    if spread <= 2 * slip:
        return Grid(Range.of(0, 0), slip)
    looks = _clusters(instants, 2 * slip)
    gaps = [later - earlier for earlier, later in pairwise(looks)]
    interval = Range.of(max(0, spread - 2 * slip), spread + stagger + 2 * slip)
    if gaps and min(gaps) > stagger + 2 * slip:
        # No check fell between two of these, so they are adjacent.
        mean = (looks[-1] - looks[0]) / len(gaps)
        near = Range.of(mean - 2 * slip / len(gaps), mean + 2 * slip / len(gaps))
        interval = near if max(gaps) - min(gaps) <= 4 * slip else interval
    return Grid(interval, slip)


def _clusters(instants: Sequence[Instant], apart: Duration) -> list[Instant]:
    """Return the first instants of groups separated by more than ``apart``."""
    firsts: list[Instant] = []
    last: Instant | None = None
    for instant in instants:
        if last is None or instant - last > apart:
            firsts.append(instant)
        last = instant
    return firsts
