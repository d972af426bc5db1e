"""Faults of heartbeats and timeouts while a peer is held back, and after."""

from __future__ import annotations

from pamqp import commands

from brokerproof.reference_broker.kernel.alarms import Alarms
from brokerproof.reference_broker.protocols.amqp091.connection import Amqp091Connection
from brokerproof.reference_broker.protocols.amqp091.heartbeat import HeartBeats
from brokerproof.reference_broker.protocols.amqp091.throttle import Throttle
from brokerproof.reference_broker.protocols.amqp10.connection import EMPTY, AmqpConnection
from brokerproof.reference_broker.protocols.core.connection import CoreConnection
from brokerproof.reference_broker.protocols.openwire.connection import OpenWireConnection
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.suites.mutation.mutant import Group

hindered_liveness = Group("unseen-liveness")
liveness_amqp091 = Group("unseen-liveness-amqp091", "reference-rabbitmq")
liveness_openwire = Group("unseen-liveness-openwire", "reference-activemq-flow")

BLOCKED, NOTIFIED = "RABBITMQ-FLOW-conn-1", "RABBITMQ-FLOW-notify-1"


# --- alarms ---------------------------------------------------------------------------------------


def _waiting_091(alarms):
    owners = (getattr(go_on, "__self__", None) for go_on in alarms._waiting)
    return [owner._connection for owner in owners if isinstance(owner, Throttle)]


@liveness_amqp091.override(Alarms, "set", breaks=BLOCKED)
def the_first_cleared_alarm_starts_the_watch(original, reached, self, resource, short, node=""):
    """Of two alarms the one that is cleared first has the silence of blocked connections count
    again."""
    before = len(self.all)
    original(self, resource, short, node)
    if 0 < len(self.all) < before:
        for connection in _waiting_091(self):
            if connection._beats is not None:
                reached()
                connection._beats.resume(connection.shared.now)
                connection._silence_check.move(connection._beats.look_at)


@liveness_amqp091.override(Alarms, "set", breaks=BLOCKED)
def the_first_cleared_alarm_starts_the_watch_of_stomp(
    original, reached, self, resource, short, node=""
):
    """Of two alarms the one that is cleared first has the silence of blocked STOMP connections
    count again."""
    before = len(self.all)
    original(self, resource, short, node)
    if 0 < len(self.all) < before:
        for go_on in self._waiting:
            connection = getattr(go_on, "__self__", None)
            if isinstance(connection, StompConnection) and connection._liveness.ttl > 0:
                reached()
                connection._liveness.last_heard = connection.shared.now
                connection._watch()


@liveness_amqp091.override(Amqp091Connection, "resume", breaks="AMQP091-HB-02")
def our_heartbeats_begin_anew_behind_an_alarm(original, reached, self):
    """The end of an alarm counts as sent: the next heartbeat is due an interval later."""
    original(self)
    if self.is_open and self._beats is not None:
        reached()
        self._beats.send_at = self.shared.now + self._beats._interval
        self._next_beat.move(self._beats.send_at)


@liveness_amqp091.mutant("AMQP091-HB-03")
def the_watch_resumes_once(patch, reached):
    """Behind its second alarm the silence of a client does not count any more."""
    times: dict[object, int] = {}

    @patch.override(Amqp091Connection)
    def resume(original, self):
        original(self)
        times[self] = times.get(self, 0) + 1
        if times[self] > 1 and self.is_open and self._beats is not None:
            reached()
            self._silence_check.cancel()


@liveness_amqp091.override(
    HeartBeats, "resume", breaks="AMQP091-HB-03 RABBITMQ-AMQP091-HB-01 RABBITMQ-FLOW-conn-1"
)
def a_check_missed_before_an_alarm_counts(original, reached, self, now):
    """One interval of silence before an alarm and one behind it make two."""
    missed = self._missed
    original(self, now)
    if missed:
        reached()
        self._missed, self._heard = missed, False


@liveness_amqp091.override(HeartBeats, "resume", breaks="RABBITMQ-AMQP091-HB-01 AMQP091-HB-03")
def the_first_check_behind_an_alarm_does_not_pass(original, reached, self, now):
    """Behind an alarm the peer is given up after one interval of silence."""
    original(self, now)
    reached()
    self._missed, self._heard = 1, False


@liveness_amqp091.override(Amqp091Connection, "receive", breaks="AMQP091-HB-05")
def a_body_is_no_sign_of_life(original, reached, self, now, data):
    """Bytes of a content that is not complete do not count as a heartbeat."""
    beats = self._beats
    before = None if beats is None else beats._heard
    original(self, now, data)
    if before is False and beats is not None and self.is_open and self.unfinished_bytes:
        reached()
        beats._heard = False


@liveness_amqp091.mutant(NOTIFIED)
def blocked_is_told_once(patch, reached):
    """connection.blocked is sent for the first alarm that a connection meets, and not again."""

    @patch.override(Throttle, "_understands")
    def understands(original, self):
        told = getattr(self, "told", 0)
        return original(self) and told < 2

    @patch.override(Throttle)
    def alarm_over(original, self):
        self.told = getattr(self, "told", 0) + 1
        if self.told > 1:
            reached()
        original(self)


@liveness_amqp091.override(Alarms, "set", breaks=NOTIFIED)
def unblocked_is_told_for_the_first_of_two(original, reached, self, resource, short, node=""):
    """connection.unblocked is sent when the first of two alarms is cleared."""
    before = len(self.all)
    original(self, resource, short, node)
    if 0 < len(self.all) < before:
        for connection in _waiting_091(self):
            if connection.throttle._understands:
                reached()
                connection.tell(commands.Connection.Unblocked())


@liveness_amqp091.override(Alarms, "set", breaks="RABBITMQ-FLOW-cluster-1 RABBITMQ-FLOW-mem-1")
def one_alarm_cleared_counts_for_its_namesakes(original, reached, self, resource, short, node=""):
    """An alarm that is cleared clears those of other nodes for the same resource."""
    original(self, resource, short, node)
    if not short:
        for other, what in self.all:
            if what == resource and other != node:
                reached()
                original(self, resource, False, other)


# --- STOMP, AMQP 1.0, CORE ------------------------------------------------------------------------

ROOM = "ARTEMIS-FLOW-block-1"
BEATS = "ARTEMIS-STOMP-ttl-9 STOMP12-HB-09 STOMP11-HB-09 STOMP12-HB-07"


@hindered_liveness.override(StompConnection, "_go_on", breaks=ROOM)
def a_second_wait_for_room_is_watched(original, reached, self):
    """A SEND that waits directly behind one that had waited for room has its connection's silence
    count."""
    original(self)
    if self._waiting is not None and self.is_open:
        reached()
        self._liveness.last_heard = self.shared.now
        self._watch()


@hindered_liveness.override(StompConnection, "receive", breaks="STOMP12-HB-08 STOMP11-HB-08")
def a_large_body_is_no_sign_of_life(original, reached, self, now, data):
    """Bytes of a body that goes to a file count when the body is complete."""
    heard = self._liveness.last_heard
    original(self, now, data)
    if self.is_open and self._parser._sink is not None and self._waiting is None:
        if heard != now:
            reached()
        self._liveness.last_heard = heard
        self._watch()


@hindered_liveness.override(StompConnection, "_on_beat", breaks=BEATS)
def heartbeats_end_with_a_stall(original, reached, self, now):
    """A heartbeat that is due while the peer does not read is left out, and with it all that
    follow."""
    if self._paused:
        reached()
        return
    original(self, now)


@hindered_liveness.override(
    StompConnection,
    "_on_silence_check",
    breaks="ARTEMIS-STOMP-ttl-2 ARTEMIS-STOMP-ttl-3 ARTEMIS-STOMP-ttl-8",
)
def a_stalled_peer_lives_for_ever(original, reached, self, now):
    """A STOMP peer that neither reads nor sends is never taken for dead, and keeps its messages."""
    if self._paused and self._liveness.deadline() <= now:
        reached()
        return
    original(self, now)


@hindered_liveness.override(CoreConnection, "_on_silence_check", breaks="ARTEMIS-TTL-core-1")
def a_stalled_core_peer_lives_for_ever(original, reached, self, now):
    """A CORE peer that neither reads nor sends is never taken for dead."""
    if self.held and self._liveness.deadline() <= now:
        reached()
        return
    original(self, now)


@hindered_liveness.override(CoreConnection, "_on_silence_check", breaks="ARTEMIS-TTL-core-1")
def a_consumer_without_credit_keeps_its_connection(original, reached, self, now):
    """A CORE connection with a consumer that has used its credit up does not time out: it cannot
    have anything to say."""
    waits = any(
        not consumer.credit.has_room() and consumer._unsettled
        for session in self._sessions.values()
        for consumer in session.consumers.values()
    )
    if waits and self._liveness.deadline() <= now:
        reached()
        self._silence_check.move(now + self._liveness.interval)
        return
    original(self, now)


@hindered_liveness.mutant("AMQP10-IDLE-01")
def a_partial_delivery_is_no_sign_of_life(patch, reached):
    """Transfers but the last of a delivery do not count as frames that were received."""

    @patch.override(AmqpConnection)
    def _frame(original, self, type, channel, body):
        before = getattr(self, "whole_frame_at", self._frame_at)
        partial = False
        session = self._sessions.get(channel)
        original(self, type, channel, body)
        if session is not None and body[1:3] == b"\x53\x14":
            partial = any(link.in_delivery for link in session.links.values())
        if partial and before != self._frame_at:
            reached()
            self._frame_at = before
        else:
            self.whole_frame_at = self._frame_at


@hindered_liveness.override(AmqpConnection, "_on_beat", breaks="AMQP10-IDLE-20")
def a_delivery_under_way_replaces_empty_frames(original, reached, self, now):
    """No empty frames are sent while a delivery waits for the window of its session: more of it
    follows."""
    if self._sent_at + self._beat_every <= now and any(
        session._pending for session in self._sessions.values()
    ):
        reached()
        self._next_beat.move(now + self._beat_every)
        return
    original(self, now)


@hindered_liveness.override(AmqpConnection, "_on_beat", breaks="AMQP10-IDLE-20")
def empty_frames_end_with_a_stall(original, reached, self, now):
    """An empty frame that is due while the peer does not read stands for the next two as well."""
    if self.held and self._sent_at + self._beat_every <= now:
        reached()
        self._sent_at = now + 2 * self._beat_every
        self.shared.outbox.send(self.conn, EMPTY)
        self._next_beat.move(self._sent_at + self._beat_every)
        return
    original(self, now)


@liveness_amqp091.mutant("AMQP10-IDLE-01")
def transfers_under_an_alarm_are_no_sign_of_life(patch, reached):
    """Transfers that were on their way when an alarm closed the window do not count as frames."""

    @patch.override(AmqpConnection)
    def _frame(original, self, type, channel, body):
        session = self._sessions.get(channel)
        left = None if session is None else session._under_way
        original(self, type, channel, body)
        if session is not None and session._under_way != left and self.shared.alarms.raised:
            reached()
            self._frame_at = getattr(self, "frame_before", self._frame_at)
        self.frame_before = self._frame_at


# --- OpenWire -------------------------------------------------------------------------------------


@liveness_openwire.override(OpenWireConnection, "_on_silence_check", breaks="OPENWIRE-INACT-1")
def the_watch_ends_while_a_message_waits(original, reached, self, now):
    """The silence of a connection that was stalled by a full queue does not count any more."""
    if self._stalled is not None:
        reached()
        return
    original(self, now)


@liveness_openwire.override(OpenWireConnection, "_on_sign", breaks="OPENWIRE-INACT-2")
def no_signs_while_a_message_waits(original, reached, self, now):
    """KeepAliveInfo is not sent while a message stalls the connection, unless it is the first."""
    signs = self._signs
    if self._stalled is not None and getattr(self, "signs_sent", 0):
        reached()
        signs.is_due(now)
        self._next_sign.move(signs.deadline)
        return
    self.signs_sent = 1
    original(self, now)


@liveness_openwire.mutant("OPENWIRE-INACT-1 ACTIVEMQ-PFC-2")
def a_stall_counts_as_silence_behind_it(patch, reached):
    """When a stalled message has been added, its connection's silence counts from the last byte
    before it."""

    @patch.override(OpenWireConnection)
    def stall(original, self, sending):
        self.heard_last = self._liveness.last_heard
        original(self, sending)

    @patch.override(OpenWireConnection)
    def go_on(original, self, sending):
        stalled = self._stalled is sending
        original(self, sending)
        if stalled and self.is_open and self._stalled is None:
            reached()
            self._liveness.last_heard = self.heard_last
            if self._liveness.ttl > 0:
                self._silence_check.move(max(self.shared.now, self._liveness.deadline()))
