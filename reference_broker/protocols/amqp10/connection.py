"""One AMQP connection, from its first byte to its close (2.2, 2.4, 5.3).

Rules of this file
------------------
* Bytes and instants arrive through the constructor, ``receive``, ``pause_delivery``,
  ``on_peer_gone`` and deadlines; bytes go out through :meth:`AmqpConnection.send`. Nothing else
  touches the world.
* A peer's mistake is a :class:`Refusal`, raised where it is noticed, caught at the endpoint that it
  ends, answered once. It never propagates. Only errors that end the *connection* are caught here;
  ``session.py`` catches the rest.
* Frames are handled completely, one after the other, in order of arrival.

Theory
------
The specification has one state machine for both sides and lets them pipeline (2.4.6). We always
wait for the peer, so half of its states last no longer than one call here, and seven remain:

* HEADER: eight bytes that choose a protocol are due. Twice, if the first chose SASL.
* SASL: mechanisms have been offered.
* OPENING: the headers agree; the peer's ``open`` is due. Ours is sent with any answer: a connection
  that begins with a mistake is opened and closed at once, since there is no other way to report the
  error.
* OPENED: sessions live.
* CLOSING: our ``close`` was sent, with an error. All input is ignored (the specification's
  DISCARDING) until the peer's ``close`` or for :data:`PATIENCE`.
* BROKEN: like CLOSING, but the bytes are no longer frames, so only the end of the stream is
  awaited.
* CLOSED: final.

=============  =============  ============  ==============  ===============  ===========  ===========
input          HEADER         SASL          OPENING         OPENED           CLOSING      BROKEN
=============  =============  ============  ==============  ===============  ===========  ===========
our header     answered       --            --              --               --           --
other header   ours, CLOSED   --            --              --               --           --
SASL frames    --             sasl.py       error           error            ignored      ignored
open           --             CLOSED        -> OPENED       error            ignored      ignored
close          --             CLOSED        error           close, CLOSED    CLOSED       ignored
other frames   --             CLOSED        error           sessions         ignored      ignored
empty frame    --             CLOSED        alive           alive            ignored      ignored
no frame       --             CLOSED        -> BROKEN       -> BROKEN        -> BROKEN    ignored
silence        handshake      handshake     handshake       error            patience     patience
peer gone      CLOSED         CLOSED        CLOSED          CLOSED           CLOSED       CLOSED
=============  =============  ============  ==============  ===============  ===========  ===========

"error" is ``close`` with an error and CLOSING.

Both sides have an idle time-out (2.4.5). *The peer's silence*: our limit T counts from the last
whole frame (AMQP10-IDLE-01), and we announce T / 2 (AMQP10-IDLE-05), so a peer that respects that
is never near the limit. *Ours*: if the peer announces r, we send an empty frame whenever we have
sent nothing for r / 2. Deadlines are not moved with each frame but checked when due, so a busy
connection costs nothing.
"""  # noqa: E501

import contextlib
import enum
from collections import Counter
from collections.abc import Iterator
from typing import Any

from brokerproof.harness.model.time import NS_PER_S, Instant, ms
from brokerproof.reference_broker.kernel.connection_info import BLOCKING, RUNNING, Described
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.kernel.release import RELEASE
from brokerproof.reference_broker.protocols.amqp10 import headers, performatives, refusal
from brokerproof.reference_broker.protocols.amqp10.composite import Composite
from brokerproof.reference_broker.protocols.amqp10.framing import (
    AMQP,
    EMPTY,
    SASL,
    FrameParser,
    decoded,
    frame,
)
from brokerproof.reference_broker.protocols.amqp10.incoming import IncomingLink
from brokerproof.reference_broker.protocols.amqp10.link import NewLink, part
from brokerproof.reference_broker.protocols.amqp10.link import Session as TouchedSession
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    MIN_MAX_FRAME_SIZE,
    Begin,
    Close,
    Error,
    Open,
    SaslOutcome,
)
from brokerproof.reference_broker.protocols.amqp10.refusal import Fault, Refusal, Scope
from brokerproof.reference_broker.protocols.amqp10.sasl_exchange import SaslExchange, offered_to
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.reference_broker.protocols.amqp10.transaction import LiveTransaction
from brokerproof.reference_broker.protocols.amqp10.types import Symbol
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.settings import Settings

DEFAULT_TTL_MS = 60_000
PATIENCE = ms(2_000)
"""How long we wait for the peer's ``close`` after ours (AMQP10-CLOSE-04)."""
LEAST_IDLE_MS = 10
"""The smallest idle time-out that we promise to observe (AMQP10-IDLE-09)."""

_FRAMES: dict[int, type[Composite]] = {
    var.CODE: var
    for var in vars(performatives).values()
    if isinstance(var, type)
    and issubclass(var, Composite)
    and getattr(var, "PROVIDES", None) == ("frame",)
}
_CONNECTION_FRAMES = (Begin, Close, Open)
"""Performatives that a connection handles itself; sessions handle the others."""


class State(enum.Enum):
    HEADER = enum.auto()
    SASL = enum.auto()
    OPENING = enum.auto()
    OPENED = enum.auto()
    CLOSING = enum.auto()
    BROKEN = enum.auto()
    CLOSED = enum.auto()


_ENDED = (State.BROKEN, State.CLOSED)
"""States in which no input is handled."""


class AmqpConnection:
    """One AMQP 1.0 connection. Sessions and links read its public attributes."""

    def __init__(
        self,
        conn: int,
        acceptor: Acceptor,
        shared: BrokerContext,
        now: Instant,
        new_incoming_link: NewLink = IncomingLink,
    ) -> None:
        self.conn = conn
        self.acceptor = acceptor
        self.shared = shared
        self.new_incoming_link = new_incoming_link
        self.container = ""
        self.peer_max_frame_size = MIN_MAX_FRAME_SIZE
        self.held = False
        self.transactions: dict[bytes, LiveTransaction] = {}
        self.posting: Counter[bytes] = Counter()
        self.unfinished_bytes = 0
        self.user: str | None = None
        self.stalled = False
        """True while no input is handled because an earlier delivery waits for space."""
        self._state = State.HEADER
        self._opened = False  # our open has been sent
        self._peer_channel_max = 0
        self._parser = FrameParser(MIN_MAX_FRAME_SIZE)
        self._sessions: dict[int, Session] = {}  # by the peer's channel
        self._channels = 0  # our channels: a bit for each that is in use
        self._touched: dict[TouchedSession, None] = {}
        self._ttl = ms(_ttl_ms(acceptor, shared.settings))
        self._sasl: SaslExchange | None = None
        self._frame_at = now
        self._sent_at = now
        self._beat_every = 0
        self._handshake = shared.deadlines.timer(self._on_handshake_timeout, conn)
        self._silence_check = shared.deadlines.timer(self._on_silence_check, conn)
        self._next_beat = shared.deadlines.timer(self._on_beat, conn)
        self._close_timeout = shared.deadlines.timer(lambda now: self._close(), conn)
        if acceptor.handshake_timeout_ms > 0:
            self._handshake.move(now + ms(acceptor.handshake_timeout_ms))
        if self._ttl > 0:
            self._silence_check.move(now + self._ttl)

    @property
    def is_open(self) -> bool:
        """True if input for this connection is still read."""
        return self._state is not State.CLOSED

    def describe(self) -> Described | None:
        """Return the connection's description; None before it is open."""
        if self._state is not State.OPENED:
            return None
        return Described(
            protocol="AMQP 1-0",
            user=self.user or "",
            state=BLOCKING if self.shared.alarms.raised else RUNNING,
            channels=len(self._sessions),
            client_properties={},
            frame_max=self.peer_max_frame_size,
            channel_max=self._peer_channel_max,
            timeout_s=self._ttl // NS_PER_S,
        )

    def out(self) -> Iterator[tuple[Queue, Entry]]:
        """Yield the deliveries that are not settled, with their queues."""
        for session in self._sessions.values():
            for delivery in session.unsettled.values():
                if isinstance(delivery.link, OutgoingLink):
                    yield delivery.link.queue, delivery.entry

    # --- input ------------------------------------------------------------------------------------

    def receive(self, now: Instant, data: bytes) -> None:
        if self._state is State.BROKEN:
            return
        self._parser.feed(data)
        try:
            while self._state not in _ENDED and not self.stalled:
                if self._state is State.HEADER:
                    if not self._header():
                        break
                    continue
                received = self._parser.next()
                if received is None:
                    break
                self._frame_at = now
                self._frame(*received)
        except Refusal as problem:
            self._refuse(problem)
            if problem.fault in _OUT_OF_STEP:
                self._state = State.BROKEN
        self._flush()

    # --- time -------------------------------------------------------------------------------------

    def _on_beat(self, now: Instant) -> None:
        if self._sent_at + self._beat_every <= now:
            self.send(EMPTY)
        self._next_beat.move(self._sent_at + self._beat_every)

    def _on_silence_check(self, now: Instant) -> None:
        if self.stalled:
            self._frame_at = now
        if self._frame_at + self._ttl > now:
            self._silence_check.move(self._frame_at + self._ttl)
        elif self._state is State.OPENED:
            silence_ms = self._ttl // ms(1)
            detail = f"local-idle-timeout expired: no frame was received for {silence_ms} ms"
            self._refuse(Refusal(refusal.SILENT, detail))
            self._flush()
        else:
            self._close()

    def _on_handshake_timeout(self, now: Instant) -> None:
        detail = (
            f"no open within {self.acceptor.handshake_timeout_ms} ms of the connection's opening"
        )
        self.observe("AMQP10-OPEN-01", detail)
        self._close()

    def pause_delivery(self, paused: bool) -> None:
        """Deliver nothing while the peer does not read. Messages stay queued."""
        self.held = paused
        if not paused:
            for session in list(self._sessions.values()):
                session.resume()
            self._flush()

    def on_peer_gone(self) -> None:
        """Release everything: the peer is gone, so nothing can be sent."""
        self._end()

    def on_store_failed(self, reason: str) -> None:
        """Close with an error, because the peer's request cannot be stored."""
        self._refuse(Refusal(refusal.NOT_STORED, reason))

    def broken(self) -> None:
        """Report that a large message cannot be sent in full."""
        self.shared.outbox.streams.broken.append(self.conn)

    # --- output -----------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Queue bytes for sending."""
        self._sent_at = self.shared.clock.now
        self.shared.outbox.send(self.conn, data)

    def observe(self, requirement: str, detail: str) -> None:
        """Record that ``requirement`` determined a branch."""
        self.shared.outbox.observe(self.conn, requirement, detail)

    def touch(self, session: TouchedSession) -> None:
        """Flush ``session`` at the end of this input."""
        self._touched[session] = None

    def _flush(self) -> None:
        if self._touched:
            for session in self._touched:
                session.flush()
            self._touched.clear()

    # --- headers and SASL -------------------------------------------------------------------------

    def _header(self) -> bool:
        """Read a protocol header. Return False if it is incomplete or was refused."""
        received = self._parser.peek(headers.SIZE)
        expected = [headers.AMQP] if self._sasl is not None else [headers.SASL]
        if self._sasl is None and not self.shared.settings.security_enabled:
            expected.insert(0, headers.AMQP)
        if not any(headers.can_become(received, header) for header in expected):
            self.observe(
                headers.requirement_of(received), f"{headers.described(received)}: not accepted now"
            )
            self.send(expected[0])
            self._close()
            return False
        if len(received) < headers.SIZE:
            return False
        self._parser.take(headers.SIZE)
        self.send(received)
        if received == headers.SASL:
            external = self.shared.certified(self.conn)
            has_certificate = self.conn in self.shared.certificates
            settings = self.shared.settings
            offered = offered_to(has_certificate, self.acceptor, settings)
            self._sasl = SaslExchange(offered, settings, external)
            self._state = State.SASL
            self.send(self._sasl.mechanisms())
        else:
            self._state = State.OPENING
            self._parser.limit = self.acceptor.amqp.max_frame_size
        return True

    # --- frames -----------------------------------------------------------------------------------

    def _frame(self, type: int, channel: int, body: bytes) -> None:
        if self._state is State.SASL:
            assert self._sasl is not None
            self.send(self._sasl.answer(type, body))
            if self._sasl.user is not None:
                self.user = self._sasl.user
                self._state = State.HEADER
            return
        if type != AMQP:
            if self._state is State.CLOSING:
                return
            raise Refusal(
                refusal.BAD_FRAME_TYPE, f"got a frame of type {type}, expected type {AMQP}"
            )
        if not body and channel <= self.acceptor.amqp.channel_max:
            return
        if self._state is State.CLOSING:
            with contextlib.suppress(Refusal):  # only a close is accepted now
                if isinstance(decoded(body, _FRAMES)[0], Close):
                    self._close()
            return
        if channel > self.acceptor.amqp.channel_max:
            detail = (
                f"channel {channel} is above the channel-max of {self.acceptor.amqp.channel_max}"
            )
            raise Refusal(refusal.CHANNEL_TOO_HIGH, detail)
        performative, at = decoded(body, _FRAMES)
        if self._state is State.OPENING:
            if not isinstance(performative, Open):
                detail = f"got {performative.NAME}, expected open"
                raise Refusal(refusal.NOT_OPEN_FIRST, detail)
            self._open(performative, channel)
            return
        if not isinstance(performative, _CONNECTION_FRAMES):
            self._session_frame(performative, channel, body, at)
            return
        match performative:
            case Begin():
                self._begin(performative, channel)
            case Close():
                self._peer_closed(performative)
            case Open():
                raise Refusal(refusal.OPEN_AGAIN, "received a second open")

    def _session_frame(self, performative: Any, channel: int, body: bytes, at: int) -> None:
        session = self._sessions.get(channel)
        if session is None:
            detail = f"got {performative.NAME} on channel {channel}, where no session has begun"
            raise Refusal(refusal.NO_SESSION, detail)
        try:
            session.handle(performative, body, at)
        except Refusal as problem:
            if problem.fault.scope is not Scope.SESSION:
                raise
            session.fail(problem)
        if session.is_over:
            del self._sessions[channel]
            self._channels &= ~(1 << session.our_channel)

    def _open(self, opened: Open, channel: int) -> None:
        if channel != 0:
            raise Refusal(refusal.OPEN_ON_CHANNEL, f"got open on channel {channel} instead of 0")
        if opened.max_frame_size < MIN_MAX_FRAME_SIZE:
            detail = (
                f"max-frame-size is {opened.max_frame_size}, but every peer must accept"
                f" {MIN_MAX_FRAME_SIZE} bytes"
            )
            raise Refusal(refusal.MAX_FRAME_SIZE_TOO_SMALL, detail)
        self.container = opened.container_id
        self.peer_max_frame_size = opened.max_frame_size
        self._peer_channel_max = opened.channel_max
        idle_ms = opened.idle_time_out or 0
        if 0 < idle_ms < LEAST_IDLE_MS:
            detail = f"an idle-time-out of {idle_ms} ms is too short; {LEAST_IDLE_MS} ms works"
            raise Refusal(refusal.IDLE_TOO_SHORT, detail)
        self._send_open()
        self._state = State.OPENED
        self._handshake.cancel()
        if idle_ms:
            self._beat_every = ms(idle_ms) // 2
            self._next_beat.move(self._sent_at + self._beat_every)

    def _send_open(self) -> None:
        answer = Open(
            container_id=self.shared.settings.name,
            max_frame_size=self.acceptor.amqp.max_frame_size,
            channel_max=self.acceptor.amqp.channel_max,
            idle_time_out=self._ttl // ms(2) or None,
            offered_capabilities=(Symbol("ANONYMOUS-RELAY"),),
            properties={Symbol("product"): "brokerproof", Symbol("version"): RELEASE},
        )
        self._opened = True
        self.send(frame(0, answer.encode()))

    # --- sessions ---------------------------------------------------------------------------------

    def _begin(self, begun: Begin, channel: int) -> None:
        if channel in self._sessions:
            raise Refusal(
                refusal.CHANNEL_IN_USE,
                f"got begin on channel {channel}, which already has a session",
            )
        if begun.remote_channel is not None:
            detail = (
                f"begin has remote-channel {begun.remote_channel}, and this side has begun nothing"
            )
            raise Refusal(refusal.REMOTE_CHANNEL_SET, detail)
        # The same number if it is free, which makes traces easier to follow. Otherwise the lowest
        # one.
        ours = channel
        if channel > self._peer_channel_max or self._channels >> channel & 1:
            free = ~self._channels
            ours = (free & -free).bit_length() - 1
        if ours > self._peer_channel_max:
            detail = (
                f"the peer's channel-max of {self._peer_channel_max} leaves no channel to answer"
                " begin on"
            )
            raise Refusal(refusal.NO_CHANNEL_LEFT, detail)
        excess = self.shared.settings.quotas.exceeded("sessions", len(self._sessions))
        if excess is not None:
            raise Refusal(refusal.NO_CHANNEL_LEFT, excess)
        self._channels |= 1 << ours
        session = Session(self, begun, channel, ours)
        self._sessions[channel] = session

    def check_links(self) -> None:
        """Refuse a link, which is already in its session, if the quota is exceeded."""
        links = sum(len(session.links) for session in self._sessions.values())
        excess = self.shared.settings.quotas.exceeded("subscriptions", links - 1)
        if excess is not None:
            raise Refusal(refusal.TOO_MANY_LINKS, excess)

    # --- the end ----------------------------------------------------------------------------------

    def _peer_closed(self, closed: Close) -> None:
        if closed.error is not None:
            self.observe(
                "AMQP10-CLOSE-01",
                f"the peer closed: {closed.error.condition} {closed.error.description or ''}",
            )
        self._release()
        self.send(frame(0, Close().encode()))
        self._close()

    def _refuse(self, problem: Refusal) -> None:
        self.observe(problem.fault.requirement, problem.detail)
        if self._state in (State.HEADER, State.SASL):
            if self._state is State.SASL:
                self.send(frame(0, SaslOutcome(code=1).encode(), SASL))
            self._close()
            return
        if self._state is State.CLOSING:
            return
        self.close_with(problem.error)

    def close_with(self, error: Error) -> None:
        """Report ``error`` to the peer, close, and wait up to :data:`PATIENCE` for its close."""
        if not self._opened:
            self._send_open()
        self._flush()
        self._release()
        self.send(frame(0, Close(error=error).encode()))
        self._state = State.CLOSING
        self._cancel_deadlines()
        self._close_timeout.move(self.shared.clock.now + PATIENCE)

    def _cancel_deadlines(self) -> None:
        for deadline in (self._handshake, self._silence_check, self._next_beat):
            deadline.cancel()

    def _close(self) -> None:
        """Close after sending all pending output."""
        self._end()
        self.shared.outbox.close(self.conn)

    def _release(self) -> None:
        """End all sessions without sending a frame. Their deliveries return to the queues."""
        links = [link for session in self._sessions.values() for link in session.release_links()]
        self._sessions.clear()
        self._touched.clear()
        part(links, self.shared.router)

    def _end(self) -> None:
        self._state = State.CLOSED
        self._cancel_deadlines()
        self._close_timeout.cancel()
        self._release()


_OUT_OF_STEP: frozenset[Fault] = frozenset(
    {refusal.FRAME_TOO_SMALL, refusal.FRAME_TOO_LARGE, refusal.BAD_DOFF}
)
"""Faults after which the next frame cannot be found."""


def _ttl_ms(acceptor: Acceptor, settings: Settings) -> int:
    """Return how long the peer may be silent; 0 means forever."""
    if acceptor.amqp.idle_timeout_ms is not None:
        return max(0, acceptor.amqp.idle_timeout_ms)
    override = settings.connection_ttl_override_ms
    return DEFAULT_TTL_MS if override == -1 else max(0, override)
