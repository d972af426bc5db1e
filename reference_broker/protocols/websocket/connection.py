"""A WebSocket connection: a layer between the transport and a STOMP connection.

The STOMP connection knows nothing of it. It gets the payload as if over TCP, so that its time
limits count only payload: a Ping is not a STOMP heartbeat. Its output passes through
:meth:`WebSocketConnection.outgoing` on its way to the transport, each frame as one message, and
when it closes, the closing handshake begins.

==========  ==========================  =========================  =====================  ==========
input       UPGRADING                   OPEN                       CLOSING                CLOSED
==========  ==========================  =========================  =====================  ==========
request     101 -> OPEN, else 4xx,      --                         --                     --
            CLOSED
data        --                          to STOMP                   dropped                ignored
Ping        --                          Pong                       Pong                   ignored
Close       --                          Close -> CLOSED            CLOSED                 ignored
broken      4xx -> CLOSED               Close 1002, 1007, 1009     CLOSED                 ignored
                                        -> CLOSED
time limit  408 -> CLOSED               STOMP's own                CLOSED                 --
STOMP ends  --                          Close 1000 -> CLOSING      --                     --
peer gone   CLOSED                      CLOSED                     CLOSED                 ignored
==========  ==========================  =========================  =====================  ==========

After a protocol violation, a peer is no longer read (RFC6455-CLOSE-05). After our Close, it has
:data:`CLOSING_MS` for its own.
"""

import enum
from collections.abc import Iterator
from typing import Protocol

from brokerproof.harness.model.time import Instant, ms
from brokerproof.reference_broker.kernel.connection_info import Described, Describes
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.websocket import framing
from brokerproof.reference_broker.protocols.websocket.framing import (
    Broken,
    Closed,
    Data,
    Frames,
    Ping,
)
from brokerproof.reference_broker.protocols.websocket.upgrade import Answer, Upgrade
from brokerproof.reference_broker.settings.acceptor import Acceptor

CLOSING_MS = 2000
"""How long to wait for the Close from the peer."""

_NORMAL = 1000


class Inner(Protocol):
    """The STOMP connection that gets the payload."""

    @property
    def is_open(self) -> bool: ...

    def receive(self, now: Instant, data: bytes) -> None: ...

    def pause_delivery(self, paused: bool) -> None: ...

    def on_peer_gone(self) -> None: ...

    def on_store_failed(self, reason: str) -> None: ...


class State(enum.Enum):
    UPGRADING = enum.auto()
    OPEN = enum.auto()
    CLOSING = enum.auto()
    CLOSED = enum.auto()


class WebSocketConnection:
    """A layer around ``inner``, which must not have sent anything yet and now sends through it."""

    def __init__(self, conn: int, acceptor: Acceptor, shared: BrokerContext, inner: Inner) -> None:
        self._conn, self._shared, self._inner = conn, shared, inner
        self._text = acceptor.web_socket.encoder_type == "text"
        self._state = State.UPGRADING
        self._upgrade = Upgrade()
        self._frames = Frames(acceptor.web_socket.max_frame_payload_length)
        self._closing = shared.deadlines.timer(lambda now: self._end(), conn)
        shared.outbox.wrap(conn, self)
        shared.deadlines.divert(conn, lambda now: self._on_upgrade_timeout())

    @property
    def is_open(self) -> bool:
        """True if input for this connection is still read."""
        return self._state is not State.CLOSED

    def describe(self) -> Described | None:
        return self._inner.describe() if isinstance(self._inner, Describes) else None

    def out(self) -> Iterator[tuple[Queue, Entry]]:
        """Yield the unsettled deliveries of ``inner``."""
        return self._inner.out() if isinstance(self._inner, Describes) else iter(())

    # --- input ------------------------------------------------------------------------------------

    def receive(self, now: Instant, data: bytes) -> None:
        if self._state is State.UPGRADING:
            answer = self._upgrade.feed(data)
            if answer is None:
                return
            self._answer(answer)
            data = answer.rest
        try:
            for event in self._frames.feed(data) if data and self.is_open else ():
                match event:
                    case Data(payload):
                        if self._state is State.OPEN:
                            self._inner.receive(now, payload)
                    case Ping(payload):
                        self._put(framing.pong(payload))
                    case Closed(code):
                        if self._state is State.OPEN:
                            self._put(framing.close(code))
                        self._end()
        except Broken as problem:
            self._shared.outbox.observe(self._conn, "RFC6455-CLOSE-05", str(problem))
            if self._state is State.OPEN:
                self._put(framing.close(problem.code, str(problem)))
            self._end()

    def _on_upgrade_timeout(self) -> None:
        """Refuse the upgrade, because the STOMP connection's time limit has passed."""
        self._answer(self._upgrade.late("the request did not arrive in time"))

    def pause_delivery(self, paused: bool) -> None:
        """Pass on that the peer does not read or reads again."""
        self._inner.pause_delivery(paused)

    def on_peer_gone(self) -> None:
        """Release everything: the peer is gone, so nothing can be sent."""
        self._finish()

    def on_store_failed(self, reason: str) -> None:
        self._inner.on_store_failed(reason)

    # --- output -----------------------------------------------------------------------------------

    def outgoing(self, data: bytes) -> bytes:
        """Return one STOMP frame or line end as it is sent."""
        return self._frames.message(data, text=self._text)

    def outgoing_part(self, data: bytes, *, first: bool, last: bool) -> bytes:
        """Return a part of a STOMP frame as it is sent."""
        return self._frames.part(data, first=first, last=last)

    def close_asked(self) -> None:
        """Begin the closing handshake, because the STOMP connection has ended."""
        self._put(framing.close(_NORMAL))
        self._state = State.CLOSING
        self._shared.deadlines.divert(self._conn, None)
        self._closing.move(self._shared.clock.now + ms(CLOSING_MS))

    # --- the rest ---------------------------------------------------------------------------------

    def _answer(self, answer: Answer) -> None:
        self._put(answer.data)
        self._shared.deadlines.divert(self._conn, None)
        if answer.accepted:
            self._state = State.OPEN
        else:
            self._shared.outbox.observe(self._conn, answer.requirement, answer.reason)
            self._end()

    def _put(self, data: bytes) -> None:
        self._shared.outbox.put(self._conn, data)

    def _end(self) -> None:
        """Close the transport after all pending output."""
        self._finish()
        self._shared.outbox.close(self._conn)

    def _finish(self) -> None:
        self._state = State.CLOSED
        self._closing.cancel()
        self._shared.deadlines.divert(self._conn, None)
        self._shared.outbox.unwrap(self._conn)
        if self._inner.is_open:
            self._inner.on_peer_gone()
