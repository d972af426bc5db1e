"""Faults of AMQP 0-9-1's connections and channels: heart-beats, limits that were agreed on, what an
error ends, closing."""

from __future__ import annotations

from dataclasses import replace

from pamqp import base, commands

from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.protocols.amqp091 import methods
from brokerproof.reference_broker.protocols.amqp091.channel import HANDLERS, Channel
from brokerproof.reference_broker.protocols.amqp091.connection import Amqp091Connection, State
from brokerproof.reference_broker.protocols.amqp091.consumer import Consumer
from brokerproof.reference_broker.protocols.amqp091.errors import CONNECTION_FORCED, Refusal
from brokerproof.reference_broker.protocols.amqp091.framing import HEARTBEAT, METHOD
from brokerproof.suites.mutation.mutant import Group, Reached

amqp091_connections = Group("amqp091-connections", "reference-rabbitmq")


# --- heart-beats ----------------------------------------------------------------------------------


@amqp091_connections.mutant("AMQP091-HB-06")
def none_is_what_was_proposed(parts: Parts, reached: Reached) -> Parts:
    """A client that wants no heart-beats gets those that the server proposed, and has to send
    some."""

    class Faulty(Amqp091Connection):
        def _tune_ok(self, now: Instant, method: commands.Connection.TuneOk) -> None:
            if not method.heartbeat:
                reached()
                method.heartbeat = self.acceptor.amqp091_heartbeat_s
            super()._tune_ok(now, method)

    return replace(parts, amqp091=Faulty)


@amqp091_connections.mutant("AMQP091-HB-03 RABBITMQ-AMQP091-HB-01")
def nobody_is_given_up(parts: Parts, reached: Reached) -> Parts:
    """A client may be silent for ever."""

    class Faulty(Amqp091Connection):
        def _on_silence_check(self, now: Instant) -> None:
            if self._beats is not None:
                reached()
                self._beats.heard()
            super()._on_silence_check(now)

    return replace(parts, amqp091=Faulty)


@amqp091_connections.mutant("AMQP091-HB-04")
def silence_is_answered(parts: Parts, reached: Reached) -> Parts:
    """A client that is given up for its silence is told so with connection.close."""

    class Faulty(Amqp091Connection):
        looks = False

        def _on_silence_check(self, now: Instant) -> None:
            self.looks = True
            super()._on_silence_check(now)
            self.looks = False

        def end(self) -> None:
            if self.looks:
                reached()
                self.tell(commands.Connection.Close(CONNECTION_FORCED, "silence", 0, 0))
            super().end()

    return replace(parts, amqp091=Faulty)


@amqp091_connections.mutant("AMQP091-HB-01")
def a_heart_beat_counts_on_any_channel(parts: Parts, reached: Reached) -> Parts:
    """A heart-beat on a channel of its own is taken like one on channel 0."""

    class Faulty(Amqp091Connection):
        def _frame(
            self, type: int, channel: int, payload: bytes, method: base.Frame | None
        ) -> None:
            if type == HEARTBEAT and channel:
                reached()
                channel = 0
            super()._frame(type, channel, payload, method)

    return replace(parts, amqp091=Faulty)


# --- what was agreed on ---------------------------------------------------------------------------


@amqp091_connections.mutant("AMQP091-FRAME-05 AMQP091-TUNE-05")
def frames_of_any_size_are_taken(parts: Parts, reached: Reached) -> Parts:
    """What a client sends may be larger than agreed on."""

    class Faulty(Amqp091Connection):
        def _tune_ok(self, now: Instant, method: commands.Connection.TuneOk) -> None:
            super()._tune_ok(now, method)
            reached()
            self._parser.limit = 0

    return replace(parts, amqp091=Faulty)


@amqp091_connections.mutant("AMQP091-TUNE-05")
def the_overhead_is_forgotten(parts: Parts, reached: Reached) -> Parts:
    """A body is cut so that its frames have frame-max octets of payload, beside what a frame has of
    its own."""

    class Faulty(Amqp091Connection):
        def _tune_ok(self, now: Instant, method: commands.Connection.TuneOk) -> None:
            super()._tune_ok(now, method)
            if self.frame_max:
                reached()
                self.frame_max += 8

    return replace(parts, amqp091=Faulty)


@amqp091_connections.mutant("AMQP091-TUNE-06")
def channels_are_not_counted(parts: Parts, reached: Reached) -> Parts:
    """A client may have more channels than were agreed on."""

    class Faulty(Amqp091Connection):
        def _open_channel(self, number: int, method: base.Frame | None) -> None:
            if self._channel_max and number > self._channel_max:
                reached()
                self._channel_max = 0
            super()._open_channel(number, method)

    return replace(parts, amqp091=Faulty)


# --- errors and closing ---------------------------------------------------------------------------


@amqp091_connections.mutant("AMQP091-CHAN-02")
def an_error_of_a_channel_ends_everything(parts: Parts, reached: Reached) -> Parts:
    """A mistake on one channel ends its connection."""

    class Faulty(Channel):
        def refuse(self, problem: Refusal, method: base.Frame | None) -> None:
            super().refuse(problem, method)
            reached()
            self.connection.end()

    return replace(parts, channel091=Faulty)


@amqp091_connections.mutant("AMQP091-CHAN-04")
def what_a_closed_channel_had_is_lost(parts: Parts, reached: Reached) -> Parts:
    """What a channel had not acknowledged when it was closed goes nowhere."""

    class Faulty(Channel):
        def _give_all_back(self) -> None:
            if self.unacked:
                reached()
                self.unacked.clear()
            super()._give_all_back()

    return replace(parts, channel091=Faulty)


@amqp091_connections.mutant("AMQP091-CLOSE-01")
def a_close_is_not_answered(parts: Parts, reached: Reached) -> Parts:
    """A client that closes its connection is left without an answer."""

    class Faulty(Amqp091Connection):
        def tell(self, method: base.Frame, channel: int = 0) -> None:
            if isinstance(method, commands.Connection.CloseOk):
                reached()
            else:
                super().tell(method, channel)

    return replace(parts, amqp091=Faulty)


@amqp091_connections.mutant("AMQP091-CLOSE-02")
def a_closing_connection_declares_queues(parts: Parts, reached: Reached) -> Parts:
    """Behind its own close of the connection the server goes on to declare queues."""

    class Faulty(Amqp091Connection):
        def _method(self, channel: int, payload: bytes) -> base.Frame | None:
            declares = self._state is State.CLOSING and payload[:4] == b"\0\x32\0\x0a"
            if declares:
                reached()
                method = methods.read(payload)
                HANDLERS[method.__class__](self.shared.parts.channel091(self, channel), method)
            return super()._method(channel, payload)

    return replace(parts, amqp091=Faulty)


@amqp091_connections.mutant("AMQP091-CLOSE-04")
def a_closing_channel_goes_on(parts: Parts, reached: Reached) -> Parts:
    """Behind its own close of a channel the server goes on to answer what comes on it."""

    class Reading(Amqp091Connection):
        def _method(self, channel: int, payload: bytes) -> base.Frame | None:
            found = self.channels.get(channel)
            if found is None or not found.is_closing:
                return super()._method(channel, payload)
            found.is_closing = False
            try:
                return super()._method(channel, payload)
            finally:
                found.is_closing = True

    class Answering(Channel):
        def frame(self, type: int, payload: bytes, method: base.Frame | None) -> None:
            handler = HANDLERS.get(method.__class__)
            if self.is_closing and type == METHOD and handler is not None:
                reached()
                handler(self, method)
                return
            super().frame(type, payload, method)

    return replace(parts, amqp091=Reading, channel091=Answering)


@amqp091_connections.mutant("RABBITMQ-AMQP091-AUTH-01")
def a_refused_login_is_not_told(parts: Parts, reached: Reached) -> Parts:
    """A client that understands it is not told that its login was refused."""

    class Faulty(Amqp091Connection):
        def _start_ok(self, method: commands.Connection.StartOk) -> None:
            try:
                super()._start_ok(method)
            except Refusal as problem:
                reached()
                problem.silent = True
                raise

    return replace(parts, amqp091=Faulty)


# --- the flow of content --------------------------------------------------------------------------


@amqp091_connections.mutant("AMQP091-CHAN-05")
def the_flow_of_content_goes_on(parts: Parts, reached: Reached) -> Parts:
    """A client that has asked for no content for a while gets some."""

    class Faulty(Consumer):
        def has_room(self) -> bool:
            active, self.channel.active = self.channel.active, True
            try:
                room = super().has_room()
            finally:
                self.channel.active = active
            return room if active else reached.instead(False, room)

    return replace(parts, consumer091=Faulty)


@amqp091_connections.mutant("AMQP091-CHAN-05")
def the_flow_of_content_does_not_come_back(parts: Parts, reached: Reached) -> Parts:
    """A client that asks for content again does not get what waited meanwhile."""

    class Faulty(Channel):
        was_active = True

        def frame(self, type: int, payload: bytes, method: base.Frame | None) -> None:
            self.was_active = self.active
            super().frame(type, payload, method)
            self.was_active = self.active

        def dispatch(self) -> None:
            if self.was_active:
                super().dispatch()
            else:
                reached()

    return replace(parts, channel091=Faulty)
