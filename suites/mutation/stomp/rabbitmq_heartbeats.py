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
    """A client is given up at the first look that finds nothing."""


@whole_seconds.variant(ending, TwoMissedChecks, 1, breaks=GIVEN_UP)
def a_third_look():
    """A client is given up at the third look that finds nothing."""


@whole_seconds.result(TwoMissedChecks, "deadline", breaks=GIVEN_UP)
def given_up_a_tenth_late(right, self):
    """A client is given up a tenth later than at the look that should."""
    late = self.last_heard + (right - self.last_heard) * 11 // 10
    return right if right >= NEVER else late


@whole_seconds.result(TwoMissedChecks, "deadline", breaks=GIVEN_UP)
def given_up_a_fifth_early(right, self):
    """A client is given up by a timer of its own, a fifth before two intervals are over."""
    return right if right >= NEVER else self.last_heard + self.ttl * 8 // 5


@whole_seconds.override(RabbitHeartBeats, "negotiate", breaks=HALVES)
def beats_late_by_a_tenth(original, reached, self, header, version):
    """The server's heartbeats come a tenth later than every half of an interval."""
    right = original(self, header, version)
    return replace(right, beat_ms=reached.instead(right.beat_ms, right.beat_ms * 11 // 10))


@whole_seconds.override(RabbitHeartBeats, "negotiate", breaks=AGREED)
def answers_to_the_millisecond(original, reached, self, header, version):
    """CONNECTED answers with the intervals that the client named, other than those that hold."""
    right = original(self, header, version)
    cx, cy = (0, 0) if header is None else self.parse(header, version)
    return replace(right, header=reached.instead(right.header, f"{cy},{cx}"))


@whole_seconds.override(RabbitHeartBeats, "negotiate", breaks=HALVES)
def beats_once_an_interval(original, reached, self, header, version):
    """The server's heartbeats come every whole interval."""
    right = original(self, header, version)
    return replace(right, beat_ms=reached.instead(right.beat_ms, 2 * right.beat_ms))
