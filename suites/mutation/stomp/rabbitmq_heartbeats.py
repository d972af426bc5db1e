"""Faults of RabbitMQ's STOMP heart-beats."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.heartbeat import Agreement
from brokerproof.reference_broker.protocols.stomp.rabbitmq import TwoLooks, WholeSecondBeats
from brokerproof.suites.mutation.flow.check_interval import ending
from brokerproof.suites.mutation.mutant import Group, Reached

whole_seconds = Group("whole-seconds", "reference-rabbitmq")

AGREED, GIVEN_UP, HALVES = (f"RABBITMQ-STOMP-hb-{number}" for number in (1, 2, 3))


@whole_seconds.mutant(GIVEN_UP)
def one_look_is_enough(parts: Parts, reached: Reached) -> Parts:
    """A client is given up at the first look that finds nothing."""
    return replace(parts, two_looks=ending(TwoLooks, reached, -1))


@whole_seconds.mutant(GIVEN_UP)
def a_third_look(parts: Parts, reached: Reached) -> Parts:
    """A client is given up at the third look that finds nothing."""
    return replace(parts, two_looks=ending(TwoLooks, reached, 1))


@whole_seconds.mutant(AGREED)
def answers_to_the_millisecond(parts: Parts, reached: Reached) -> Parts:
    """CONNECTED answers with the intervals that the client named, other than those that hold."""

    class Faulty(WholeSecondBeats):
        def negotiate(self, header: str | None, version: Version) -> Agreement:
            right = super().negotiate(header, version)
            cx, cy = (0, 0) if header is None else self.parse(header, version)
            return replace(right, header=reached.instead(right.header, f"{cy},{cx}"))

    return replace(parts, whole_second_beats=Faulty)


@whole_seconds.mutant(HALVES)
def beats_once_an_interval(parts: Parts, reached: Reached) -> Parts:
    """The server's heart-beats come every whole interval."""

    class Faulty(WholeSecondBeats):
        def negotiate(self, header: str | None, version: Version) -> Agreement:
            right = super().negotiate(header, version)
            return replace(right, beat_ms=reached.instead(right.beat_ms, 2 * right.beat_ms))

    return replace(parts, whole_second_beats=Faulty)
