"""Faults of CORE's connection TTL: whose it is, what a ping is good for, and what -1 means."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.protocols.core import codes
from brokerproof.reference_broker.protocols.core.connection import TTL_MS, CoreConnection
from brokerproof.reference_broker.protocols.core.encoding import Fields
from brokerproof.suites.mutation.mutant import Group, Reached

core_liveness = Group("core-liveness")

OVER, ALIVE, NEVER = "ARTEMIS-TTL-core-1", "ARTEMIS-TTL-core-2", "ARTEMIS-TTL-core-3"


@core_liveness.mutant(OVER)
def silence_goes_on_for_ever(parts: Parts, reached: Reached) -> Parts:
    """Nobody is given up for being silent."""

    class Faulty(CoreConnection):
        def _on_silence_check(self, now: Instant) -> None:
            reached()
            self._liveness.heard(now, b"")
            super()._on_silence_check(now)

    return replace(parts, core=Faulty)


@core_liveness.mutant(OVER)
def the_ttl_of_the_client_is_not_taken(parts: Parts, reached: Reached) -> Parts:
    """Whatever a client asks for, it may be silent for a minute."""

    class Faulty(CoreConnection):
        def _about_life(self, now: Instant, type: int, fields: Fields, octets: bytes) -> None:
            before = self._liveness.ttl
            super()._about_life(now, type, fields, octets)
            if type == codes.PING and self._ttl_ms > 0:
                self._liveness.ttl = reached.instead(self._liveness.ttl, before)
                self._silence_check.move(self._liveness.deadline())

    return replace(parts, core=Faulty)


@core_liveness.mutant(ALIVE)
def pings_are_no_sign_of_life(parts: Parts, reached: Reached) -> Parts:
    """A client that does nothing but ping is given up for being silent."""

    class Faulty(CoreConnection):
        def _about_life(self, now: Instant, type: int, fields: Fields, octets: bytes) -> None:
            if type == codes.PING and self._pinged:
                reached()
                self._liveness.last_heard = self._before
            self._pinged = self._pinged or type == codes.PING
            super()._about_life(now, type, fields, octets)

        _pinged = False
        _before: Instant = 0

        def receive(self, now: Instant, data: bytes) -> None:
            self._before = self._liveness.last_heard
            super().receive(now, data)

    return replace(parts, core=Faulty)


@core_liveness.mutant(NEVER)
def minus_one_is_the_default(parts: Parts, reached: Reached) -> Parts:
    """A client that asks for a TTL of -1 gets the usual minute."""

    class Faulty(CoreConnection):
        def _about_life(self, now: Instant, type: int, fields: Fields, octets: bytes) -> None:
            super()._about_life(now, type, fields, octets)
            if type == codes.PING and self._ttl_ms < 0:
                reached()
                self._liveness.ttl = TTL_MS * 1_000_000
                self._silence_check.move(self._liveness.deadline())

    return replace(parts, core=Faulty)
