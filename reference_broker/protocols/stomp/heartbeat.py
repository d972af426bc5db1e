"""Negotiation by the heart-beat header of CONNECT: the answer in CONNECTED, our own heartbeats, and
the connection TTL.

With cx,cy from the client, m the acceptor's ``heartBeatToConnectionTtlModifier``, lo and hi its
``connectionTtlMin`` and ``connectionTtlMax``, all times in milliseconds:

1. TTL0, the initial TTL: the acceptor's ``connectionTtl``, else ``connection-ttl-override`` unless
   that is -1, else 60000 (ARTEMIS-STOMP-ttl-2).
2. sx, what we send: 0 if cy is 0, else max(500, cy) (ARTEMIS-STOMP-ttl-7).
3. If cx is 0: TTL is TTL0, and sy, what we ask for, is TTL0 / m.
4. Otherwise t = cx * m (ARTEMIS-STOMP-ttl-3). If t < lo: TTL is lo and sy is lo / m (-6). Else if t
   > hi: TTL is hi and sy is hi / m (-5). Else TTL is t and sy is cx. TTL0 plays no part. lo is
   tested first, so it wins if lo > hi.
5. The answer is sx,sy.

Products and quotients are IEEE doubles, truncated to a signed 64-bit integer that saturates: the
modifier is a decimal.

Without the header (and always in 1.0, which has no heartbeats) the answer has no header, there are
no heartbeats, and the TTL is TTL0. The specifications treat a missing header as 0,0 (STOMP11-HB-05,
STOMP12-HB-05), and so does this module: with cx = 0 and cy = 0 neither side sends, whatever sy is.

If hi is below cx, a connection ends before the client owes a heartbeat, as configured. The answer
states what we request; a client that sends heartbeats that often stays connected.
"""

import math
from dataclasses import dataclass

from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.refusal import BAD_HEART_BEAT, Refusal, shown
from brokerproof.reference_broker.settings.acceptor import LONG_MAX, Acceptor
from brokerproof.reference_broker.settings.settings import Settings

DEFAULT_TTL_MS = 60_000
MIN_BEAT_MS = 500


@dataclass(frozen=True, slots=True)
class Agreement:
    """The result of a negotiation. ``header`` is the value for CONNECTED (None: no header).
    ``beat_ms`` is the period of our heartbeats (0: none)."""

    header: str | None
    beat_ms: int
    ttl_ms: int
    client_beats: bool
    """True if the TTL follows from heartbeats that the client promised."""
    first_look_ms: int = 0
    """The time of the first check for silence, in families that check once per interval."""


def to_long(value: float) -> int:
    """Return ``value`` truncated to a signed 64-bit integer, with saturation; NaN becomes 0."""
    if math.isnan(value):
        return 0
    if value >= LONG_MAX:
        return LONG_MAX
    return max(int(value), -LONG_MAX - 1) if math.isfinite(value) else -LONG_MAX - 1


class HeartBeatNegotiator:
    """The heartbeat arithmetic of one acceptor."""

    def __init__(self, acceptor: Acceptor, settings: Settings) -> None:
        self.acceptor = acceptor
        self.settings = settings

    def initial_ttl_ms(self) -> int:
        """Return TTL0."""
        if self.acceptor.ttl.connection_ttl_ms is not None:
            return self.acceptor.ttl.connection_ttl_ms
        if self.settings.connection_ttl_override_ms != -1:
            return self.settings.connection_ttl_override_ms
        return DEFAULT_TTL_MS

    def negotiate(self, header: str | None, version: Version) -> Agreement:
        """Return the agreement for a CONNECT with this heart-beat header. Raises :class:`Refusal`
        if the header is malformed."""
        if header is None or version is Version.V1_0:
            return Agreement(None, 0, self.initial_ttl_ms(), client_beats=False)
        cx, cy = self.parse(header, version)
        sx, sy, ttl = self.agree(cx, cy)
        return Agreement(f"{sx},{sy}", sx, ttl, client_beats=cx != 0)

    def parse(self, header: str, version: Version) -> tuple[int, int]:
        """Return two whole numbers of milliseconds, separated by a comma (STOMP11-HB-01,
        STOMP12-HB-01).

        The specifications say "positive" but give 0 a meaning, so numbers must not be negative. The
        largest is 2^63 - 1.
        """
        parts = header.split(",")
        if len(parts) != 2:
            raise Refusal(
                BAD_HEART_BEAT,
                version,
                f"heart-beat {shown(header)} is not two numbers separated by a comma",
            )
        return self._number(parts[0], header, version), self._number(parts[1], header, version)

    @staticmethod
    def _number(text: str, header: str, version: Version) -> int:
        digits = text.lstrip("0") or text[:1]
        if not (digits.isascii() and digits.isdigit()):
            detail = (
                f"{shown(text)} in heart-beat {shown(header)} is not a whole number of"
                " milliseconds, 0 or more"
            )
            raise Refusal(BAD_HEART_BEAT, version, detail)
        if len(digits) > 19 or int(digits) > LONG_MAX:
            raise Refusal(
                BAD_HEART_BEAT,
                version,
                f"{shown(text)} in the heart-beat header is more than {LONG_MAX}",
            )
        return int(digits)

    def agree(self, cx: int, cy: int) -> tuple[int, int, int]:
        """Return sx, sy and the TTL, in milliseconds."""
        lo, hi = self.acceptor.ttl.connection_ttl_min_ms, self.acceptor.ttl.connection_ttl_max_ms
        sx = 0 if cy == 0 else max(MIN_BEAT_MS, cy)
        if cx == 0:
            ttl = self.initial_ttl_ms()
            return sx, self._without_modifier(ttl), ttl
        ttl = to_long(float(cx) * self.acceptor.ttl.heart_beat_to_connection_ttl_modifier)
        if ttl < lo:
            return sx, self._without_modifier(lo), lo
        if ttl > hi:
            return sx, self._without_modifier(hi), hi
        return sx, cx, ttl

    def _without_modifier(self, ttl: int) -> int:
        modifier = self.acceptor.ttl.heart_beat_to_connection_ttl_modifier
        return to_long(float(ttl) / modifier) if modifier else LONG_MAX


@dataclass(frozen=True, slots=True)
class HeartBeats:
    """A family's heartbeats: how they are negotiated, and the requirement by which a silent peer is
    disconnected without an ERROR (None: the peer gets an ERROR)."""

    negotiator: type[HeartBeatNegotiator] = HeartBeatNegotiator
    ends_silently: str | None = None


BY_TTL = HeartBeats()
"""Artemis: heartbeats determine a connection TTL."""


class MirroredHeartBeats(HeartBeatNegotiator):
    """Answers with the client's two numbers swapped, or with 0,0 if there is no header, even in
    1.0.

    If the client sends cx,cy, we send a heartbeat every cy ms and check for silence every trunc(cx
    * grace) ms, starting after min(cx, cy) ms. A negative number switches both off, and becomes 0
    in the answer.
    """

    def initial_ttl_ms(self) -> int:
        return 0

    def negotiate(self, header: str | None, version: Version) -> Agreement:
        cx, cy = (0, 0) if header is None else self.parse(header.strip(), version)
        answer = f"{max(cy, 0)},{max(cx, 0)}"
        if min(cx, cy) < 0:
            return Agreement(answer, 0, 0, client_beats=False)
        every = int(cx * self.acceptor.stomp.heart_beat_grace)
        return Agreement(answer, cy, every, client_beats=cx != 0, first_look_ms=min(cx, cy))

    def parse(self, header: str, version: Version) -> tuple[int, int]:
        signs = [-1 if part.startswith("-") else 1 for part in header.split(",")]
        cx, cy = super().parse(
            ",".join(part.removeprefix("-") for part in header.split(",")), version
        )
        return signs[0] * cx, signs[-1] * cy
