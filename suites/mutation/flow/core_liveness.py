"""Faults of CORE's connection TTL: its source, the effects of pings, and the meaning of -1."""

from brokerproof.reference_broker.families.artemis.ttl_liveness import LivenessMonitor
from brokerproof.reference_broker.protocols.core import codes
from brokerproof.reference_broker.protocols.core.connection import TTL_MS, CoreConnection
from brokerproof.suites.mutation.mutant import Group

core_liveness = Group("core-liveness")

OVER, ALIVE, NEVER = "ARTEMIS-TTL-core-1", "ARTEMIS-TTL-core-2", "ARTEMIS-TTL-core-3"


@core_liveness.before(CoreConnection, "_on_silence_check", breaks=OVER)
def silence_goes_on_for_ever(reached, self, now):
    """No client is disconnected for silence."""
    reached()
    self._liveness.on_bytes_received(now, b"")


@core_liveness.result(LivenessMonitor, "deadline", breaks=OVER)
def exact_and_a_tenth_late(right, self):
    """Each connection has its own timer, which is late by a tenth of the TTL."""
    return self.last_heard + max(1, self.ttl * 11 // 10)


@core_liveness.result(LivenessMonitor, "deadline", breaks=OVER)
def exact_and_a_fifth_early(right, self):
    """Each connection has its own timer, which is early by a fifth of the TTL."""
    return self.last_heard + max(1, self.ttl * 4 // 5)


@core_liveness.override(CoreConnection, "_on_liveness_packet", breaks=OVER)
def the_ttl_of_the_client_is_not_taken(original, reached, self, now, type, fields, data):
    """Every client may be silent for a minute, whatever it requests."""
    before = self._liveness.ttl
    original(self, now, type, fields, data)
    if type == codes.PING and self._ttl_ms > 0:
        self._liveness.ttl = reached.instead(self._liveness.ttl, before)
        self._silence_check.move(self._liveness.deadline())


@core_liveness.mutant(ALIVE)
def pings_are_no_sign_of_life(patch, reached):
    """A client that only pings is disconnected for silence."""

    @patch.before(CoreConnection)
    def _on_liveness_packet(self, now, type, fields, raw):
        if reached(type == codes.PING and self._pinged):
            self._liveness.last_heard = self._before
        self._pinged = self._pinged or type == codes.PING

    patch.set(CoreConnection, "_pinged", False)

    patch.set(CoreConnection, "_before", 0)

    @patch.before(CoreConnection)
    def receive(self, now, data):
        self._before = self._liveness.last_heard


@core_liveness.after(CoreConnection, "_on_liveness_packet", breaks=NEVER)
def minus_one_is_the_default(reached, self, now, type, fields, data):
    """A client that requests a TTL of -1 gets the default of a minute."""
    if reached(type == codes.PING and self._ttl_ms < 0):
        self._liveness.ttl = TTL_MS * 1_000_000
        self._silence_check.move(self._liveness.deadline())
