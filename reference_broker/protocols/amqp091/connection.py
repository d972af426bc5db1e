"""One AMQP 0-9-1 connection, from after its protocol header to its close (2.2.4, 4.2, 4.8).

Rules of this file
------------------
* Bytes and instants arrive through the constructor, ``receive``, ``pause_delivery``,
  ``on_peer_gone`` and deadlines; bytes go out through :meth:`Amqp091Connection.send`. There is no
  other input or output.
* A peer's mistake is a :class:`Refusal`, raised where it is noticed and caught here: a soft one
  ends its channel, any other the connection.

Theory
------
=============  =================  =============  =============  ====================  =============  ==========
input          STARTING           TUNING         OPENING        RUNNING               CLOSING        CLOSED
=============  =================  =============  =============  ====================  =============  ==========
start-ok       tune -> TUNING     ended          ended          503                   ignored        ignored
tune-ok        ended              -> OPENING     ended          503                   ignored        ignored
open           ended              ended          -> RUNNING     503                   ignored        ignored
close          ended              ended          close-ok       close-ok -> CLOSED    close-ok       ignored
close-ok       ended              ended          ended          503                   -> CLOSED      ignored
heartbeat      alive              alive          alive          alive                 alive          ignored
for a channel  ended              ended          ended          channel.py            ignored        ignored
no frame       ended              ended          ended          ended, or 501         ended          ignored
silence        handshake          handshake      handshake      ended                 patience       --
=============  =================  =============  =============  ====================  =============  ==========

"ended" is a close of the transport without another method: before a connection is open, both sides
answer errors this way (2.2.4). As in RabbitMQ, two errors are reported nevertheless: a refused
login with 403, to a client with the ``authentication_failure_close`` capability, and an unknown
virtual host with 530. A number means connection.close with that reply code, then CLOSING.
"""  # noqa: E501

import enum
from collections.abc import Iterator
from typing import Any

from pamqp import base, commands

from brokerproof.harness.model.time import Instant, ms, seconds
from brokerproof.reference_broker.families.rabbitmq.topology import Topology
from brokerproof.reference_broker.kernel.connection_info import Described
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.amqp091 import login, methods, ports
from brokerproof.reference_broker.protocols.amqp091.channel import Channel
from brokerproof.reference_broker.protocols.amqp091.errors import (
    ACCESS_REFUSED,
    CHANNEL_ERROR,
    COMMAND_INVALID,
    FRAME_ERROR,
    INTERNAL_ERROR,
    NOT_ALLOWED,
    RESOURCE_ERROR,
    UNEXPECTED_FRAME,
    Refusal,
    shown,
)
from brokerproof.reference_broker.protocols.amqp091.framing import (
    BEAT,
    HEARTBEAT,
    LEAST_MAX,
    METHOD,
    FrameParser,
)
from brokerproof.reference_broker.protocols.amqp091.heartbeat import HeartBeats
from brokerproof.reference_broker.protocols.amqp091.throttle import Throttle
from brokerproof.reference_broker.settings.acceptor import Acceptor

CAPABILITIES = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
    "per_consumer_qos": True,
}
PATIENCE = seconds(30)
"""How long we wait for the peer's close-ok; less if the heartbeat interval is shorter."""
DEAF_PATIENCE = seconds(1)
"""How long we wait if the next frame cannot be found, so that no close-ok can be read."""
VHOST = "/"


class State(enum.Enum):
    STARTING = enum.auto()
    TUNING = enum.auto()
    OPENING = enum.auto()
    RUNNING = enum.auto()
    CLOSING = enum.auto()
    CLOSED = enum.auto()


class Amqp091Connection:
    """One AMQP 0-9-1 connection. Channels read its public attributes."""

    def __init__(
        self, conn: int, acceptor: Acceptor, shared: BrokerContext, now: Instant, topology: Topology
    ) -> None:
        self.conn = conn
        self.acceptor = acceptor
        self.shared = shared
        self.topology = topology
        self.user = ""
        self.frame_max = LEAST_MAX
        self.capabilities: dict[str, Any] = {}
        self.held = False
        self.channels: dict[int, Channel] = {}
        self._state = State.STARTING
        self._parser = FrameParser()
        self._channel_max = 0
        self._beats: HeartBeats | None = None
        self._touched: dict[ports.Channel, None] = {}
        self._patience = PATIENCE
        self._mechanism = ""
        self._heartbeat = 0
        self._properties: dict[str, Any] = {}
        self._deaf = False
        self.throttle = Throttle(self)
        self._handshake = shared.deadlines.timer(lambda now: self.end(), conn)
        self._next_beat = shared.deadlines.timer(self._on_beat, conn)
        self._silence_check = shared.deadlines.timer(self._on_silence_check, conn)
        self._close_timeout = shared.deadlines.timer(lambda now: self.end(), conn)
        if acceptor.handshake_timeout_ms > 0:
            self._handshake.move(now + ms(acceptor.handshake_timeout_ms))
        mechanisms = login.offered(shared, conn)
        self.tell(login.greeting(acceptor.host, CAPABILITIES, mechanisms))

    @property
    def is_open(self) -> bool:
        """True if input for this connection is still read."""
        return self._state is not State.CLOSED

    # --- input ------------------------------------------------------------------------------------

    def receive(self, now: Instant, data: bytes) -> None:
        if self._beats is not None:
            self._beats.on_bytes_received()
        if self._deaf:
            return
        self._parser.feed(data)
        self._read(now)

    def _read(self, now: Instant) -> None:
        """Handle the frames that have arrived, as far as the throttle allows."""
        while not (self._state is State.CLOSED or self._deaf or self.throttle.holds):
            method: base.Frame | None = None
            channel = 0
            try:
                received = self._parser.next()
                if received is None:
                    break
                type, channel, payload = received
                if type == METHOD:
                    method = self._method(channel, payload)
                if method is not None and channel == 0:
                    self._command(now, method)
                else:
                    self._frame(type, channel, payload, method)
            except Refusal as problem:
                self._refuse(problem, channel, method)
        self._flush()

    # --- time -------------------------------------------------------------------------------------

    def _on_beat(self, now: Instant) -> None:
        beats = self._beats
        assert beats is not None
        if beats.beat_due(now):
            self.shared.outbox.send(self.conn, BEAT)
        self._next_beat.move(beats.send_at)

    def _on_silence_check(self, now: Instant) -> None:
        beats = self._beats
        assert beats is not None
        if beats.is_dead(now):
            self.observe("AMQP091-HB-03", "nothing was received for two heartbeat intervals")
            self.end()
        else:
            self._silence_check.move(beats.look_at)

    def pause_delivery(self, paused: bool) -> None:
        """Deliver nothing while the peer does not read. Messages stay queued."""
        self.held = paused
        if not paused:
            for channel in list(self.channels.values()):
                channel.dispatch()

    def on_peer_gone(self) -> None:
        """Release everything: the peer is gone, so nothing can be sent."""
        self._release()

    def on_store_failed(self, reason: str) -> None:
        """Close with an error, because the peer's request cannot be stored."""
        self._refuse(Refusal(INTERNAL_ERROR, reason), 0, None)

    def check_quota(self, resource: str, count: int) -> None:
        """Refuse another ``resource`` if ``count`` has reached the connection's quota for it."""
        excess = self.shared.settings.quotas.exceeded(resource, count)
        if excess is not None:
            raise Refusal(RESOURCE_ERROR, excess)

    # --- output -----------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Queue bytes for sending."""
        if self._beats is not None:
            self._beats.sent()
        self.shared.outbox.send(self.conn, data)

    def tell(self, method: base.Frame, channel: int = 0) -> None:
        self.send(methods.write(channel, method))

    def observe(self, requirement: str, detail: str) -> None:
        """Record that ``requirement`` determined a branch."""
        self.shared.outbox.observe(self.conn, requirement, detail)

    def touch(self, channel: ports.Channel) -> None:
        """Flush ``channel`` at the end of this input."""
        self._touched[channel] = None

    def _flush(self) -> None:
        touched, self._touched = self._touched, {}
        for channel in touched:
            channel.flush()

    # --- being throttled
    # ------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stop checking for silence, because the connection is not read."""
        self._silence_check.cancel()

    def resume(self) -> None:
        """Handle the bytes that have waited, and resume reading."""
        if not self.is_open:
            return
        now = self.shared.clock.now
        if self._beats is not None:
            self._beats.resume(now)
            self._silence_check.move(self._beats.look_at)
        self._read(now)

    def describe(self) -> Described | None:
        """Return the connection's description; None before it is open."""
        if self._state is not State.RUNNING:
            return None
        return Described(
            protocol="AMQP 0-9-1",
            user=self.user,
            mechanism=self._mechanism,
            state=self.throttle.state,
            channels=len(self.channels),
            client_properties=self._properties,
            frame_max=self.frame_max,
            channel_max=self._channel_max,
            timeout_s=self._heartbeat,
            blocked_by=self.throttle.by,
            blocked_at=self.throttle.at,
        )

    def out(self) -> Iterator[tuple[Queue, Entry]]:
        """Yield the deliveries that are not settled, with their queues."""
        for channel in self.channels.values():
            for delivery in channel.unacked.values():
                yield delivery.declared.queue, delivery.entry

    # --- frames -----------------------------------------------------------------------------------

    def _method(self, channel: int, payload: bytes) -> base.Frame | None:
        if self._state is State.CLOSING and channel:
            return None
        if (
            channel in self.channels
            and self.channels[channel].is_closing
            and payload[:2] != b"\0\x14"
        ):
            return None  # dropped input need not be read
        return methods.read(payload)

    def _frame(self, type: int, channel: int, payload: bytes, method: base.Frame | None) -> None:
        if type == HEARTBEAT:
            if channel or payload:
                raise Refusal(FRAME_ERROR, "a heart-beat must use channel 0 and have no payload")
            return
        if self._state is State.CLOSING:
            return
        if self._state is not State.RUNNING:
            raise Refusal(UNEXPECTED_FRAME, "the connection is not open", silent=True)
        if channel == 0:
            raise Refusal(CHANNEL_ERROR, "content does not belong on channel 0")
        open_channel = self.channels.get(channel)
        if open_channel is None:
            self._open_channel(channel, method)
            return
        open_channel.frame(type, payload, method)
        if open_channel.is_closed:
            self.channels.pop(channel, None)

    def _open_channel(self, number: int, method: base.Frame | None) -> None:
        if not isinstance(method, commands.Channel.Open):
            if method is not None and methods.numbers_of(method)[0] == 10:
                raise Refusal(COMMAND_INVALID, f"{methods.name_of(method)} belongs to channel 0")
            raise Refusal(CHANNEL_ERROR, f"channel {number} is not open: expected channel.open")
        if self._channel_max and (
            number > self._channel_max or len(self.channels) >= self._channel_max
        ):
            raise Refusal(
                NOT_ALLOWED, f"channel {number} exceeds the channel-max of {self._channel_max}"
            )
        self.check_quota("sessions", len(self.channels))
        self.channels[number] = Channel(self, number)
        self.tell(methods.make(commands.Channel.OpenOk, ""), number)

    def _command(self, now: Instant, method: base.Frame) -> None:
        match self._state, method:
            case State.CLOSING, commands.Connection.Close():
                self.tell(commands.Connection.CloseOk())
            case State.CLOSING, commands.Connection.CloseOk():
                self.end()
            case State.CLOSING, _:
                return
            case State.STARTING, commands.Connection.StartOk():
                self._start_ok(method)
            case State.TUNING, commands.Connection.TuneOk():
                self._tune_ok(now, method)
            case State.OPENING, commands.Connection.Open():
                self._open(method)
            case ((State.RUNNING | State.OPENING), commands.Connection.Close()):
                self._flush()
                self._release()
                self.tell(commands.Connection.CloseOk())
                self.shared.outbox.close(self.conn)
            case State.RUNNING, commands.Connection.UpdateSecret():
                self.tell(commands.Connection.UpdateSecretOk())
            case _:
                detail = (
                    f"got {methods.name_of(method)} on channel 0 while the connection is"
                    f" {self._state.name}"
                )
                code = COMMAND_INVALID if methods.numbers_of(method)[0] == 10 else CHANNEL_ERROR
                raise Refusal(code, detail, silent=self._state is not State.RUNNING)

    # --- opening ----------------------------------------------------------------------------------

    def _start_ok(self, method: commands.Connection.StartOk) -> None:
        properties: Any = method.client_properties
        self._properties = properties if isinstance(properties, dict) else {}
        self._mechanism = str(method.mechanism)
        capabilities = self._properties.get("capabilities")
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        response: Any = method.response
        data = response.encode() if isinstance(response, str) else bytes(response)
        try:
            self.user = login.user(self.shared, self.conn, str(method.mechanism), data)
        except Refusal as problem:
            understands = self.capabilities.get("authentication_failure_close") is True
            problem.silent = problem.silent or problem.code != ACCESS_REFUSED or not understands
            raise
        self._state = State.TUNING
        acceptor = self.acceptor
        self.tell(
            commands.Connection.Tune(
                acceptor.amqp091.channel_max,
                acceptor.amqp091.frame_max,
                acceptor.amqp091.heartbeat_s,
            )
        )

    def _tune_ok(self, now: Instant, method: commands.Connection.TuneOk) -> None:
        ours, theirs = self.acceptor.amqp091.frame_max, method.frame_max
        if (theirs and theirs < LEAST_MAX) or (ours and not 0 < theirs <= ours):
            raise Refusal(
                NOT_ALLOWED, f"frame-max {theirs} is outside {LEAST_MAX} to {ours}", silent=True
            )
        ours, channels = self.acceptor.amqp091.channel_max, method.channel_max
        if ours and not 0 < channels <= ours:
            raise Refusal(
                NOT_ALLOWED, f"channel-max {channels} is outside 1 to {ours}", silent=True
            )
        self.frame_max = self._parser.limit = theirs
        self._channel_max = channels
        self._heartbeat = method.heartbeat
        if method.heartbeat:
            self._patience = min(PATIENCE, seconds(method.heartbeat))
            beats = self._beats = HeartBeats(method.heartbeat, now)
            self._next_beat.move(beats.send_at)
            self._silence_check.move(beats.look_at)
        self._state = State.OPENING

    def _open(self, method: commands.Connection.Open) -> None:
        if method.virtual_host != VHOST:
            raise Refusal(NOT_ALLOWED, f"vhost {shown(str(method.virtual_host))} not found")
        self._state = State.RUNNING
        self._handshake.cancel()
        self.tell(commands.Connection.OpenOk())

    # --- the end ----------------------------------------------------------------------------------

    def _refuse(self, problem: Refusal, channel: int, method: base.Frame | None) -> None:
        self.observe(f"AMQP091-CODE-{problem.code}", problem.detail)
        if self._state is State.CLOSING:
            if problem.silent:
                self.end()
            elif problem.out_of_step:
                self._stop_listening()
            return
        open_channel = self.channels.get(channel)
        if problem.soft and open_channel is not None and self._state is State.RUNNING:
            open_channel.refuse(problem, method)
            return
        if problem.silent or (
            self._state in (State.STARTING, State.TUNING) and problem.code != ACCESS_REFUSED
        ):
            self.end()
            return
        self._flush()
        self._release()
        self._state = State.CLOSING
        self.tell(
            commands.Connection.Close(problem.code, problem.text, *methods.numbers_of(method))
        )
        self._close_timeout.move(self.shared.clock.now + self._patience)
        if problem.out_of_step:
            self._stop_listening()

    def _stop_listening(self) -> None:
        """Ignore all further bytes. The next frame cannot be found, so a close-ok could not be
        recognised either."""
        self._deaf = True
        self._close_timeout.move(self.shared.clock.now + DEAF_PATIENCE)

    def end(self) -> None:
        """Close the transport without another method."""
        if self._state is not State.CLOSED:
            self._release()
            self.shared.outbox.close(self.conn)

    def _release(self) -> None:
        """Release consumers first, then their deliveries, then exclusive queues."""
        before, self._state = self._state, State.CLOSED
        self.throttle.close()
        for deadline in (
            self._handshake,
            self._next_beat,
            self._silence_check,
            self._close_timeout,
        ):
            deadline.cancel()
        if before is not State.CLOSED:
            channels, self.channels = list(self.channels.values()), {}
            for channel in channels:
                channel.stop()
            queues = dict.fromkeys(queue for channel in channels for queue in channel.give_back())
            self.topology.left_by(self.conn)
            for queue in queues:
                queue.dispatch()
