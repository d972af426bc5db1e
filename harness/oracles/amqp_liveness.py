"""The obligations that each side's open imposes on the other side: idle time-out, limits, first and
last frame.

Part 2, 2.4.1 (open first), 2.4.5 (idle time-out), 2.4.3 (close last), 2.7.1 (limits).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.time import NS_PER_MS, Duration, Instant, in_ms
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.oracles.connection_lifetimes import MARGIN, is_captured, surely_silent
from brokerproof.harness.protocols.amqp10.fact_reader import EMPTY, Side, WireFrame, frames, placed
from brokerproof.harness.trace.events import ConnectionAbandoned, ConnectionClosed, Event

SILENCE, FIRST, LAST, NO_BEAT_BEFORE, NO_BEAT_AFTER = (
    "AMQP10-IDLE-20",
    "AMQP10-OPEN-02",
    "AMQP10-CLOSE-02",
    "AMQP10-IDLE-14",
    "AMQP10-IDLE-15",
)
FRAME_SIZE, CHANNEL, HANDLE = "AMQP10-MFS-02", "AMQP10-CHMAX-01", "AMQP10-CHMAX-04"
_OUTSIDE = (
    "protocol-header",
    "sasl-mechanisms",
    "sasl-init",
    "sasl-challenge",
    "sasl-response",
    "sasl-outcome",
)


def idle(
    events: Sequence[Event], conn: int, side: Side = Side.BROKER, slack: Duration = 0
) -> list[Finding]:
    """Check that no gap between the frames of ``side`` exceeded the idle-time-out in the other
    side's open by more than ``slack``. The period is from the later open to the close of ``side``
    or the end of the connection or trace."""
    worst, allowed = _silence(events, conn, side)
    if allowed is None or worst < 0:
        return [
            Finding(
                SILENCE,
                Seen.NEVER_REACHED,
                "no idle-time-out was requested, or the connection was too short for one",
            )
        ]
    held = worst <= allowed + slack
    detail = f"longest silence: {in_ms(worst)} ms; expected at most {in_ms(allowed)} ms"
    return [Finding(SILENCE, Seen.HELD if held else Seen.VIOLATED, detail)]


def idle_as_recorded(events: Sequence[Event], conn: int, side: Side = Side.BROKER) -> list[Finding]:
    """Like :func:`idle`, but the recorder or the network may have been late, so a small excess is
    uncertain."""
    worst, allowed = _silence(events, conn, side)
    margin = max(MARGIN, (allowed or 0) // 10)
    captured = is_captured(events, conn)
    close = worst <= surely_silent((allowed or 0) + margin, captured=captured)
    late = "the recording may have been late" if close else None
    return [
        replace(silence, uncertain=late) if silence.seen is Seen.VIOLATED else silence
        for silence in idle(events, conn, side, margin)
    ]


def _silence(events: Sequence[Event], conn: int, side: Side) -> tuple[Duration, Duration | None]:
    """Return the longest silence of ``side`` (-1: no time elapsed) and the limit that the other set
    (None: no limit)."""
    allowed: Duration | None = None
    last: Instant | None = None
    worst: Duration = -1
    opened: set[Side] = set()
    for frame in frames(events, conn):
        if frame.name == "open":
            opened.add(frame.side)
            if frame.side is side.other and frame.number("idle-time-out"):
                allowed = (frame.number("idle-time-out") or 0) * NS_PER_MS
            last = frame.at
        elif (
            len(opened) == 2 and last is not None and (frame.side is side or frame.name == "close")
        ):
            worst, last = max(worst, frame.at - last), frame.at
        if frame.name == "close":
            break
    else:
        end = _end(events, conn)
        if last is not None and len(opened) == 2 and end is not None:
            worst = max(worst, end - last)
    return worst, allowed


def _end(events: Sequence[Event], conn: int) -> Instant | None:
    for event in events:
        if event.conn == conn and isinstance(event, (ConnectionClosed, ConnectionAbandoned)):
            return event.at_ns
    return events[-1].at_ns if events else None


def order(events: Sequence[Event], conn: int, side: Side = Side.BROKER) -> list[Finding]:
    """Check that open was the first frame of ``side`` and close its last. Empty frames count
    too."""
    findings: list[Finding] = []
    opened = closed = False
    for frame in frames(events, conn):
        if frame.side is not side or frame.name in _OUTSIDE:
            continue
        findings += _ordered(frame, opened, closed)
        opened, closed = opened or frame.name == "open", closed or frame.name == "close"
    return findings or [Finding(FIRST, Seen.NEVER_REACHED, "no frame was sent")]


def _ordered(frame: WireFrame, opened: bool, closed: bool) -> Iterator[Finding]:
    if not opened and frame.name == EMPTY:
        yield Finding(NO_BEAT_BEFORE, Seen.VIOLATED, "an empty frame was sent before open")
    elif not opened:
        held = frame.name == "open"
        yield Finding(
            FIRST, Seen.HELD if held else Seen.VIOLATED, f"the first frame was {frame.name}"
        )
    elif frame.name == EMPTY:
        yield Finding(NO_BEAT_BEFORE, Seen.HELD, "empty frames arrived after open")
    if closed:
        requirement = NO_BEAT_AFTER if frame.name == EMPTY else LAST
        what = "an empty frame" if frame.name == EMPTY else frame.name
        yield Finding(requirement, Seen.VIOLATED, f"{what} was sent after close")
    elif frame.name == "close":
        yield Finding(LAST, Seen.HELD, "close was sent")


def limits(events: Sequence[Event], conn: int, side: Side = Side.BROKER) -> list[Finding]:
    """Check that ``side`` respected the other side's max-frame-size and channel-max (once that
    side's open is in the trace) and the handle-max in that side's begin."""
    findings: list[Finding] = []
    sizes, channels = 2**32 - 1, 65535
    for step in placed(events, conn):
        frame = step.frame
        if frame.side is side.other and frame.name == "open":
            size, most = frame.number("max-frame-size"), frame.number("channel-max")
            sizes, channels = sizes if size is None else size, channels if most is None else most
        if frame.side is not side or frame.name in _OUTSIDE:
            continue
        findings.append(
            _bounded(
                FRAME_SIZE,
                f"{frame.name} of {frame.size} bytes; max-frame-size is",
                frame.size,
                max(512, sizes),
            )
        )
        if frame.name != EMPTY:
            findings.append(
                _bounded(
                    CHANNEL,
                    f"{frame.name} on channel {frame.channel}; channel-max is",
                    frame.channel,
                    channels,
                )
            )
        if frame.name == "attach" and step.session is not None and side.other in step.session.begun:
            handle, most = (
                frame.number("handle"),
                step.session.begun[side.other].number("handle-max"),
            )
            if handle is not None:
                findings.append(
                    _bounded(
                        HANDLE,
                        f"attach with handle {handle}; handle-max is",
                        handle,
                        2**32 - 1 if most is None else most,
                    )
                )
    return findings or [Finding(FRAME_SIZE, Seen.NEVER_REACHED, "no frame was sent")]


def _bounded(requirement: str, what: str, value: int, most: int) -> Finding:
    return Finding(requirement, Seen.HELD if value <= most else Seen.VIOLATED, f"{what} {most}")
