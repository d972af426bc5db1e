"""Turns the bytes of an example into a script's steps: what to send, what to wait for, and how long
to pause.

The script waits for the frames that arrived between two of our steps, since a real broker takes its
own time to answer. Any remaining time was an intentional pause."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from brokerproof.harness.counterexamples.decision import decidable
from brokerproof.harness.counterexamples.player import PATIENCE_S, Came, Frames, Part, Ref, Secret
from brokerproof.harness.model.time import NS_PER_MS, NS_PER_S, Duration, Instant
from brokerproof.harness.protocols.byte_log import (
    ByteLog,
    ClosedByBroker,
    ClosedByUs,
    Expectation,
    Opened,
    Received,
    Sent,
    Step,
    Violation,
    remaining,
)
from brokerproof.harness.targets.target import Identity

SHORTEST_PAUSE: Mapping[bool, Duration] = {True: 1, False: 20 * NS_PER_MS}
"""The shortest gap that counts as a pause, in virtual time (True) and in real time (False). A
shorter gap is the harness's own work."""
NEAR: Duration = 2 * NS_PER_MS
"""The greatest distance between an instant in a measurement and the step to which it refers."""
COUNTED = ("frame", "absence", "silence")
"""The kinds of expectation in which frames of a given shape are counted."""
AGAIN_S = 0.25
"""How much later than in the recording an unwanted frame may arrive in a replay."""
_SHORTEST_MARK = 6
"""An example's mark (its part of destination names) is replaced only if it has at least this many
characters. A shorter one, such as ``1``, might also occur elsewhere."""


@dataclass
class Line:
    """One step: a method of the player, the connection, and the arguments."""

    at: Instant
    verb: str
    conn: int | None = None
    about: dict[str, Any] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    frame: Came | None = None


@dataclass
class Composed:
    """The steps of a conversation, what arrived, and what was expected."""

    lines: list[Line]
    expected: dict[str, Any]
    came: dict[int, list[Came]]
    ended: list[int]
    mark: bytes
    acceptors: list[str]

    @property
    def recorded(self) -> dict[str, Any]:
        """Return the frames that arrived and the connections that the broker closed, in the
        player's form."""
        came = {
            conn: [(frame.command, frame.headers, frame.body) for frame in frames]
            for conn, frames in self.came.items()
        }
        return {"came": came, "ended": self.ended}


def compose(log: ByteLog, violation: Violation, identity: Identity, *, virtual: bool) -> Composed:
    """Return the conversation up to ``violation``, without the login and the passcode."""
    steps = log.steps[: violation.steps]
    secret = _without_secrets(steps, identity)
    readers: dict[int, Frames] = {}
    came: dict[int, list[Came]] = {}
    ids: dict[bytes, Ref] = {}
    lines: list[Line] = []
    last: Instant = steps[0].at if steps else 0
    for position, step in enumerate(steps):
        if isinstance(step, Received):
            for frame in readers[step.conn].feed(step.at, identity.redaction.data(step.data)):
                came[step.conn].append(frame)
                _remember(ids, step.conn, frame, came[step.conn])
                lines.append(_arrival(step, len(came[step.conn]), frame))
                last = step.at
            continue
        if isinstance(step, ClosedByBroker):
            lines.append(Line(step.at, "ends", step.conn, {"how": step.how.value}))
            last = step.at
            continue
        lines += _pause(last, step.at, SHORTEST_PAUSE[virtual])
        last = max(last, step.at)
        match step:
            case Opened():
                readers[step.conn], came[step.conn] = Frames(), []
                lines.append(Line(step.at, "open", step.conn, {"acceptor": step.acceptor}))
            case Sent():
                parts = tuple(
                    part for fragment in secret[position] for part in _with_ids(fragment, ids)
                )
                lines.append(Line(step.at, "send", step.conn, parts=parts))
            case ClosedByUs():
                lines.append(Line(step.at, "leave", step.conn, {"how": step.how.value}))
    opened = [step.conn for step in steps if isinstance(step, Opened)]
    expected = _expected(violation, came, opened, _heard_at(steps, violation.expectation))
    until = violation.expectation.until if violation.expectation is not None else None
    end = violation.at + remaining(until, violation.at)
    _mark_times(lines, violation.expectation, expected.get("conn"))
    mark_decidable(expected, lines)
    _give_time(lines, expected, end)
    _mark_needed(lines, expected)
    lines += _pause(last, end, SHORTEST_PAUSE[virtual])
    mark = log.mark.encode() if len(log.mark) >= _SHORTEST_MARK else b""
    acceptors = list(dict.fromkeys(step.acceptor for step in steps if isinstance(step, Opened)))
    return Composed(
        lines,
        expected,
        came,
        [step.conn for step in steps if isinstance(step, ClosedByBroker)],
        mark,
        acceptors,
    )


def _pause(since: Instant, until: Instant, shortest: Duration) -> Iterator[Line]:
    if until - since >= shortest:
        yield Line(since, "pause", None, {"ms": round((until - since) / NS_PER_MS, 3)})


def _arrival(step: Received, count: int, frame: Came) -> Line:
    return Line(step.at, "receive", step.conn, {"count": count}, frame=frame)


def _remember(ids: dict[bytes, Ref], conn: int, frame: Came, before: list[Came]) -> None:
    if frame.command == "MESSAGE":
        nth = sum(step.command == "MESSAGE" for step in before)
        for name in ("message-id", "ack"):
            value = frame.get(name)
            if value:
                ids[value.encode("utf-8", "surrogateescape")] = Ref(conn, nth, name)


def _with_ids(part: Part, ids: Mapping[bytes, Ref]) -> list[Part]:
    """Return an ACK or NACK with references in place of message ids."""
    if not isinstance(part, bytes) or not part.lstrip(b"\r\n").startswith(
        (b"ACK\n", b"NACK\n", b"ACK\r\n", b"NACK\r\n")
    ):
        return [part]
    match = re.search(rb"\n(?:id|message-id):([^\r\n]*)", part)
    if match is None or match[1] not in ids:
        return [part]
    return [part[: match.start(1)], ids[match[1]], part[match.end(1) :]]


def _without_secrets(steps: list[Step], identity: Identity) -> dict[int, list[Part]]:
    """Return the parts of each write, by the write's position; a secret may span several writes.

    Unless the passcode is guessable, it is replaced everywhere, even within a wrong one."""
    patterns = {
        name: rb"(?:^|\n)" + name.encode() + b":(" + re.escape(value.encode()) + rb")(?=[\r\n])"
        for name, value in (("login", identity.login), ("passcode", identity.passcode))
        if value
    }
    if identity.passcode and identity.redaction.by_value:
        patterns["passcode"] = b"(" + re.escape(identity.passcode.encode()) + b")"
    result: dict[int, list[Part]] = {}
    for conn in {step.conn for step in steps}:
        writes = [
            (place, step.data)
            for place, step in enumerate(steps)
            if isinstance(step, Sent) and step.conn == conn
        ]
        stream = b"".join(data for _, data in writes)
        hidden = sorted(
            (match.start(1), match.end(1), name)
            for name, pattern in patterns.items()
            for match in re.finditer(pattern, stream)
        )
        begin = 0
        for place, data in writes:
            result[place] = list(_cut(data, begin, hidden))
            begin += len(data)
    return result


def _cut(data: bytes, begin: int, hidden: list[tuple[int, int, str]]) -> Iterator[Part]:
    at, end = begin, begin + len(data)
    for start, stop, name in hidden:
        low, high = max(start, at), min(stop, end)
        if low < high:
            if at < low:
                yield data[at - begin : low - begin]
            yield Secret(name, low - start, None if high == stop else high - start)
            at = high
    if at < end:
        yield data[at - begin :]


def _heard_at(steps: list[Step], expectation: Expectation | None) -> int | None:
    """Return the connection on which bytes arrived at the instant from which heartbeats count."""
    if expectation is None or expectation.kind != "signs":
        return None
    conns = (
        step.conn for step in steps if isinstance(step, Received) and step.at == expectation.since
    )
    return next(conns, None)


def _expected(
    violation: Violation, came: Mapping[int, list[Came]], opened: list[int], heard: int | None
) -> dict[str, Any]:
    expectation = violation.expectation
    if expectation is None:
        return {"kind": "words", "words": violation.detail}
    fields: dict[str, Any] = {"kind": expectation.kind, "words": expectation.words}
    conn = heard if expectation.conn is None else expectation.conn
    if conn is not None:
        fields["conn"] = conn
    if expectation.kind in COUNTED:
        command, headers, body = (
            expectation.shape if expectation.shape is not None else (None, (), None)
        )
        fitting = sum(
            _fits(frame, fields | {"command": command, "headers": headers, "body": body})
            for frame in came.get(conn or 0, ())
        )
        fields |= {
            "command": command,
            "headers": headers,
            "body": body,
            "before": fitting - expectation.extra,
        }
    if expectation.arrivals is not None:
        arrivals = expectation.arrivals
        judged = [[conn, _messages_in(came, conn) - count] for conn, count in arrivals.judged] or [
            [opened[-1], 0]
        ]
        fields |= {
            "conns": judged,
            "want": list(arrivals.want),
            "match": arrivals.match,
            "ignored": list(arrivals.ignored),
        }
    if expectation.account is not None:
        account = expectation.account
        fields |= {
            "window": account.window,
            "total": account.total,
            "cumulative": account.cumulative,
        }
    if expectation.kind in ("duration", "signs") and expectation.bounds is not None:
        low, high = expectation.bounds
        fields |= {"lo_s": low / NS_PER_S, "hi_s": None if high is None else high / NS_PER_S}
    if expectation.kind == "count":
        fields |= {"value": expectation.value, "bounds": expectation.bounds}
    return fields


def _messages_in(came: Mapping[int, list[Came]], conn: int) -> int:
    return sum(frame.command == "MESSAGE" for frame in came.get(conn, ()))


def _fits(frame: Came, expected: Mapping[str, Any]) -> bool:
    command, body = expected["command"], expected["body"]
    if command is None or (expected["kind"] == "silence" and frame.command == "ERROR"):
        return True
    same: bool = frame.command == command and (body is None or frame.body == body)
    return same and all(frame.get(name) == value for name, value in expected["headers"])


def _own(line: Line) -> bool:
    """True for a step of our own, to which the broker responds."""
    return line.verb in ("open", "send", "leave")


def _give_time(lines: list[Line], expected: Mapping[str, Any], end: Instant) -> None:
    """Allow more time for frames that arrived a second or more after our last step, and until the
    bound of the expectation. For unwanted frames, wait about as long as the case did."""
    longest = expected.get("hi_s") or expected.get("lo_s") or 0.0
    last = next((place for place in reversed(range(len(lines))) if _own(lines[place])), 0)
    own = lines[0].at if lines else 0
    for place, line in enumerate(lines):
        own = line.at if _own(line) else own
        if line.verb not in ("receive", "ends"):
            continue
        gap = (line.at - own) / NS_PER_S
        if place > last and _should_not_come(line, expected):
            line.about["within_s"] = round(max((end - own) / NS_PER_S, gap + AGAIN_S), 3)
        elif gap >= 1 or "mark" in line.about:
            line.about["within_s"] = round(max(gap, longest) + PATIENCE_S, 3)


def _should_not_come(line: Line, expected: Mapping[str, Any]) -> bool:
    if line.conn != expected.get("conn") or expected["kind"] not in ("absence", "silence", "open"):
        return False
    if line.frame is None:
        return bool(expected["kind"] != "absence")
    return expected["kind"] == "open" or _fits(line.frame, expected)


def _mark_needed(lines: list[Line], expected: Mapping[str, Any]) -> None:
    """Mark the frames without which the conversation cannot reach the decisive point: all answers
    before our last step, except those that the expectation judges."""
    if not decidable(expected):
        return
    last = next((place for place in reversed(range(len(lines))) if _own(lines[place])), 0)
    fitting: Counter[int] = Counter()
    messages: Counter[int] = Counter()
    for line in lines[:last]:
        frame = line.frame
        if line.verb != "receive" or frame is None or line.conn is None:
            continue
        is_message = frame.command == "MESSAGE"
        messages[line.conn] += is_message
        judged = line.about.get("mark") == "until"
        if expected["kind"] in COUNTED and line.conn == expected["conn"]:
            fits = _fits(frame, expected)
            fitting[line.conn] += fits
            judged |= fits and fitting[line.conn] > expected["before"]
        if expected["kind"] == "messages" and is_message:
            firsts = dict(expected["conns"])
            judged |= messages[line.conn] > firsts.get(line.conn, messages[line.conn])
        if expected["kind"] == "window" and is_message:
            judged |= line.conn == expected["conn"]
        if frame.command in ("CONNECTED", "RECEIPT", "MESSAGE") and not judged:
            line.about["needed"] = True


def mark_decidable(expected: dict[str, Any], lines: list[Line]) -> None:
    """For a measured time, record whether the two steps that bound it were found."""
    if expected["kind"] == "duration":
        marks = {line.about.get("mark") for line in lines}
        expected["decidable"] = {"since", "until"} <= marks and "lo_s" in expected
    elif expected["kind"] == "signs":
        marks = {line.about.get("mark") for line in lines}
        expected["decidable"] = "since" in marks and "conn" in expected


def _mark_times(lines: list[Line], expectation: Expectation | None, conn: int | None) -> None:
    """Mark the two steps that bound the measured time, if they can be found."""
    if expectation is None or expectation.since is None:
        return
    if expectation.kind == "signs":
        line = _nearest([line for line in lines if line.conn == conn], expectation.since)
        if line is not None:
            line.about["mark"] = "since"
        return
    if expectation.kind != "duration" or expectation.value is None:
        return
    since = _nearest(lines, expectation.since)
    until = _nearest(lines, expectation.since + expectation.value)
    if since is not None and until is not None and since is not until:
        since.about["mark"], until.about["mark"] = "since", "until"


def _nearest(lines: list[Line], instant: Instant) -> Line | None:
    near = [
        line
        for line in lines
        if line.verb in ("send", "receive", "ends") and abs(line.at - instant) <= NEAR
    ]
    # One broker sends ERROR and closes the connection; another may only close it.
    return min(near, key=lambda step: (abs(step.at - instant), step.verb != "ends"), default=None)
