"""Faults of the detection of silent connections."""

from dataclasses import replace

from brokerproof.harness.model.time import NS_PER_MS, ms
from brokerproof.reference_broker.families.artemis.ttl_liveness import LivenessMonitor
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.heartbeat import HeartBeatNegotiator
from brokerproof.suites.mutation.flow.ttl import ANY_DATA, NEVER, WATCH
from brokerproof.suites.mutation.mutant import Group, breaks

ttl_watch = Group("ttl")


@ttl_watch.result(LivenessMonitor, "deadline", breaks=WATCH)
def exact_to_the_millisecond(right, self):
    """The check interval is ignored: each connection is closed exactly at the end of its TTL."""
    return self.last_heard + max(1, self.ttl)


@ttl_watch.result(LivenessMonitor, "deadline", breaks=WATCH)
def exact_and_a_tenth_late(right, self):
    """Each connection has its own timer, which is late by a tenth of the TTL."""
    return self.last_heard + max(1, self.ttl * 11 // 10)


@ttl_watch.result(LivenessMonitor, "deadline", breaks=WATCH)
def exact_and_a_fifth_early(right, self):
    """Each connection has its own timer, which is early by a fifth of the TTL."""
    return self.last_heard + max(1, self.ttl * 4 // 5)


@ttl_watch.result(HeartBeatNegotiator, "agree", breaks="STOMP11-HB-06 STOMP12-HB-06")
def clients_without_beats_are_watched(right, self, cx, cy):
    """A client that sends no heartbeats and asks for some is given up after three seconds."""
    return (*right[:2], 3000) if cx == 0 and cy else right


@ttl_watch.result(LivenessMonitor, "deadline", breaks=WATCH)
def rounded_down(right, self):
    """The TTL is rounded down to whole check intervals, so connections are closed early."""
    return right if self.ttl % self.interval == 0 else right - self.interval


@ttl_watch.result(LivenessMonitor, "deadline", breaks=WATCH)
def one_pass_late(right, self):
    """A dead connection is closed one check interval after it should be."""
    return right + self.interval


@ttl_watch.result(LivenessMonitor, "deadline", breaks=WATCH, recreates="AMQ-2511")
def never_closed(right, self):
    """Silent connections are never closed."""
    return NEVER


@ttl_watch.override(LivenessMonitor, "__init__", breaks=WATCH, recreates="ARTEMIS-640")
def check_interval_fixed(original, reached, self, start, interval, ttl, now):
    """The check interval is 2 s, whatever is configured."""
    original(self, start, reached.instead(interval, ms(2000)), ttl, now)


@ttl_watch.override(LivenessMonitor, "on_bytes_received")
@breaks("ARTEMIS-STOMP-ttl-8 STOMP11-HB-08 STOMP12-HB-08 STOMP11-HB-06 STOMP12-HB-06")
def counted_from_connect(original, reached, self, now, data):
    """The TTL is counted from the opening of the connection, not from the last data."""
    reached.instead(now, self.last_heard)


@ttl_watch.skips(LivenessMonitor, "on_bytes_received", breaks=ANY_DATA)
def parts_of_frames_are_silence(self, now, data):
    """Bytes of an incomplete frame do not count as a sign of life."""
    return not (b"\0" in data or not data.strip(b"\r\n"))


@ttl_watch.skips(LivenessMonitor, "on_bytes_received")
@breaks("ARTEMIS-STOMP-ttl-8 STOMP11-HB-08 STOMP12-HB-08 STOMP11-HB-06 STOMP12-HB-06")
def frames_are_silence(self, now, data):
    """Only heartbeats are signs of life: frames do not count."""
    return data.strip(b"\r\n")


@ttl_watch.skips(LivenessMonitor, "on_bytes_received")
@breaks("ARTEMIS-STOMP-ttl-8 STOMP11-HB-08 STOMP12-HB-08 STOMP11-HB-06 STOMP12-HB-06")
def ends_of_line_are_silence(self, now, data):
    """Only frames are signs of life: heartbeats do not count."""
    return not data.strip(b"\r\n")


@ttl_watch.mutant("STOMP11-HB-12 STOMP12-HB-12 ARTEMIS-STOMP-ttl-3", recreates="AMQ-4674")
def no_grace(patch, reached):
    """A client counts as dead as soon as its own interval has passed, without any grace."""
    cuts = {}

    @patch.result(LivenessMonitor)
    def deadline(right, self):
        return reached.instead(right, self.last_heard + cuts[self]) if self in cuts else right

    @patch.after(StompConnection)
    def receive(self, now, data):
        monitor = self._liveness
        promised = self.is_open and self._silence.v12 == "ARTEMIS-STOMP-ttl-3"
        if promised and monitor not in cuts:
            cuts[monitor] = ms(self._ttl_ms) // 2
            self._silence_check.move(monitor.deadline())


@ttl_watch.mutant("ARTEMIS-STOMP-ttl-3")
def one_lives_all_live(patch, reached):
    """Data on any connection keeps every connection alive."""
    latest = [0]

    @patch.after(LivenessMonitor)
    def on_bytes_received(self, now, data):
        latest[0] = now

    @patch.override(LivenessMonitor)
    def deadline(original, self):
        right = original(self)
        mine, self.last_heard = self.last_heard, max(self.last_heard, latest[0])
        wrong = original(self)
        self.last_heard = mine
        return reached.instead(right, wrong)


@ttl_watch.override(LivenessMonitor, "deadline", breaks=WATCH)
def counted_in_seconds(original, reached, self):
    """The TTL is kept in whole seconds, rounded down, at least one."""
    right, exact = original(self), self.ttl
    self.ttl = max(1, exact // (1000 * NS_PER_MS)) * 1000 * NS_PER_MS
    wrong = original(self)
    self.ttl = exact
    return reached.instead(right, wrong)


@ttl_watch.result(HeartBeatNegotiator, "negotiate")
@breaks("STOMP11-HB-01 STOMP12-HB-01 ARTEMIS-STOMP-ttl-2 ARTEMIS-STOMP-ttl-3")
def answer_with_a_blank(right, self, header, version):
    """The answer has a blank after its comma."""
    if right.header is None:
        return right
    return replace(right, header=right.header.replace(",", ", "))
