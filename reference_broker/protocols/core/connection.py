"""One CORE connection, from its first byte to its close.

=============  =============  ==============  ========
input          OPENING        OPENED          CLOSED
=============  =============  ==============  ========
magic          -> OPENED      --              --
other bytes    -> CLOSED      packets         ignored
no packet      --             -> CLOSED       ignored
handshake      -> CLOSED      --              --
ttl            -> CLOSED      -> CLOSED       --
peer gone      CLOSED         CLOSED          ignored
=============  =============  ==============  ========

A close sends no packet: the protocol has one for a broker that shuts down, but none for a peer's
mistake. Only requests that could not be stored get an exception first.

The TTL is the broker-wide override, else the last ping's request, else a minute; -1: unlimited.
Every ping is returned unchanged. A peer that is silent for longer is closed at the next check
(:mod:`brokerproof.reference_broker.families.artemis.ttl_liveness`).
"""

import enum
from collections.abc import Callable

from brokerproof.harness.model.enums import Outcome
from brokerproof.harness.model.time import NS_PER_MS, Instant, ms
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.java_fields import Malformed, int32
from brokerproof.reference_broker.kernel.passwords import admitted
from brokerproof.reference_broker.protocols.core import codes, queries
from brokerproof.reference_broker.protocols.core.encoding import (
    Fields,
    Packet,
    PacketParser,
    optional,
    packet,
    words,
)
from brokerproof.reference_broker.protocols.core.refusal import Refusal
from brokerproof.reference_broker.protocols.core.session import Session
from brokerproof.reference_broker.settings.acceptor import Acceptor

TTL_MS = 60_000


class State(enum.Enum):
    OPENING = enum.auto()
    OPENED = enum.auto()
    CLOSED = enum.auto()


class CoreConnection:
    """One CORE connection. ``version`` is 0 until the client sends one; ``held`` is true while the
    client does not read."""

    def __init__(self, conn: int, acceptor: Acceptor, shared: BrokerContext, now: Instant) -> None:
        self.conn = conn
        self.shared = shared
        self.version = 0
        self.held = False
        self._state = State.OPENING
        self._parser = PacketParser()
        self._sessions: dict[int, Session] = {}
        override = shared.settings.connection_ttl_override_ms
        self._ttl_is_ours = override != -1
        self._ttl_ms = override if self._ttl_is_ours else TTL_MS
        self._liveness = shared.family.silence_monitor(
            shared.start, shared.check_interval, ms(self._ttl_ms), now
        )
        self._silence_check = shared.deadlines.timer(self._on_silence_check, conn)
        self._silence_check.move(self._liveness.deadline())
        self._handshake = shared.deadlines.timer(lambda now: self._close(), conn)
        if acceptor.handshake_timeout_ms > 0:
            self._handshake.move(now + ms(acceptor.handshake_timeout_ms))

    @property
    def is_open(self) -> bool:
        """True if input for this connection is still read."""
        return self._state is not State.CLOSED

    # --- input ------------------------------------------------------------------------------------

    def receive(self, now: Instant, data: bytes) -> None:
        self._liveness.on_bytes_received(now, data)
        parser = self._parser
        parser.feed(data)
        try:
            if self._state is State.OPENING:
                if not parser.magic():
                    return
                self._state = State.OPENED
                self._handshake.cancel()
            while self._state is State.OPENED and (received := parser.next()) is not None:
                self._packet(now, received)
        except Malformed:
            self._close()

    def _packet(self, now: Instant, received: Packet) -> None:
        fields = Fields(received.fields)
        if received.channel == codes.LIVENESS:
            self._on_liveness_packet(now, received.type, fields, received.fields)
        elif received.channel == codes.SESSIONS:
            self._on_sessions_packet(received.type, fields)
        else:
            session = self._sessions.get(received.channel)
            if session is not None and not session.handle(received.type, fields):
                del self._sessions[received.channel]

    def _on_liveness_packet(self, now: Instant, type: int, fields: Fields, data: bytes) -> None:
        if type == codes.PING:
            ttl_ms = fields.int64()
            if not self._ttl_is_ours:
                self._ttl_ms = ttl_ms
                self._liveness.ttl = ms(max(0, ttl_ms))
                if ttl_ms < 0:
                    self._silence_check.cancel()
                else:
                    self._silence_check.move(self._liveness.deadline())
            self.send(packet(codes.PING, codes.LIVENESS, data))
        elif type in (codes.TOPOLOGY_WANTED, codes.TOPOLOGY_WANTED_2):
            fields.flag()
            version = fields.int32() if type == codes.TOPOLOGY_WANTED_2 else codes.OLDEST
            instant_ms = (now + self.shared.clock.epoch) // NS_PER_MS
            self.send(queries.of_topology(self.shared.settings.name, instant_ms, version))

    def _on_sessions_packet(self, type: int, fields: Fields) -> None:
        if type == codes.CHECK_FAILOVER:
            self.send(packet(codes.CHECK_FAILOVER_RESPONSE, codes.SESSIONS, b"\xff"))
            return
        if type not in (codes.CREATE_SESSION, codes.CREATE_SESSION_2):
            return
        try:
            self._create_session(fields)
        except Refusal as problem:
            error = int32(problem.code), optional(words, problem.detail)
            self.send(packet(codes.EXCEPTION, codes.SESSIONS, *error))

    def _create_session(self, fields: Fields) -> None:
        name, channel, version = fields.words(), fields.int64(), fields.int32()
        login, passcode = fields.optional_words(), fields.optional_words()
        fields.int32()
        xa, sends_at_once, acknowledges_at_once = fields.flag(), fields.flag(), fields.flag()
        fields.int32()
        acknowledged = fields.flag()
        if not codes.OLDEST <= version <= codes.NEWEST:
            detail = (
                f"version {version} of the protocol is not supported here; {codes.OLDEST} to"
                f" {codes.NEWEST} are"
            )
            raise Refusal(codes.BAD_VERSION, detail)
        if xa:
            raise Refusal(codes.NOT_IMPLEMENTED, "this broker does not support XA transactions")
        settings = self.shared.settings
        known = login is None and self.shared.certified(self.conn) is not None
        if settings.security_enabled and not known:
            same = admitted(
                settings.users, login or "", (passcode or "").encode("utf-8", "surrogatepass")
            )
            if login is None or not same:
                raise Refusal(codes.NOT_ALLOWED, "a user name and its password are required")
        if channel < codes.FIRST or channel in self._sessions:
            raise Refusal(
                codes.ILLEGAL_STATE, f"the session {name!r} cannot have channel {channel}"
            )
        excess = settings.quotas.exceeded("sessions", len(self._sessions))
        if excess is not None:
            raise Refusal(codes.SESSION_REJECTED, excess)
        if not self.version:
            self.version = version
        self._sessions[channel] = Session(
            self,
            channel,
            sends_at_once=sends_at_once,
            acknowledges_at_once=acknowledges_at_once,
            acknowledged=acknowledged,
        )
        self.send(packet(codes.CREATE_SESSION_RESPONSE, codes.SESSIONS, int32(codes.NEWEST)))

    def _on_silence_check(self, now: Instant) -> None:
        deadline = self._liveness.deadline()
        if deadline > now:
            self._silence_check.move(deadline)
        else:
            self._close()

    def pause_delivery(self, paused: bool) -> None:
        """Deliver nothing while the peer does not read. Messages stay queued."""
        self.held = paused
        if not paused:
            self._each(Session.resume)

    def on_peer_gone(self) -> None:
        """Release everything: the peer is gone, so nothing can be sent."""
        self._end()

    def on_store_failed(self, reason: str) -> None:
        """Send each session an exception and close, because the peer's request cannot be stored."""
        error = int32(codes.IO_ERROR), optional(words, reason)
        for channel in self._sessions:
            self.send(packet(codes.EXCEPTION, channel, *error))
        self._close()

    @property
    def consumers(self) -> int:
        return sum(len(session.consumers) for session in self._sessions.values())

    # --- output -----------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Queue bytes for sending."""
        self.shared.outbox.send(self.conn, data)

    def observe(self, requirement: str, detail: str) -> None:
        """Record that ``requirement`` determined a branch."""
        self.shared.outbox.observe(self.conn, requirement, detail)

    # --- the end ----------------------------------------------------------------------------------

    def _each(self, action: Callable[[Session], None]) -> None:
        for session in list(self._sessions.values()):
            action(session)

    def _close(self) -> None:
        self._end()
        self.shared.outbox.close(self.conn)

    def _end(self) -> None:
        self._state = State.CLOSED
        self._silence_check.cancel()
        self._handshake.cancel()
        self._each(lambda session: session.release(Outcome.MODIFIED))
        self._sessions.clear()
