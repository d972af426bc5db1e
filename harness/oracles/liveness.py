"""Heartbeat and TTL arithmetic: an Artemis-like broker's answer to CONNECT, and when it closes a
silent connection.

Source: the Artemis STOMP chapter. Two details come from Artemis 2.56.0 itself: the lower bound is
tested before the upper bound, and expiry is detected by a check that runs at every check interval.

For ``heart-beat:cx,cy`` from the client and TTL0, the TTL without client heartbeats (acceptor
``connectionTtl``, else the broker-wide override, else 60000 ms):

1. The server sends every ``max(500, cy)`` ms, or never when cy is 0 (ARTEMIS-STOMP-ttl-7).
2. With cx = 0 the TTL is TTL0 and the server asks for beats every TTL0 / modifier
   (ARTEMIS-STOMP-ttl-2).
3. With cx > 0 the TTL is cx * modifier (ARTEMIS-STOMP-ttl-3), bounded by min and max
   (ARTEMIS-STOMP-ttl-4); bounded, the server asks for bound / modifier (ARTEMIS-STOMP-ttl-5 above
   the maximum, ARTEMIS-STOMP-ttl-6 below the minimum), else for cx.

Divisions and products are IEEE doubles truncated to 64-bit integers, as in Java.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from brokerproof.harness.model.time import NS_PER_MS, Duration

LONG_MAX = 2**63 - 1
LONG_MIN = -(2**63)


@dataclass(frozen=True, slots=True)
class Negotiated:
    """The expected ``heart-beat`` header of CONNECTED (``sx,sy``, ms; None: no such header) and the
    resulting TTL (ms)."""

    heart_beat: tuple[int, int] | None
    ttl_ms: int

    @property
    def header(self) -> str | None:
        return None if self.heart_beat is None else f"{self.heart_beat[0]},{self.heart_beat[1]}"


def initial_ttl_ms(parameters: Mapping[str, object]) -> int:
    """Return TTL0: the acceptor's ``connection_ttl_ms``, else ``connection_ttl_override_ms`` unless
    it is -1, else 60000."""
    acceptor, override = (
        parameters.get("connection_ttl_ms"),
        parameters["connection_ttl_override_ms"],
    )
    if acceptor is not None:
        return _int(acceptor)
    return _int(override) if override != -1 else 60_000


def negotiate(
    parameters: Mapping[str, object], heart_beat: tuple[int, int] | None, version: str = "1.2"
) -> Negotiated:
    """Return the expected answer to ``heart_beat`` (cx, cy in ms, at least 0; None: no header)."""
    initial = initial_ttl_ms(parameters)
    if heart_beat is None or version == "1.0":
        return Negotiated(None, initial)
    cx, cy = heart_beat
    modifier = parameters["heart_beat_to_connection_ttl_modifier"]
    assert isinstance(modifier, (int, float))
    low, high = _int(parameters["connection_ttl_min_ms"]), _int(parameters["connection_ttl_max_ms"])
    sx = 0 if cy == 0 else max(_int(parameters["server_beat_floor_ms"]), cy)
    if cx == 0:
        return Negotiated((sx, _long(initial / modifier)), initial)
    requested = _long(float(cx) * modifier)
    if requested < low:
        return Negotiated((sx, _long(low / modifier)), low)
    if requested > high:
        return Negotiated((sx, _long(high / modifier)), high)
    return Negotiated((sx, cx), requested)


def silence_interval(
    ttl_ms: int, check_interval_ms: int, *, exact: bool
) -> tuple[Duration, Duration]:
    """Return the silence [lo, hi] after which the connection is closed, counted from the last byte
    received.

    A check dates new data with its own time, so silence is counted from the first check after the
    last byte. On an ``exact`` grid, the close follows after a whole number of check intervals, at
    least one, plus part of one. On a real host each check starts a little late, so a TTL just above
    a whole number may be detected one check sooner: then the lower bound is the TTL itself, and the
    upper bound allows for the drift of each check (2 %, at least 50 ms in all)."""
    passes = max(1, -(-ttl_ms // check_interval_ms))
    earliest, latest = (
        passes * check_interval_ms * NS_PER_MS,
        (passes + 1) * check_interval_ms * NS_PER_MS,
    )
    if exact:
        return earliest, latest
    return ttl_ms * NS_PER_MS, latest + max(50 * NS_PER_MS, latest // 50)


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _long(value: float) -> int:
    """Convert as Java casts a double to a long: towards zero, and saturating."""
    if value >= LONG_MAX:
        return LONG_MAX
    return LONG_MIN if value <= LONG_MIN else int(value)
