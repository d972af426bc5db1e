"""Connection TTL: when a silent peer is closed, and when the broker must send a heartbeat.

How long the TTL is, each protocol agrees with its peer: STOMP in
:mod:`brokerproof.reference_broker.protocols.stomp.heartbeat`.

The broker does not watch each connection by a timer of its own. One pass comes every check interval
I after the broker's start and looks at all connections (ARTEMIS-STOMP-ttl-2,
ARTEMIS-STOMP-ttl-3, ARTEMIS-STOMP-ttl-8):

1. If bytes arrived since the pass before, the connection was alive *at this pass*.
2. Otherwise it is dead if at least TTL has gone by since the last pass at which it was alive.

So with d the instant of the last byte, b the first pass at or after d, and n = max(1, ceil(TTL /
I)), the connection is closed at b + n * I, which lies in [d + n * I, d + (n + 1) * I). Never before
the TTL is over, and at most one interval late beyond rounding. The opening of the connection counts
as a byte.

The passes are computed, not walked: a byte only stores its instant, and nothing is done at passes
where nothing happens, so a TTL of a week costs as much as one of a second.
"""

from __future__ import annotations

from brokerproof.harness.model.time import Duration, Instant
from brokerproof.reference_broker.kernel.liveness import SilenceMonitor


def _up_to_multiple(value: int, step: int) -> int:
    return -(-value // step) * step


class LivenessMonitor(SilenceMonitor):
    """Watches what one connection receives, at passes that are at least 1 ns apart. A ``ttl`` of 0
    closes it at the next."""

    def agreed(self, now: Instant, ttl: Duration, first: Duration) -> None:
        self.ttl = ttl

    def deadline(self) -> Instant:
        """Return the pass at which the connection is closed if nothing more arrives."""
        alive_at = self.start + _up_to_multiple(self.last_heard - self.start, self.interval)
        return alive_at + max(self.interval, _up_to_multiple(self.ttl, self.interval))
