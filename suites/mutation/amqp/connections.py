"""Faults of AMQP connections: frames, their limits, opening and closing, idle time-outs, SASL."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from brokerproof.harness.model.time import Instant, ms
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.kernel.context import Shared
from brokerproof.reference_broker.protocols.amqp10 import refusal
from brokerproof.reference_broker.protocols.amqp10.connection import (
    AmqpConnection,
    State,
)
from brokerproof.reference_broker.protocols.amqp10.framing import (
    EMPTY,
    HEADER,
    Frame,
    FrameParser,
    frame,
)
from brokerproof.reference_broker.protocols.amqp10.performatives import Close, End, Error, Open
from brokerproof.reference_broker.protocols.amqp10.refusal import Refusal
from brokerproof.reference_broker.protocols.amqp10.sasl import OK, Outcome, SaslServer
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.reference_broker.settings.settings import Acceptor
from brokerproof.suites.mutation.amqp.frames import passing_over, saying, with_fields
from brokerproof.suites.mutation.mutant import Group, Reached

amqp_connections = Group("amqp-connections")

SMALL, OFFSET, EXTENDED, BODY, FIELDS = (
    f"AMQP10-FRAME-{number}" for number in ("02", "03", "04", "05", "08")
)


def _parsing(parts: Parts, parser: type[FrameParser]) -> Parts:
    class Faulty(AmqpConnection):
        def __init__(self, conn: int, acceptor: Acceptor, shared: Shared, now: Instant) -> None:
            super().__init__(conn, acceptor, shared, now)
            self._parser = parser(self._parser.limit)

    return replace(parts, amqp=Faulty)


# --- frames ---------------------------------------------------------------------------------------


@amqp_connections.mutant(f"{SMALL} AMQP10-CLOSE-01")
def size_below_eight_taken(parts: Parts, reached: Reached) -> Parts:
    """A frame that says it has fewer than eight octets is taken for an empty one."""

    class Faulty(FrameParser):
        def next(self) -> Frame | None:
            if self.has(8) and int.from_bytes(self._data[self._at : self._at + 4]) < 8:
                reached()
                self.take(8)
                return Frame(0, 0, b"")
            return super().next()

    return _parsing(parts, Faulty)


@amqp_connections.mutant(f"{OFFSET} AMQP10-CLOSE-01")
def small_offset_taken(parts: Parts, reached: Reached) -> Parts:
    """A data offset below two is taken for two."""

    class Faulty(FrameParser):
        def next(self) -> Frame | None:
            if self.has(8) and self._data[self._at + 4] < 2:
                reached()
                octets = bytearray(self._data)
                octets[self._at + 4] = 2
                self._data = bytes(octets)
            return super().next()

    return _parsing(parts, Faulty)


@amqp_connections.mutant(EXTENDED)
def extended_header_read(parts: Parts, reached: Reached) -> Parts:
    """The body of a frame is looked for behind its first eight octets, whatever its data offset."""

    class Faulty(FrameParser):
        def next(self) -> Frame | None:
            if self.has(8) and self._data[self._at + 4] > 2:
                reached()
                octets = bytearray(self._data)
                octets[self._at + 4] = 2
                self._data = bytes(octets)
            return super().next()

    return _parsing(parts, Faulty)


@amqp_connections.mutant("AMQP10-MFS-03")
def large_frames_waited_for(parts: Parts, reached: Reached) -> Parts:
    """A frame above the announced max-frame-size is waited for and read."""

    class Faulty(FrameParser):
        def _judge(self, size: int) -> None:
            if size > self.limit:
                reached()
            else:
                super()._judge(size)

    return _parsing(parts, Faulty)


@amqp_connections.mutant("AMQP10-MFS-04 AMQP10-OPEN-03")
def first_frames_below_512(parts: Parts, reached: Reached) -> Parts:
    """Before open a frame may have 500 octets only."""

    class Faulty(FrameParser):
        def next(self) -> Frame | None:
            if (
                self.has(4)
                and self.limit == 512
                and int.from_bytes(self._data[self._at : self._at + 4]) > 500
            ):
                reached()
                raise Refusal(refusal.FRAME_TOO_LARGE, "a first frame of more than 500 octets")
            return super().next()

    class Opening(AmqpConnection):
        def __init__(self, conn: int, acceptor: Acceptor, shared: Shared, now: Instant) -> None:
            super().__init__(conn, acceptor, shared, now)
            self._parser = Faulty(512)

        def _header(self) -> bool:
            done = super()._header()
            self._parser.limit = 512
            return done

        def _open(self, opened: Open, channel: int) -> None:
            super()._open(opened, channel)
            self._parser.limit = self.acceptor.amqp_max_frame_size

    return replace(parts, amqp=Opening)


@amqp_connections.mutant("AMQP10-MFS-02 AMQP10-OPEN-05")
def frames_larger_than_asked_for(parts: Parts, reached: Reached) -> Parts:
    """Transfers have up to 20 octets more than the peer's max-frame-size."""

    class Faulty(AmqpConnection):
        def _open(self, opened: Open, channel: int) -> None:
            super()._open(opened, channel)
            self.peer_max_frame_size += 20
            reached()

    return replace(parts, amqp=Faulty)


@amqp_connections.mutant(f"{BODY} AMQP10-CLOSE-01")
def no_performative_passed_over(parts: Parts, reached: Reached) -> Parts:
    """A frame whose body is no performative is passed over."""
    return passing_over(parts, reached, refusal.NOT_A_PERFORMATIVE)


@amqp_connections.mutant(f"{FIELDS} {BODY}")
def damaged_frames_passed_over(parts: Parts, reached: Reached) -> Parts:
    """A frame whose body cannot be decoded is passed over."""
    return passing_over(parts, reached, refusal.BAD_PERFORMATIVE)


@amqp_connections.mutant("AMQP10-FRAME-06 AMQP10-IDLE-19")
def empty_frames_need_a_session(parts: Parts, reached: Reached) -> Parts:
    """An empty frame on a channel without session is an error."""

    class Faulty(AmqpConnection):
        def _frame(self, type: int, channel: int, body: bytes) -> None:
            if not body and self._state is State.OPENED and channel not in self._sessions:
                reached()
                raise Refusal(refusal.NO_SESSION, f"an empty frame on channel {channel}")
            super()._frame(type, channel, body)

    return replace(parts, amqp=Faulty)


# --- opening and closing --------------------------------------------------------------------------


@amqp_connections.mutant("AMQP10-OPEN-04 AMQP10-CLOSE-06")
def open_on_channel_one(parts: Parts, reached: Reached) -> Parts:
    """The broker's open goes out on channel 1."""

    class Faulty(AmqpConnection):
        def send(self, octets: bytes) -> None:
            if (
                len(octets) > HEADER.size + 3
                and octets[:4] != b"AMQP"
                and octets[8:11] == b"\0\x53\x10"
            ):
                reached()
                octets = frame(1, octets[HEADER.size :])
            super().send(octets)

    return replace(parts, amqp=Faulty)


@amqp_connections.mutant(
    "AMQP10-CLOSE-01 AMQP10-FRAME-02 AMQP10-FRAME-03 AMQP10-FRAME-05 AMQP10-MFS-03"
)
def close_without_reason(parts: Parts, reached: Reached) -> Parts:
    """A close after a mistake of the peer has no error."""
    return with_fields(parts, reached, Close, error=None)


@amqp_connections.mutant("AMQP10-CLOSE-01 AMQP10-FRAME-02 AMQP10-FRAME-03 AMQP10-FRAME-05")
def mistakes_cut_off(parts: Parts, reached: Reached) -> Parts:
    """After a mistake of the peer the connection ends without a close."""

    class Faulty(AmqpConnection):
        def close_with(self, error: Error) -> None:
            reached()
            self._close()

    return replace(parts, amqp=Faulty)


@amqp_connections.mutant("AMQP10-CLOSE-01 AMQP10-CLOSE-09 AMQP10-CLOSE-02")
def close_not_answered(parts: Parts, reached: Reached) -> Parts:
    """A close of the peer is answered by the end of the connection alone."""

    class Faulty(AmqpConnection):
        def _peer_closed(self, closed: Close) -> None:
            reached()
            self._leave()
            self._close()

    return replace(parts, amqp=Faulty)


@amqp_connections.mutant("AMQP10-CLOSE-08 AMQP10-CLOSE-02 AMQP10-CLOSE-09")
def goes_on_behind_its_close(parts: Parts, reached: Reached) -> Parts:
    """After its close with an error the broker answers on, as if nothing had been."""

    class Faulty(AmqpConnection):
        def close_with(self, error: Error) -> None:
            super().close_with(error)
            self._state = State.OPENED

        def receive(self, now: Instant, data: bytes) -> None:
            super().receive(now, data)
            if self._state is State.BROKEN:
                reached()
                self._state = State.OPENED

    return replace(parts, amqp=Faulty)


@amqp_connections.mutant("AMQP10-IDLE-15")
def beats_behind_close(parts: Parts, reached: Reached) -> Parts:
    """The signs of life go on while the peer's close is waited for."""

    class Faulty(AmqpConnection):
        def close_with(self, error: Error) -> None:
            super().close_with(error)
            if self._beat_every:
                self._next_beat.move(self.shared.now + self._beat_every)

        def _on_beat(self, now: Instant) -> None:
            if self._state is not State.OPENED:
                reached()
            super()._on_beat(now)

    return replace(parts, amqp=Faulty)


@amqp_connections.mutant("AMQP10-CHMAX-01 AMQP10-OPEN-05")
def channels_above_the_clients_maximum(parts: Parts, reached: Reached) -> Parts:
    """A begin is answered on a channel seven above the right one."""

    class Faulty(Session):
        def __init__(self, connection: Any, begun: Any, channel: int, our_channel: int) -> None:
            reached()
            super().__init__(connection, begun, channel, our_channel + 7)

    return replace(parts, session=Faulty)


@amqp_connections.mutant("AMQP10-CHMAX-02")
def channels_above_the_maximum_taken(parts: Parts, reached: Reached) -> Parts:
    """A begin on a channel above the announced channel-max is passed over."""
    return passing_over(parts, reached, refusal.CHANNEL_TOO_HIGH)


@amqp_connections.mutant("AMQP10-CHMAX-05")
def handles_above_the_maximum_taken(parts: Parts, reached: Reached) -> Parts:
    """An attach with a handle above the announced handle-max is passed over."""
    return passing_over(parts, reached, refusal.HANDLE_TOO_HIGH)


@amqp_connections.mutant("AMQP10-CHMAX-04")
def handles_above_the_clients_maximum(parts: Parts, reached: Reached) -> Parts:
    """The broker's handles begin at 4, whatever handle-max the peer has."""

    class Faulty(Session):
        def __init__(self, connection: Any, begun: Any, channel: int, our_channel: int) -> None:
            super().__init__(connection, begun, channel, our_channel)
            self._handles, self._handle_max = 4, 2**32 - 1
            reached()

    return replace(parts, session=Faulty)


# --- the names of errors --------------------------------------------------------------------------


def _misspelt(parts: Parts, reached: Reached, scope: str) -> Parts:
    def change(performative: Any) -> Any:
        error = getattr(performative, "error", None)
        if error is not None and (
            error.condition.startswith(scope) if scope else error.condition.count(":") == 1
        ):
            error.condition = type(error.condition)(f"{error.condition}s")
        return performative

    return saying(parts, reached, change)


@amqp_connections.mutant("AMQP10-ERR-01")
def shared_conditions_misspelt(parts: Parts, reached: Reached) -> Parts:
    """Conditions that all scopes share are misspelt."""
    return _misspelt(parts, reached, "")


@amqp_connections.mutant("AMQP10-ERR-02 AMQP10-MFS-03")
def connection_conditions_misspelt(parts: Parts, reached: Reached) -> Parts:
    """Conditions of connections are misspelt."""
    return _misspelt(parts, reached, "amqp:connection:")


@amqp_connections.mutant("AMQP10-ERR-03 AMQP10-SESS-05")
def session_conditions_misspelt(parts: Parts, reached: Reached) -> Parts:
    """Conditions of sessions are misspelt."""
    return _misspelt(parts, reached, "amqp:session:")


@amqp_connections.mutant("AMQP10-ERR-04 AMQP10-LINK-02")
def link_conditions_misspelt(parts: Parts, reached: Reached) -> Parts:
    """Conditions of links are misspelt."""
    return _misspelt(parts, reached, "amqp:link:")


# --- idle time-out --------------------------------------------------------------------------------


def _opening(parts: Parts, reached: Reached, idle: Any) -> Parts:
    """``idle`` gets what the peer asks for, in milliseconds, and returns how often to beat, in ns;
    None leaves it."""

    class Faulty(AmqpConnection):
        def _open(self, opened: Open, channel: int) -> None:
            super()._open(opened, channel)
            every = idle(opened.idle_time_out or 0)
            if every is not None:
                reached()
                self._beat_every = every
                self._next_beat.move(self._sent_at + every)

    return replace(parts, amqp=Faulty)


@amqp_connections.mutant("AMQP10-IDLE-20")
def beats_too_late(parts: Parts, reached: Reached) -> Parts:
    """Signs of life come every time that one and a half of what the peer allows are over."""
    return _opening(parts, reached, lambda asked: ms(asked) * 3 // 2 if asked else None)


@amqp_connections.mutant("AMQP10-IDLE-20 AMQP10-IDLE-02")
def beats_by_its_own_time_out(parts: Parts, reached: Reached) -> Parts:
    """Signs of life come as often as the broker itself asks for, whatever the peer asked for."""
    return _opening(parts, reached, lambda asked: ms(30_000) if 0 < asked < 30_000 else None)


@amqp_connections.mutant("AMQP10-IDLE-06")
def zero_is_a_time_out(parts: Parts, reached: Reached) -> Parts:
    """An idle-time-out of 0 or none is taken for half a second."""
    return _opening(parts, reached, lambda asked: None if asked else ms(250))


@amqp_connections.mutant("AMQP10-IDLE-18")
def weeks_are_negative(parts: Parts, reached: Reached) -> Parts:
    """An idle-time-out of 2^31 ms or more is taken for a negative number: the next sign of life is
    always due."""
    return _opening(parts, reached, lambda asked: ms(1) if asked >= 2**31 else None)


@amqp_connections.mutant("AMQP10-IDLE-14")
def beats_before_open(parts: Parts, reached: Reached) -> Parts:
    """An empty frame goes out ahead of open."""

    class Faulty(AmqpConnection):
        def _send_open(self) -> None:
            reached()
            self.send(EMPTY)
            super()._send_open()

    return replace(parts, amqp=Faulty)


@amqp_connections.mutant("AMQP10-IDLE-01 AMQP10-IDLE-05")
def announces_more_than_it_waits(parts: Parts, reached: Reached) -> Parts:
    """The idle-time-out of open is one and a half of how long the broker waits."""

    def change(performative: Any) -> Any:
        if isinstance(performative, Open) and performative.idle_time_out:
            performative.idle_time_out *= 3
        return performative

    return saying(parts, reached, change)


def _silence(parts: Parts, reached: Reached, instead: Any) -> Parts:
    class Faulty(AmqpConnection):
        def _on_silence(self, now: Instant) -> None:
            reached()
            instead(self, now)

    return replace(parts, amqp=Faulty)


@amqp_connections.mutant("AMQP10-IDLE-03 AMQP10-IDLE-05")
def silence_borne_for_ever(parts: Parts, reached: Reached) -> Parts:
    """A silent peer is never closed."""
    return _silence(parts, reached, lambda self, now: None)


@amqp_connections.mutant("AMQP10-IDLE-03 AMQP10-CLOSE-01")
def silence_cut_off(parts: Parts, reached: Reached) -> Parts:
    """The connection of a silent peer ends without a close."""
    return _silence(parts, reached, lambda self, now: self._close())


@amqp_connections.mutant("AMQP10-IDLE-01 AMQP10-IDLE-19 AMQP10-IDLE-16")
def empty_frames_are_no_sign_of_life(parts: Parts, reached: Reached) -> Parts:
    """A peer that sends nothing but empty frames is taken for silent."""

    class Faulty(AmqpConnection):
        heard: Instant = -1

        def _frame(self, type: int, channel: int, body: bytes) -> None:
            if body or self.heard < 0:
                self.heard = self._frame_at
            else:
                reached()
                self._frame_at = self.heard
            super()._frame(type, channel, body)

    return replace(parts, amqp=Faulty)


# --- SASL -----------------------------------------------------------------------------------------

REFUSED = "AMQP10-SASL-11 AMQP10-SASL-12 AMQP10-SASL-13 AMQP10-SASL-14"


@amqp_connections.mutant(REFUSED)
def passwords_not_compared(parts: Parts, reached: Reached) -> Parts:
    """A known name may log in with any password."""

    class Faulty(SaslServer):
        def respond(self, response: bytes) -> Outcome:
            right = super().respond(response)
            if right.code != OK and response.count(b"\0") == 2:
                reached()
                return Outcome(OK, "anybody", "any password will do")
            return right

    return replace(parts, sasl=Faulty)


@amqp_connections.mutant(f"{REFUSED} AMQP10-SASL-07 AMQP10-SASL-10")
def any_mechanism_taken(parts: Parts, reached: Reached) -> Parts:
    """A mechanism that was not offered is taken for ANONYMOUS."""

    class Faulty(SaslServer):
        def start(self, mechanism: str, initial: bytes | None) -> Outcome | bytes:
            if mechanism not in self.offered:
                reached()
                return Outcome(OK, "anonymous", "whatever")
            return super().start(mechanism, initial)

    return replace(parts, sasl=Faulty)


@amqp_connections.mutant(REFUSED)
def refused_and_kept(parts: Parts, reached: Reached) -> Parts:
    """After a failed login the connection stays open."""

    class Faulty(AmqpConnection):
        def _sasl_ended(self, outcome: Outcome) -> None:
            self.kept = outcome.code != OK
            super()._sasl_ended(outcome)
            self.kept = False

        def _close(self) -> None:
            if getattr(self, "kept", False):
                reached()
            else:
                super()._close()

    return replace(parts, amqp=Faulty)


@amqp_connections.mutant("AMQP10-SESS-03")
def end_not_answered(parts: Parts, reached: Reached) -> Parts:
    """An end of the peer is not answered."""
    return saying(
        parts, reached, lambda each: None if isinstance(each, End) and each.error is None else each
    )
