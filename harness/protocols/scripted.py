"""The common parts of scripted servers: they record arrival times, and write in pieces and at set
times."""

from functools import partial

from brokerproof.harness.model.time import Duration, Instant
from brokerproof.harness.protocols.conversation import Conversation, F, Judge


class Scripted(Conversation[F]):
    """Mixin for a peer that acts as the server of a client being judged."""

    def __init__(self, judge: Judge, conn: int, *about: str) -> None:
        super().__init__(judge, conn, *about)
        self.heard: list[tuple[Instant, bytes]] = []
        """Received pieces, and when each arrived."""

    def bytes_arrived(self, at: Instant, data: bytes) -> None:
        self.heard.append((at, data))
        super().bytes_arrived(at, data)

    def write_pieces(self, data: bytes, size: int = 1) -> None:
        """Send ``data`` in separately written pieces of ``size`` bytes."""
        for start in range(0, len(data), size):
            self.write(data[start : start + size])

    def beat_every(self, period: Duration, until: Instant) -> None:
        """Send a heartbeat every ``period`` from now on, as long as this connection lasts."""
        due = self.world.now() + period
        while due <= until:
            self.world.at(due, self.beat_if_open)
            due += period

    def drip_every(self, period: Duration, data: bytes) -> None:
        """Send one byte of ``data`` every ``period``, as long as this connection lasts."""
        for number in range(len(data)):
            due = self.world.now() + number * period
            self.world.at(due, partial(self.write_if_open, data[number : number + 1]))

    def beat_if_open(self) -> None:
        if self.ended is None:
            self.beat()

    def write_if_open(self, data: bytes) -> None:
        if self.ended is None:
            self.write(data)
