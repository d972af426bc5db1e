"""Connection TTL: when a silent peer is closed, and when the broker must send a heartbeat.

Each protocol negotiates the TTL with its peer; STOMP does so in
:mod:`brokerproof.reference_broker.protocols.stomp.heartbeat`.

The broker has no timer per connection. Every check interval I after its start, one pass checks all
connections (ARTEMIS-STOMP-ttl-2, ARTEMIS-STOMP-ttl-3, ARTEMIS-STOMP-ttl-8):

1. If bytes arrived since the previous pass, the connection was alive *at this pass*.
2. Otherwise it is dead if at least TTL has passed since the last pass at which it was alive.

So with d the instant of the last byte, b the first pass at or after d, and n = max(1, ceil(TTL /
I)), the connection is closed at b + n * I, which lies in [d + n * I, d + (n + 1) * I). So the close
is never before the TTL ends, and at most one interval late beyond rounding. The opening of the
connection is treated as a byte.

The passes are computed, not simulated: a byte only stores its instant, and idle passes cost
nothing, so a TTL of a week costs as much as one of a second.
"""

from brokerproof.harness.model.time import Duration, Instant
from brokerproof.reference_broker.kernel.liveness import SilenceMonitor


def _up_to_multiple(value: int, step: int) -> int:
    return -(-value // step) * step


class LivenessMonitor(SilenceMonitor):
    """Watches one connection's input, with passes at least 1 ns apart. A ``ttl`` of 0 closes the
    connection at the next pass."""

    def agreed(self, now: Instant, ttl: Duration, first: Duration) -> None:
        self.ttl = ttl

    def deadline(self) -> Instant:
        """Return the pass at which the connection is closed if nothing more arrives."""
        alive_at = self.start + _up_to_multiple(self.last_heard - self.start, self.interval)
        return alive_at + max(self.interval, _up_to_multiple(self.ttl, self.interval))
