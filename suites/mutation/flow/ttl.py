"""Faults of the arithmetic of the connection TTL."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.heartbeat import (
    Agreement,
    HeartBeatNegotiator,
    to_long,
)
from brokerproof.reference_broker.settings.settings import LONG_MAX, Acceptor, Settings
from brokerproof.suites.mutation.mutant import Group, Reached

ttl = Group("ttl")

NEVER = 10**30
WATCH = "ARTEMIS-STOMP-ttl-2 ARTEMIS-STOMP-ttl-3 ARTEMIS-STOMP-ttl-8"
"""Whoever watches wrongly closes wrongly, whatever the TTL was made from."""
ANY_DATA = "ARTEMIS-STOMP-ttl-8 STOMP11-HB-08 STOMP12-HB-08"


# --- the arithmetic -------------------------------------------------------------------------------


@ttl.mutant("ARTEMIS-STOMP-ttl-3")
def modifier_forgotten(parts: Parts, reached: Reached) -> Parts:
    """The TTL is the client's own interval: the modifier is forgotten."""

    class Faulty(HeartBeatNegotiator):
        def agree(self, cx: int, cy: int) -> tuple[int, int, int]:
            sx, sy, right = super().agree(cx, cy)
            return sx, sy, reached.instead(right, cx) if cx and right != cx and sy == cx else right

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-3 ARTEMIS-STOMP-ttl-4")
def modifier_divides(parts: Parts, reached: Reached) -> Parts:
    """The client's interval is divided by the modifier instead of multiplied."""

    class Faulty(HeartBeatNegotiator):
        def __init__(self, acceptor: Acceptor, settings: Settings) -> None:
            super().__init__(acceptor, settings)
            self.right = acceptor

        def agree(self, cx: int, cy: int) -> tuple[int, int, int]:
            right = super().agree(cx, cy)
            modifier = self.acceptor.heart_beat_to_connection_ttl_modifier
            product = to_long(cx / modifier)
            low, high = self.acceptor.connection_ttl_min_ms, self.acceptor.connection_ttl_max_ms
            if not cx or not low <= product <= high:
                return right
            return reached.instead(right, (right[0], cx, product))

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-3 ARTEMIS-STOMP-ttl-4 ARTEMIS-STOMP-ttl-5 ARTEMIS-STOMP-ttl-6")
def modifier_without_fraction(parts: Parts, reached: Reached) -> Parts:
    """The modifier is read as a whole number: 1.5 counts as 1."""

    class Faulty(HeartBeatNegotiator):
        def agree(self, cx: int, cy: int) -> tuple[int, int, int]:
            right = super().agree(cx, cy)
            modifier = self.acceptor.heart_beat_to_connection_ttl_modifier
            whole = replace(
                self.acceptor, heart_beat_to_connection_ttl_modifier=float(max(1, int(modifier)))
            )
            return reached.instead(right, HeartBeatNegotiator(whole, self.settings).agree(cx, cy))

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-3 ARTEMIS-STOMP-ttl-4 ARTEMIS-STOMP-ttl-5")
def product_in_32_bits(parts: Parts, reached: Reached) -> Parts:
    """The product of interval and modifier is kept in 32 bits and wraps."""

    class Faulty(HeartBeatNegotiator):
        def agree(self, cx: int, cy: int) -> tuple[int, int, int]:
            right = super().agree(cx, cy)
            product = to_long(float(cx) * self.acceptor.heart_beat_to_connection_ttl_modifier)
            wrapped = (product + 2**31) % 2**32 - 2**31
            if not cx or wrapped == product:
                return right
            low = self.acceptor.connection_ttl_min_ms
            wrong = (
                (right[0], cx, wrapped)
                if wrapped >= low
                else (right[0], self._without_modifier(low), low)
            )
            return reached.instead(right, wrong)

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-4 ARTEMIS-STOMP-ttl-6")
def minimum_ignored(parts: Parts, reached: Reached) -> Parts:
    """connectionTtlMin is ignored: a client that beats often has a very short TTL."""

    class Faulty(HeartBeatNegotiator):
        def agree(self, cx: int, cy: int) -> tuple[int, int, int]:
            without = replace(self.acceptor, connection_ttl_min_ms=0)
            return reached.instead(
                super().agree(cx, cy), HeartBeatNegotiator(without, self.settings).agree(cx, cy)
            )

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-4 ARTEMIS-STOMP-ttl-5")
def maximum_ignored(parts: Parts, reached: Reached) -> Parts:
    """connectionTtlMax is ignored: the TTL grows with the client's interval without an end."""

    class Faulty(HeartBeatNegotiator):
        def agree(self, cx: int, cy: int) -> tuple[int, int, int]:
            without = replace(self.acceptor, connection_ttl_max_ms=LONG_MAX)
            return reached.instead(
                super().agree(cx, cy), HeartBeatNegotiator(without, self.settings).agree(cx, cy)
            )

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-4 ARTEMIS-STOMP-ttl-5 ARTEMIS-STOMP-ttl-6")
def maximum_before_minimum(parts: Parts, reached: Reached) -> Parts:
    """The maximum is looked at before the minimum, and wins where it is the lower of the two."""

    class Faulty(HeartBeatNegotiator):
        def agree(self, cx: int, cy: int) -> tuple[int, int, int]:
            right = super().agree(cx, cy)
            product = to_long(float(cx) * self.acceptor.heart_beat_to_connection_ttl_modifier)
            high = self.acceptor.connection_ttl_max_ms
            if not cx or product <= high:
                return right
            return reached.instead(right, (right[0], self._without_modifier(high), high))

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-6")
def minimum_not_told(parts: Parts, reached: Reached) -> Parts:
    """A TTL lifted to the minimum is answered with the client's own interval instead of minimum /
    modifier."""

    class Faulty(HeartBeatNegotiator):
        def agree(self, cx: int, cy: int) -> tuple[int, int, int]:
            sx, sy, result = super().agree(cx, cy)
            return (
                sx,
                (
                    reached.instead(sy, cx)
                    if cx and result == self.acceptor.connection_ttl_min_ms
                    else sy
                ),
                result,
            )

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-6")
def minimum_told_undivided(parts: Parts, reached: Reached) -> Parts:
    """A TTL lifted to the minimum is answered with the minimum itself, not divided by the
    modifier."""

    class Faulty(HeartBeatNegotiator):
        def agree(self, cx: int, cy: int) -> tuple[int, int, int]:
            sx, sy, result = super().agree(cx, cy)
            low = self.acceptor.connection_ttl_min_ms
            return sx, reached.instead(sy, low) if cx and result == low and sy != cx else sy, result

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-5")
def maximum_told_undivided(parts: Parts, reached: Reached) -> Parts:
    """A TTL cut to the maximum is answered with the maximum itself, not divided by the modifier."""

    class Faulty(HeartBeatNegotiator):
        def agree(self, cx: int, cy: int) -> tuple[int, int, int]:
            sx, sy, result = super().agree(cx, cy)
            high = self.acceptor.connection_ttl_max_ms
            return (
                sx,
                reached.instead(sy, high) if cx and result == high and sy != cx else sy,
                result,
            )

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-4 ARTEMIS-STOMP-ttl-6")
def minimum_off_by_one(parts: Parts, reached: Reached) -> Parts:
    """A product that is one millisecond below the minimum is let pass."""

    class Faulty(HeartBeatNegotiator):
        def agree(self, cx: int, cy: int) -> tuple[int, int, int]:
            lower = replace(
                self.acceptor, connection_ttl_min_ms=self.acceptor.connection_ttl_min_ms - 1
            )
            right, wrong = (
                super().agree(cx, cy),
                HeartBeatNegotiator(lower, self.settings).agree(cx, cy),
            )
            if wrong[2] != self.acceptor.connection_ttl_min_ms - 1:
                return right
            return reached.instead(right, (wrong[0], cx, wrong[2]))

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-2")
def default_divided_wrongly(parts: Parts, reached: Reached) -> Parts:
    """A client without beats is asked for beats at the whole TTL instead of TTL / modifier."""

    class Faulty(HeartBeatNegotiator):
        def agree(self, cx: int, cy: int) -> tuple[int, int, int]:
            sx, sy, result = super().agree(cx, cy)
            return sx, sy if cx else reached.instead(sy, result), result

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-7")
def beat_floor_forgotten(parts: Parts, reached: Reached) -> Parts:
    """The server promises beats as often as the client likes: the floor of 500 ms is forgotten."""

    class Faulty(HeartBeatNegotiator):
        def agree(self, cx: int, cy: int) -> tuple[int, int, int]:
            sx, sy, result = super().agree(cx, cy)
            return reached.instead(sx, cy), sy, result

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-7")
def beat_floor_of_a_second(parts: Parts, reached: Reached) -> Parts:
    """The floor for the server's beats is 1000 ms instead of 500."""

    class Faulty(HeartBeatNegotiator):
        def agree(self, cx: int, cy: int) -> tuple[int, int, int]:
            sx, sy, result = super().agree(cx, cy)
            return reached.instead(sx, max(1000, cy) if cy else 0), sy, result

    return replace(parts, negotiator=Faulty)


@ttl.mutant(
    "STOMP11-HB-03 STOMP12-HB-03 STOMP11-HB-05 STOMP12-HB-05 ARTEMIS-STOMP-ttl-2"
    " ARTEMIS-STOMP-ttl-3"
)
def beat_floor_for_nobody(parts: Parts, reached: Reached) -> Parts:
    """The floor is applied to 0 as well: a client that wants no beats gets them twice a second."""

    class Faulty(HeartBeatNegotiator):
        def agree(self, cx: int, cy: int) -> tuple[int, int, int]:
            sx, sy, result = super().agree(cx, cy)
            return reached.instead(sx, max(500, cy)), sy, result

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-2 ARTEMIS-STOMP-ttl-3 ARTEMIS-STOMP-ttl-7")
def answer_turned_round(parts: Parts, reached: Reached) -> Parts:
    """The two numbers of the answer stand in each other's place."""

    class Faulty(HeartBeatNegotiator):
        def negotiate(self, header: str | None, version: Version) -> Agreement:
            right = super().negotiate(header, version)
            if right.header is None:
                return right
            sx, sy = right.header.split(",")
            return reached.instead(right, replace(right, header=f"{sy},{sx}"))

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-2 ARTEMIS-STOMP-ttl-3 STOMP11-HB-02 STOMP12-HB-02")
def question_turned_round(parts: Parts, reached: Reached) -> Parts:
    """The client's two numbers are read in each other's place."""

    class Faulty(HeartBeatNegotiator):
        def parse(self, header: str, version: Version) -> tuple[int, int]:
            cx, cy = super().parse(header, version)
            return reached.instead((cx, cy), (cy, cx))

    return replace(parts, negotiator=Faulty)


# --- where the TTL without client beats comes from ------------------------------------------------


@ttl.mutant("ARTEMIS-STOMP-ttl-2")
def override_beats_acceptor(parts: Parts, reached: Reached) -> Parts:
    """connection-ttl-override wins over the connectionTtl of the acceptor."""

    class Faulty(HeartBeatNegotiator):
        def initial_ttl_ms(self) -> int:
            right, override = super().initial_ttl_ms(), self.settings.connection_ttl_override_ms
            return reached.instead(right, right if override == -1 else override)

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-2")
def override_ignored(parts: Parts, reached: Reached) -> Parts:
    """connection-ttl-override has no effect on STOMP connections."""

    class Faulty(HeartBeatNegotiator):
        def initial_ttl_ms(self) -> int:
            return reached.instead(
                super().initial_ttl_ms(), self.acceptor.connection_ttl_ms or 60_000
            )

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-2", recreates="ARTEMIS-611")
def acceptor_ttl_ignored(parts: Parts, reached: Reached) -> Parts:
    """The TTL cannot be set for an acceptor: connectionTtl is ignored."""

    class Faulty(HeartBeatNegotiator):
        def initial_ttl_ms(self) -> int:
            override = self.settings.connection_ttl_override_ms
            return reached.instead(super().initial_ttl_ms(), 60_000 if override == -1 else override)

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-2")
def default_of_half_a_minute(parts: Parts, reached: Reached) -> Parts:
    """Where nothing is configured the TTL is 30 s instead of a minute."""

    class Faulty(HeartBeatNegotiator):
        def initial_ttl_ms(self) -> int:
            right = super().initial_ttl_ms()
            configured = (
                self.acceptor.connection_ttl_ms is not None
                or self.settings.connection_ttl_override_ms != -1
            )
            return right if configured else reached.instead(right, 30_000)

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-2")
def minimum_for_everybody(parts: Parts, reached: Reached) -> Parts:
    """connectionTtlMin also lifts the TTL of connections without client beats."""

    class Faulty(HeartBeatNegotiator):
        def initial_ttl_ms(self) -> int:
            right = super().initial_ttl_ms()
            return reached.instead(right, max(right, self.acceptor.connection_ttl_min_ms))

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-2 ARTEMIS-STOMP-ttl-8")
def exempt_1_0(parts: Parts, reached: Reached) -> Parts:
    """Connections of 1.0 are never closed for silence."""

    class Faulty(HeartBeatNegotiator):
        def negotiate(self, header: str | None, version: Version) -> Agreement:
            right = super().negotiate(header, version)
            if version is not Version.V1_0:
                return right
            return reached.instead(right, replace(right, ttl_ms=LONG_MAX))

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-2")
def exempt_without_header(parts: Parts, reached: Reached) -> Parts:
    """A client that sends no heart-beat header is never closed for silence."""

    class Faulty(HeartBeatNegotiator):
        def negotiate(self, header: str | None, version: Version) -> Agreement:
            right = super().negotiate(header, version)
            return (
                right
                if header is not None
                else reached.instead(right, replace(right, ttl_ms=LONG_MAX))
            )

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-2")
def beats_in_1_0(parts: Parts, reached: Reached) -> Parts:
    """A heart-beat header of a 1.0 client, which has no meaning, makes its TTL."""

    class Faulty(HeartBeatNegotiator):
        def negotiate(self, header: str | None, version: Version) -> Agreement:
            right = super().negotiate(header, version)
            if version is not Version.V1_0 or header is None:
                return right
            return reached.instead(right, super().negotiate(header, Version.V1_2))

    return replace(parts, negotiator=Faulty)


@ttl.mutant("ARTEMIS-STOMP-ttl-3 ARTEMIS-STOMP-ttl-4")
def agreement_not_applied(parts: Parts, reached: Reached) -> Parts:
    """CONNECTED answers rightly, but the TTL that held before CONNECT stays."""

    class Faulty(HeartBeatNegotiator):
        def negotiate(self, header: str | None, version: Version) -> Agreement:
            right = super().negotiate(header, version)
            return reached.instead(right, replace(right, ttl_ms=self.initial_ttl_ms()))

    return replace(parts, negotiator=Faulty)
