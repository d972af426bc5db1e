"""Faults of RabbitMQ's STOMP heartbeats."""

from dataclasses import replace

from brokerproof.reference_broker.families.rabbitmq.missed_checks import TwoMissedChecks
from brokerproof.reference_broker.kernel.liveness import NEVER
from brokerproof.reference_broker.protocols.stomp.rabbitmq import RabbitHeartBeats
from brokerproof.suites.mutation.flow.check_interval import ending
from brokerproof.suites.mutation.mutant import Group

whole_seconds = Group("whole-seconds", "reference-rabbitmq")

AGREED = "RABBITMQ-STOMP-hb-1"
GIVEN_UP = "RABBITMQ-STOMP-hb-2"
HALVES = "RABBITMQ-STOMP-hb-3"


@whole_seconds.variant(ending, TwoMissedChecks, -1, breaks=GIVEN_UP)
def one_look_is_enough():
    """A client is disconnected at the first check that finds silence."""


@whole_seconds.variant(ending, TwoMissedChecks, 1, breaks=GIVEN_UP)
def a_third_look():
    """A client is disconnected at the third check that finds silence."""


@whole_seconds.result(TwoMissedChecks, "deadline", breaks=GIVEN_UP)
def given_up_a_tenth_late(right, self):
    """A client is disconnected a tenth later than at the correct check."""
    late = self.last_heard + (right - self.last_heard) * 11 // 10
    return right if right >= NEVER else late


@whole_seconds.result(TwoMissedChecks, "deadline", breaks=GIVEN_UP)
def given_up_a_fifth_early(right, self):
    """A client is disconnected by its own timer, a fifth before two intervals are over."""
    return right if right >= NEVER else self.last_heard + self.ttl * 8 // 5


@whole_seconds.override(RabbitHeartBeats, "negotiate", breaks=HALVES)
def beats_late_by_a_tenth(original, reached, self, header, version):
    """The server's heartbeats are a tenth later than every half interval."""
    right = original(self, header, version)
    return replace(right, beat_ms=reached.instead(right.beat_ms, right.beat_ms * 11 // 10))


@whole_seconds.override(RabbitHeartBeats, "negotiate", breaks=AGREED)
def answers_to_the_millisecond(original, reached, self, header, version):
    """CONNECTED repeats the client's intervals instead of the effective ones."""
    right = original(self, header, version)
    cx, cy = (0, 0) if header is None else self.parse(header, version)
    return replace(right, header=reached.instead(right.header, f"{cy},{cx}"))


@whole_seconds.override(RabbitHeartBeats, "negotiate", breaks=HALVES)
def beats_once_an_interval(original, reached, self, header, version):
    """The server sends a heartbeat every whole interval."""
    right = original(self, header, version)
    return replace(right, beat_ms=reached.instead(right.beat_ms, 2 * right.beat_ms))
