"""Faults of RabbitMQ's STOMP heartbeats."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.reference_broker.protocols.stomp.rabbitmq import RabbitHeartBeats, TwoMissedChecks
from brokerproof.suites.mutation.flow.check_interval import ending
from brokerproof.suites.mutation.mutant import Group

whole_seconds = Group("whole-seconds", "reference-rabbitmq")

AGREED = "RABBITMQ-STOMP-hb-1"
GIVEN_UP = "RABBITMQ-STOMP-hb-2"
HALVES = "RABBITMQ-STOMP-hb-3"


@whole_seconds.mutant(GIVEN_UP)
def one_look_is_enough(patch, reached):
    """A client is given up at the first look that finds nothing."""
    ending(patch, reached, TwoMissedChecks, -1)


@whole_seconds.mutant(GIVEN_UP)
def a_third_look(patch, reached):
    """A client is given up at the third look that finds nothing."""
    ending(patch, reached, TwoMissedChecks, 1)


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
