"""Liveness in a recording: missing heartbeats, and connections closed before or after their TTL.

A recording does not contain an acceptor's configuration, but the broker's answer reveals it:
Artemis asks for heartbeats every TTL / modifier (:mod:`brokerproof.harness.oracles.liveness`), so
the TTL is the interval in CONNECTED times the profile's modifier. A recording client may be late by
an unknown amount. So intervals are widened by a margin, and a small excess is uncertain. A close
that is too early is certain, because a late recorder sees closes later than they happen, never
earlier. Captured packets carry kernel timestamps, however late the program wrote them; near the
broker, the only margin is the delay of one lost packet (:data:`RESENT`)."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from brokerproof.harness.model.enums import Vantage
from brokerproof.harness.model.time import NS_PER_MS, NS_PER_S, Duration, Instant, in_ms, ms
from brokerproof.harness.model.wire_numbers import whole_number
from brokerproof.harness.oracles.expectations import NOTHING, Expectations
from brokerproof.harness.oracles.liveness import silence_interval
from brokerproof.harness.oracles.recorded_anomalies import Anomaly
from brokerproof.harness.trace.events import (
    ConnectionAbandoned,
    ConnectionClosed,
    Event,
    FrameReceived,
    FrameSent,
    HeartBeatReceived,
    HeartBeatSent,
    OctetsReceivedUnseen,
    OctetsRefused,
    OctetsSent,
    OctetsSentUnseen,
)
from brokerproof.harness.trace.facts import HIDING_NOTHING

SILENT, EARLY, LATE = "silent", "closed early", "closed late"
KINDS = (SILENT, EARLY, LATE)
MARGIN = ms(50)
RESENT = NS_PER_S
"""The longest delay that one lost packet causes for later packets: the first retransmission occurs
within a second (RFC 6298)."""
SURELY_LATE = 4
"""A silence that a client recorded is a violation if it lasted this many times the allowed time,
plus :data:`RESENT`."""
_EXPIRED = re.compile(r"TTL|time-?d? ?out|heart-?beat|not receive", re.IGNORECASE)
_IN = (FrameReceived, HeartBeatReceived, OctetsRefused)
_OUT = (FrameSent, HeartBeatSent, OctetsSent)


@dataclass
class Lifetime:
    """The lifetime of one connection; None means not seen. ``longest`` is the broker's longest
    silence (ns), which ended at ``until``; ``ended_by`` is ``broker`` or ``harness``; ``error`` is
    the message of the first ERROR."""

    conn: int
    longest: Duration = 0
    until: Instant = 0
    received: Instant | None = None
    spoken: Instant | None = None
    ended: Instant | None = None
    ended_by: str = ""
    asked: Mapping[str, str] = field(default_factory=dict)
    agreed: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None
    goodbye: bool = False
    opaque: bool = False
    unseen: Instant | None = None
    """The instant from which the recording lacks bytes of the connection or has them late; None if
    the recording is complete."""
    captured: bool = False
    """True if the times are the timestamps of captured packets."""


def find_anomalies(
    life: Lifetime, ground: Expectations = NOTHING, *, whole: bool = True
) -> Iterator[Anomaly]:
    """Yield the anomalies of one lifetime. Unless the recording is ``whole``, the broker may have
    been shutting down, so an early close without ERROR is uncertain."""
    yield from _beats(life)
    if ground.modifier is not None and ground.check_interval_ms is not None:
        for anomaly in _ttl(life, ground.modifier, ground.check_interval_ms):
            bare = anomaly.kind == EARLY and life.error is None and not whole
            yield replace(anomaly, uncertain=True) if bare else anomaly


def promised(life: Lifetime) -> Duration | None:
    """Return the interval in which the broker must send something; None if it need not."""
    asked, agreed = heart_beat(life.asked), heart_beat(life.agreed)
    return beat_interval(agreed[0], asked[1]) or None


def _beats(life: Lifetime) -> Iterator[Anomaly]:
    due = promised(life)
    if due is None:
        return
    longest, until = life.longest, life.until
    if (
        life.ended is not None
        and life.received is not None
        and life.ended - life.received > longest
    ):
        longest, until = life.ended - life.received, life.ended
    allowed = due + max(MARGIN, due // 10)
    if longest > allowed:
        what = (
            f"the broker was silent for {in_ms(longest)} ms; it had promised a beat every"
            f" {in_ms(due)} ms"
        )
        # The heartbeats may have been in the gap.
        uncertain = longest <= surely_silent(allowed, captured=life.captured) or (
            life.unseen is not None and life.unseen <= until
        )
        yield Anomaly(SILENT, "", life.conn, "", what, ((until, 0),), uncertain)


def surely_silent(allowed: Duration, *, captured: bool) -> Duration:
    """Return the recorded silence that proves a real silence longer than ``allowed``."""
    return (1 if captured else SURELY_LATE) * allowed + RESENT


def is_captured(events: Iterable[Event], conn: int) -> bool:
    return any(event.vantage is Vantage.CAPTURE for event in events if event.conn == conn)


def ttl_ms(life: Lifetime, modifier: float) -> int:
    """Return the TTL implied by the broker's answer; 0 means none."""
    return int(heart_beat(life.agreed)[1] * modifier)


def _ttl(life: Lifetime, modifier: float, check_interval_ms: int) -> Iterator[Anomaly]:
    ttl = ttl_ms(life, modifier)
    if not ttl or life.ended is None or life.spoken is None or life.goodbye or life.opaque:
        return
    silence = life.ended - life.spoken
    lo, hi = silence_interval(ttl, check_interval_ms, exact=False)
    # The answer was truncated to milliseconds, so the TTL may be larger by up to one modifier.
    hi += int(modifier * NS_PER_MS)
    between = f"{in_ms(silence)} ms of silence; expected between {in_ms(lo)} and {in_ms(hi)} ms"
    witness = ((life.spoken, 0), (life.ended, 0))
    by_ttl = life.ended_by == "broker" and (
        life.error is None or _EXPIRED.search(life.error) is not None
    )
    if by_ttl and silence < lo - MARGIN:
        yield Anomaly(EARLY, "", life.conn, "", f"the broker closed after {between}", witness)
    margin = max(MARGIN, hi // 50)
    if silence > hi + margin and (life.ended_by == "harness" or by_ttl):
        yield Anomaly(
            LATE,
            "",
            life.conn,
            "",
            f"the connection lived on through {between}",
            witness,
            silence <= (hi + margin + RESENT if life.captured and life.unseen is None else 2 * hi),
        )


def heart_beat(headers: Mapping[str, str]) -> tuple[int, int]:
    """Return a heart-beat header's two numbers in milliseconds; 0,0 if missing or malformed."""
    return readable_heart_beat(headers) or (0, 0)


def readable_heart_beat(headers: Mapping[str, str]) -> tuple[int, int] | None:
    """Like :func:`heart_beat`, but None for a malformed header."""
    first, _, second = headers.get("heart-beat", "0,0").partition(",")
    sent, requested = whole_number(first), whole_number(second)
    return None if sent is None or requested is None else (sent, requested)


def beat_interval(sender_ms: int, receiver_ms: int) -> Duration:
    """Return the interval agreed from one side's offer and the other's request, in ns; 0: none."""
    return max(sender_ms, receiver_ms) * NS_PER_MS if sender_ms and receiver_ms else 0


def lifetimes(events: Iterable[Event]) -> dict[int, Lifetime]:
    lives: dict[int, Lifetime] = {}
    for event in events:
        if event.conn is None or event.vantage is Vantage.BROKER:
            continue
        life = lives.setdefault(event.conn, Lifetime(event.conn))
        life.captured |= event.vantage is Vantage.CAPTURE
        if isinstance(event, _IN):
            if life.received is not None and event.at_ns - life.received > life.longest:
                life.longest, life.until = event.at_ns - life.received, event.at_ns
            life.received = event.at_ns
        elif isinstance(event, _OUT):
            life.spoken = event.at_ns
            life.opaque |= isinstance(event, OctetsSent)
        elif isinstance(event, (OctetsSentUnseen, OctetsReceivedUnseen)):
            life.opaque |= event.command not in HIDING_NOTHING
            life.unseen = event.at_ns if life.unseen is None else min(life.unseen, event.at_ns)
        elif isinstance(event, (ConnectionClosed, ConnectionAbandoned)) and life.ended is None:
            life.ended = event.at_ns
            life.ended_by = "broker" if isinstance(event, ConnectionClosed) else "harness"
        if isinstance(event, (FrameSent, FrameReceived)) and event.protocol == "STOMP":
            _noted(life, event)
    return lives


def _noted(life: Lifetime, event: FrameSent | FrameReceived) -> None:
    headers = dict(reversed(event.headers))
    match event.command:
        case "CONNECT" | "STOMP" if not life.asked:
            life.asked = headers
        case "CONNECTED" if not life.agreed:
            life.agreed = headers
        case "ERROR" if life.error is None:
            life.error = headers.get("message", "")
        case "DISCONNECT":
            life.goodbye = True
