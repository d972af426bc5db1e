"""Faults of OpenWire: negotiation and answers, producers' windows, prefetch, KeepAliveInfo, and
malformed input."""

from unittest import mock

from brokerproof.reference_broker.families.activemq.inactivity import NEVER, InactivityMonitor
from brokerproof.reference_broker.kernel.java_fields import Malformed, int32
from brokerproof.reference_broker.protocols.openwire import codes
from brokerproof.reference_broker.protocols.openwire.client import Client
from brokerproof.reference_broker.protocols.openwire.connection import OpenWireConnection
from brokerproof.reference_broker.protocols.openwire.consumer import OpenWireConsumer, Prefetch
from brokerproof.reference_broker.protocols.openwire.encoding import CommandParser
from brokerproof.reference_broker.protocols.openwire.keepalive import Signs
from brokerproof.reference_broker.protocols.openwire.message import MessageFields, fields_of
from brokerproof.reference_broker.protocols.openwire.producer import Producer
from brokerproof.suites.mutation.mutant import Group

openwire = Group("openwire", "reference-activemq")

BEGINS, SPOKEN = "OPENWIRE-NEG-1", "OPENWIRE-NEG-2"
SAME, PLAIN = "OPENWIRE-ENC-1", "OPENWIRE-ENC-2"
ANSWERED, REMOVED = "OPENWIRE-RESP-1", "OPENWIRE-REMOVE-1"
TAKEN = "OPENWIRE-ACK-1"
BOUND = "OPENWIRE-PREFETCH-1"
MORE = "OPENWIRE-PREFETCH-2"
PULL = "OPENWIRE-PREFETCH-3"
CLOSED = "OPENWIRE-INACT-1"
SIGNS = "OPENWIRE-INACT-2"
LEAST = "OPENWIRE-INACT-3"
OFF = "OPENWIRE-INACT-4"
KEPT = "OPENWIRE-INACT-5"
SIZES, TYPES, LIMIT = "OPENWIRE-CMD-1", "OPENWIRE-CMD-2", "OPENWIRE-SIZE-1"


# --- negotiation ----------------------------------------------------------------------------------


@openwire.override(OpenWireConnection, "send", breaks=BEGINS)
def it_begins_with_other_letters(original, reached, self, data):
    """The broker's WireFormatInfo begins with letters other than ActiveMQ."""
    reached(data[4] == codes.WIRE_FORMAT)
    original(self, data.replace(b"ActiveMQ", b"ActivemQ", 1))


@openwire.override(OpenWireConsumer, "_send", breaks=SPOKEN)
def the_newest_version_is_spoken(original, reached, self, entry):
    """The broker sends the fields of its own version, whatever version the client announces."""
    connection = self._client.connection
    newest = reached.instead(connection.version, codes.NEWEST)
    with mock.patch.object(connection, "version", newest):
        original(self, entry)


# --- the encoding ---------------------------------------------------------------------------------


@openwire.before(OpenWireConsumer, "deliver", breaks=SAME)
def properties_are_lost(reached, self, entry):
    """A message is dispatched without its properties."""
    fields = fields_of(entry.message)
    if reached(fields.properties):
        fields.properties = None


@openwire.before(OpenWireConsumer, "deliver", breaks=SAME)
def groups_begin_anew(reached, self, entry):
    """A message is dispatched as the first of its group."""
    fields = fields_of(entry.message)
    fields.group_sequence = reached.instead(fields.group_sequence, 1)


@openwire.override(OpenWireConnection, "send", breaks="OPENWIRE-ENC-2")
def exceptions_have_their_stack(original, reached, self, data):
    """An exception is followed by an unrequested (empty) stack trace."""
    if reached(data[4] == codes.EXCEPTION_RESPONSE):
        data = int32(len(data) - 4 + 3) + data[4:] + bytes(3)
    original(self, data)


# --- responses ------------------------------------------------------------------------------------


@openwire.before(OpenWireConnection, "answer", breaks=ANSWERED)
def answers_whoever_asks_for_nothing(reached, self, request):
    """A command that requests no response gets one."""
    request.response = reached.instead(request.response, True)


@openwire.before(Client, "acknowledge", breaks=ANSWERED)
def acknowledgements_that_ask_for_nothing_are_answered(reached, self, fields, request):
    """A MessageAck that requests no response gets one."""
    request.response = reached.instead(request.response, True)


@openwire.override(OpenWireConsumer, "close", breaks=REMOVED)
def a_removed_consumer_that_holds_nothing_stays(original, reached, self, last):
    """The queue keeps a removed consumer that holds no message, and sends it the next ones."""
    if not reached(not self._out):
        original(self, last)


@openwire.mutant(ANSWERED)
def the_first_response_is_forgotten(patch, reached):
    """The first message on a connection that requests a response never gets one."""
    patch.set(Client, "forgot", False)

    @patch.after(Client)
    def publish(self, type, fields, request):
        if reached(request.response and not self.forgot):
            self.forgot = request.withheld = True


@openwire.override(Client, "flush", breaks=ANSWERED)
def responses_name_the_command_before(original, reached, self, fields, request):
    """A response to a flush names the previous number."""
    if reached(request.number > 10):
        request.number -= 1


# --- windows of producers -------------------------------------------------------------------------


@openwire.override(Producer, "acknowledge", breaks=TAKEN)
def messages_without_their_head(original, reached, self, size):
    """A ProducerAck counts only the content and the properties."""
    reached()
    original(self, size - 1024)


@openwire.override(Producer, "acknowledge", breaks=TAKEN)
def told_twice(original, reached, self, size):
    """Each message is acknowledged twice."""
    reached()
    original(self, size)
    original(self, size)


@openwire.mutant(TAKEN)
def only_what_fills_the_window_is_told(patch, reached):
    """ProducerAcks are sent only for a full window; smaller amounts are never acknowledged."""
    patch.set(Producer, "kept", 0)

    @patch.override(Producer)
    def acknowledge(original, self, size):
        self.kept += size
        if self.kept >= self.window:
            original(self, self.kept)
            self.kept = 0
        else:
            reached()


# --- prefetch -------------------------------------------------------------------------------------


@openwire.override(Prefetch, "has_room", breaks=BOUND)
def one_more_than_the_limit(original, reached, self, out):
    """A consumer may have one message more than its limit."""
    room = original(self, out)
    return room or (
        self.limit > 0 and bool(reached.instead(room, out == self.limit + self.extension))
    )


@openwire.result(Prefetch, "has_room", breaks=MORE)
def one_less_than_the_limit(room, self, out):
    """A consumer with a limit above 1 never reaches it."""
    return room and (self.limit < 2 or out + 1 < self.limit)


@openwire.override(Prefetch, "acknowledged", breaks=BOUND)
def acknowledgements_widen_the_limit(original, reached, self, count):
    """An acknowledged message counts as merely delivered, so it extends the limit."""
    if reached(count):
        self.seen(count)


@openwire.mutant(MORE)
def nothing_more_until_all_is_acknowledged(patch, reached):
    """A consumer gets more only after acknowledging everything."""
    patch.set(Prefetch, "draining", False)

    @patch.override(Prefetch)
    def has_room(original, self, out):
        self.draining = out > 0 and (self.draining or out >= self.limit)
        room = original(self, out)
        return bool(reached.instead(room, room and not self.draining))


@openwire.result(Prefetch, "has_room", breaks=PULL)
def without_a_limit_everything_is_pushed(room, self, out):
    """A limit of 0 is read as unlimited."""
    return room or self.limit == 0


@openwire.override(Prefetch, "dispatched", breaks=PULL)
def a_pull_brings_all(original, reached, self):
    """After a consumer's first pull, all messages are pushed to it."""
    reached(self.pulled)


# --- silence --------------------------------------------------------------------------------------


@openwire.result(InactivityMonitor, "deadline", breaks=CLOSED)
def the_silent_live_for_ever(right, self):
    """No client is disconnected for silence."""
    return NEVER


@openwire.result(InactivityMonitor, "deadline", breaks=CLOSED)
def the_first_look_closes(right, self):
    """A connection that sent nothing for a tenth of the duration is closed."""
    return right if self.ttl <= 0 else max(self._first, self.last_heard) + self.ttl // 10


@openwire.result(InactivityMonitor, "deadline", breaks=CLOSED)
def exact_and_a_fifth_early(right, self):
    """Each connection has its own timer, which is early by a fifth of the duration."""
    return right if self.ttl <= 0 else self.last_heard + self.ttl * 4 // 5


@openwire.result(InactivityMonitor, "deadline", breaks=CLOSED)
def late_by_a_tenth(right, self):
    """Silence is detected a tenth later than at the second check after the last data."""
    late = self.last_heard + (right - self.last_heard) * 11 // 10
    return right if self.ttl <= 0 else late


@openwire.result(InactivityMonitor, "deadline", breaks="OPENWIRE-INACT-1 OPENWIRE-INACT-3")
def a_look_too_many(right, self):
    """The peer is disconnected one check too late."""
    return right + 2 * self.ttl if self.ttl > 0 else right


@openwire.override(InactivityMonitor, "agreed", breaks=LEAST)
def the_broker_s_duration_counts(original, reached, self, now, ttl, first):
    """The client's own duration is ignored, unless it is 0."""
    original(self, now, int(reached.instead(ttl, 30_000_000_000)), first)


@openwire.override(OpenWireConnection, "receive", breaks=KEPT)
def signs_of_life_do_not_count(original, reached, self, now, data):
    """KeepAliveInfo does not keep a connection alive."""
    before = self._liveness.last_heard
    original(self, now, data)
    if reached(data[4:5] == bytes((codes.KEEP_ALIVE,))):
        self._liveness.last_heard = before


@openwire.skips(OpenWireConnection, "send", breaks=KEPT)
def signs_of_life_are_not_answered(self, data):
    """KeepAliveInfo that asks for an answer gets none."""
    return data[4] == codes.KEEP_ALIVE


@openwire.result(Signs, "is_due", breaks=SIGNS)
def no_signs_of_life(right, self, now):
    """The broker sends no KeepAliveInfo."""
    return False


@openwire.result(Signs, "rhythm", breaks=SIGNS)
def signs_of_life_are_late_by_a_tenth(right, self):
    """The broker sends KeepAliveInfo every 1.1 durations."""
    return self.duration * 11 // 10


@openwire.result(Signs, "rhythm", breaks=SIGNS)
def signs_of_life_are_too_rare(right, self):
    """The broker checks its own silence once per duration, so it may be silent for nearly two."""
    return self.duration


@openwire.override(OpenWireConnection, "_watch", breaks=OFF)
def a_duration_of_zero_is_the_broker_s(original, reached, self, now, fields):
    """A client that announces 0 is checked with the broker's own duration."""
    duration = fields.get("MaxInactivityDuration")
    if reached(isinstance(duration, int) and duration <= 0):
        fields = {**fields, "MaxInactivityDuration": 30_000}
    original(self, now, fields)


# --- malformed commands ---------------------------------------------------------------------------


@openwire.override(OpenWireConnection, "_command", breaks=TYPES)
def unknown_types_are_passed_over(original, reached, self, came):
    """A command of an unknown type is ignored."""
    try:
        original(self, came)
    except Malformed:
        reached()


@openwire.before(CommandParser, "next", breaks=SIZES)
def negative_sizes_are_passed_over(reached, self):
    """The four bytes of a negative size are skipped, and reading continues."""
    while len(self._waiting) >= 4 and self._waiting[0] > 127:
        reached()
        del self._waiting[:]


def _with_limit(patch, reached, more):
    @patch.override(OpenWireConnection)
    def _negotiate(original, self, now, came):
        before = self._parser.most
        original(self, now, came)
        if reached(self._parser.most < before):
            self._parser.most += more


@openwire.variant(_with_limit, -1, breaks=LIMIT)
def the_largest_frame_is_too_large():
    """A frame of exactly maxFrameSize is refused."""


@openwire.variant(_with_limit, 1, breaks=LIMIT)
def a_frame_may_be_larger_by_one():
    """A frame one byte above maxFrameSize is accepted."""


@openwire.override(Client, "_route", breaks="OPENWIRE-ENC-1")
def the_first_that_names_its_place_goes_astray(original, reached, self, place):
    """The first message to a destination is lost if its producer has no destination of its own
    (ARTEMIS-3827)."""
    new = place not in self._routes
    right = original(self, place)
    if reached(new and any(item.destination is None for item in self._producers.values())):
        return original(self, place._replace(name="astray"))
    return right


def _with_message(patch, reached, change):
    @patch.override(MessageFields)
    def encode(original, self, *rest):
        was = self.type, self.content, self.compressed
        self.type, self.content, self.compressed = change(*was)
        reached.instead(was, (self.type, self.content, self.compressed))
        try:
            return original(self, *rest)
        finally:
            self.type, self.content, self.compressed = was


@openwire.through(_with_message, breaks=SAME)
def compressed_bodies_seem_plain(type, content, compressed):
    """A compressed body is delivered as it is, and the message does not say so (ARTEMIS-1566)."""
    return type, content, False


@openwire.through(_with_message, breaks=SAME)
def a_text_without_content_is_empty(type, content, compressed):
    """A text message without a body gets an empty one (ARTEMIS-464)."""
    return type, b"" if type == codes.TEXT_MESSAGE and content is None else content, compressed


@openwire.through(_with_message, breaks=SAME)
def other_kinds_are_bytes(type, content, compressed):
    """Map, stream and object messages are delivered as bytes messages (ARTEMIS-981)."""
    kinds = codes.MAP_MESSAGE, codes.STREAM_MESSAGE, codes.OBJECT_MESSAGE
    return codes.BYTES_MESSAGE if type in kinds else type, content, compressed


@openwire.override(Client, "control_consumer", breaks="OPENWIRE-PREFETCH-2")
def who_pulls_gets_no_limit(original, reached, self, fields, request):
    """A consumer that was created with a limit of 0 keeps it (ARTEMIS-2641)."""
    pulls = [one for one in self._consumers.values() if one and not one.prefetch.limit]
    original(self, fields, request)
    for consumer in pulls:
        consumer.prefetch.limit = reached.instead(consumer.prefetch.limit, 0)


@openwire.override(Client, "_end_session", breaks="OPENWIRE-REDELIVERY-1")
def nothing_is_known_of_a_session(original, reached, self, id, last):
    """The broker counts all messages of a session as seen, whatever its RemoveInfo says."""
    original(self, id, reached.instead(last, None))
