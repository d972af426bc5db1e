"""A broker that a scenario feeds, and the registry of scenarios."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from brokerproof.harness.model.broker_io import BytesReceived, Connected, SendBytes
from brokerproof.reference_broker.assembly import create_broker
from brokerproof.reference_broker.settings.settings import Settings

PIECE = 64 * 1024
SCENARIOS: dict[str, Callable[[int], Feed]] = {}


class Feed:
    """A broker with one connection, and the bytes whose cost is measured."""

    def __init__(self, settings: Settings, acceptor: str, conn: int = 1) -> None:
        self.broker = create_broker(settings)
        self.conn = conn
        self.measured: list[bytes] = []
        self.broker.handle(0, Connected(conn, acceptor, "bench"))

    def beside(self, acceptor: str) -> Feed:
        """Return another connection to the same broker."""
        other = object.__new__(Feed)
        other.broker = self.broker
        other.conn = self.conn + 1
        other.measured = []
        self.broker.handle(0, Connected(other.conn, acceptor, "bench"))
        return other

    def send(self, *frames: bytes) -> bytes:
        """Feed ``frames`` without measuring; return the answer."""
        effects = self.broker.handle(0, BytesReceived(self.conn, b"".join(frames)))
        return b"".join(
            effect.data
            for effect in effects
            if isinstance(effect, SendBytes) and effect.conn == self.conn
        )

    def after(self, *frames: bytes) -> Feed:
        """Feed ``frames`` without measuring."""
        self.send(*frames)
        return self

    def measure(self, frames: Iterator[bytes] | bytes, piece: int = PIECE) -> Feed:
        data = frames if isinstance(frames, bytes) else b"".join(frames)
        self.measured += [data[at : at + piece] for at in range(0, len(data), piece)]
        return self


def scenario(name: str) -> Callable[[Callable[[int], Feed]], Callable[[int], Feed]]:
    """Register the decorated function under ``name``, which begins with the protocol's name."""

    def register(function: Callable[[int], Feed]) -> Callable[[int], Feed]:
        SCENARIOS[name] = function
        return function

    return register
