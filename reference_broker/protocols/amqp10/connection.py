"""One AMQP connection, from its first byte to its close (2.2, 2.4, 5.3).

Rules of this file
------------------
* Bytes and instants arrive through the constructor, ``receive``, ``pause_delivery``,
  ``on_peer_gone`` and deadlines; bytes go out through :meth:`AmqpConnection.send`. Nothing else
  touches the world.
* A peer's mistake is a :class:`Refusal`, raised where it is noticed, caught at the endpoint that it
  ends, answered once. It never leaves. Only what ends the *connection* is caught here;
  ``session.py`` knows the rest.
* Frames are handled one after the other, in the order of their arrival, each to its end.

Theory
------
The specification draws one state machine for both sides and lets them pipeline (2.4.6). We are the
side that waits, so half of its states last no longer than one call here, and seven remain:

* HEADER: eight bytes that choose a protocol are due. Twice, if the first chose SASL.
* SASL: mechanisms have been offered.
* OPENING: the headers agree; the peer's ``open`` is due. Ours is sent with the answer, whatever
  that is: a connection that begins with a mistake is opened and closed in one breath, since there
  is no other way to say what was wrong.
* OPENED: sessions live.
* CLOSING: our ``close`` was sent, with an error. All input is ignored (the specification's
  DISCARDING), until the peer's ``close`` or :data:`PATIENCE` has gone by.
* BROKEN: like CLOSING, but the bytes are not even frames any more. There is nothing to wait for
  but the end.
* CLOSED: final.

=============  =============  ============  ==============  ===============  ===========  ===========
what comes     HEADER         SASL          OPENING         OPENED           CLOSING      BROKEN
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

Silence has two sides (2.4.5). *Theirs*: our patience T is counted from the last whole frame
(AMQP10-IDLE-01), and the peer is told T / 2 (AMQP10-IDLE-05), so one that keeps its promise is
never near the end of it. *Ours*: told r by the peer, we send an empty frame whenever we have sent
nothing for r / 2. An instant in the past is looked at again when its deadline comes, so a busy
connection costs nothing.
"""  # noqa: E501

from __future__ import annotations

import contextlib
import enum
import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any

from brokerproof.harness.model.time import NS_PER_S, Instant, ms
from brokerproof.reference_broker.kernel.connection_info import BLOCKING, RUNNING, Described
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.kernel.release import RELEASE
from brokerproof.reference_broker.protocols.amqp10 import (
    coordinator,
    headers,
    performatives,
    refusal,
)
from brokerproof.reference_broker.protocols.amqp10.composite import (
    Composite,
    InvalidField,
    descriptor,
)
from brokerproof.reference_broker.protocols.amqp10.decoder import DEPTH, DecodeError
from brokerproof.reference_broker.protocols.amqp10.delivery import Delivery, SendingLink
from brokerproof.reference_broker.protocols.amqp10.framing import (
    AMQP,
    EMPTY,
    SASL,
    FrameParser,
    frame,
)
from brokerproof.reference_broker.protocols.amqp10.incoming import IncomingLink
from brokerproof.reference_broker.protocols.amqp10.link import NewLink, part
from brokerproof.reference_broker.protocols.amqp10.link import Session as TouchedSession
from brokerproof.reference_broker.protocols.amqp10.messaging import TransactionalState
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    MIN_MAX_FRAME_SIZE,
    Begin,
    Close,
    Error,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from brokerproof.reference_broker.protocols.amqp10.refusal import Fault, Refusal, Scope
from brokerproof.reference_broker.protocols.amqp10.sasl import (
    ANONYMOUS,
    EXTERNAL,
    OK,
    Outcome,
    SaslServer,
)
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.reference_broker.protocols.amqp10.transaction import LiveTransaction
from brokerproof.reference_broker.protocols.amqp10.types import Symbol
from brokerproof.reference_broker.settings.acceptor import Acceptor

DEFAULT_TTL_MS = 60_000
PATIENCE = ms(2_000)
"""Time that we wait for the peer's ``close`` after ours (AMQP10-CLOSE-04)."""
LEAST_IDLE_MS = 10
"""The smallest idle time-out that we promise to keep (AMQP10-IDLE-09)."""

_FRAMES: dict[int, type[Composite]] = {
    var.CODE: var
    for var in vars(performatives).values()
    if isinstance(var, type)
    and issubclass(var, Composite)
    and getattr(var, "PROVIDES", None) == ("frame",)
}
_CONNECTION_FRAMES = (Begin, Close, Open)
"""Performatives that a connection handles itself; all others are its sessions'."""
_SASL_FRAMES: dict[int, type[Composite]] = {kind.CODE: kind for kind in (SaslInit, SaslResponse)}


class State(enum.Enum):
    """The states of a connection."""

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
    """One AMQP 1.0 connection. Its public attributes are read by sessions and links."""

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
        """True while no input is handled, for want of space for an earlier delivery."""
        self._state = State.HEADER
        self._opened = False  # our open is out
        self._peer_channel_max = 0
        self._parser = FrameParser(MIN_MAX_FRAME_SIZE)
        self._sessions: dict[int, Session] = {}  # by the peer's channel
        self._channels = 0  # ours: a bit for each that is in use
        self._touched: dict[TouchedSession, None] = {}
        ttl_ms = self._ttl_ms()
        self._ttl = ms(ttl_ms)
        self._sasl: SaslServer | None = None
        self._challenged = False
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

    def _ttl_ms(self) -> int:
        """Return how long the peer may be silent; 0 for ever."""
        if self.acceptor.amqp.idle_timeout_ms is not None:
            return max(0, self.acceptor.amqp.idle_timeout_ms)
        override = self.shared.settings.connection_ttl_override_ms
        return DEFAULT_TTL_MS if override == -1 else max(0, override)

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
        """Yield deliveries that are not settled, with their queues."""
        for session in self._sessions.values():
            for delivery in session.unsettled.values():
                if isinstance(delivery.link, OutgoingLink):
                    yield delivery.link.queue, delivery.entry

    # --- what comes in ----------------------------------------------------------------------------

    def receive(self, now: Instant, data: bytes) -> None:
        """Read ``data``."""
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
            self._on_silence(now)
        else:
            self._close()

    def _on_silence(self, now: Instant) -> None:
        """Close: the peer has been silent for too long."""
        detail = f"local-idle-timeout expired: no frame was received for {self._ttl // ms(1)} ms"
        self._refuse(Refusal(refusal.SILENT, detail))
        self._flush()

    def _on_handshake_timeout(self, now: Instant) -> None:
        detail = (
            f"no open within {self.acceptor.handshake_timeout_ms} ms of the connection's opening"
        )
        self.observe("AMQP10-OPEN-01", detail)
        self._close()

    def pause_delivery(self, paused: bool) -> None:
        """Deliver no messages while the peer does not read. They stay in their queues, for others
        or for later."""
        self.held = paused
        if not paused:
            for session in list(self._sessions.values()):
                session.resume()
            self._flush()

    def on_peer_gone(self) -> None:
        """Release everything: the peer is gone, and nothing can be sent."""
        self._end()

    def on_store_failed(self, reason: str) -> None:
        """Close with an error: the peer's request cannot be stored."""
        self._refuse(Refusal(refusal.NOT_STORED, reason))

    def broken(self) -> None:
        """Report that a large message cannot be sent to its end."""
        self.shared.outbox.streams.broken.append(self.conn)

    # --- what goes out ----------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Send bytes behind all others."""
        self._sent_at = self.shared.clock.now
        self.shared.outbox.send(self.conn, data)

    def observe(self, requirement: str, detail: str) -> None:
        """Record that a branch was taken because of ``requirement``."""
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
                headers.requirement_of(received),
                f"{headers.described(received)}: not accepted now",
            )
            self.send(expected[0])
            self._close()
            return False
        if len(received) < headers.SIZE:
            return False
        self._parser.take(headers.SIZE)
        self.send(received)
        if received == headers.SASL:
            acceptor, settings = self.acceptor, self.shared.settings
            useless = {ANONYMOUS} if settings.security_enabled else set[str]()
            if self.conn not in self.shared.certificates:
                useless.add(EXTERNAL)
            offered = tuple(
                mechanism for mechanism in acceptor.amqp.sasl_mechanisms if mechanism not in useless
            )
            external = self.shared.certified(self.conn)
            self._sasl = SaslServer(offered, settings.users, settings.security_enabled, external)
            self._state = State.SASL
            mechanisms = SaslMechanisms(sasl_server_mechanisms=tuple(map(Symbol, offered)))
            self.send(frame(0, mechanisms.encode(), SASL))
        else:
            self._state = State.OPENING
            self._parser.limit = self.acceptor.amqp.max_frame_size
        return True

    def _sasl_frame(self, type: int, body: bytes) -> None:
        assert self._sasl is not None
        if type != SASL:
            raise Refusal(
                refusal.BAD_FRAME_TYPE, f"a frame of type {type} came where only type {SASL} can"
            )
        if not body:
            raise Refusal(refusal.EMPTY_SASL_FRAME, "a SASL frame is empty")
        received, end = _decoded(body, _SASL_FRAMES)
        if end != len(body):
            raise Refusal(refusal.BAD_SASL_FRAME, "something follows the SASL body in its frame")
        match received:
            case SaslInit(mechanism=mechanism, initial_response=initial) if not self._challenged:
                reached = self._sasl.start(mechanism, initial)
            case SaslResponse(response=response) if self._challenged:
                reached = self._sasl.respond(response)
            case _:
                raise Refusal(
                    refusal.BAD_SASL_FRAME, "sasl-init is due, or the response to a challenge"
                )
        if isinstance(reached, bytes):
            self._challenged = True
            self.send(frame(0, SaslChallenge(challenge=reached).encode(), SASL))
            return
        self._sasl_ended(reached)

    def _sasl_ended(self, outcome: Outcome) -> None:
        self.send(frame(0, SaslOutcome(code=outcome.code).encode(), SASL))
        if outcome.code == OK:
            self.user = outcome.user
            self._state = State.HEADER
        else:
            self.observe("AMQP10-SASL-11", f"SASL: {outcome.detail}")
            self._close()

    # --- frames -----------------------------------------------------------------------------------

    def _frame(self, type: int, channel: int, body: bytes) -> None:
        if self._state is State.SASL:
            self._sasl_frame(type, body)
            return
        if type != AMQP:
            if self._state is State.CLOSING:
                return
            raise Refusal(
                refusal.BAD_FRAME_TYPE, f"a frame of type {type} came where only type {AMQP} can"
            )
        if not body and channel <= self.acceptor.amqp.channel_max:
            return
        if self._state is State.CLOSING:
            with contextlib.suppress(Refusal):  # only a close means anything now
                if isinstance(_decoded(body, _FRAMES)[0], Close):
                    self._close()
            return
        if channel > self.acceptor.amqp.channel_max:
            detail = (
                f"channel {channel} is above the channel-max of {self.acceptor.amqp.channel_max}"
            )
            raise Refusal(refusal.CHANNEL_TOO_HIGH, detail)
        performative, at = _decoded(body, _FRAMES)
        if self._state is State.OPENING:
            if not isinstance(performative, Open):
                detail = f"{performative.NAME} came where open is due"
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
                raise Refusal(refusal.OPEN_AGAIN, "open came a second time")

    def _session_frame(self, performative: Any, channel: int, body: bytes, at: int) -> None:
        session = self._sessions.get(channel)
        if session is None:
            detail = f"{performative.NAME} came on channel {channel}, where no session has begun"
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
            raise Refusal(
                refusal.OPEN_ON_CHANNEL, f"open came on channel {channel}, and it belongs on 0"
            )
        if opened.max_frame_size < MIN_MAX_FRAME_SIZE:
            detail = (
                f"max-frame-size is {opened.max_frame_size}, and every peer must take"
                f" {MIN_MAX_FRAME_SIZE} bytes"
            )
            raise Refusal(refusal.MAX_FRAME_SIZE_TOO_SMALL, detail)
        self.container = opened.container_id
        self.peer_max_frame_size = opened.max_frame_size
        self._peer_channel_max = opened.channel_max
        idle_ms = opened.idle_time_out or 0
        if 0 < idle_ms < LEAST_IDLE_MS:
            detail = f"an idle-time-out of {idle_ms} ms cannot be kept; {LEAST_IDLE_MS} ms can"
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
                f"begin came on channel {channel}, where a session has begun already",
            )
        if begun.remote_channel is not None:
            detail = (
                f"begin has remote-channel {begun.remote_channel}, and this side has begun nothing"
            )
            raise Refusal(refusal.REMOTE_CHANNEL_SET, detail)
        # The same number when it is free: easier to follow in a trace. Otherwise the lowest one.
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
        """Refuse a link, which its session has already, if there are more than the quota."""
        links = sum(len(session.links) for session in self._sessions.values())
        excess = self.shared.settings.quotas.exceeded("subscriptions", links - 1)
        if excess is not None:
            raise Refusal(refusal.TOO_MANY_LINKS, excess)

    # --- transactions -----------------------------------------------------------------------------

    def retire(
        self,
        link: SendingLink,
        deliveries: list[Delivery],
        state: TransactionalState,
        settled: bool,
    ) -> None:
        """Apply outcomes under a transaction, which may have been declared on another session.
        Raises :class:`Refusal`."""
        coordinator.retire(self.transactions, link, deliveries, state, settled)

    def is_posting(self, txn_id: bytes) -> bool:
        """Return True if a delivery under that transaction has begun to arrive and has not
        ended."""
        return txn_id in self.posting

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
        """End the connection with an error."""
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
        """Report ``error`` to the peer, close, and wait for its answer until :data:`PATIENCE` is
        over."""
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
        """Close behind what was sent."""
        self._end()
        self.shared.outbox.close(self.conn)

    def _release(self) -> None:
        """End all sessions without a frame. Their deliveries go back."""
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


def _decoded(body: bytes, known: dict[int, type[Composite]]) -> tuple[Any, int]:
    """Return the performative at the start of ``body``, one of ``known``, and the position behind
    it.

    Raises :class:`Refusal`.
    """
    try:
        if body[0] != 0:
            raise Refusal(
                refusal.NOT_A_PERFORMATIVE,
                f"a body begins with a descriptor, not with 0x{body[0]:02x}",
            )
        code, at = (body[2], 3) if body[1] == 0x53 else descriptor(body, 1)
        kind = known.get(code) if code is not None else None
        if kind is None:
            raise Refusal(
                refusal.NOT_A_PERFORMATIVE,
                f"descriptor {code} names no performative that is allowed here",
            )
        return kind.read(body, at, DEPTH)
    except (IndexError, struct.error):
        raise Refusal(refusal.BAD_PERFORMATIVE, "the body ends within its performative") from None
    except DecodeError as problem:
        raise Refusal(refusal.BAD_PERFORMATIVE, str(problem)) from None
    except InvalidField as problem:
        raise Refusal(refusal.BAD_FIELD, str(problem)) from None
