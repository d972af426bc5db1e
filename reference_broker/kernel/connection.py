"""What the broker asks of a connection, whatever it speaks."""

from __future__ import annotations

from typing import Protocol

from brokerproof.harness.model.time import Instant


class Connection(Protocol):
    """What the broker asks of a connection."""

    @property
    def is_open(self) -> bool:
        """Whether input for this connection still means anything."""

    def receive(self, now: Instant, data: bytes) -> None:
        """Octets have arrived."""

    def pause_delivery(self, paused: bool) -> None:
        """Whether the peer gets no messages because it does not read."""

    def on_peer_gone(self) -> None:
        """The peer is gone; nothing can be sent."""

    def on_store_failed(self, reason: str) -> None:
        """What the peer asked for cannot be stored: it is told, and the connection closed."""
