"""Faults of ActiveMQ's periodic check for silent STOMP clients."""

from dataclasses import replace

from brokerproof.reference_broker.families.activemq.inactivity import NEVER, InactivityMonitor
from brokerproof.reference_broker.protocols.stomp.heartbeat import MirroredHeartBeats
from brokerproof.suites.mutation.mutant import Group

looks = Group("looks", "reference-activemq")

SILENCE = "ACTIVEMQ-STOMP-hb-1"
NO_LESS = "ACTIVEMQ-STOMP-hb-2"
GRACE = "ACTIVEMQ-STOMP-hb-3"


def ending(patch, reached, monitor, looks_more):
    """Make ``monitor`` disconnect a client this many checks later."""

    @patch.result(monitor)
    def deadline(right, self):
        return right if right >= NEVER else reached.instead(right, right + looks_more * self.ttl)


@looks.variant(ending, InactivityMonitor, -2, breaks=NO_LESS)
def two_looks_too_few():
    """A client is disconnected two checks too early."""


@looks.variant(ending, InactivityMonitor, 2, breaks=SILENCE)
def some_looks_too_many():
    """A client is disconnected two checks too late."""


@looks.result(InactivityMonitor, "deadline", breaks=NO_LESS)
def given_up_a_fifth_early(right, self):
    """A client is disconnected by its own timer, a fifth of the allowed silence too early."""
    return right if right >= NEVER else self.last_heard + self.ttl * 4 // 5


@looks.override(MirroredHeartBeats, "negotiate", breaks=GRACE)
def the_grace_is_forgotten(original, reached, self, header, version):
    """transport.hbGracePeriodMultiplier has no effect."""
    right = original(self, header, version)
    wrong = int(right.ttl_ms / self.acceptor.stomp.heart_beat_grace)
    return replace(right, ttl_ms=reached.instead(right.ttl_ms, wrong))


@looks.result(InactivityMonitor, "deadline", breaks=SILENCE)
def the_silent_live_for_ever(right, self):
    """Silence is never checked."""
    return NEVER
