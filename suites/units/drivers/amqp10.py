"""Drives a reference broker with AMQP in unit tests, with handmade frames and a clock in
nanoseconds that only the test advances."""

from typing import Any, Self

from proton import Message

from brokerproof.harness.model.broker_io import Effect, SendBytes
from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.protocols.amqp10 import headers
from brokerproof.reference_broker.protocols.amqp10.composite import Composite, descriptor
from brokerproof.reference_broker.protocols.amqp10.decoder import DEPTH
from brokerproof.reference_broker.protocols.amqp10.framing import FrameParser, frame
from brokerproof.reference_broker.protocols.amqp10.messaging import Header, Source, Target
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    RECEIVER,
    SENDER,
    Attach,
    Begin,
    Disposition,
    Flow,
    Open,
    Transfer,
)
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.units.drivers.broker import ClockedBroker

AMQP = Settings(
    acceptors=(
        Acceptor("amqp", protocols=("AMQP",)),
        Acceptor("stomp"),
        Acceptor("both", protocols=("STOMP", "AMQP")),
    )
)


def settings(**parameters: Any) -> Settings:
    amqp = with_parameters(Acceptor("amqp", protocols=("AMQP",)), **parameters)
    return Settings(acceptors=(amqp, Acceptor("stomp")))


class Desk(ClockedBroker):
    """A broker whose output for each connection waits until a test reads it."""

    def __init__(self, settings: Settings = AMQP, start: Instant = 0) -> None:
        super().__init__(settings, start)
        self.out: dict[int, bytes] = {}
        self._conns = 0

    def note(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, SendBytes):
                self.out[effect.conn] = self.out.get(effect.conn, b"") + effect.data
        return super().note(effects)

    def connect(self, acceptor: str = "amqp") -> int:
        self._conns += 1
        self.open(self._conns, acceptor=acceptor)
        return self._conns

    def take(self, conn: int) -> bytes:
        return self.out.pop(conn, b"")

    def settle(self) -> None:
        """Execute requests that the broker made outside any input."""
        self.at(self.now)


class Frame:
    """A frame; ``value`` is None if the frame is empty."""

    def __init__(self, type: int, channel: int, body: bytes) -> None:
        self.type, self.channel = type, channel
        self.value: Any = None
        self.payload = b""
        if body:
            from brokerproof.reference_broker.protocols.amqp10.composite import BY_CODE

            code, at = descriptor(body, 1)
            assert code is not None
            self.value, at = BY_CODE[code].read(body, at, DEPTH)
            self.payload = body[at:]

    def __repr__(self) -> str:
        return f"{self.channel}: {self.value} {self.payload!r}"


class Peer:
    """Handmade frames on a connection. Every field can be wrong."""

    def __init__(self, desk: Desk, acceptor: str = "amqp") -> None:
        self.desk = desk
        self.conn = desk.connect(acceptor)
        self.parser = FrameParser(2**32 - 1)
        self.headers: list[bytes] = []

    def raw(self, data: bytes) -> list[Frame]:
        self.desk.feed(self.conn, data)
        return self.read()

    def read(self) -> list[Frame]:
        self.parser.feed(self.desk.take(self.conn))
        frames = []
        while True:
            if self.parser.peek(4) == b"AMQP":
                header = self.parser.take(8)
                assert header is not None
                self.headers.append(header)
                continue
            received = self.parser.next()
            if received is None:
                return frames
            frames.append(Frame(*received))

    def send(
        self, *performatives: Composite, channel: int = 0, payload: bytes = b""
    ) -> list[Frame]:
        return self.raw(
            b"".join(
                frame(channel, performative.encode() + payload) for performative in performatives
            )
        )

    def open(self, **fields: Any) -> list[Frame]:
        fields.setdefault("container_id", "peer")
        return self.raw(headers.AMQP + frame(0, Open(**fields).encode()))

    def begin(self, channel: int = 0, **fields: Any) -> list[Frame]:
        fields = {"next_outgoing_id": 0, "incoming_window": 1000, "outgoing_window": 1000} | fields
        return self.send(Begin(**fields), channel=channel)

    def attach_sender(self, address: str | None = "q", **fields: Any) -> list[Frame]:
        channel = fields.pop("channel", 0)
        fields = {
            "name": "s",
            "handle": 0,
            "role": SENDER,
            "initial_delivery_count": 0,
            "source": Source(),
            "target": Target(address=address, capabilities=("queue",)),
        } | fields
        return self.send(Attach(**fields), channel=channel)

    def attach_receiver(self, address: str | None = "q", **fields: Any) -> list[Frame]:
        channel = fields.pop("channel", 0)
        fields = {
            "name": "r",
            "handle": 1,
            "role": RECEIVER,
            "source": Source(address=address, capabilities=("queue",)),
            "target": Target(),
        } | fields
        return self.send(Attach(**fields), channel=channel)

    def flow(self, credit: int | None = None, **fields: Any) -> list[Frame]:
        channel = fields.pop("channel", 0)
        fields = {
            "next_incoming_id": 0,
            "incoming_window": 1000,
            "next_outgoing_id": 0,
            "outgoing_window": 1000,
            "handle": 1,
            "delivery_count": 0,
            "link_credit": credit,
        } | fields
        return self.send(Flow(**fields), channel=channel)

    def transfer(self, number: int, payload: bytes | None = None, **fields: Any) -> list[Frame]:
        channel = fields.pop("channel", 0)
        fields = {
            "handle": 0,
            "delivery_id": number,
            "delivery_tag": number.to_bytes(4),
            "message_format": 0,
        } | fields
        body = message(f"m{number}") if payload is None else payload
        return self.send(Transfer(**fields), channel=channel, payload=body)

    def ready(self, **fields: Any) -> Self:
        self.open(**fields)
        self.begin()
        return self


def message(text: str) -> bytes:
    """A message whose body is an amqp-value."""
    data = text.encode()
    return (
        b"\0\x53\x77"
        + (bytes((0xA1, len(data))) if len(data) < 256 else b"\xb1" + len(data).to_bytes(4))
        + data
    )


def text(payload: bytes) -> str:
    """Return the body of a message, a string, as Proton's decoder reads it."""
    decoded = Message()
    decoded.decode(payload)
    return str(decoded.body)


def kinds(frames: list[Frame]) -> list[type]:
    return [type(frame.value) for frame in frames]


def bodies(frames: list[Frame]) -> list[str]:
    return [text(frame.payload) for frame in frames if isinstance(frame.value, Transfer)]


def error_of(frames: list[Frame], kind: type) -> str:
    """Return the condition in the last frame, which must be of this kind."""
    last = frames[-1].value
    assert isinstance(last, kind), frames
    return str(last.error.condition)  # type: ignore[attr-defined]


def ids(frames: list[Frame]) -> list[int]:
    return [frame.value.delivery_id for frame in frames if isinstance(frame.value, Transfer)]


def header(frame: Frame) -> Header:
    return Header.read(frame.payload, 3, 9)[0]


def settle(
    peer: Peer, first: int, state: Any, last: int | None = None, settled: bool = True
) -> list[Frame]:
    """Send a disposition as the receiver; return the answer."""
    return peer.send(
        Disposition(role=RECEIVER, first=first, last=last, settled=settled, state=state)
    )


def stocked(count: int, settings: Settings = AMQP, address: str = "q") -> tuple[Desk, Peer]:
    """Return a broker with messages m0, m1 …, and a peer with a session."""
    desk = Desk(settings)
    producer = Peer(desk).ready(container_id="producer")
    producer.attach_sender(address)
    for number in range(count):
        producer.transfer(number, settled=True)
    return desk, Peer(desk).ready()


def received(desk: Desk, address: str = "q") -> list[str]:
    peer = Peer(desk).ready()
    peer.attach_receiver(address)
    return bodies(peer.flow(100))
