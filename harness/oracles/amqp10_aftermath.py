"""General rules for a whole AMQP 1.0 connection, including what arrives after the last answer that
a case waited for.

The rules hold for every case, because they bind the broker whatever the client sent.

* The broker's open is its first frame and its close is the last; its frames respect the client's
  limits; its error conditions are in the standard's lists.
* Nothing arrives on a session after its end or on a link after its detach.
* The broker respects credit and windows, numbers its deliveries correctly, and settles each of them
  once.
* A connection stays open if the client keeps the idle-time-out and all its frames were answered.
  The broker keeps the client's idle-time-out, and ends a connection with a close.

Raw bytes from a client may be any frame, so a connection with raw bytes is judged by the first two
rules alone."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.time import NS_PER_MS, Duration, in_ms
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.oracles import (
    amqp_conditions,
    amqp_credit,
    amqp_deliveries,
    amqp_liveness,
    amqp_windows,
)
from brokerproof.harness.oracles.linger import Linger
from brokerproof.harness.protocols.amqp10.fact_reader import (
    EMPTY,
    ConnectionEvents,
    Placed,
    Side,
    WireFrame,
    frames,
)
from brokerproof.harness.trace.events import (
    ConnectionAbandoned,
    ConnectionClosed,
    Event,
    OctetsSent,
    OctetsSentUnseen,
)

BEHIND_END = "AMQP10-SESS-08"
BEHIND_ERROR = "AMQP10-LINK-10"
BEHIND_DETACH = "AMQP10-READING-LINK-01"
CLOSE_FIRST = "AMQP10-CLOSE-01"
TIME_OUT_RESTARTED = "AMQP10-IDLE-01"
CLOSED_FOR_NOTHING = "AMQP10-READING-CLOSE-01"

_IF_ALL_IS_KNOWN = (
    amqp_credit.credit,
    amqp_credit.counts,
    amqp_deliveries.delivery_ids,
    amqp_deliveries.settlement,
    amqp_deliveries.settle_modes,
    amqp_windows.windows,
    amqp_windows.ids,
)
_OF_A_SESSION = ("attach", "flow", "transfer", "disposition", "detach", "end")
_SILENCE = re.compile("idle|time-?d? ?out|silen|inactiv|heart|keep-?alive", re.IGNORECASE)
"""Words found in the error that closes a silent connection."""


def intervals(events: Sequence[Event], conn: int) -> tuple[Duration, Duration]:
    """Return the idle-time-outs that bind the client and the broker, in ns; 0: none."""
    own = _own(events, conn)
    return _time_out(own, Side.BROKER), _time_out(own, Side.OURS)


def judge(events: Sequence[Event], conn: int, linger: Linger) -> list[Finding]:
    """Return the violations on connection ``conn``, one per requirement."""
    own = _own(events, conn)
    is_known = not any(isinstance(event, (OctetsSent, OctetsSentUnseen)) for event in own)
    findings: dict[str, Finding] = {}
    for oracle in (*_IN_ANY_CASE, *(_IF_ALL_IS_KNOWN if is_known else ())):
        for finding in oracle(own, conn):
            if finding.seen is Seen.VIOLATED:
                findings.setdefault(finding.requirement, finding)
    if is_known and linger.undisturbed:
        for finding in (*_undue_end(own, linger), *_silence(own, linger)):
            findings.setdefault(finding.requirement, finding)
    return list(findings.values())


def _own(events: Sequence[Event], conn: int) -> ConnectionEvents:
    return ConnectionEvents(event for event in events if event.conn == conn)


def _opened(own: ConnectionEvents) -> dict[Side, WireFrame]:
    return {frame.side: frame for frame in own.frames if frame.name == "open"}


def _time_out(own: ConnectionEvents, side: Side) -> Duration:
    """Return the idle-time-out that ``side`` requested, in ns; 0: none."""
    opened = _opened(own).get(side)
    return (0 if opened is None else opened.number("idle-time-out") or 0) * NS_PER_MS


def _violated(requirement: str, detail: str) -> Iterator[Finding]:
    yield Finding(requirement, Seen.VIOLATED, detail)


def endings(events: Sequence[Event], conn: int) -> list[Finding]:
    """Check that the broker sent nothing on a session after ending it, or on a link after detaching
    it, until it began or attached again."""
    ended: set[int] = set()
    detached: dict[tuple[int, int | None], str | None] = {}
    findings: list[Finding] = []
    for frame in frames(events, conn):
        if frame.side is not Side.BROKER or frame.name not in ("begin", *_OF_A_SESSION):
            continue
        link = frame.channel, frame.number("handle")
        if frame.channel in ended and frame.name != "begin":
            detail = f"after ending the session on channel {frame.channel}"
            findings += _violated(BEHIND_END, f"{detail}, the broker sent {frame.name}")
        elif frame.name != "attach" and link in detached:
            error = detached[link]
            detail = f"after a detach{f' with {error}' if error else ''}, the broker sent"
            requirement = BEHIND_ERROR if error else BEHIND_DETACH
            findings += _violated(requirement, f"{detail} {frame.name} with the link's handle")
        match frame.name:
            case "begin":
                ended.discard(frame.channel)
            case "end":
                ended.add(frame.channel)
                detached = {of: error for of, error in detached.items() if of[0] != frame.channel}
                findings.append(Finding(BEHIND_END, Seen.HELD, "the broker ended a session"))
            case "attach":
                detached.pop(link, None)
            case "detach":
                error = detached[link] = amqp_conditions.condition_of(frame)
                if error:
                    detail = f"the broker detached a link with {error}"
                    findings.append(Finding(BEHIND_ERROR, Seen.HELD, detail))
    return findings or [Finding(BEHIND_END, Seen.NEVER_REACHED, "no session ended")]


_IN_ANY_CASE = (amqp_liveness.order, amqp_liveness.limits, amqp_conditions.conditions, endings)


def _undue_end(own: ConnectionEvents, linger: Linger) -> Iterator[Finding]:
    """Return a violation if the connection ended without a close, or was closed for no reason."""
    closes = {frame.side: frame for frame in reversed(own.frames) if frame.name == "close"}
    end = next(
        (event for event in own if isinstance(event, (ConnectionClosed, ConnectionAbandoned))), None
    )
    if len(_opened(own)) < 2:
        return
    time_out = _time_out(own, Side.BROKER)
    if Side.BROKER not in closes:
        asked = Side.OURS in closes
        if isinstance(end, ConnectionClosed) and end.how is CloseHow.EOF:
            # After too long a silence of the peer, 2.4.5 only recommends a close (IDLE-03).
            ours = [frame.at for frame in own.frames if frame.side is Side.OURS]
            pauses = (later - at for at, later in pairwise([*ours, end.at_ns]))
            if asked or max(pauses) + linger.jitter < time_out:
                why = "the client's close" if asked else "the last frame"
                detail = f"after {why}, the broker ended the connection without a close"
                yield from _violated(CLOSE_FIRST, detail)
        return
    close = closes[Side.BROKER]
    error = close.fields.get("error")
    if error is None or not time_out or _has_reason(own, close, time_out, linger):
        return
    condition = amqp_conditions.condition_of(close)
    silent = (close.at - _last_of_ours(own, close).at) / NS_PER_MS
    detail = f"the broker closed with {condition} {silent:g} ms after the client's last frame"
    if _SILENCE.search(error):
        asked_for = f"its idle-time-out is {time_out // NS_PER_MS} ms"
        yield from _violated(TIME_OUT_RESTARTED, f"{detail}; {asked_for}")
    else:
        yield from _violated(CLOSED_FOR_NOTHING, f"{detail}, although the client owed nothing")


def _last_of_ours(own: ConnectionEvents, close: WireFrame) -> WireFrame:
    before = own.frames[: own.frames.index(close)]
    return next(frame for frame in reversed(before) if frame.side is Side.OURS)


def _has_reason(
    own: ConnectionEvents, close: WireFrame, time_out: Duration, linger: Linger
) -> bool:
    """Return True if the client was silent for too long, owed an answer, or last sent a frame that
    may explain the close."""
    before = own.placed[: own.frames.index(close)]
    ours = [step for step in before if step.frame.side is Side.OURS]
    instants = [*(step.frame.at for step in ours), close.at]
    if any(later - at + linger.jitter >= time_out for at, later in pairwise(instants)):
        return True
    last = next(step for step in reversed(ours) if step.frame.name != EMPTY)
    # A wrong open is also answered with an open, followed by a close.
    answered = last.frame.name != "open" and any(step.answers == last.position for step in before)
    if last.frame.name == "close" or not (answered or close.at - last.frame.at >= linger.grace):
        return True
    return any(_is_owed(step, before) for step in before)


def _is_owed(step: Placed, steps: Sequence[Placed]) -> bool:
    """Return True if the client has not answered a detach, end or delivery from the broker, or has
    left a delivery of its own incomplete."""
    behind = steps[step.position + 1 :]
    match step.frame.name, step.frame.side:
        case "detach", Side.BROKER:
            return step.link is not None and Side.OURS not in step.link.detached
        case "end", Side.BROKER:
            return step.session is not None and Side.OURS not in step.session.ended
        case "transfer", Side.BROKER:
            return not step.frame.flag("settled") and not any(
                answer.frame.side is Side.OURS and answer.frame.name in ("disposition", "detach")
                for answer in behind
            )
        case "transfer", Side.OURS:
            return step.frame.flag("more") and not any(
                more.link is step.link and more.frame.name == "transfer" for more in behind
            )
    return False


def _silence(own: ConnectionEvents, linger: Linger) -> Iterator[Finding]:
    """Return a violation if the broker's silence at the last read exceeds the client's
    idle-time-out."""
    due = _time_out(own, Side.OURS)
    over = any(isinstance(event, (ConnectionClosed, ConnectionAbandoned)) for event in own)
    if not due or over or len(_opened(own)) < 2 or any(f.name == "close" for f in own.frames):
        return
    heard_at = max(frame.at for frame in own.frames if frame.side is Side.BROKER)
    silent = linger.until - max(heard_at, linger.since)
    if silent > due + linger.jitter:
        detail = f"the broker was silent for {in_ms(silent)} ms"
        asked = f"the client's idle-time-out is {due // NS_PER_MS} ms"
        yield from _violated(amqp_liveness.SILENCE, f"{detail}; {asked}")
