"""Silent connections: when they are closed, and what that reveals about the broker's timers."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from brokerproof.harness.protocols.conversation import Conversation
from brokerproof.suites.api import Bench, Duration, Instant, Requirements, ms, seconds

Peer = TypeVar("Peer", bound=Conversation[Any])

SPREAD = 8
"""Number of connections whose silences begin evenly spread over one check interval."""
GRACE: Duration = seconds(3)
"""Wait this long beyond the interval before concluding that the broker never closes."""


def unread_for(target: Bench, peer: Conversation[Any]) -> Duration:
    """Return how long a broker may have left a client's last bytes unread: a busy broker may
    process a login seconds late and measure the silence only from then. 0 in virtual time."""
    return 0 if target.virtual else peer.answered_after


def judge_close(
    target: Bench,
    peer: Conversation[Any],
    proves: Requirements,
    since: Instant,
    bounds: tuple[Duration, Duration],
    agreed: str,
) -> None:
    """Wait for the close of a connection silent ``since``; ``agreed`` names the agreed time."""
    target.expect_interval(proves, "close of the silent connection", since, bounds)
    target.wait_until(lambda: peer.ended is not None, since + bounds[1] + GRACE - target.now())
    # A broker that got no CPU time meanwhile could not close, either.
    if not target.wait_until(lambda: peer.ended is not None, target.world.lateness(since)):
        waited = (target.now() - since) // ms(1)
        detail = f"silent for {waited} ms with {agreed}, but not disconnected"
        target.record_finding(proves, False, detail)
        return
    assert peer.ended is not None
    target.judge_duration(proves, "silence until the close", peer.ended.at - since, bounds, since)


def closed_at(peer: Conversation[Any]) -> Instant | None:
    """Return when the connection ended; None if it has not ended."""
    return None if peer.ended is None else peer.ended.at


def judge_spread_closes(
    target: Bench,
    peers: Sequence[Peer],
    speak: Callable[[Peer], None],
    proves: Requirements,
    bounds: tuple[Duration, Duration],
    interval: Duration,
    *,
    rounding: Duration = 0,
    closed: Callable[[Peer], Instant | None] = closed_at,
) -> None:
    """Let :data:`SPREAD` connections fall silent, spread over one check ``interval``, and judge
    when each is closed.

    If the broker checks at intervals, the silences before its closes differ by at least seven
    eighths of its interval. So the interval is at most eight sevenths of that difference, and each
    close may be at most that much later than the lower bound, whatever ``bounds`` allow.
    ``rounding`` is how much longer than the lower bound the agreed time may be. ``closed`` returns
    when the broker closed a connection (None if it did not).
    """
    # A slow host may connect some peers only after the broker has closed earlier ones.
    spoken = [[] if peer.spoke_at is None else [peer.spoke_at] for peer in peers]
    for first in range(len(peers)):
        for peer, instants in zip(peers[first:], spoken[first:], strict=True):
            speak(peer)
            if peer.spoke_at is not None:
                instants.append(peer.spoke_at)
        target.advance(interval // len(peers))
    patience = bounds[1] + interval + GRACE
    target.wait_until(lambda: None not in map(closed, peers), patience)
    silences = []
    for peer, instants in zip(peers, spoken, strict=True):
        end = closed(peer)
        # A late client may have written to a connection that the broker had already closed.
        before = [instant for instant in instants if end is not None and instant < end]
        if end is not None and before:
            silences.append((before[-1], end - before[-1]))
    detail = f"{len(silences)} of {len(peers)} silent clients were disconnected"
    target.require(proves, len(silences) == len(peers), detail)
    lengths = [length for _, length in silences]
    granularity = (max(lengths) - min(lengths)) * SPREAD // (SPREAD - 1)
    low = bounds[0]
    high = min(bounds[1], low + rounding + granularity + target.sending_jitter(low))
    for since, length in silences:
        target.judge_duration(proves, "silence until the close", length, (low, high), since)
