"""Faults of heartbeats and timeouts while a peer is blocked, and afterwards."""

from pamqp import commands

from brokerproof.harness.model.time import seconds
from brokerproof.reference_broker.families.artemis.ttl_liveness import LivenessMonitor
from brokerproof.reference_broker.kernel.alarms import Alarms
from brokerproof.reference_broker.protocols.amqp091.connection import Amqp091Connection
from brokerproof.reference_broker.protocols.amqp091.heartbeat import HeartBeats
from brokerproof.reference_broker.protocols.amqp091.throttle import Throttle
from brokerproof.reference_broker.protocols.amqp10.connection import AmqpConnection
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.suites.mutation.mutant import Group, breaks

hindered_liveness = Group("unseen-liveness")
liveness_amqp091 = Group("unseen-liveness-amqp091", "reference-rabbitmq")

BLOCKED, NOTIFIED = "RABBITMQ-FLOW-conn-1", "RABBITMQ-FLOW-notify-1"


# --- alarms ---------------------------------------------------------------------------------------


def _waiting_091(alarms):
    owners = (getattr(go_on, "__self__", None) for go_on in alarms._waiting)
    return [owner._connection for owner in owners if isinstance(owner, Throttle)]


@liveness_amqp091.override(Alarms, "set", breaks=BLOCKED)
def the_first_cleared_alarm_starts_the_watch(original, reached, self, resource, short, node=""):
    """When the first of two alarms is cleared, the silence of blocked connections counts again."""
    before = len(self.all)
    original(self, resource, short, node)
    if 0 < len(self.all) < before:
        for connection in _waiting_091(self):
            if reached(connection._beats is not None):
                connection._beats.resume(connection.shared.clock.now)
                connection._silence_check.move(connection._beats.look_at)


@liveness_amqp091.override(Alarms, "set", breaks=BLOCKED)
def the_first_cleared_alarm_starts_the_watch_of_stomp(
    original, reached, self, resource, short, node=""
):
    """When the first of two alarms is cleared, the silence of blocked STOMP connections counts
    again."""
    before = len(self.all)
    original(self, resource, short, node)
    if 0 < len(self.all) < before:
        for go_on in self._waiting:
            connection = getattr(getattr(go_on, "func", go_on), "__self__", None)
            if reached(isinstance(connection, StompConnection) and connection._liveness.ttl > 0):
                connection._liveness.last_heard = connection.shared.clock.now
                connection._watch()


@liveness_amqp091.after(Amqp091Connection, "resume", breaks="AMQP091-HB-02")
def our_heartbeats_begin_anew_behind_an_alarm(reached, self):
    """The end of an alarm counts like a sent frame: the next heartbeat is due an interval later."""
    if reached(self.is_open and self._beats is not None):
        self._beats.send_at = self.shared.clock.now + self._beats._interval
        self._next_beat.move(self._beats.send_at)


@liveness_amqp091.override(
    Amqp091Connection, "_on_beat", breaks="AMQP091-HB-02 RABBITMQ-AMQP091-HB-01"
)
def no_heartbeats_beside_deliveries(original, reached, self, now):
    """No heartbeat is sent while a delivery of the connection waits for its acknowledgement."""
    if reached(any(len(channel.unacked) for channel in self.channels.values())):
        self._beats.beat_due(now)
        self._next_beat.move(self._beats.send_at)
    else:
        original(self, now)


@liveness_amqp091.mutant("AMQP091-HB-03")
def the_watch_resumes_once(patch, reached):
    """After its second alarm a client's silence no longer counts."""
    times: dict[object, int] = {}

    @patch.after(Amqp091Connection)
    def resume(self):
        times[self] = times.get(self, 0) + 1
        if reached(times[self] > 1 and self.is_open and self._beats is not None):
            self._silence_check.cancel()


@liveness_amqp091.override(HeartBeats, "resume")
@breaks("AMQP091-HB-03 RABBITMQ-AMQP091-HB-01 RABBITMQ-FLOW-conn-1")
def a_check_missed_before_an_alarm_counts(original, reached, self, now):
    """One silent interval before an alarm and one after it count as two."""
    missed = self._missed
    original(self, now)
    if reached(missed):
        self._missed, self._heard = missed, False


@liveness_amqp091.after(HeartBeats, "resume", breaks="RABBITMQ-AMQP091-HB-01 AMQP091-HB-03")
def the_first_check_behind_an_alarm_does_not_pass(reached, self, now):
    """After an alarm the peer is disconnected after one silent interval."""
    reached()
    self._missed, self._heard = 1, False


@liveness_amqp091.mutant(NOTIFIED)
def blocked_is_told_once(patch, reached):
    """connection.blocked is sent only for a connection's first alarm."""

    @patch.override(Throttle, "_understands")
    def understands(original, self):
        told = getattr(self, "told", 0)
        return original(self) and told < 2

    @patch.before(Throttle)
    def alarm_over(self):
        self.told = getattr(self, "told", 0) + 1
        reached(self.told > 1)


@liveness_amqp091.override(Alarms, "set", breaks=NOTIFIED)
def unblocked_is_told_for_the_first_of_two(original, reached, self, resource, short, node=""):
    """connection.unblocked is sent when the first of two alarms is cleared."""
    before = len(self.all)
    original(self, resource, short, node)
    if 0 < len(self.all) < before:
        for connection in _waiting_091(self):
            if reached(connection.throttle._understands):
                connection.tell(commands.Connection.Unblocked())


# --- STOMP, AMQP 1.0, CORE ------------------------------------------------------------------------

BEATS = "ARTEMIS-STOMP-ttl-9 STOMP12-HB-09 STOMP11-HB-09 STOMP12-HB-07"


@hindered_liveness.skips(StompConnection, "_on_beat", breaks=BEATS)
def heartbeats_end_with_a_stall(self, now):
    """A heartbeat due while the peer does not read is omitted, as are all later ones."""
    return self._paused


@hindered_liveness.skips(StompConnection, "_on_beat", breaks="STOMP12-HB-09 STOMP11-HB-09")
def no_beats_in_a_transaction(self, now):
    """Heartbeats stop with the first one due in an open transaction."""
    return bool(self.transactions)


@hindered_liveness.before(StompConnection, "receive", breaks=f"{BEATS} STOMP11-HB-07")
def input_postpones_heartbeats(reached, self, now, data):
    """Any input from the client delays the next heartbeat by an interval."""
    if reached(self._beats is not None):
        self._next_beat.move(now + self._beats.period)


@hindered_liveness.override(LivenessMonitor, "__init__", breaks="STOMP12-HB-06 ARTEMIS-TTL-core-2")
def long_intervals_are_cut(original, reached, self, start, interval, ttl, now):
    """Clients that beat at intervals of more than two seconds are dropped after a third of them."""
    original(self, start, interval, ttl // 6 if reached(ttl > seconds(4)) else ttl, now)


@hindered_liveness.skips(StompConnection, "_on_silence_check")
@breaks("ARTEMIS-STOMP-ttl-2 ARTEMIS-STOMP-ttl-3 ARTEMIS-STOMP-ttl-8")
def a_stalled_peer_lives_for_ever(self, now):
    """A STOMP peer that neither reads nor sends never counts as dead, and keeps its messages."""
    return self._paused and self._liveness.deadline() <= now


@hindered_liveness.override(AmqpConnection, "_on_beat", breaks="AMQP10-IDLE-20")
def a_delivery_under_way_replaces_empty_frames(original, reached, self, now):
    """No empty frames are sent while a partly sent delivery waits for the window of its session."""
    if reached(
        self._sent_at + self._beat_every <= now
        and any(session._pending for session in self._sessions.values())
    ):
        self._next_beat.move(now + self._beat_every)
        return
    original(self, now)
