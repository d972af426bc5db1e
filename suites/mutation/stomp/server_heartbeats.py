"""Faults of the server's own heart-beats."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.harness.model.time import Duration, Instant
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.families.artemis.ttl_liveness import Beats
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.suites.mutation.mutant import Group, Reached

beats = Group("beats")

NEVER = 10**30
IN_TIME = "STOMP11-HB-09 STOMP12-HB-09 ARTEMIS-STOMP-ttl-9"
AT_ALL = f"{IN_TIME} STOMP11-HB-07 STOMP12-HB-07"


@beats.mutant(IN_TIME)
def late_by_a_tenth(parts: Parts, reached: Reached) -> Parts:
    """Every beat is late by a tenth of the period."""

    class Faulty(Beats):
        def __init__(self, period: Duration, now: Instant) -> None:
            super().__init__(period + period // 10, now)
            reached()

    return replace(parts, beats=Faulty)


@beats.mutant(IN_TIME)
def half_as_often(parts: Parts, reached: Reached) -> Parts:
    """Beats come half as often as promised."""

    class Faulty(Beats):
        def __init__(self, period: Duration, now: Instant) -> None:
            super().__init__(2 * period, now)
            reached()

    return replace(parts, beats=Faulty)


@beats.mutant(AT_ALL, recreates="rabbitmq-web-stomp#71")
def promised_and_never_sent(parts: Parts, reached: Reached) -> Parts:
    """CONNECTED promises beats and none is ever sent."""

    class Faulty(Beats):
        def __init__(self, period: Duration, now: Instant) -> None:
            super().__init__(period, now)
            self.deadline = NEVER
            reached()

    return replace(parts, beats=Faulty)


@beats.mutant(IN_TIME, recreates="RabbitMQ first heartbeat")
def first_one_late(parts: Parts, reached: Reached) -> Parts:
    """The first beat comes after two periods, the others in time."""

    class Faulty(Beats):
        def __init__(self, period: Duration, now: Instant) -> None:
            super().__init__(period, now)
            self.deadline += period
            reached()

    return replace(parts, beats=Faulty)


@beats.mutant(IN_TIME)
def stop_after_two(parts: Parts, reached: Reached) -> Parts:
    """After two beats no more come."""

    class Faulty(Beats):
        sent = 0

        def beat(self, now: Instant) -> bytes:
            octets = super().beat(now)
            self.sent += 1
            if self.sent == 2:
                reached()
                self.deadline = NEVER
            return octets

    return replace(parts, beats=Faulty)


@beats.mutant(IN_TIME)
def stop_after_ten(parts: Parts, reached: Reached) -> Parts:
    """After ten beats no more come."""

    class Faulty(Beats):
        sent = 0

        def beat(self, now: Instant) -> bytes:
            octets = super().beat(now)
            self.sent += 1
            if self.sent == 10:
                reached()
                self.deadline = NEVER
            return octets

    return replace(parts, beats=Faulty)


@beats.mutant(IN_TIME)
def put_off_by_the_clients(parts: Parts, reached: Reached) -> Parts:
    """Whatever the client sends puts the server's next beat off by a period."""

    class Faulty(StompConnection):
        def receive(self, now: Instant, data: bytes) -> None:
            before = self._beats
            super().receive(now, data)
            if before is not None and self.is_open and before.deadline != now + before.period:
                reached()
                before.deadline = now + before.period
                self._next_beat.move(before.deadline)

    return replace(parts, stomp=Faulty)


@beats.mutant("STOMP11-HB-10")
def cr_lf_in_1_1(parts: Parts, reached: Reached) -> Parts:
    """A beat is CR LF, also in 1.1, where an end of line is LF alone."""

    class Faulty(StompConnection):
        def _on_beat(self, now: Instant) -> None:
            if self._beats is not None and self.version.wire == "1.1":
                reached()
                self.shared.outbox.send(self.conn, b"\r")
            super()._on_beat(now)

    return replace(parts, stomp=Faulty)


@beats.mutant("STOMP11-HB-10 STOMP12-HB-10")
def nul_for_a_beat(parts: Parts, reached: Reached) -> Parts:
    """A beat is a NUL octet."""

    class Faulty(Beats):
        def beat(self, now: Instant) -> bytes:
            super().beat(now)
            reached()
            return b"\0"

    return replace(parts, beats=Faulty)


@beats.mutant("STOMP11-HB-03 STOMP12-HB-03 STOMP11-HB-05 STOMP12-HB-05")
def although_not_wanted(parts: Parts, reached: Reached) -> Parts:
    """Beats come every half second although the client wants none and CONNECTED promises none."""

    class Faulty(StompConnection):
        def receive(self, now: Instant, data: bytes) -> None:
            connected = self._version_agreed()
            super().receive(now, data)
            if not connected and self._version_agreed() and self._beats is None and self.is_open:
                reached()
                self._beats = self.shared.parts.beats(500_000_000, now)
                self._next_beat.move(self._beats.deadline)

        def _version_agreed(self) -> bool:
            return self._state.name == "SESSION"

    return replace(parts, stomp=Faulty)
