"""A peer that speaks through stomp.py. This module holds the conversation; only
:mod:`brokerproof.harness.clients.stomppy_transports` imports the library.

The trace contains the traffic as the harness's codec reads it. An expectation sees a frame only
after stomp.py has passed the identical frame to its listeners. So if the client loses or misreads a
frame, a control fails; it is never the broker's fault."""

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import Instant
from brokerproof.harness.protocols.byte_log import Expectation
from brokerproof.harness.protocols.conversation import ControlFailed, Ended, Judge, Requirements
from brokerproof.harness.protocols.stomp import codec
from brokerproof.harness.protocols.stomp.codec import Frame, HeadersLike, header_list
from brokerproof.harness.protocols.stomp.raw_peer import CONNECTED, Destination, StompInbox, frame
from brokerproof.harness.trace.events import (
    RECORDED_BYTES,
    ConnectionAbandoned,
    ConnectionOpened,
    FrameSent,
    HeartBeatSent,
    Noted,
    OctetsSent,
)
from brokerproof.harness.worlds.world import Unreachable

Tell: TypeAlias = Callable[[str, Any], None]
"""Takes the kind of an event (``opened``, ``sent``, ``bytes``, ``frame``, ``closed``, ``left`` or
``note``) and its details."""


class StompPyPeer(StompInbox):
    """One stomp.py connection for STOMP ``version``; :attr:`connection` is the client's own
    object."""

    def __init__(self, judge: Judge, conn: int, acceptor: str, version: str) -> None:
        super().__init__(judge, conn, acceptor, version)
        self.connection: Any = None
        """stomp.py's connection, for calls for which this class has no method."""
        self.misread: list[str] = []
        """Where stomp.py and the harness's codec read the received bytes differently."""
        self.left: Ended | None = None
        """When and how stomp.py itself closed the connection, if it did: after DISCONNECT, or
        because heartbeats were missing."""
        self.unsendable: tuple[type[Exception], ...] = (OSError,)
        """The exceptions that stomp.py raises when it writes to a connection that has ended."""
        self.remote = ""
        self._unheard: deque[Frame] = deque()
        # only in memory
        self.feed: Callable[[bytes], None] | None = None
        self.end_of_stream: Callable[[], None] | None = None
        self.on_connected: Callable[[], None] | None = None

    # Conversation

    def decode(self, at: Instant, data: bytes) -> None:
        super().decode(at, data)
        if self.feed is not None:
            try:
                self.feed(data)
            except Exception as problem:  # over sockets, its thread logs this and closes the socket
                self._differs(
                    at, f"stomp.py failed on what it read ({type(problem).__name__}: {problem})"
                )
                self.close_socket()

    def on_frame(self, item: Frame) -> None:
        self._unheard.append(item)

    def channel_closed(self, at: Instant, how: CloseHow) -> None:
        super().channel_closed(at, how)
        if self.end_of_stream is not None:
            self.end_of_stream()

    def fatal(self, frame: Frame) -> bool:
        return frame.command == "MISREAD" or super().fatal(frame)

    def close_socket(self, how: CloseHow = CloseHow.EOF) -> None:
        """End the connection without DISCONNECT, as stomp.py's ``disconnect_socket`` does, or with
        a reset."""
        transport = self.connection.transport
        transport.set_connected(False)
        if how is CloseHow.RESET:
            transport.cut()
        else:
            transport.disconnect_socket()

    def _unmet(
        self, detail: str, proves: Requirements | None, unmet: Expectation | None = None
    ) -> None:
        if self.misread:
            raise ControlFailed(self.misread[0])
        if self._unheard:
            raise ControlFailed(f"stomp.py did not pass on {self._unheard[0].brief()}; {detail}")
        super()._unmet(detail, proves)

    # called by stomp.py

    def on_client_event(self, what: str, at: Instant, content: Any) -> None:
        """Record an action of the client. The calls come in the order of the client's actions."""
        match what:
            case "opened":
                self.judge.record(
                    ConnectionOpened(
                        at_ns=at,
                        conn=self.conn,
                        protocol=self.protocol,
                        acceptor=self.acceptor,
                        remote=self.remote,
                    )
                )
            case "sent":
                self._sent(at, content)
            case "bytes":
                self.bytes_arrived(at, content)
            case "frame":
                self._heard(
                    at, Frame(content.cmd, header_list(content.headers), content.body or b"")
                )
            case "closed":
                self.channel_closed(at, content)
            case "left":
                self.left = Ended(at, content)
                self.judge.record(ConnectionAbandoned(at_ns=at, conn=self.conn, how=content))
                if self.feed is not None:
                    self.channel.cut() if content is CloseHow.RESET else self.channel.close()
            case _:
                self.judge.record(Noted(at_ns=at, conn=self.conn, detail=content))

    def dial(self) -> None:
        """For stomp.py in memory: open the link. Raises :class:`Unreachable`."""
        self.use(self.world.open(self.acceptor, self))
        self.remote = self.channel.remote

    def transmit(self, data: bytes) -> None:
        """For stomp.py in memory: write its bytes to the link."""
        self._sent(self.world.now(), data)
        self.channel.write(data)

    def _sent(self, at: Instant, data: bytes) -> None:
        self.spoke_at = at
        for item in codec.Reader(self.version).feed(
            data
        ):  # stomp.py passes one whole frame at a time
            match item:
                case Frame(command, headers, body, size):
                    self.judge.record(
                        FrameSent(
                            at_ns=at,
                            conn=self.conn,
                            protocol=self.protocol,
                            command=command,
                            headers=headers,
                            body=body[:RECORDED_BYTES],
                            body_size=len(body),
                            size=size,
                        )
                    )
                case codec.Eol(size):
                    self.judge.record(
                        HeartBeatSent(at_ns=at, conn=self.conn, protocol=self.protocol, size=size)
                    )
                case codec.Unreadable(raw):
                    self.judge.record(
                        OctetsSent(
                            at_ns=at, conn=self.conn, data=raw[:RECORDED_BYTES], size=len(raw)
                        )
                    )

    def _heard(self, at: Instant, frame: Frame) -> None:
        """Handle ``frame``, which stomp.py passed on and which should be the next frame on the
        wire."""
        if not self._unheard:
            self._differs(at, f"stomp.py handed out {frame.brief()}, which did not cross the wire")
            return
        wire = self._unheard.popleft()
        first = dict(reversed(wire.headers))  # the first of repeated headers counts
        if (frame.command, dict(frame.headers), frame.body) != (wire.command, first, wire.body):
            self._differs(
                at, f"stomp.py handed out {frame.brief()}, but {wire.brief()} crossed the wire"
            )
            return
        self.inbox.append(wire)
        if wire.command == "CONNECTED" and self.on_connected is not None:
            self.on_connected()

    def _differs(self, at: Instant, detail: str) -> None:
        self.misread.append(detail)
        self.judge.record(Noted(at_ns=at, conn=self.conn, detail=detail))
        self.inbox.append(Frame("MISREAD", (("detail", detail),)))

    # the verbs

    def connect(
        self,
        *,
        login: str | None = None,
        passcode: str | None = None,
        headers: HeadersLike = (),
        proves: Requirements | None = None,
    ) -> Frame:
        """Connect and wait for CONNECTED. Version 1.0 sends CONNECT, later versions STOMP. Raises
        :class:`ControlFailed`."""
        try:
            with_ = dict(header_list(headers))
            self._say(lambda: self.connection.connect(login, passcode, headers=with_))
        except Unreachable as problem:
            raise ControlFailed(str(problem)) from None
        self.connected = self.expect(CONNECTED, proves=proves)
        return self.connected

    def disconnect(self, *, proves: Requirements | None = None) -> Frame:
        """Send DISCONNECT with a receipt header, and wait for the RECEIPT. stomp.py then closes the
        connection."""
        receipt = self.next_receipt()
        self._say(lambda: self.connection.disconnect(receipt))
        return self.expect(frame("RECEIPT", {"receipt-id": receipt}), proves=proves)

    def publish(
        self,
        to: Destination,
        body: bytes | str = b"",
        headers: HeadersLike = (),
        *,
        content_type: str | None = None,
        receipt: bool = True,
        proves: Requirements | None = None,
    ) -> None:
        """Send a SEND frame; stomp.py adds content-length unless the body is empty."""
        with_ = (*to.send_headers, *header_list(headers))
        self._ask(
            lambda extra: self.connection.send(
                to.name, body, content_type, {**dict(with_), **extra}
            ),
            receipt,
            proves,
        )

    def subscribe(
        self,
        to: Destination,
        id: str = "0",  # the header's own name
        *,
        ack: str = "auto",
        headers: HeadersLike = (),
        receipt: bool = True,
        proves: Requirements | None = None,
    ) -> None:
        with_ = (*to.subscribe_headers, *header_list(headers))
        self._ask(
            lambda extra: self.connection.subscribe(to.name, id, ack, {**dict(with_), **extra}),
            receipt,
            proves,
        )

    def unsubscribe(
        self, id: str = "0", *, receipt: bool = True, proves: Requirements | None = None
    ) -> None:
        self._ask(lambda extra: self.connection.unsubscribe(id=id, headers=extra), receipt, proves)

    def ack(
        self,
        message: Frame,
        *,
        transaction: str | None = None,
        receipt: bool = True,
        proves: Requirements | None = None,
    ) -> None:
        """Send ACK for ``message``, identified as this version requires."""
        names = self._naming(message)
        self._ask(
            lambda extra: self.connection.ack(*names, transaction, extra.get("receipt")),
            receipt,
            proves,
        )

    def nack(
        self,
        message: Frame,
        *,
        transaction: str | None = None,
        receipt: bool = True,
        proves: Requirements | None = None,
    ) -> None:
        """Send NACK for ``message``. stomp.py's 1.0 connection has no such method."""
        names = self._naming(message)
        self._ask(
            lambda extra: self.connection.nack(*names, transaction, extra.get("receipt")),
            receipt,
            proves,
        )

    def begin(
        self, transaction: str, *, receipt: bool = True, proves: Requirements | None = None
    ) -> None:
        self._ask(lambda extra: self.connection.begin(transaction, extra), receipt, proves)

    def commit(
        self, transaction: str, *, receipt: bool = True, proves: Requirements | None = None
    ) -> None:
        self._ask(lambda extra: self.connection.commit(transaction, extra), receipt, proves)

    def abort(
        self, transaction: str, *, receipt: bool = True, proves: Requirements | None = None
    ) -> None:
        self._ask(lambda extra: self.connection.abort(transaction, extra), receipt, proves)

    def settle(self) -> None:
        """A barrier: wait until the broker has processed everything sent and stomp.py's listeners
        have received the answers."""
        name = f"{self.transaction}-settle-{self.next_receipt()}"
        self.begin(name)
        self.abort(name)

    def stop_beating(self) -> None:
        """End only stomp.py's heartbeat loop, as if its thread had died."""
        self.connection.heartbeat_terminate_event.set()

    def next_receipt(self) -> str:
        """Return a receipt id that was not used before on this connection."""
        self._receipts += 1
        return f"r{self._receipts}"

    def _naming(self, message: Frame) -> tuple[str, ...]:
        fields = self.naming(message)
        wanted = 2 if self.version == "1.1" else 1
        if len(fields) < wanted:
            raise ControlFailed("a MESSAGE without a subscription header cannot be acknowledged")
        return tuple(value for _, value in fields[:wanted])

    def _ask(
        self, say: Callable[[dict[str, str]], Any], receipt: bool, proves: Requirements | None
    ) -> None:
        receipt_id = self.next_receipt() if receipt else None
        self._say(lambda: say({} if receipt_id is None else {"receipt": receipt_id}))
        if receipt_id is not None:
            self.expect(frame("RECEIPT", {"receipt-id": receipt_id}), proves=proves)

    def _say(self, call: Callable[[], Any]) -> None:
        """Make a call that writes. Once the broker has closed the connection, this does nothing,
        like a raw peer's write."""
        try:
            call()
        except self.unsendable as problem:
            if self.left is not None:
                raise ControlFailed(
                    "stomp.py has closed this connection and can send nothing more"
                ) from None
            self.judge.record(
                Noted(
                    at_ns=self.world.now(),
                    conn=self.conn,
                    detail=f"stomp.py could not send ({problem!r})",
                )
            )
