"""Faults of the arithmetic of the connection TTL."""

from dataclasses import replace

from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.heartbeat import HeartBeatNegotiator, to_long
from brokerproof.reference_broker.settings.acceptor import LONG_MAX
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.suites.mutation.mutant import Group, breaks

ttl = Group("ttl")

NEVER = 10**30
WATCH = "ARTEMIS-STOMP-ttl-2 ARTEMIS-STOMP-ttl-3 ARTEMIS-STOMP-ttl-8"
"""A wrong watch closes connections wrongly, whatever the TTL was calculated from."""
ANY_DATA = "ARTEMIS-STOMP-ttl-8 STOMP11-HB-08 STOMP12-HB-08"


# --- the arithmetic -------------------------------------------------------------------------------


@ttl.override(HeartBeatNegotiator, "agree", breaks="ARTEMIS-STOMP-ttl-3")
def modifier_forgotten(original, reached, self, cx, cy):
    """The TTL is the client's own interval: the modifier is forgotten."""
    sx, sy, right = original(self, cx, cy)
    return sx, sy, reached.instead(right, cx) if cx and right != cx and sy == cx else right


@ttl.result(HeartBeatNegotiator, "agree", breaks="ARTEMIS-STOMP-ttl-3 ARTEMIS-STOMP-ttl-4")
def modifier_divides(right, self, cx, cy):
    """The client's interval is divided by the modifier instead of multiplied."""
    product = to_long(cx / self.acceptor.ttl.heart_beat_to_connection_ttl_modifier)
    low, high = self.acceptor.ttl.connection_ttl_min_ms, self.acceptor.ttl.connection_ttl_max_ms
    return (right[0], cx, product) if cx and low <= product <= high else right


def _configured(patch, reached, change):
    """Negotiate as if the acceptor had the parameters that ``change`` returns for its own."""

    @patch.override(HeartBeatNegotiator)
    def agree(original, self, cx, cy):
        other = with_parameters(self.acceptor, **change(self.acceptor.ttl))
        wrong = original(HeartBeatNegotiator(other, self.settings), cx, cy)
        return reached.instead(original(self, cx, cy), wrong)


@ttl.through(_configured)
@breaks(
    "ARTEMIS-STOMP-ttl-2 ARTEMIS-STOMP-ttl-3 ARTEMIS-STOMP-ttl-4",
    "ARTEMIS-STOMP-ttl-5 ARTEMIS-STOMP-ttl-6",
)
def modifier_without_fraction(right):
    """The modifier is read as an integer: 1.5 counts as 1."""
    modifier = int(right.heart_beat_to_connection_ttl_modifier)
    return {"heart_beat_to_connection_ttl_modifier": float(max(1, modifier))}


@ttl.result(HeartBeatNegotiator, "agree")
@breaks("ARTEMIS-STOMP-ttl-3 ARTEMIS-STOMP-ttl-4 ARTEMIS-STOMP-ttl-5")
def product_in_32_bits(right, self, cx, cy):
    """The product of interval and modifier is kept in 32 bits and wraps."""
    product = to_long(float(cx) * self.acceptor.ttl.heart_beat_to_connection_ttl_modifier)
    wrapped = (product + 2**31) % 2**32 - 2**31
    if not cx or wrapped == product:
        return right
    low = self.acceptor.ttl.connection_ttl_min_ms
    return (
        (right[0], cx, wrapped) if wrapped >= low else (right[0], self._without_modifier(low), low)
    )


@ttl.through(_configured, "ARTEMIS-STOMP-ttl-4 ARTEMIS-STOMP-ttl-6")
def minimum_ignored(right):
    """connectionTtlMin is ignored: a client that beats often has a very short TTL."""
    return {"connection_ttl_min_ms": 0}


@ttl.through(_configured, "ARTEMIS-STOMP-ttl-4 ARTEMIS-STOMP-ttl-5")
def maximum_ignored(right):
    """connectionTtlMax is ignored: the TTL grows with the client's interval without limit."""
    return {"connection_ttl_max_ms": LONG_MAX}


@ttl.result(HeartBeatNegotiator, "agree")
@breaks("ARTEMIS-STOMP-ttl-4 ARTEMIS-STOMP-ttl-5 ARTEMIS-STOMP-ttl-6")
def maximum_before_minimum(right, self, cx, cy):
    """The maximum is tested before the minimum, and applies if it is lower."""
    product = to_long(float(cx) * self.acceptor.ttl.heart_beat_to_connection_ttl_modifier)
    high = self.acceptor.ttl.connection_ttl_max_ms
    if not cx or product <= high:
        return right
    return (right[0], self._without_modifier(high), high)


@ttl.result(HeartBeatNegotiator, "agree", breaks="ARTEMIS-STOMP-ttl-6")
def minimum_not_told(right, self, cx, cy):
    """A TTL lifted to the minimum is answered with the client's own interval instead of minimum /
    modifier."""
    sx, sy, result = right
    lifted = cx and result == self.acceptor.ttl.connection_ttl_min_ms
    return sx, cx if lifted else sy, result


@ttl.result(HeartBeatNegotiator, "agree", breaks="ARTEMIS-STOMP-ttl-6")
def minimum_told_undivided(right, self, cx, cy):
    """A TTL lifted to the minimum is answered with the minimum itself, not divided by the
    modifier."""
    sx, sy, result = right
    low = self.acceptor.ttl.connection_ttl_min_ms
    return sx, low if cx and result == low and sy != cx else sy, result


@ttl.result(HeartBeatNegotiator, "agree", breaks="ARTEMIS-STOMP-ttl-5")
def maximum_told_undivided(right, self, cx, cy):
    """A TTL cut to the maximum is answered with the maximum itself, not divided by the modifier."""
    sx, sy, result = right
    high = self.acceptor.ttl.connection_ttl_max_ms
    return sx, high if cx and result == high and sy != cx else sy, result


@ttl.override(HeartBeatNegotiator, "agree", breaks="ARTEMIS-STOMP-ttl-4 ARTEMIS-STOMP-ttl-6")
def minimum_off_by_one(original, reached, self, cx, cy):
    """A product one millisecond below the minimum is accepted."""
    lower = with_parameters(
        self.acceptor, connection_ttl_min_ms=self.acceptor.ttl.connection_ttl_min_ms - 1
    )
    right, wrong = (
        original(self, cx, cy),
        original(HeartBeatNegotiator(lower, self.settings), cx, cy),
    )
    if wrong[2] != self.acceptor.ttl.connection_ttl_min_ms - 1:
        return right
    return reached.instead(right, (wrong[0], cx, wrong[2]))


@ttl.override(HeartBeatNegotiator, "agree", breaks="ARTEMIS-STOMP-ttl-2")
def default_divided_wrongly(original, reached, self, cx, cy):
    """A client without beats is asked for beats at the whole TTL instead of TTL / modifier."""
    sx, sy, result = original(self, cx, cy)
    return sx, sy if cx else reached.instead(sy, result), result


@ttl.override(HeartBeatNegotiator, "agree", breaks="ARTEMIS-STOMP-ttl-7")
def beat_floor_forgotten(original, reached, self, cx, cy):
    """The server promises heartbeats as often as the client requests, without the floor of 500
    ms."""
    sx, sy, result = original(self, cx, cy)
    return reached.instead(sx, cy), sy, result


@ttl.override(HeartBeatNegotiator, "agree", breaks="ARTEMIS-STOMP-ttl-7")
def beat_floor_of_a_second(original, reached, self, cx, cy):
    """The floor for the server's beats is 1000 ms instead of 500."""
    sx, sy, result = original(self, cx, cy)
    return reached.instead(sx, max(1000, cy) if cy else 0), sy, result


@ttl.override(HeartBeatNegotiator, "agree")
@breaks(
    "STOMP11-HB-03 STOMP12-HB-03 STOMP11-HB-05 STOMP12-HB-05 ARTEMIS-STOMP-ttl-2",
    "ARTEMIS-STOMP-ttl-3",
)
def beat_floor_for_nobody(original, reached, self, cx, cy):
    """The floor is applied to 0 as well: a client that wants no heartbeats gets two a second."""
    sx, sy, result = original(self, cx, cy)
    return reached.instead(sx, max(500, cy)), sy, result


@ttl.result(HeartBeatNegotiator, "negotiate")
@breaks("ARTEMIS-STOMP-ttl-2 ARTEMIS-STOMP-ttl-3 ARTEMIS-STOMP-ttl-7")
def answer_turned_round(right, self, header, version):
    """The two numbers of the answer are swapped."""
    if right.header is None:
        return right
    sx, sy = right.header.split(",")
    return replace(right, header=f"{sy},{sx}")


@ttl.override(HeartBeatNegotiator, "parse")
@breaks("ARTEMIS-STOMP-ttl-2 ARTEMIS-STOMP-ttl-3 STOMP11-HB-02 STOMP12-HB-02")
def question_turned_round(original, reached, self, header, version):
    """The client's two numbers are swapped."""
    cx, cy = original(self, header, version)
    return reached.instead((cx, cy), (cy, cx))


# --- where the TTL without client beats comes from ------------------------------------------------


@ttl.result(HeartBeatNegotiator, "initial_ttl_ms", breaks="ARTEMIS-STOMP-ttl-2")
def override_beats_acceptor(right, self):
    """connection-ttl-override takes precedence over the connectionTtl of the acceptor."""
    override = self.settings.connection_ttl_override_ms
    return right if override == -1 else override


@ttl.result(HeartBeatNegotiator, "initial_ttl_ms", breaks="ARTEMIS-STOMP-ttl-2")
def override_ignored(right, self):
    """connection-ttl-override has no effect on STOMP connections."""
    return self.acceptor.ttl.connection_ttl_ms or 60_000


@ttl.result(HeartBeatNegotiator, "initial_ttl_ms", recreates="ARTEMIS-611")
@breaks("ARTEMIS-STOMP-ttl-2")
def acceptor_ttl_ignored(right, self):
    """The acceptor's connectionTtl is ignored."""
    override = self.settings.connection_ttl_override_ms
    return 60_000 if override == -1 else override


@ttl.result(HeartBeatNegotiator, "initial_ttl_ms", breaks="ARTEMIS-STOMP-ttl-2")
def default_of_half_a_minute(right, self):
    """If nothing is configured, the TTL is 30 s instead of a minute."""
    configured = (
        self.acceptor.ttl.connection_ttl_ms is not None
        or self.settings.connection_ttl_override_ms != -1
    )
    return right if configured else 30_000


@ttl.result(HeartBeatNegotiator, "initial_ttl_ms", breaks="ARTEMIS-STOMP-ttl-2")
def minimum_for_everybody(right, self):
    """connectionTtlMin also lifts the TTL of connections without client beats."""
    return max(right, self.acceptor.ttl.connection_ttl_min_ms)


@ttl.result(HeartBeatNegotiator, "negotiate", breaks="ARTEMIS-STOMP-ttl-2 ARTEMIS-STOMP-ttl-8")
def exempt_1_0(right, self, header, version):
    """Connections of 1.0 are never closed for silence."""
    return right if version is not Version.V1_0 else replace(right, ttl_ms=LONG_MAX)


@ttl.result(HeartBeatNegotiator, "negotiate", breaks="ARTEMIS-STOMP-ttl-2")
def exempt_without_header(right, self, header, version):
    """A client that sends no heart-beat header is never closed for silence."""
    return right if header is not None else replace(right, ttl_ms=LONG_MAX)


@ttl.override(HeartBeatNegotiator, "negotiate", breaks="ARTEMIS-STOMP-ttl-2")
def beats_in_1_0(original, reached, self, header, version):
    """A heart-beat header of a 1.0 client, which has no meaning, determines its TTL."""
    right = original(self, header, version)
    if version is not Version.V1_0 or header is None:
        return right
    return reached.instead(right, original(self, header, Version.V1_2))


@ttl.result(HeartBeatNegotiator, "negotiate", breaks="ARTEMIS-STOMP-ttl-3 ARTEMIS-STOMP-ttl-4")
def agreement_not_applied(right, self, header, version):
    """CONNECTED answers correctly, but the TTL from before CONNECT stays."""
    return replace(right, ttl_ms=self.initial_ttl_ms())
