"""Drives a reference broker by hand in unit tests: bytes in, effects out, and a clock that only the
test advances."""

from typing import Self

from hypothesis import settings as hypothesis_settings

from brokerproof.harness.model.broker_io import (
    BytesReceived,
    Close,
    Connected,
    Effect,
    Observe,
    PeerGone,
    SendBytes,
    TimerFired,
)
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.assembly import create_broker
from brokerproof.reference_broker.kernel.release import RELEASE
from brokerproof.reference_broker.settings.settings import Settings

SERVER = f"server:brokerproof/{RELEASE}\n"


patient = hypothesis_settings(deadline=None)
"""Settings for properties without a deadline: on a busy machine an example's duration means
nothing."""


class Received:
    """A frame split in the simplest way, with its escapes."""

    def __init__(self, raw: bytes) -> None:
        head, _, self.body = raw.partition(b"\n\n")
        command, *lines = head.decode().split("\n")
        self.command = command
        self.headers = dict(reversed([tuple(line.split(":", 1)) for line in lines]))
        self.size = len(raw) + 1

    def __getitem__(self, name: str) -> str:
        return self.headers[name]

    def __repr__(self) -> str:
        return f"{self.command} {self.headers} {self.body!r}"


class ClockedBroker:
    """A broker whose time only the test advances. It records the connections that it closed, and
    its observations."""

    def __init__(self, settings: Settings | None = None, start: Instant = 0) -> None:
        self.broker = create_broker(settings or Settings(), start=start)
        self.now: Instant = start
        self.closed: list[int] = []
        self.observed: list[str] = []

    def note(self, effects: list[Effect]) -> list[Effect]:
        self.closed += [effect.conn for effect in effects if isinstance(effect, Close)]
        self.observed += [effect.requirement for effect in effects if isinstance(effect, Observe)]
        return effects

    def open(self, *conns: int, acceptor: str = "stomp") -> list[Effect]:
        return [
            effect
            for conn in conns
            for effect in self.note(self.broker.handle(self.now, Connected(conn, acceptor, "test")))
        ]

    def feed(self, conn: int, data: bytes | str) -> list[Effect]:
        raw = data.encode() if isinstance(data, str) else data
        return self.note(self.broker.handle(self.now, BytesReceived(conn, raw)))

    def gone(self, conn: int) -> list[Effect]:
        return self.note(self.broker.handle(self.now, PeerGone(conn, CloseHow.EOF)))

    def at(self, now: Instant) -> list[Effect]:
        """Fire the timer once, at ``now``, even if earlier deadlines were due."""
        self.now = now
        return self.note(self.broker.handle(now, TimerFired()))

    def run(self, until: Instant) -> list[tuple[Instant, Effect]]:
        """Fire the timer at each deadline up to ``until``, as a world does."""
        seen: list[tuple[Instant, Effect]] = []
        while (due := self.broker.next_deadline()) is not None and due <= until:
            seen += [(due, effect) for effect in self.at(max(self.now, due))]
        self.now = until
        return seen


class Driver(ClockedBroker):
    """A broker with STOMP clients. Bodies in these tests contain no NUL, except in tests of raw
    effects."""

    def connect(self, conn: int, version: str = "1.2", headers: str = "") -> list[Effect]:
        self.open(conn)
        return self.feed(conn, f"CONNECT\naccept-version:{version}\nhost:h\n{headers}\n\0")

    def connected(self, *conns: int) -> Self:
        for conn in conns:
            self.connect(conn)
        return self


def frames(effects: list[Effect], conn: int) -> list[Received]:
    data = b"".join(
        effect.data for effect in effects if isinstance(effect, SendBytes) and effect.conn == conn
    )
    return [Received(part.lstrip(b"\n")) for part in data.split(b"\0")[:-1]]


def only(effects: list[Effect], conn: int) -> Received:
    (frame,) = frames(effects, conn)
    return frame


def bodies(effects: list[Effect], conn: int) -> list[str]:
    return [frame.body.decode() for frame in frames(effects, conn) if frame.command == "MESSAGE"]


def send(body: str, destination: str = "q", headers: str = "") -> str:
    """Return a SEND frame. The destination is ANYCAST unless ``headers`` state another type."""
    kind = "" if "destination-type" in headers else "destination-type:ANYCAST\n"
    return f"SEND\ndestination:{destination}\n{kind}{headers}\n{body}\0"


def subscribe(id: str = "0", ack: str = "auto", destination: str = "q", headers: str = "") -> str:
    """Return a SUBSCRIBE frame. The destination is ANYCAST unless ``headers`` state another
    type."""
    kind = "" if "subscription-type" in headers else "subscription-type:ANYCAST\n"
    return f"SUBSCRIBE\nid:{id}\ndestination:{destination}\nack:{ack}\n{kind}{headers}\n\0"
