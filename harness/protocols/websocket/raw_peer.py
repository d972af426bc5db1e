"""A raw WebSocket peer, which can speak correctly or send arbitrary bytes. It can carry STOMP."""

import hashlib
from collections.abc import Iterable
from typing import Any

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import Instant
from brokerproof.harness.protocols.conversation import (
    Conversation,
    Ended,
    Judge,
    Match,
    Requirements,
)
from brokerproof.harness.protocols.websocket import codec
from brokerproof.harness.protocols.websocket.codec import (
    UPGRADE,
    Item,
    Op,
    Reply,
    Unreadable,
    WsFrame,
)
from brokerproof.harness.trace.event_factory import EventFactory
from brokerproof.harness.worlds.tls import Certificate
from brokerproof.harness.worlds.world import Channel, Receiver

SUB_PROTOCOLS = ("v12.stomp", "v11.stomp", "v10.stomp")
"""Subprotocols that a STOMP client offers."""

REPLY: Match[Item] = Match("an HTTP response", lambda item: isinstance(item, Reply))
ACCEPTED: Match[Item] = Match(
    "HTTP 101", lambda item: isinstance(item, Reply) and item.status == 101
)


def ws(op: Op, payload: bytes | None = None) -> Match[Item]:
    """Match a frame with that opcode and, if given, that payload."""
    words = op.name if payload is None else f"{op.name} {payload[:60]!r}"
    return Match(
        words,
        lambda item: (
            isinstance(item, WsFrame)
            and item.op == op
            and (payload is None or item.payload == payload)
        ),
    )


CLOSE = ws(Op.CLOSE)


class WebSocketPeer(Conversation[Item]):
    """One WebSocket connection of the harness, which answers the server's Pings and Closes unless
    ``polite`` is False."""

    protocol = "WEBSOCKET"

    def __init__(self, judge: Judge, conn: int, acceptor: str, path: str = "/") -> None:
        super().__init__(judge, conn, acceptor)
        self.path = path
        self.polite = True
        self.key = codec.key(b"%d" % conn)
        self.frames: list[WsFrame] = []
        """Every received frame, in order."""
        self.close_sent = False
        self._reader = codec.Reader()
        self._factory = EventFactory(self.conn)
        self._above: Receiver | None = None
        self._masks = 0

    # Conversation

    def decode(self, at: Instant, data: bytes) -> None:
        for item in self._reader.feed(data):
            match item:
                case WsFrame():
                    self._arrived(at, item)
                case Reply():
                    frame = self._factory.frame(
                        at, False, "HTTP", str(item.status), item.fields, b"", item.size
                    )
                    self.judge.record(frame)
                    self.inbox.append(item)
                case Unreadable(raw, reason):
                    self.judge.record(self._factory.unreadable(at, False, raw, reason))
                    self.inbox.append(item)

    def _arrived(self, at: Instant, item: WsFrame) -> None:
        marks = () if item.fin else (("fin", "0"),)
        self.judge.record(
            self._factory.frame(at, False, self.protocol, item.name, marks, item.payload, item.size)
        )
        self.frames.append(item)
        if self._above is None or item.is_control:
            self.inbox.append(item)
        if self.polite and item.op == Op.PING:
            self.send(Op.PONG, item.payload)
        elif self.polite and item.op == Op.CLOSE and not self.close_sent:
            self.send(Op.CLOSE, item.payload[:2])
        elif self._above is not None and not item.is_control and item.payload:
            self._above.bytes_arrived(at, item.payload)

    def channel_closed(self, at: Instant, how: CloseHow) -> None:
        if self._above is None:
            super().channel_closed(at, how)
        else:
            self.ended = Ended(at, how)
            self._above.channel_closed(at, how)

    def fatal(self, frame: Item) -> bool:
        return isinstance(frame, Unreadable) or (
            isinstance(frame, WsFrame) and frame.op == Op.CLOSE
        )

    def words(self, frame: Item) -> str:
        return frame.brief()

    # the handshake

    def ask(
        self,
        *,
        protocols: Iterable[str] = SUB_PROTOCOLS,
        fields: Iterable[tuple[str, str]] = UPGRADE,
        line: str = "GET {path} HTTP/1.1",
        key: str | None = "",
        host: str | None = "",
    ) -> None:
        """Send a request with Host, the key (None omits it) and exactly these fields.

        ``line`` may contain ``{path}``, the path of this broker family's WebSockets.
        """
        offered = ", ".join(protocols)
        listed = (*fields, *((("Sec-WebSocket-Protocol", offered),) if offered else ()))
        host, key = self.channel.remote if host == "" else host, self.key if key == "" else key
        self.write(codec.request(host, key, listed, line=line.format(path=self.path)))

    def upgrade(
        self, *, protocols: Iterable[str] = SUB_PROTOCOLS, proves: Requirements | None = None
    ) -> Reply:
        """Do the whole handshake. Its acceptance is only a control unless ``proves`` is given."""
        self.ask(protocols=protocols)
        reply = self.expect(ACCEPTED, proves=proves)
        assert isinstance(reply, Reply)
        return reply

    # frames

    def send(
        self,
        op: int,
        payload: bytes = b"",
        *,
        masked: bool = True,
        fin: bool = True,
        **oddities: Any,
    ) -> None:
        """Send one frame; ``oddities`` as for
        :func:`brokerproof.harness.protocols.websocket.codec.encode`."""
        data = codec.encode(op, payload, mask=self._mask() if masked else None, fin=fin, **oddities)
        marks = {"fin": fin, "masked": masked, **oddities}
        headers = tuple((name, str(value)) for name, value in marks.items() if value is not True)
        frame = self._factory.frame(
            self.world.now(), True, self.protocol, WsFrame(op).name, headers, payload, len(data)
        )
        self.judge.record(frame)
        self.close_sent |= op == Op.CLOSE
        self.write(data, as_event=False)

    def message(self, payload: bytes, *, op: Op = Op.BINARY, sizes: Iterable[int] = ()) -> None:
        """Send one message in fragments of these sizes, and the rest in a last fragment."""
        rest = payload
        for size in sizes:
            self.send(op, rest[:size], fin=False)
            op, rest = Op.CONTINUATION, rest[size:]
        self.send(op, rest)

    def _mask(self) -> bytes:
        """Return a different mask for each frame, unpredictable for scripts but the same in every
        run."""
        self._masks += 1
        return hashlib.sha256(b"%d mask %d" % (self.conn, self._masks)).digest()[:4]

    # STOMP above

    def carry(self, above: Receiver) -> "WebSocketChannel":
        """From now on, pass the payload of data frames to ``above``, and send what ``above`` writes
        as messages."""
        self._above = above
        return WebSocketChannel(self)


class WebSocketChannel:
    """A channel that carries bytes as the payload of messages, one message for each write."""

    def __init__(self, socket: WebSocketPeer) -> None:
        self.socket = socket
        self.op = Op.BINARY
        self._below: Channel = socket.channel

    @property
    def remote(self) -> str:
        return self._below.remote

    @property
    def local(self) -> str:
        return self._below.local

    @property
    def security(self) -> str:
        return self._below.security

    @property
    def all_received(self) -> bool:
        return self._below.all_received

    def secure(self, certificate: Certificate | None = None) -> None:
        self._below.secure(certificate)

    def write(self, data: bytes) -> None:
        self.socket.message(data, op=self.op)

    def half_close(self) -> None:
        self._below.half_close()

    def close(self) -> None:
        self._below.close()

    def cut(self) -> None:
        self._below.cut()

    def hold_reading(self, held: bool) -> None:
        self._below.hold_reading(held)
