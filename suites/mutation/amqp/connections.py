"""Faults of AMQP connections: frames, their limits, opening and closing, idle time-outs, SASL."""

from typing import Any

from brokerproof.harness.model.time import ms
from brokerproof.reference_broker.protocols.amqp10 import refusal
from brokerproof.reference_broker.protocols.amqp10.connection import AmqpConnection, State
from brokerproof.reference_broker.protocols.amqp10.framing import (
    EMPTY,
    HEADER,
    SASL,
    Frame,
    FrameParser,
    frame,
)
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    Close,
    End,
    Open,
    SaslOutcome,
)
from brokerproof.reference_broker.protocols.amqp10.refusal import Refusal
from brokerproof.reference_broker.protocols.amqp10.sasl import OK, Outcome, SaslServer
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.suites.mutation.amqp.frame_changes import passing_over, saying, sent
from brokerproof.suites.mutation.mutant import Group, breaks

amqp_connections = Group("amqp-connections")

OFFSET = "AMQP10-FRAME-03"
EXTENDED = "AMQP10-FRAME-04"
PERFORMATIVE = "AMQP10-FRAME-05"
CLOSE = b"\0\x53\x18"
"""The descriptor of a close."""


# --- frames ---------------------------------------------------------------------------------------


@amqp_connections.override(FrameParser, "next", breaks="AMQP10-FRAME-02")
def size_below_eight_taken(original, reached, self):
    """A frame with a size below eight bytes is read as an empty one."""
    if reached(self.has(8) and int.from_bytes(self._data[self._at : self._at + 4]) < 8):
        self.take(8)
        return Frame(0, 0, b"")
    return original(self)


@amqp_connections.before(FrameParser, "next", breaks="AMQP10-FRAME-03")
def small_offset_taken(reached, self):
    """A data offset below two is read as two."""
    if reached(self.has(8) and self._data[self._at + 4] < 2):
        data = bytearray(self._data)
        data[self._at + 4] = 2
        self._data = bytes(data)


@amqp_connections.before(FrameParser, "next", breaks=EXTENDED)
def extended_header_read(reached, self):
    """The body of a frame is read after its first eight bytes, ignoring its data offset."""
    if reached(self.has(8) and self._data[self._at + 4] > 2):
        data = bytearray(self._data)
        data[self._at + 4] = 2
        self._data = bytes(data)


@amqp_connections.skips(FrameParser, "_judge", breaks="AMQP10-MFS-03")
def large_frames_waited_for(self, size):
    """The broker waits for a frame above the announced max-frame-size, and reads it."""
    return size > self.limit


@amqp_connections.mutant("AMQP10-MFS-04 AMQP10-OPEN-03")
def first_frames_below_512(patch, reached):
    """Before open a frame may have at most 500 bytes."""

    @patch.after(AmqpConnection)
    def _header(self):
        self._parser.limit = 512

    @patch.after(AmqpConnection)
    def _open(self, opened, channel):
        self._parser.limit = self.acceptor.amqp.max_frame_size

    @patch.before(FrameParser)
    def next(self):
        if reached(
            self.has(4)
            and self.limit == 512
            and int.from_bytes(self._data[self._at : self._at + 4]) > 500
        ):
            raise Refusal(refusal.FRAME_TOO_LARGE, "a first frame of more than 500 bytes")


@amqp_connections.after(AmqpConnection, "_open", breaks="AMQP10-MFS-02 AMQP10-OPEN-05")
def frames_larger_than_asked_for(reached, self, opened, channel):
    """Transfers have up to 20 bytes more than the peer's max-frame-size."""
    self.peer_max_frame_size += 20
    reached()


@amqp_connections.before(AmqpConnection, "_frame", breaks="AMQP10-FRAME-06 AMQP10-IDLE-19")
def empty_frames_need_a_session(reached, self, type, channel, body):
    """An empty frame on a channel without session is an error."""
    if reached(not body and self._state is State.OPENED and channel not in self._sessions):
        raise Refusal(refusal.NO_SESSION, f"an empty frame on channel {channel}")


def _on_mistakes(patch, reached, change):
    """Apply ``change`` to the close that follows a mistake of the peer."""
    errors = []

    @patch.override(AmqpConnection)
    def close_with(original, self, error):
        errors.append(error)
        original(self, error)
        errors.clear()

    @patch.override(AmqpConnection)
    def send(original, self, data):
        original(self, change(data) if reached(errors and data[8:11] == CLOSE) else data)


@amqp_connections.through(_on_mistakes, f"{PERFORMATIVE} AMQP10-CLOSE-01")
def close_without_its_descriptor(data):
    """After a client's mistake, the body of close is a list without a descriptor."""
    return frame(0, data[11:])


@amqp_connections.through(_on_mistakes, PERFORMATIVE)
def mistakes_noted_in_a_frame_of_its_own(data):
    """After a client's mistake, a frame with an unknown descriptor precedes the close."""
    return frame(0, b"\0\x53\x19\x45") + data


# --- opening and closing --------------------------------------------------------------------------


@amqp_connections.override(AmqpConnection, "send", breaks="AMQP10-OPEN-04 AMQP10-CLOSE-06")
def open_on_channel_one(original, reached, self, data):
    """The broker's open is sent on channel 1."""
    if reached(len(data) > HEADER.size + 3 and data[:4] != b"AMQP" and data[8:11] == b"\0\x53\x10"):
        data = frame(1, data[HEADER.size :])
    original(self, data)


@amqp_connections.through(sent(Close), "AMQP10-CLOSE-01 AMQP10-MFS-03")
def close_without_reason(close):
    """A close after a mistake of the peer has no error."""
    close.error = None


@amqp_connections.override(AmqpConnection, "close_with", breaks="AMQP10-CLOSE-01")
def mistakes_cut_off(original, reached, self, error):
    """After a mistake of the peer the connection ends without a close."""
    reached()
    self._close()


@amqp_connections.override(AmqpConnection, "_peer_closed")
@breaks("AMQP10-CLOSE-01 AMQP10-CLOSE-09 AMQP10-CLOSE-02")
def close_not_answered(original, reached, self, closed):
    """The client's close is answered only by the end of the TCP connection."""
    reached()
    self._release()
    self._close()


@amqp_connections.mutant("AMQP10-CLOSE-08 AMQP10-CLOSE-02 AMQP10-CLOSE-09")
def goes_on_behind_its_close(patch, reached):
    """After its own close with an error the broker continues to answer."""

    @patch.after(AmqpConnection)
    def close_with(self, error):
        self._state = State.OPENED

    @patch.after(AmqpConnection)
    def receive(self, now, data):
        if reached(self._state is State.BROKEN):
            self._state = State.OPENED


@amqp_connections.override(AmqpConnection, "_frame", breaks="AMQP10-CLOSE-08 AMQP10-CLOSE-02")
def begins_behind_a_wrong_open(original, reached, self, type, channel, body):
    """A begin that follows a second open is answered after the close with an error."""
    if reached(self._state is State.CLOSING and self._opened and body[2:3] == b"\x11"):
        self.send(frame(channel, body))
    original(self, type, channel, body)


@amqp_connections.mutant("AMQP10-IDLE-15")
def beats_behind_close(patch, reached):
    """Empty frames are sent while the broker waits for the client's close."""

    @patch.after(AmqpConnection)
    def close_with(self, error):
        if self._beat_every:
            self._next_beat.move(self.shared.clock.now + self._beat_every)

    @patch.before(AmqpConnection)
    def _on_beat(self, now):
        reached(self._state is not State.OPENED)


@amqp_connections.override(Session, "__init__", breaks="AMQP10-CHMAX-01 AMQP10-OPEN-05")
def channels_above_the_clients_maximum(
    original, reached, self, connection, begun, channel, our_channel
):
    """A begin is answered on a channel seven above the right one."""
    reached()
    original(self, connection, begun, channel, our_channel + 7)


@amqp_connections.variant(passing_over, refusal.CHANNEL_TOO_HIGH, breaks="AMQP10-CHMAX-02")
def channels_above_the_maximum_taken():
    """A begin on a channel above the announced channel-max is ignored."""


@amqp_connections.variant(passing_over, refusal.HANDLE_TOO_HIGH, breaks="AMQP10-CHMAX-05")
def handles_above_the_maximum_taken():
    """An attach with a handle above the announced handle-max is ignored."""


@amqp_connections.after(Session, "__init__", breaks="AMQP10-CHMAX-04")
def handles_above_the_clients_maximum(reached, self, connection, begun, channel, our_channel):
    """The broker's handles begin at 4, whatever handle-max the peer has."""
    self._handles, self._handle_max = 4, 2**32 - 1
    reached()


# --- the names of errors --------------------------------------------------------------------------


def _misspelt(patch, reached, scope):
    def change(performative: Any) -> Any:
        error = getattr(performative, "error", None)
        if error is not None and (
            error.condition.startswith(scope) if scope else error.condition.count(":") == 1
        ):
            error.condition = type(error.condition)(f"{error.condition}s")
        return performative

    saying(patch, reached, change)


@amqp_connections.variant(_misspelt, "", breaks="AMQP10-ERR-01")
def shared_conditions_misspelt():
    """Conditions that all scopes share are misspelt."""


@amqp_connections.variant(_misspelt, "amqp:connection:", breaks="AMQP10-ERR-02 AMQP10-MFS-03")
def connection_conditions_misspelt():
    """Conditions of connections are misspelt."""


@amqp_connections.variant(_misspelt, "amqp:session:", breaks="AMQP10-ERR-03 AMQP10-SESS-05")
def session_conditions_misspelt():
    """Conditions of sessions are misspelt."""


@amqp_connections.variant(_misspelt, "amqp:link:", breaks="AMQP10-ERR-04 AMQP10-LINK-02")
def link_conditions_misspelt():
    """Conditions of links are misspelt."""


# --- idle time-out --------------------------------------------------------------------------------


def _opening(patch, reached, idle):
    """Set the idle time-out: ``idle`` gets the peer's request in milliseconds and returns the
    heartbeat interval in ns, or None to change nothing."""

    @patch.after(AmqpConnection)
    def _open(self, opened, channel):
        every = idle(opened.idle_time_out or 0)
        if reached(every is not None):
            self._beat_every = every
            self._next_beat.move(self._sent_at + every)


@amqp_connections.through(_opening, "AMQP10-IDLE-20")
def beats_too_late(asked):
    """Empty frames are sent at intervals of 1.5 times the client's idle-time-out."""
    return ms(asked) * 3 // 2 if asked else None


@amqp_connections.through(_opening, "AMQP10-IDLE-20")
def beats_late_by_a_tenth(asked):
    """Empty frames are sent a tenth later than the client allows."""
    return ms(asked) * 11 // 10 if asked else None


@amqp_connections.through(_opening, "AMQP10-IDLE-20 AMQP10-IDLE-02")
def beats_by_its_own_time_out(asked):
    """Empty frames follow the broker's own idle-time-out, not the client's."""
    return ms(30_000) if 0 < asked < 30_000 else None


@amqp_connections.after(AmqpConnection, "_open", breaks="AMQP10-IDLE-06")
def zero_is_a_time_out(reached, self, opened, channel):
    """An idle-time-out of 0 is read as half a second."""
    if reached(opened.idle_time_out == 0):
        self._beat_every = ms(250)
        self._next_beat.move(self._sent_at + ms(250))


@amqp_connections.before(AmqpConnection, "_open", breaks="AMQP10-IDLE-18")
def time_outs_have_a_sign(reached, self, opened, channel):
    """An idle-time-out of 2^31 or more is read as negative, and refused."""
    if reached((opened.idle_time_out or 0) >= 2**31):
        raise Refusal(refusal.IDLE_TOO_SHORT, "an idle-time-out is not negative")


@amqp_connections.after(AmqpConnection, "_open", breaks="AMQP10-IDLE-18")
def timers_of_weeks_run_over(reached, self, opened, channel):
    """The timer of an idle-time-out of 2^31 or more overflows: the client counts as silent
    immediately."""
    if reached((opened.idle_time_out or 0) >= 2**31):
        self._silence_check.cancel()
        self._refuse(Refusal(refusal.SILENT, "local-idle-timeout expired"))
        self._flush()


@amqp_connections.before(AmqpConnection, "_send_open", breaks="AMQP10-IDLE-14")
def beats_before_open(reached, self):
    """An empty frame is sent before open."""
    reached()
    self.send(EMPTY)


@amqp_connections.through(sent(Open), "AMQP10-IDLE-01 AMQP10-IDLE-05")
def announces_more_than_it_waits(opened):
    """The announced idle-time-out is 1.5 times the time that the broker waits."""
    if opened.idle_time_out:
        opened.idle_time_out *= 3


@amqp_connections.through(sent(Open), "AMQP10-IDLE-05")
def announces_a_quarter_too_much(opened):
    """The broker waits a fifth less than twice the idle-time-out of its open."""
    if opened.idle_time_out:
        opened.idle_time_out = opened.idle_time_out * 5 // 4


@amqp_connections.override(AmqpConnection, "_on_silence_check", breaks="AMQP10-IDLE-05")
def silence_noticed_a_tenth_late(original, reached, self, now):
    """A silent client is disconnected after a tenth more than twice the announced idle-time-out."""
    late = self._frame_at + self._ttl * 11 // 10
    if reached(self._frame_at + self._ttl <= now < late and not self.stalled):
        self._silence_check.move(late)
    else:
        original(self, now)


def _silence(patch, reached, instead):
    @patch.override(AmqpConnection)
    def _refuse(original, self, problem):
        if reached(problem.fault is refusal.SILENT):
            instead(self)
        else:
            original(self, problem)


@amqp_connections.variant(_silence, lambda self: None, breaks="AMQP10-IDLE-03 AMQP10-IDLE-05")
def silence_borne_for_ever():
    """A silent peer is never disconnected."""


@amqp_connections.through(_silence, "AMQP10-IDLE-03")
def silence_cut_off(self):
    """The connection of a silent peer ends without a close."""
    return self._close()


@amqp_connections.mutant("AMQP10-IDLE-01 AMQP10-IDLE-19 AMQP10-IDLE-16")
def empty_frames_are_no_sign_of_life(patch, reached):
    """A client that sends only empty frames counts as silent."""
    patch.set(AmqpConnection, "heard", -1)

    @patch.before(AmqpConnection)
    def _frame(self, type, channel, body):
        if body or self.heard < 0:
            self.heard = self._frame_at
        else:
            reached()
            self._frame_at = self.heard


# --- SASL -----------------------------------------------------------------------------------------

REFUSED = "AMQP10-SASL-11 AMQP10-SASL-12 AMQP10-SASL-13 AMQP10-SASL-14"


@amqp_connections.result(SaslServer, "respond", breaks=REFUSED)
def passwords_not_compared(right, self, response):
    """A known name may log in with any password."""
    if right.code != OK and response.count(b"\0") == 2:
        return Outcome(OK, "anybody", "any password will do")
    return right


@amqp_connections.override(SaslServer, "start", breaks=f"{REFUSED} AMQP10-SASL-07 AMQP10-SASL-10")
def any_mechanism_taken(original, reached, self, mechanism, initial):
    """A mechanism that was not offered is treated as ANONYMOUS."""
    if reached(mechanism not in self.offered):
        return Outcome(OK, "anonymous", "whatever")
    return original(self, mechanism, initial)


@amqp_connections.override(AmqpConnection, "_refuse", breaks=REFUSED)
def refused_and_kept(original, reached, self, problem):
    """After a failed login the connection stays open."""
    if reached(problem.fault is refusal.LOGIN_FAILED):
        self.send(frame(0, SaslOutcome(code=1).encode(), SASL))
    else:
        original(self, problem)


@amqp_connections.through(saying, "AMQP10-SESS-03")
def end_not_answered(performative):
    """The peer's end is not answered."""
    return None if isinstance(performative, End) and performative.error is None else performative
