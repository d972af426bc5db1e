"""Faults of the server's own heartbeats."""

from dataclasses import replace

from brokerproof.reference_broker.kernel.liveness import Beats
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.heartbeat import HeartBeatNegotiator
from brokerproof.suites.mutation.mutant import Group, breaks

beats = Group("beats")

NEVER = 10**30
IN_TIME = "STOMP11-HB-09 STOMP12-HB-09 ARTEMIS-STOMP-ttl-9"
AT_ALL = "STOMP11-HB-09 STOMP12-HB-09 ARTEMIS-STOMP-ttl-9 STOMP11-HB-07 STOMP12-HB-07"


@beats.override(Beats, "__init__", breaks=IN_TIME)
def late_by_a_tenth(original, reached, self, period, now):
    """Every heartbeat is late by a tenth of the period."""
    original(self, period + period // 10, now)
    reached()


@beats.override(Beats, "__init__", breaks=IN_TIME)
def half_as_often(original, reached, self, period, now):
    """Heartbeats are sent half as often as promised."""
    original(self, 2 * period, now)
    reached()


@beats.after(Beats, "__init__", breaks=AT_ALL, recreates="rabbitmq-web-stomp#71")
def promised_and_never_sent(reached, self, period, now):
    """CONNECTED promises heartbeats but none is ever sent."""
    self.deadline = NEVER
    reached()


@beats.after(Beats, "__init__", breaks=IN_TIME, recreates="RabbitMQ first heartbeat")
def first_one_late(reached, self, period, now):
    """The first heartbeat is sent after two periods, the others on time."""
    self.deadline += period
    reached()


@beats.mutant(IN_TIME)
def stop_after_two(patch, reached):
    """After two heartbeats no more are sent."""
    patch.set(Beats, "sent", 0)

    @patch.after(Beats)
    def beat(self, now):
        self.sent += 1
        if reached(self.sent == 2):
            self.deadline = NEVER


@beats.mutant(IN_TIME)
def stop_after_ten(patch, reached):
    """After ten heartbeats no more are sent."""
    patch.set(Beats, "sent", 0)

    @patch.after(Beats)
    def beat(self, now):
        self.sent += 1
        if reached(self.sent == 10):
            self.deadline = NEVER


@beats.override(StompConnection, "receive", breaks=IN_TIME)
def put_off_by_the_clients(original, reached, self, now, data):
    """Any input from the client delays the server's next heartbeat by a period."""
    before = self._beats
    original(self, now, data)
    if reached(before is not None and self.is_open and before.deadline != now + before.period):
        before.deadline = now + before.period
        self._next_beat.move(before.deadline)


@beats.before(StompConnection, "_on_beat", breaks="STOMP11-HB-10")
def cr_lf_in_1_1(reached, self, now):
    """A heartbeat is CR LF, even in 1.1, where an end of line is LF."""
    if reached(self._beats is not None and self.version.wire == "1.1"):
        self.shared.outbox.send(self.conn, b"\r")


@beats.override(Beats, "beat", breaks="STOMP11-HB-10 STOMP12-HB-10")
def nul_for_a_beat(original, reached, self, now):
    """A heartbeat is a NUL byte."""
    original(self, now)
    reached()
    return b"\0"


@beats.override(StompConnection, "receive")
@breaks("STOMP11-HB-03 STOMP12-HB-03 STOMP11-HB-05 STOMP12-HB-05")
def although_not_wanted(original, reached, self, now, data):
    """Heartbeats are sent every half second although the client wants none and CONNECTED promises
    none."""
    before = self._state.name
    original(self, now, data)
    opened = before != "SESSION" and self._state.name == "SESSION"
    if reached(opened and self._beats is None and self.is_open):
        self._beats = Beats(500_000_000, now)
        self._next_beat.move(self._beats.deadline)


@beats.override(HeartBeatNegotiator, "negotiate", breaks="STOMP11-HB-01 STOMP12-HB-01")
def negative_numbers_returned(original, reached, self, header, version):
    """CONNECT with heart-beat:0,-1 is accepted, and CONNECTED returns the -1."""
    if not reached(header == "0,-1"):
        return original(self, header, version)
    return replace(original(self, "0,0", version), header="-1,0")


@beats.skips(StompConnection, "_on_beat", breaks="STOMP12-HB-09")
def none_since_a_send_waits(self, now):
    """Heartbeats end for good when one is due while a SEND waits for room."""
    return self._waiting is not None
