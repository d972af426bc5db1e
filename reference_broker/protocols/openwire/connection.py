"""One connection of OpenWire, from its first byte to its close.

==============  ===================  ==============  ========
input           NEGOTIATING          OPENED          CLOSED
==============  ===================  ==============  ========
WireFormatInfo  -> OPENED            ignored         ignored
other commands  -> CLOSED            carried out     ignored
no command      -> CLOSED            -> CLOSED       ignored
handshake       -> CLOSED            --              --
silence         --                   -> CLOSED       --
ShutdownInfo    -> CLOSED            -> CLOSED       ignored
peer gone       CLOSED               CLOSED          ignored
==============  ===================  ==============  ========

OPENED does not imply a login. Before ConnectionInfo and after the connection's RemoveInfo, the
commands in ``_NEEDS_LOGIN`` are refused.

A close sends no command. We begin with a WireFormatInfo that has the newest version and no encoding
options, so that the encoding is always loose. The lower of the two versions is used. BrokerInfo
follows the peer's WireFormatInfo.
"""

import enum
from typing import Any

from brokerproof.harness.model.time import Instant, ms
from brokerproof.reference_broker.families.activemq.producer_flow import PendingSend, ProducerFlow
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.java_fields import Malformed, int32, int64
from brokerproof.reference_broker.kernel.outbox import PauseReason
from brokerproof.reference_broker.protocols.openwire import codes, maps
from brokerproof.reference_broker.protocols.openwire.client import HANDLERS, Client, ResponseRequest
from brokerproof.reference_broker.protocols.openwire.encoding import (
    NO,
    Command,
    CommandParser,
    Fields,
    command,
    data,
    several,
    text,
    throwable,
)
from brokerproof.reference_broker.protocols.openwire.keepalive import Signs
from brokerproof.reference_broker.protocols.openwire.refusal import (
    ILLEGAL_STATE,
    NO_RESOURCE,
    Refusal,
)
from brokerproof.reference_broker.protocols.openwire.structures import BrokerId, nested
from brokerproof.reference_broker.settings.acceptor import Acceptor

MAGIC = b"ActiveMQ"
MOST = 100 * 1024 * 1024
"""The largest command in bytes, whatever maxFrameSize says."""
COMMAND = b"a command"
"""Passed to the silence monitor for each whole command."""


class State(enum.Enum):
    NEGOTIATING = enum.auto()
    OPENED = enum.auto()
    CLOSED = enum.auto()


def least(ours: int, theirs: Any) -> int:
    """Return the lower of two limits. A limit that is missing or not above 0 means no limit."""
    return theirs if (isinstance(theirs, int) and 0 < theirs < ours) or ours <= 0 else ours


class OpenWireConnection:
    """One OpenWire connection. ``version`` is the newest until both sides have sent one; ``held``
    is true while the peer does not read."""

    def __init__(
        self, conn: int, acceptor: Acceptor, shared: BrokerContext, now: Instant, flow: ProducerFlow
    ) -> None:
        self.conn = conn
        self.shared = shared
        self.version = codes.NEWEST
        self.held = False
        self._acceptor = acceptor
        self._state = State.NEGOTIATING
        self._parser = CommandParser(least(MOST, acceptor.openwire.max_frame_size))
        self._client = Client(self, flow)
        self._liveness = shared.family.silence_monitor(shared.start, shared.check_interval, 0, now)
        self._signs: Signs | None = None
        self._stalled: tuple[ResponseRequest, PendingSend] | None = None
        self._closing = False
        self._handshake = shared.deadlines.timer(lambda now: self._close(), conn)
        self._silence_check = shared.deadlines.timer(self._on_silence_check, conn)
        self._next_sign = shared.deadlines.timer(self._on_sign, conn)
        if acceptor.handshake_timeout_ms > 0:
            self._handshake.move(now + ms(acceptor.handshake_timeout_ms))
        self.send(
            command(
                codes.WIRE_FORMAT, MAGIC, int32(codes.NEWEST), data(maps.write(self._options()))
            )
        )

    def _options(self) -> dict[str, str | bool | int]:
        acceptor = self._acceptor
        return {
            "TightEncodingEnabled": False,
            "CacheEnabled": False,
            "StackTraceEnabled": False,
            "SizePrefixDisabled": False,
            "TcpNoDelayEnabled": True,
            "MaxInactivityDuration": acceptor.openwire.max_inactivity_ms,
            "MaxInactivityDurationInitalDelay": acceptor.openwire.initial_delay_ms,
            "MaxFrameSize": acceptor.openwire.max_frame_size,
            "ProviderName": "brokerproof",
        }

    @property
    def is_open(self) -> bool:
        """True if input for this connection is still read."""
        return self._state is not State.CLOSED

    # --- input ------------------------------------------------------------------------------------

    def receive(self, now: Instant, data: bytes) -> None:
        self._parser.feed(data)
        self._liveness.on_bytes_received(now, b"")
        self._carry_out(now)

    def _carry_out(self, now: Instant) -> None:
        try:
            while (
                self.is_open
                and self._stalled is None
                and (received := self._parser.next()) is not None
            ):
                if self._state is State.NEGOTIATING:
                    self._negotiate(now, received)
                else:
                    self._command(received)
        except Malformed as problem:
            self.observe("OPENWIRE-CMD-1", str(problem))
            self._close()

    def _negotiate(self, now: Instant, received: Command) -> None:
        fields = Fields(received.fields)
        if received.type != codes.WIRE_FORMAT or fields.take(len(MAGIC)) != MAGIC:
            raise Malformed("a connection must begin with WireFormatInfo")
        version, options = fields.int32(), maps.read(fields.data())
        if version < 1:
            raise Malformed(f"there is no version {version} of OpenWire")
        self.version = min(codes.NEWEST, version)
        self._parser.most = least(self._parser.most, options.get("MaxFrameSize"))
        self._state = State.OPENED
        self._handshake.cancel()
        self._watch(now, options)
        self.send(command(codes.BROKER, int32(0), NO, *self._broker()))

    def _watch(self, now: Instant, options: dict[str, Any]) -> None:
        """Begin to check for silence. Both sides use the shorter duration; missing means 0."""
        ours, theirs = (
            self._acceptor.openwire.max_inactivity_ms,
            options.get("MaxInactivityDuration", 0),
        )
        delay = options.get("MaxInactivityDurationInitalDelay", 0)
        if not isinstance(theirs, int) or not isinstance(delay, int):
            raise Malformed("a duration is not a number")
        duration = min(ours, theirs)
        if duration > 0:
            first = ms(max(0, min(self._acceptor.openwire.initial_delay_ms, delay)))
            self._liveness.agreed(now, ms(duration), first)
            self._signs = Signs(ms(duration), now + first)
            self._silence_check.move(self._liveness.deadline())
            self._next_sign.move(self._signs.deadline)

    def _broker(self) -> list[bytes]:
        name = self.shared.settings.name
        fields = [
            nested(BrokerId(f"ID:{name}"), self.version),
            text(""),
            several(()),
            text(name),
            NO,
            NO,
            NO,
        ]
        if self.version >= 2:
            fields += [NO, NO, int64(self.conn)]
        if self.version >= 3:
            fields += [text(None), text(None)]
        return fields

    def _command(self, received: Command) -> None:
        self._liveness.on_bytes_received(self.shared.clock.now, COMMAND)
        if received.type in (0, codes.WIRE_FORMAT):
            return
        if received.type == codes.SHUTDOWN:
            self._close()
            return
        fields = Fields(received.fields)
        request = ResponseRequest(fields.int32(), fields.flag())
        if received.type == codes.KEEP_ALIVE:
            if request.response:
                self.send(command(codes.KEEP_ALIVE, int32(request.number), NO))
            return
        try:
            if received.type in _NEEDS_LOGIN and not self._client.logged_in:
                raise Refusal(ILLEGAL_STATE, "the connection has not been registered")
            if received.type in codes.MESSAGES:
                self._client.publish(received.type, fields, request)
            elif received.type in HANDLERS:
                getattr(self._client, HANDLERS[received.type])(fields, request)
            elif received.type not in _WITHOUT_EFFECT:
                raise Malformed(f"type {received.type} is not a command")
        except Refusal as problem:
            self.refuse(request, problem)
        else:
            if not request.withheld:
                self.answer(request)
        if self._closing:
            self._close()

    def answer(self, request: ResponseRequest) -> None:
        """Send the response to a command if one was requested."""
        if request.response:
            self.send(command(codes.RESPONSE, int32(0), NO, int32(request.number)))

    def refuse(self, request: ResponseRequest, problem: Refusal) -> None:
        """Send an exception: as the response to a command, or else as ConnectionError."""
        exception = throwable(problem.kind, str(problem))
        if request.response:
            self.send(
                command(codes.EXCEPTION_RESPONSE, int32(0), NO, int32(request.number), exception)
            )
        else:
            self.send(command(codes.CONNECTION_ERROR, int32(0), NO, exception, NO))

    def close_behind(self) -> None:
        """Close once the current command has been answered."""
        self._closing = True

    # --- messages that wait -----------------------------------------------------------------------

    def stall(self, request: ResponseRequest, sending: PendingSend) -> None:
        """Neither read nor execute anything until there is space for ``sending``."""
        self._stalled = request, sending
        self.shared.outbox.stop_reading(self.conn, PauseReason.ROOM)

    def go_on(self, request: ResponseRequest) -> None:
        """Resume reading if the message of ``request`` had stalled the connection."""
        if self._stalled is not None and self._stalled[0] is request:
            self._stalled = None
            self.shared.outbox.resume_reading(self.conn, PauseReason.ROOM)
            self._carry_out(self.shared.clock.now)

    # --- time -------------------------------------------------------------------------------------

    def _on_sign(self, now: Instant) -> None:
        signs = self._signs
        assert signs is not None
        if signs.is_due(now):
            self.shared.outbox.send(self.conn, command(codes.KEEP_ALIVE, int32(0), NO))
        self._next_sign.move(signs.deadline)

    def _on_silence_check(self, now: Instant) -> None:
        """Close if the peer has been silent for too long. While a message waits for space, the
        connection is not read and silence is ignored."""
        if self._stalled is not None:
            self._liveness.on_bytes_received(now, COMMAND)
        deadline = self._liveness.deadline()
        if deadline > now:
            self._silence_check.move(deadline)
            return
        self.observe("OPENWIRE-INACT-1", "the peer has been silent for too long")
        self._close()

    def pause_delivery(self, paused: bool) -> None:
        """Deliver nothing while the peer does not read. Messages stay queued."""
        self.held = paused
        if not paused:
            self._client.resume()

    def on_peer_gone(self) -> None:
        """Release everything: the peer is gone, so nothing can be sent."""
        self._end()

    def on_store_failed(self, reason: str) -> None:
        """Send ConnectionError and close, because a request of the peer cannot be stored."""
        error = throwable(NO_RESOURCE, reason)
        self.send(command(codes.CONNECTION_ERROR, int32(0), NO, error, NO))
        self._close()

    # --- output -----------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Queue bytes for sending."""
        if self._state is not State.CLOSED:
            if self._signs is not None:
                self._signs.spoke()
            self.shared.outbox.send(self.conn, data)

    def observe(self, requirement: str, detail: str) -> None:
        """Record that ``requirement`` determined a branch."""
        self.shared.outbox.observe(self.conn, requirement, detail)

    # --- the end ----------------------------------------------------------------------------------

    def _close(self) -> None:
        self._end()
        self.shared.outbox.close(self.conn)

    def _end(self) -> None:
        self._state = State.CLOSED
        for deadline in (self._handshake, self._silence_check, self._next_sign):
            deadline.cancel()
        stalled, self._stalled = self._stalled, None
        if stalled is not None:
            self._client.forget(stalled[1])
        self._client.end()


_WITHOUT_EFFECT = frozenset(
    {
        codes.BROKER,
        codes.CONTROL,
        codes.CONNECTION_ERROR,
        codes.CONNECTION_CONTROL,
        codes.PRODUCER_ACK,
    }
)
"""Commands that a client may send but that have no effect here."""
_NEEDS_LOGIN = frozenset((*codes.MESSAGES, *HANDLERS)) - {codes.CONNECTION, codes.FLUSH}
"""Commands that are refused before a login: all but the login and those that change nothing."""
