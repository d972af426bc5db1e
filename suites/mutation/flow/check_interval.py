"""Faults of how ActiveMQ looks for silent STOMP clients, once an interval."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.families.activemq.inactivity import NEVER, InactivityMonitor
from brokerproof.reference_broker.protocols.stomp.activemq import MirroredHeartBeats
from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.heartbeat import Agreement
from brokerproof.suites.mutation.mutant import Group, Reached

looks = Group("looks", "reference-activemq")

SILENCE, NO_LESS, GRACE = (f"ACTIVEMQ-STOMP-hb-{number}" for number in (1, 2, 3))


def ending(
    watch: type[InactivityMonitor], reached: Reached, looks_more: int
) -> type[InactivityMonitor]:
    """``watch``, which gives a client up so many looks later."""

    class Faulty(watch):  # type: ignore[misc, valid-type]
        def deadline(self) -> Instant:
            right: Instant = super().deadline()
            return (
                right if right >= NEVER else reached.instead(right, right + looks_more * self.ttl)
            )

    return Faulty


@looks.mutant(NO_LESS)
def two_looks_too_few(parts: Parts, reached: Reached) -> Parts:
    """A client is given up two looks before the one that should."""
    return replace(parts, inactivity=ending(InactivityMonitor, reached, -2))


@looks.mutant(SILENCE)
def some_looks_too_many(parts: Parts, reached: Reached) -> Parts:
    """A client is given up two looks after the one that should."""
    return replace(parts, inactivity=ending(InactivityMonitor, reached, 2))


@looks.mutant(GRACE)
def the_grace_is_forgotten(parts: Parts, reached: Reached) -> Parts:
    """transport.hbGracePeriodMultiplier has no effect."""

    class Faulty(MirroredHeartBeats):
        def negotiate(self, header: str | None, version: Version) -> Agreement:
            right = super().negotiate(header, version)
            wrong = int(right.ttl_ms / self.acceptor.heart_beat_grace)
            return replace(right, ttl_ms=reached.instead(right.ttl_ms, wrong))

    return replace(parts, mirrored_beats=Faulty)


@looks.mutant(SILENCE)
def the_silent_live_for_ever(parts: Parts, reached: Reached) -> Parts:
    """Nobody looks."""

    class Faulty(InactivityMonitor):
        def deadline(self) -> Instant:
            return reached.instead(super().deadline(), NEVER)

    return replace(parts, inactivity=Faulty)
