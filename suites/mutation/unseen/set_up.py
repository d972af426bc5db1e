"""Faults in the order of frames at set-up and end: pipelining, early frames, and late frames."""

from pamqp import commands as methods

from brokerproof.reference_broker.protocols.amqp091.channel import HANDLERS, Channel
from brokerproof.reference_broker.protocols.amqp091.methods import make, numbers_of, write
from brokerproof.reference_broker.protocols.amqp10.connection import AmqpConnection
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.reference_broker.protocols.stomp.connection import State, StompConnection
from brokerproof.reference_broker.protocols.stomp.parser import FrameParser
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.suites.mutation.mutant import Group, breaks

set_up = Group("set-up")
set_up_amqp091 = Group("set-up-amqp091", "reference-rabbitmq")


# --- pipelined frames -----------------------------------------------------------------------------


@set_up.mutant("STOMP12-HDR-17 STOMP12-FRAME-02 STOMP12-RCPT-03")
def a_piece_of_a_frame_behind_connect_is_lost(patch, reached):
    """Whole frames that arrive in one piece with CONNECT are read, but an incomplete frame after
    them loses its beginning."""
    connecting = patch.during(StompConnection, "_connect")

    @patch.result(FrameParser)
    def rest(data, self):
        if reached(connecting and data.rpartition(b"\0")[2].strip(b"\r\n")):
            whole, nul, _ = data.rpartition(b"\0")
            return whole + nul
        return data


@set_up.mutant("STOMP12-HDR-17 STOMP12-RCPT-03 STOMP12-SEND-02")
def what_is_behind_connect_waits_for_more(patch, reached):
    """Frames in one piece with CONNECT are read only when the client sends more."""
    left: dict[int, bytes] = {}

    @patch.after(StompConnection)
    def _connect(self, now, frame):
        rest = self._parser.rest()
        if reached(rest.strip(b"\r\n") and self._state is State.SESSION):
            left[self.conn] = rest
            self._parser._data, self._parser._at = b"", 0
            self._parser._pending = bytearray()

    @patch.override(StompConnection)
    def receive(original, self, now, data):
        original(self, now, left.pop(self.conn, b"") + data)


@set_up.mutant("AMQP10-OPEN-01 AMQP10-OPEN-02")
def what_is_behind_the_header_waits_for_more(patch, reached):
    """Frames in one piece with the AMQP protocol header are read only when the client sends
    more."""

    @patch.override(AmqpConnection)
    def receive(original, self, now, data):
        if reached(self._state.name == "HEADER" and data[:5] == b"AMQP\0" and len(data) > 8):
            original(self, now, data[:8])
            left[self.conn] = data[8:]
            return
        original(self, now, left.pop(self.conn, b"") + data)

    left: dict[int, bytes] = {}


# --- early frames ---------------------------------------------------------------------------------


@set_up_amqp091.before(HANDLERS, methods.Basic.Recover, breaks="AMQP091-TAG-01 AMQP091-REC-01")
def tags_begin_anew_behind_recover(reached, channel, method):
    """After basic.recover the delivery tags restart at 1, as on a new channel."""
    if reached(channel._tags):
        channel._tags = 0


@set_up_amqp091.mutant("AMQP091-CONS-06")
def consume_ok_goes_with_the_confirms(patch, reached):
    """On a channel that has other consumers, consume-ok is sent with the confirms at the end of the
    input, after the deliveries."""
    late: dict[Channel, list[object]] = {}

    @patch.override(Channel)
    def tell(original, self, method):
        if isinstance(method, methods.Basic.ConsumeOk) and len(self.consumers) > 1:
            late.setdefault(self, []).append(method)
            self.connection.touch(self)
            return
        original(self, method)

    @patch.before(Channel)
    def send_delivery(self, consumer, tag, redelivered, what):
        reached(any(method.consumer_tag == consumer for method in late.get(self, ())))

    @patch.before(Channel)
    def flush(self):
        for method in late.pop(self, ()):
            self.connection.send(write(self.number, method))


# --- frames after the end -------------------------------------------------------------------------


@set_up.after(AmqpConnection, "close_with", breaks="AMQP10-IDLE-15 AMQP10-CLOSE-02")
def a_closing_connection_beats(reached, self, error):
    """Empty frames are still sent between our close and the peer's."""
    if reached(self._beat_every):
        self._next_beat.move(self._sent_at + self._beat_every)


@set_up.override(StompConnection, "_refuse", breaks="STOMP12-ERR-02")
def what_is_behind_an_error_is_confirmed(original, reached, self, problem, frame=None):
    """Frames after a refused one in the same piece are executed and confirmed before the connection
    is closed."""
    if self._state is not State.SESSION:
        original(self, problem, frame)
        return
    self.tell(problem, frame)
    try:
        while (behind := self._parser.next()) is not None:
            reached()
            self._command(behind)
            if self._state is not State.SESSION:
                return
    except Refusal:
        pass
    self.close()


@set_up.override(COMMANDS, "UNSUBSCRIBE")
@breaks("STOMP12-UNSUB-03 STOMP11-UNSUB-02 STOMP10-UNSUBSCRIBE-02")
def the_last_message_follows_its_receipt(original, reached, session, frame):
    """A message returned by UNSUBSCRIBE is offered to the same subscription once more before that
    ends: it arrives after the RECEIPT."""
    name = frame.get("id")
    subscription = session.subscriptions.get((name, None if name else frame.get("destination")))
    last = list(subscription._unsettled.values()) if subscription is not None else []
    original(session, frame)
    if not last or frame.get("receipt") is None:
        return None
    reached()
    entry = last[-1].entry
    encoder, opening = session.encoder, subscription._opening
    data = encoder.message(opening, entry.message, b"", True)
    return lambda: session.shared.outbox.send(session.conn, data)


@set_up_amqp091.mutant("AMQP091-CHAN-02 AMQP091-CHAN-04 AMQP091-CONS-03")
def a_refused_channel_consumes_on(patch, reached):
    """The consumers of a channel closed by the broker continue until the client's close-ok."""

    @patch.override(Channel)
    def refuse(original, self, problem, method):
        if not self.consumers:
            original(self, problem, method)
            return
        reached()
        self.flush()
        self.is_closing = True
        self._forget_content()
        failed = numbers_of(self._publish_of(method))
        self.tell(methods.Channel.Close(problem.code, problem.text, *failed))

    @patch.before(Channel)
    def _after_close(self, method, payload):
        if isinstance(method, methods.Channel.CloseOk):
            self._give_all_back()


@set_up_amqp091.override(HANDLERS, methods.Basic.Cancel)
@breaks("AMQP091-CONS-03 RABBITMQ-AMQP091-CANCEL-01")
def a_cancelled_consumer_is_told_of_the_queue(original, reached, channel, method):
    """A consumer that has cancelled itself gets basic.cancel when its queue is deleted."""
    consumer = channel.consumers.get(method.consumer_tag)
    original(channel, method)
    if consumer is not None and channel.connection.capabilities.get("consumer_cancel_notify"):
        tag = method.consumer_tag

        def tell():
            if reached(
                channel.connection.is_open and not (channel.is_closing or channel.is_closed)
            ):
                channel.tell(make(methods.Basic.Cancel, tag, True))

        consumer.declared.on_delete[tell] = None
