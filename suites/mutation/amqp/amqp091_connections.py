"""Faults of AMQP 0-9-1's connections and channels: heartbeats, negotiated limits, effects of
errors, and closing."""

from unittest import mock

from pamqp import commands

from brokerproof.reference_broker.protocols.amqp091 import methods
from brokerproof.reference_broker.protocols.amqp091.channel import HANDLERS, Channel
from brokerproof.reference_broker.protocols.amqp091.connection import Amqp091Connection, State
from brokerproof.reference_broker.protocols.amqp091.consumer import Consumer
from brokerproof.reference_broker.protocols.amqp091.errors import CONNECTION_FORCED, Refusal
from brokerproof.reference_broker.protocols.amqp091.framing import HEARTBEAT, METHOD
from brokerproof.suites.mutation.mutant import Group, breaks

amqp091_connections = Group("amqp091-connections", "reference-rabbitmq")


# --- heartbeats ----------------------------------------------------------------------------------


@amqp091_connections.before(Amqp091Connection, "_tune_ok", breaks="AMQP091-HB-06")
def none_is_what_was_proposed(reached, self, now, method):
    """A client that wants no heartbeats gets the server's proposed interval, and must send some."""
    if reached(not method.heartbeat):
        method.heartbeat = self.acceptor.amqp091.heartbeat_s


@amqp091_connections.before(Amqp091Connection, "_on_silence_check")
@breaks("AMQP091-HB-03 RABBITMQ-AMQP091-HB-01")
def nobody_is_given_up(reached, self, now):
    """A client may be silent forever."""
    if reached(self._beats is not None):
        self._beats.on_bytes_received()


@amqp091_connections.mutant("AMQP091-HB-04")
def silence_is_answered(patch, reached):
    """A client disconnected for silence gets connection.close."""
    looking = patch.during(Amqp091Connection, "_on_silence_check")

    @patch.before(Amqp091Connection)
    def end(self):
        if reached(looking):
            self.tell(commands.Connection.Close(CONNECTION_FORCED, "silence", 0, 0))


@amqp091_connections.override(Amqp091Connection, "_frame", breaks="AMQP091-HB-01")
def a_heart_beat_counts_on_any_channel(original, reached, self, type, channel, payload, method):
    """A heartbeat on any channel is accepted like one on channel 0."""
    original(self, type, 0 if reached(type == HEARTBEAT and channel) else channel, payload, method)


# --- negotiated limits ----------------------------------------------------------------------------


@amqp091_connections.after(Amqp091Connection, "_tune_ok", breaks="AMQP091-FRAME-05")
def frames_of_any_size_are_taken(reached, self, now, method):
    """A client's frames may be larger than negotiated."""
    reached()
    self._parser.limit = 0


@amqp091_connections.after(Amqp091Connection, "_tune_ok", breaks="AMQP091-TUNE-05")
def the_overhead_is_forgotten(reached, self, now, method):
    """A body is cut into frames with frame-max bytes of payload, so each frame exceeds
    frame-max."""
    if reached(self.frame_max):
        self.frame_max += 8


@amqp091_connections.before(Amqp091Connection, "_open_channel", breaks="AMQP091-TUNE-06")
def channels_are_not_counted(reached, self, number, method):
    """A client may have more channels than negotiated."""
    if reached(self._channel_max and number > self._channel_max):
        self._channel_max = 0


# --- errors and closing ---------------------------------------------------------------------------


@amqp091_connections.after(Channel, "refuse", breaks="AMQP091-CHAN-02")
def an_error_of_a_channel_ends_everything(reached, self, problem, method):
    """A mistake on one channel ends its connection."""
    reached()
    self.connection.end()


@amqp091_connections.before(Channel, "_give_all_back", breaks="AMQP091-CHAN-04")
def what_a_closed_channel_had_is_lost(reached, self):
    """Messages that a closed channel had not acknowledged are lost."""
    if reached(self.unacked):
        self.unacked.clear()


@amqp091_connections.skips(Amqp091Connection, "tell", breaks="AMQP091-CLOSE-01")
def a_close_is_not_answered(self, method, channel=0):
    """A client that closes its connection is left without an answer."""
    return isinstance(method, commands.Connection.CloseOk)


@amqp091_connections.before(Amqp091Connection, "_method", breaks="AMQP091-CLOSE-02")
def a_closing_connection_declares_exchanges(reached, self, channel, payload):
    """After its own close of the connection the server still declares exchanges."""
    declares = self._state is State.CLOSING and payload[:4] == b"\0\x28\0\x0a"
    if reached(declares):
        method = methods.read(payload)
        HANDLERS[method.__class__](Channel(self, channel), method)


@amqp091_connections.mutant("AMQP091-CLOSE-04")
def a_closing_channel_goes_on(patch, reached):
    """After its own close of a channel the server still answers its methods."""

    @patch.override(Amqp091Connection)
    def _method(original, self, channel, payload):
        open_channel = self.channels.get(channel)
        if open_channel is None or not open_channel.is_closing:
            return original(self, channel, payload)
        with mock.patch.object(open_channel, "is_closing", False):
            return original(self, channel, payload)

    @patch.override(Channel)
    def frame(original, self, type, payload, method):
        handler = HANDLERS.get(method.__class__)
        if reached(self.is_closing and type == METHOD and handler is not None):
            handler(self, method)
            return
        original(self, type, payload, method)


@amqp091_connections.override(Amqp091Connection, "_start_ok", breaks="RABBITMQ-AMQP091-AUTH-01")
def a_refused_login_is_not_told(original, reached, self, method):
    """A client with the capability does not get the refusal of its login."""
    try:
        original(self, method)
    except Refusal as problem:
        reached()
        problem.silent = True
        raise


@amqp091_connections.override(Amqp091Connection, "_on_beat", breaks="AMQP091-HB-02")
def a_stopped_channel_silences_the_server(original, reached, self, now):
    """No heartbeats are sent while a channel's flow is stopped."""
    if reached(any(not channel.active for channel in self.channels.values())):
        self._beats.beat_due(now)
        self._next_beat.move(self._beats.send_at)
    else:
        original(self, now)


# --- the flow of content --------------------------------------------------------------------------


@amqp091_connections.override(Consumer, "has_room", breaks="AMQP091-CHAN-05")
def the_flow_of_content_goes_on(original, reached, self):
    """A client gets content after it stopped the flow."""
    active = self.channel.active
    with mock.patch.object(self.channel, "active", True):
        room = original(self)
    return room if active else reached.instead(False, room)


@amqp091_connections.before(Channel, "settle", breaks="AMQP091-CHAN-05")
def the_flow_of_content_ends_its_pause_with_an_acknowledgement(reached, self, *arguments):
    """An acknowledgement resumes the flow that the client stopped."""
    if reached(not self.active):
        self.active = True


@amqp091_connections.mutant("AMQP091-CHAN-05")
def the_flow_of_content_does_not_come_back(patch, reached):
    """A client that resumes the flow does not get the waiting messages."""
    patch.set(Channel, "was_active", True)

    @patch.override(Channel)
    def frame(original, self, type, payload, method):
        self.was_active = self.active
        original(self, type, payload, method)
        self.was_active = self.active

    @patch.override(Channel)
    def dispatch(original, self):
        if self.was_active:
            original(self)
        else:
            reached()
