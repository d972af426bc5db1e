"""The interface between the broker and a connection of any protocol."""

from typing import Protocol

from brokerproof.harness.model.time import Instant


class Connection(Protocol):
    """A connection of any protocol."""

    @property
    def is_open(self) -> bool:
        """True if this connection still handles input."""

    def receive(self, now: Instant, data: bytes) -> None: ...

    def pause_delivery(self, paused: bool) -> None:
        """Pause or resume deliveries, because the peer does not read or reads again."""

    def on_peer_gone(self) -> None:
        """The peer has disconnected; nothing can be sent."""

    def on_store_failed(self, reason: str) -> None:
        """Refuse the peer's request, which cannot be stored, and close the connection."""
