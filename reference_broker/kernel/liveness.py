"""Watching a peer for silence. Each family has its own rule for when that is too long."""

from __future__ import annotations

from abc import ABC, abstractmethod

from brokerproof.harness.model.time import Duration, Instant

NEVER: Instant = 2**63 - 1


class SilenceMonitor(ABC):
    """Watches what one connection receives.

    ``ttl`` is how long it may be silent, ``last_heard`` when the last bytes arrived.
    """

    def __init__(self, ttl: Duration, now: Instant) -> None:
        self.ttl = ttl
        self.last_heard = now

    def on_bytes_received(self, now: Instant, data: bytes) -> None:
        """Count ``data``, which arrived. Any byte is a sign of life, also those that are no frame
        (STOMP11-HB-08, STOMP12-HB-08)."""
        self.last_heard = now

    @abstractmethod
    def agreed(self, now: Instant, ttl: Duration, first: Duration) -> None:
        """Apply ``ttl``, which the peer has agreed on, from ``now`` on; ``first`` is for monitors
        that look at times of their own."""

    @abstractmethod
    def deadline(self) -> Instant:
        """Return when the connection is closed if nothing more arrives; NEVER for never."""
