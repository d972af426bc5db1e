"""A link that is crooked on purpose: it passes STOMP on, and now and then drops or doubles a
MESSAGE.

``python -m brokerproof.suites.soak.lossy_link 127.0.0.1:61613 --double 5000`` prints the port that
it listens on. What a soak has to find. Frames are told apart by their NUL, so bodies must have
none, as those of a load have. A doubled MESSAGE would be acknowledged twice, which a broker
refuses: double for consumers that do not acknowledge."""

from __future__ import annotations

import selectors
import socket
import sys

import click


class Link:
    """One client's connection, and ours to the broker for it."""

    def __init__(self, crooked: Crooked, client: socket.socket, broker: socket.socket) -> None:
        self._crooked, self.client, self.broker = crooked, client, broker
        self._pending = b""

    def from_broker(self) -> bool:
        """Passes on what the broker said; whether there is more to come."""
        data = self.broker.recv(1 << 16)
        *frames, self._pending = (self._pending + data).split(b"\0")
        out = b"".join(copy for frame in frames for copy in self._crooked.copies(frame + b"\0"))
        if not self._pending.strip(b"\r\n"):
            out, self._pending = out + self._pending, b""
        self.client.sendall(out)
        return bool(data)

    def from_client(self) -> bool:
        """Passes on what the client said; whether there is more to come."""
        data = self.client.recv(1 << 16)
        self.broker.sendall(data)
        return bool(data)


class Crooked:
    """Every ``drop``-th MESSAGE is dropped, every ``double``-th comes twice (0: none)."""

    def __init__(self, broker: tuple[str, int], drop: int, double: int) -> None:
        self._broker, self._drop, self._double = broker, drop, double
        self._messages = 0
        self._selector = selectors.DefaultSelector()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]

    def copies(self, frame: bytes) -> list[bytes]:
        if not frame.lstrip(b"\r\n").startswith(b"MESSAGE"):
            return [frame]
        self._messages += 1
        if self._drop and self._messages % self._drop == 0:
            return []
        return [frame, frame] if self._double and self._messages % self._double == 0 else [frame]

    def run(self) -> None:
        """Until it is killed."""
        self._selector.register(self._door, selectors.EVENT_READ, self._came)
        while True:
            for key, _ in self._selector.select():
                key.data()

    def _came(self) -> None:
        client, _ = self._door.accept()
        link = Link(self, client, socket.create_connection(self._broker))
        for side, passed in ((link.client, link.from_client), (link.broker, link.from_broker)):
            self._selector.register(
                side, selectors.EVENT_READ, lambda passed=passed: self._pass(link, passed)
            )

    def _pass(self, link: Link, passed: object) -> None:
        try:
            more = callable(passed) and passed()
        except OSError:
            more = False
        if not more:
            for side in (link.client, link.broker):
                if side.fileno() >= 0:
                    self._selector.unregister(side)
                    side.close()


@click.command()
@click.argument("broker", metavar="HOST:PORT")
@click.option(
    "--drop", type=click.IntRange(0), default=0, help="Every so-manieth MESSAGE is dropped."
)
@click.option(
    "--double", type=click.IntRange(0), default=0, help="Every so-manieth MESSAGE comes twice."
)
def main(broker: str, drop: int, double: int) -> None:
    """Passes STOMP on, not quite as it came, until it is killed."""
    host, _, port = broker.rpartition(":")
    crooked = Crooked((host, int(port)), drop, double)
    click.echo(str(crooked.port))
    sys.stdout.flush()
    crooked.run()


if __name__ == "__main__":
    main()
