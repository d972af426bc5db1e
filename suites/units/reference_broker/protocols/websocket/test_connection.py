"""STOMP over WebSocket in the broker: the upgrade, the connection's states, and its bounded
memory."""

import pytest

from brokerproof.harness.model.broker_io import (
    BytesReceived,
    Close,
    Connected,
    Effect,
    Observe,
    SendBytes,
    TimerFired,
    WritePaused,
    WriteResumed,
)
from brokerproof.harness.model.time import NS_PER_S, Instant
from brokerproof.harness.protocols.stomp import codec as stomp_codec
from brokerproof.harness.protocols.websocket import codec as websocket_codec
from brokerproof.harness.protocols.websocket.codec import UPGRADE, Item, Op, Reader, Reply, WsFrame
from brokerproof.reference_broker.assembly import create_broker
from brokerproof.reference_broker.kernel.broker import Broker
from brokerproof.reference_broker.protocols.websocket.connection import CLOSING_MS
from brokerproof.reference_broker.protocols.websocket.upgrade import HEAD_MOST
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.reference_broker.settings.settings import Settings

ACCEPTOR = with_parameters(Acceptor("stomp"), web_socket_max_frame_payload_length=1000)
CONNECT = stomp_codec.encode("CONNECT", {"accept-version": "1.2", "host": "here"})
MASK = b"\x01\x02\x03\x04"


def request(**changes: object) -> bytes:
    """Return a request that is correct except for the changed parts: ``line``, ``host``, ``key``,
    ``fields``."""
    about = {"host": "here", "key": websocket_codec.key(b"k"), "fields": UPGRADE, **changes}
    return websocket_codec.request(
        about.pop("host"), about.pop("key"), about.pop("fields"), **about
    )  # type: ignore[arg-type]


class Wire:
    def __init__(
        self, acceptor: Acceptor = ACCEPTOR, broker: Broker | None = None, conn: int = 1
    ) -> None:
        self.broker = broker or create_broker(Settings(acceptors=(acceptor,)))
        self.conn, self.now, self.closed = conn, 0, False
        self.heard: list[Item] = []
        self.observed: list[str] = []
        self._reader = Reader()
        self._take(self.broker.handle(0, Connected(conn, acceptor.name, "test")))

    def _take(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case SendBytes(conn, data) if conn == self.conn:
                    assert not self.closed, f"{data!r} was sent behind the close"
                    self.heard += self._reader.feed(data)
                case Close(conn) if conn == self.conn:
                    assert not self.closed, "closed twice"
                    self.closed = True
                case Observe(conn, requirement, _) if conn == self.conn:
                    self.observed.append(requirement)

    def feed_bytes(self, data: bytes) -> None:
        self._take(self.broker.handle(self.now, BytesReceived(self.conn, data)))

    def frame(self, op: Op, payload: bytes = b"", *, fin: bool = True) -> None:
        self.feed_bytes(websocket_codec.encode(op, payload, mask=MASK, fin=fin))

    def until(self, instant: Instant) -> None:
        while (due := self.broker.next_deadline()) is not None and due <= instant:
            self.now = max(self.now, due)
            self._take(self.broker.handle(self.now, TimerFired()))
        self.now = instant

    @property
    def frames(self) -> list[WsFrame]:
        return [item for item in self.heard if isinstance(item, WsFrame)]

    @property
    def said(self) -> list[tuple[str, bytes]]:
        """Return the name and payload of the received frames; for STOMP frames, the command."""
        return [
            (frame.name, frame.payload if frame.is_control else frame.payload.split(b"\n")[0])
            for frame in self.frames
        ]

    @property
    def reply(self) -> Reply:
        assert isinstance(self.heard[0], Reply)
        return self.heard[0]


def opened(acceptor: Acceptor = ACCEPTOR) -> Wire:
    wire = Wire(acceptor)
    wire.feed_bytes(request())
    return wire


def connected(acceptor: Acceptor = ACCEPTOR) -> Wire:
    wire = opened(acceptor)
    wire.frame(Op.TEXT, CONNECT)
    assert wire.said == [("BINARY", b"CONNECTED")]
    wire.heard.clear()
    return wire


@pytest.mark.parametrize(
    ("bad", "status"),
    [
        (request(line="POST / HTTP/1.1"), 405),
        (request(line="DELETE / HTTP/1.1"), 405),
        (request(line="GET / HTTP/1.0"), 400),
        (request(host=None), 400),
        (request(key=None), 400),
        (request(key="c2hvcnQ="), 400),
        (request(key="!!!!"), 400),
        (request(fields=(*UPGRADE, ("Sec-WebSocket-Key", websocket_codec.key(b"other")))), 400),
        (request(fields=()), 426),
        (request(fields=(("Upgrade", "h2c"), *UPGRADE[1:])), 426),
        (request(fields=(UPGRADE[0], ("Connection", "close"), UPGRADE[2])), 400),
        (request(fields=(*UPGRADE[:2], ("Sec-WebSocket-Version", "8"))), 426),
        (request(fields=UPGRADE[:2]), 426),
        (request(fields=(*UPGRADE, ("Content-Length", "5"))) + b"hello", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET \r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * HEAD_MOST, 431),
    ],
)
def test_a_bad_request_is_answered_and_the_connection_closed(bad: bytes, status: int) -> None:
    wire = Wire()
    wire.feed_bytes(bad)
    assert wire.reply.status == status
    assert wire.reply.values("connection") == ["close"]
    assert wire.closed is True
    assert wire.observed[0].startswith("RFC6455-HS-")
    assert wire.broker.next_deadline() is None
    if status == 426:
        assert wire.reply.values("sec-websocket-version") == ["13"]
    wire.feed_bytes(request())
    assert len(wire.heard) == 1


def test_a_subprotocol_that_is_no_utf8_is_not_chosen() -> None:
    wire = Wire()
    offered = (*UPGRADE, ("Sec-WebSocket-Protocol", "v99.stomp, v12.stomp"))
    wire.feed_bytes(request(fields=offered).replace(b"v99", b"\xff\xfe"))
    assert wire.reply.status == 101
    assert wire.reply.values("sec-websocket-protocol") == ["v12.stomp"]


def test_a_request_that_does_not_come_in_time() -> None:
    wire = Wire()
    wire.feed_bytes(request()[:-2])
    wire.until(9_999_999_999)
    assert not wire.closed
    wire.until(10 * NS_PER_S)
    assert (wire.reply.status, wire.closed) == (408, True)


def test_connect_that_does_not_come_in_time() -> None:
    """Over WebSocket, too, the time limit runs from the opening of the connection."""
    wire = opened()
    wire.until(10 * NS_PER_S)
    assert [name for name, _ in wire.said] == ["BINARY", "CLOSE"]
    assert wire.said[0][1] == b"ERROR"


def test_stomp_ends_and_the_closing_handshake_follows() -> None:
    wire = connected()
    wire.frame(Op.BINARY, stomp_codec.encode("DISCONNECT", {"receipt": "bye"}))
    assert wire.said == [("BINARY", b"RECEIPT"), ("CLOSE", b"\x03\xe8")]
    assert not wire.closed
    wire.frame(Op.BINARY, CONNECT)  # nobody is there to answer
    assert len(wire.said) == 2
    wire.frame(Op.CLOSE, b"\x03\xe8")
    assert wire.closed
    assert len(wire.said) == 2
    assert wire.broker.next_deadline() is None


def test_a_peer_that_does_not_say_close_is_not_waited_for_long() -> None:
    wire = connected()
    wire.frame(Op.BINARY, stomp_codec.encode("DISCONNECT"))
    wire.until(CLOSING_MS * 1_000_000 - 1)
    assert not wire.closed
    wire.until(CLOSING_MS * 1_000_000)
    assert wire.closed


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (websocket_codec.encode(Op.TEXT, b"\n", mask=None), 1002),
        (websocket_codec.encode(Op.CONTINUATION, b"\n", mask=MASK), 1002),
        (
            websocket_codec.encode(Op.TEXT, b"a", mask=MASK, fin=False)
            + websocket_codec.encode(Op.TEXT, b"b", mask=MASK),
            1002,
        ),
        (websocket_codec.encode(Op.PING, b"", mask=MASK, fin=False), 1002),
        (websocket_codec.encode(Op.PING, b"x" * 126, mask=MASK), 1002),
        (websocket_codec.encode(Op.BINARY, b"\n", mask=MASK, form=16), 1002),
        (websocket_codec.encode(Op.CLOSE, b"\x03", mask=MASK), 1002),
        (websocket_codec.encode(Op.CLOSE, b"\x03\xed", mask=MASK), 1002),
        (websocket_codec.encode(Op.CLOSE, b"\x0b\xb7", mask=MASK), 1002),
        (websocket_codec.encode(Op.CLOSE, b"\x03\xe8\xff", mask=MASK), 1007),
        (websocket_codec.encode(Op.BINARY, b"", mask=MASK, announce=1001), 1009),
        (websocket_codec.encode(Op.BINARY, b"", mask=MASK, announce=2**62), 1009),
    ],
)
def test_a_breach_fails_the_connection_with_its_code(data: bytes, code: int) -> None:
    wire = connected()
    wire.feed_bytes(
        data
        + websocket_codec.encode(
            Op.BINARY, stomp_codec.encode("BEGIN", {"receipt": "no"}), mask=MASK
        )
    )
    assert [(frame.name, frame.code) for frame in wire.frames] == [("CLOSE", code)]
    assert wire.closed
    assert wire.observed == ["RFC6455-CLOSE-05"]
    assert wire.broker.next_deadline() is None


def test_a_peer_that_does_not_read_gets_no_messages() -> None:
    wire = connected()
    to = {"destination": "a", "destination-type": "ANYCAST", "subscription-type": "ANYCAST"}
    wire.frame(Op.BINARY, stomp_codec.encode("SUBSCRIBE", {**to, "id": "0"}))
    wire._take(wire.broker.handle(0, WritePaused(1)))
    wire.frame(Op.BINARY, stomp_codec.encode("SEND", {**to, "receipt": "r"}, b"wait"))
    assert wire.said == [("BINARY", b"RECEIPT")]
    wire._take(wire.broker.handle(0, WriteResumed(1)))
    assert wire.said == [("BINARY", b"RECEIPT"), ("BINARY", b"MESSAGE")]
