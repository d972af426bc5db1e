"""Faults of AMQP 0-9-1 clients, each seeded into the small client."""

from functools import partial

from brokerproof.harness.model.time import seconds
from brokerproof.harness.protocols.amqp091 import codec
from brokerproof.harness.protocols.amqp091.codec import Frame
from brokerproof.suites.mutation.clients import faults
from brokerproof.suites.mutation.clients.small_amqp091_client import SmallAmqp091Client

fault = partial(faults.fault, of=SmallAmqp091Client)


@fault("protocol_header", breaks="AMQP091-VER-04")
def amqp_begins_as_version_8(original, self):
    """The client begins with the protocol header of 0-8."""
    return codec.protocol_header(1, 1, 8, 0)


@fault("start_ok", breaks="AMQP091-START-05")
def amqp_chooses_its_own_mechanism(original, self):
    """The client chooses a mechanism that the server does not have."""
    return {**original(self), "mechanism": "SCRAM-SHA-256"}


@fault("start_ok", breaks="AMQP091-START-06")
def amqp_names_nothing(original, self):
    """The client's properties are empty."""
    return {**original(self), "client-properties": {}}


@fault("agree", breaks="AMQP091-TUNE-07")
def amqp_wants_no_limits(original, self, proposed):
    """tune-ok has a channel-max of 0, whatever the server proposes."""
    return {**original(self, proposed), "channel-max": 0}


@fault("agree", breaks="AMQP091-TUNE-07")
def amqp_wants_tiny_frames(original, self, proposed):
    """tune-ok has a frame-max of 1024."""
    return {**original(self, proposed), "frame-max": 1024}


@fault("free_number", breaks="AMQP091-TUNE-08")
def amqp_numbers_beyond_channel_max(original, self):
    """A fourth channel has the number 4, whatever the channel-max."""
    return len(self.numbers) + 1 if len(self.numbers) >= 3 else original(self)


@fault("free_number", breaks="AMQP091-CHAN-06")
def amqp_opens_the_last_channel_again(original, self):
    """The client opens the highest number again when none is free."""
    return min(len(self.numbers) + 1, self.limits["channel-max"])


@fault("content", breaks="AMQP091-TUNE-05")
def amqp_forgets_the_overhead(original, self, number, body):
    """The client's bodies are as large as frame-max, without the frame's own bytes."""
    most = self.limits["frame-max"] + codec.OVERHEAD
    return codec.encode_content(number, body, frame_max=most)


@fault("content", breaks="AMQP091-CONTENT-06")
def amqp_states_another_size(original, self, number, body):
    """A header states one byte less than the body has."""
    frames = original(self, number, body)
    header = codec.encode_content_header(max(0, len(body) - 1))
    return codec.encode_frame(codec.HEADER, number, header) + frames[len(header) + codec.OVERHEAD :]


@fault("beat_due", breaks="AMQP091-HB-07")
def amqp_never_beats(original, self):
    """The client sends no heartbeats."""
    return


@fault("beat_due", breaks="AMQP091-HB-07")
def amqp_beats_too_late(original, self):
    """The client sends a heartbeat every one and a half intervals."""
    due = original(self)
    return None if due is None else due + self.awaits_every


@fault("beat_due", breaks="AMQP091-HB-07")
def amqp_does_not_beat_while_blocked(original, self):
    """The client sends no heartbeats while the server blocks it."""
    return None if self.is_blocked else original(self)


@fault("beat_due", breaks="AMQP091-HB-07")
def amqp_does_not_beat_while_it_works(original, self):
    """The client's heartbeats wait for the listener."""
    return original(self) if self.works_until is None else None


@fault("leave_due", breaks="AMQP091-HB-08")
def amqp_never_leaves(original, self):
    """The client never leaves a silent server."""
    return


@fault("end", breaks="AMQP091-HB-09")
def amqp_closes_silent_connections(original, self):
    """The client sends connection.close before it ends a connection."""
    self.refuse(320)
    original(self)


@fault("heard", breaks="AMQP091-HB-10")
def amqp_counts_whole_frames_only(original, self, data):
    """Part of a frame does not count as a sign of life."""
    if data.endswith(b"\xce"):
        original(self, data)


@fault("heard", breaks="AMQP091-HB-10")
def amqp_counts_heartbeats_only(original, self, data):
    """Only heartbeats count as signs of life."""
    if not self.connected or data[0] == codec.HEARTBEAT:
        original(self, data)


@fault("agree", breaks="AMQP091-HB-11")
def amqp_beats_unasked(original, self, proposed):
    """The client beats every five seconds although no heartbeats were agreed on."""
    agreed = original(self, proposed)
    self.sends_every = self.sends_every or seconds(5)
    return agreed


@fault("agree", breaks="AMQP091-HB-11")
def amqp_waits_unasked(original, self, proposed):
    """The client leaves a server after six silent seconds although no heartbeats were agreed on."""
    agreed = original(self, proposed)
    self.awaits_every = self.awaits_every or seconds(3)
    return agreed


@fault("send", breaks="AMQP091-CLOSE-01")
def amqp_hangs_up(original, self, name, fields=None, channel=0):
    """The client ends a connection that the server closes without close-ok."""
    if name != "connection.close-ok":
        original(self, name, fields, channel)


@fault("refuse", breaks="AMQP091-CLOSE-02")
def amqp_hears_behind_its_close(original, self, code):
    """The client delivers messages that arrive after its connection.close."""
    original(self, code)
    self.leaving = False


@fault("channel_ends", breaks="AMQP091-CLOSE-03")
def amqp_forgets_channels(original, self, what, own, number):
    """The client does not answer channel.close."""
    original(self, "close-ok", own, number)


@fault("listens", breaks="AMQP091-CLOSE-04")
def amqp_hears_on_closing_channels(original, self, method):
    """The client delivers messages that arrive on a channel after its channel.close."""
    return True


@fault("flow", breaks="AMQP091-CHAN-05")
def amqp_floods_on(original, self, number, active):
    """The client answers channel.flow but continues to publish."""
    original(self, number, True)


@fault("send", breaks="AMQP091-CHAN-07")
def amqp_keeps_flow_to_itself(original, self, name, fields=None, channel=0):
    """The client obeys channel.flow without an answer."""
    if name != "channel.flow-ok":
        original(self, name, fields, channel)


@fault("ack", breaks="AMQP091-ACK-04")
def amqp_acknowledges_on_channel_1(original, self, message):
    """The client acknowledges on its first channel, whichever channel a message arrived on."""
    self.send("basic.ack", {"delivery-tag": message["delivery-tag"]}, 1)


@fault("ack", breaks="AMQP091-ACK-05")
def amqp_acknowledges_twice(original, self, message):
    """The client acknowledges each message twice."""
    original(self, message)
    original(self, message)


@fault("hand_out", breaks="AMQP091-ACK-05")
def amqp_acknowledges_unasked(original, self, about, body):
    """The client acknowledges messages when it delivers them."""
    original(self, about, body)
    self.ack(about)


@fault("take_whole", breaks="AMQP091-CONTENT-03")
def amqp_reads_one_body(original, self, frame):
    """The client delivers a message at its first body frame."""
    if frame.type == codec.HEADER and frame.fields["body-size"]:
        frame = Frame(frame.name, {**frame.fields, "body-size": 1}, b"", frame.channel, frame.type)
    if frame.type != codec.BODY or frame.channel in self.contents._open:
        original(self, frame)


@fault("confirmed", breaks="RABBITMQ-AMQP091-CONF-04")
def amqp_ignores_multiple(original, self, number, multiple, ok):
    """The client treats a confirm of several messages as one of the last."""
    original(self, number, False, ok)


@fault("confirmed", breaks="RABBITMQ-AMQP091-CONF-04")
def amqp_takes_no_for_yes(original, self, number, multiple, ok):
    """The client reports refused messages as confirmed."""
    original(self, number, multiple, True)


@fault("report", breaks="RABBITMQ-AMQP091-CANCEL-02")
def amqp_cancels_in_silence(original, self, saw, **fields):
    """The client's application never learns that a consumer was cancelled."""
    if saw != "cancelled":
        original(self, saw, **fields)


@fault("unreadable", breaks="AMQP091-FRAME-01 AMQP091-FRAME-03")
def amqp_skips_what_is_no_frame(original, self, item):
    """The client continues after bytes that are not a frame."""
    if not item.lost:
        original(self, item)


@fault("unreadable", breaks="AMQP091-FRAME-02 AMQP091-FRAME-04")
def amqp_answers_what_is_no_frame(original, self, item):
    """The client answers bytes that are not a frame with connection.close."""
    if not self.leaving:
        self.refuse(501)


@fault("unreadable", breaks="AMQP091-FRAME-07 AMQP091-FRAME-08")
def amqp_skips_unknown_methods(original, self, item):
    """The client skips methods that it cannot read."""
    if item.lost:
        original(self, item)


@fault("fault_in", breaks="AMQP091-FRAME-05 AMQP091-FRAME-06 AMQP091-CONTENT-02 AMQP091-HB-01")
def amqp_trusts_frames(original, self, frame):
    """The client checks neither the size of a frame nor its channel."""
    return 0


@fault("take_whole", breaks="AMQP091-CONTENT-01")
def amqp_drops_half_contents(original, self, frame):
    """The client drops incomplete contents."""
    for method in self.contents.feed(frame):
        if method.complete and self.listens(method):
            self.take(method)
