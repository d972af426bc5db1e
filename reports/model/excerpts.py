"""Chooses the events that a case's page shows: limited parts of a few examples."""

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from brokerproof.reports.model.curves import Settings, curves
from brokerproof.reports.model.redaction import blank_header, blank_text
from brokerproof.reports.sources.recorded_cases import RecordedCase

HEAD, TAIL, MARKED = 120, 60, 60
"""The maximum number of events from the beginning and from the end of an example, and the maximum
number of judgements and measurements between them."""
HEAD_OF_PASS, TAIL_OF_PASS = 80, 40
"""The maximum number of events from an example of a passed case. It is lower, because nobody asks
why a case passed."""
BODY_BYTES = 200
HEADERS = 40
HEADER_LENGTH = 300
SAFE = 2**53
"""The largest integer that JavaScript represents exactly. Larger values are written as text."""

_MARKED = frozenset(
    {
        "ConnectionAbandoned",
        "ConnectionClosed",
        "ConnectionOpened",
        "IntervalExpected",
        "Judged",
        "LinkFaulted",
        "Measured",
        "OctetsRefused",
    }
)
_INSTANTS = ("lo_ns", "hi_ns")

Places = np.ndarray[Any, Any]


def violations(case: RecordedCase) -> dict[int, list[tuple[str, str]]]:
    """Return the examples (:attr:`RecordedCase.parts`) with violations, each of these as
    requirement and detail."""
    found: dict[int, list[tuple[str, str]]] = {}
    for place, kind in enumerate(case.column("kind")):
        if kind == "Judged" and case.column("seen")[place] == "VIOLATED":
            finding = case.column("requirement")[place], case.column("detail")[place]
            found.setdefault(int(case.parts[place]), []).append(finding)
    return found


def chosen_parts(
    case: RecordedCase,
    most: int,
    quoted: Sequence[tuple[str, str]] = (),
    disputed: Collection[int] = (),
) -> list[Places]:
    """Return the events of the examples that a page shows, at most ``most``.

    For a property, failing examples come first: the example that the page's headline describes
    (``quoted``: the case's findings as requirement and detail, the worst first), then the last
    example, which in virtual time is the shrunk one. Next are the ``disputed`` examples, on which
    the second judge disagrees, and those nearest to a bound."""
    parts = case.parts
    by_part = dict(
        zip(
            parts[np.flatnonzero(np.diff(parts, prepend=-1))].tolist(),
            np.split(np.arange(len(parts)), np.flatnonzero(np.diff(parts)) + 1),
            strict=True,
        )
    )
    if len(by_part) <= 1:
        return list(by_part.values())
    violated = violations(case)
    places = {finding: place for place, finding in reversed(list(enumerate(quoted)))}
    nearest: dict[int, float] = {}
    numbered = parts.tolist()
    for place, kind in enumerate(case.column("kind")):
        if kind == "Measured":
            room = _room(*(case.column(name)[place] for name in ("value", "lo", "hi")))
            if room is not None:
                part = numbered[place]
                nearest[part] = min(room, nearest.get(part, room))

    def rank(part: int) -> tuple[Any, ...]:
        # Events before the first example belong to none.
        if part in violated:
            of_headline = min(places.get(finding, len(places)) for finding in violated[part])
            return part == 0, 0, of_headline, -part
        unlike = part not in disputed
        return part == 0, 1, unlike, part not in nearest, nearest.get(part, 0), part

    return [by_part[part] for part in sorted(by_part, key=rank)[:most]]


def _room(value: int | None, low: int | None, high: int | None) -> float | None:
    """Return the distance of a value from its nearest bound as a fraction of the interval's width;
    positive inside."""
    if value is None or (low is None and high is None):
        return None
    rooms = [value - low] if low is not None else []
    rooms += [high - value] if high is not None else []
    width = high - low if low is not None and high is not None else low
    return min(rooms) / max(width or 1, 1)


def shown_places(case: RecordedCase, places: Places, *, passed: bool = False) -> Places:
    """Return the places of the events of an example that its page shows: the beginning, the end,
    and any judgements or measurements between. ``passed`` is true if the case passed."""
    head, tail = (HEAD_OF_PASS, TAIL_OF_PASS) if passed else (HEAD, TAIL)
    size = case.total if len(places) == len(case) else len(places)
    index = case.numbers[places] - case.numbers[places[0]]
    reached = (index < head) | (index >= size - tail)
    kinds = case.column("kind")
    marked = np.array([kinds[place] in _MARKED for place in places.tolist()])
    marked &= np.cumsum(marked) <= MARKED
    chosen: Places = places[reached | marked]
    return chosen


def excerpt(
    case: RecordedCase, places: Places, settings: Settings = (), *, passed: bool = False
) -> dict[str, Any]:
    """Return one example as its page draws it: its ``part`` (0 unless the case is a property), the
    number of its ``events``, its ``rows`` and its ``curves``.

    The instants of a row are nanoseconds since the first event. After omitted events, a row has
    ``index``, its place in the example, from 1."""
    shown = shown_places(case, places, passed=passed).tolist()
    at = case.column("at_ns")
    zero = min(at[place] for place in shown)
    first = int(case.numbers[places[0]])
    rows: list[dict[str, Any]] = []
    before = -1
    for place in shown:
        row = _row(case, place, zero)
        index = int(case.numbers[place]) - first
        if index != before + 1:
            row["index"] = index + 1
        before = index
        rows.append(row)
    drawn = curves(_spoken(case, places), settings)
    return {
        "part": int(case.parts[places[0]]),
        "events": case.total if len(places) == len(case) else len(places),
        "rows": rows,
        "curves": [
            {
                **dataclasses.asdict(curve),
                "points": [(instant - zero, value) for instant, value in curve.points],
            }
            for curve in drawn
        ],
    }


def _row(case: RecordedCase, place: int, zero: int) -> dict[str, Any]:
    kind = case.column("kind")[place]
    row: dict[str, Any] = {"at": case.column("at_ns")[place] - zero, "kind": kind}
    if (conn := case.column("conn")[place]) is not None:
        row["conn"] = conn
    if case.column("vantage")[place] == "BROKER":
        row["broker"] = True
    for name, column in case.fields(kind):
        value = column[place]
        if value is None or value == "" or value == ():
            continue
        if name == "headers":
            value = [
                [title[:HEADER_LENGTH], blank_header(title, text)[:HEADER_LENGTH]]
                for title, text in value[:HEADERS]
            ]
        elif isinstance(value, bytes):
            if name == "data":
                row["data_size"] = len(value)
            value = blank_text(value, BODY_BYTES)
        elif name in _INSTANTS:
            value -= zero
        elif isinstance(value, int):
            value = _number(value)
        row[name] = value
    return row


def _number(value: int) -> int | str:
    return value if -SAFE < value < SAFE else str(value)


_AMQP = ("begin", "attach", "flow", "transfer", "detach", "end", "open", "close")
_STOMP = ("SUBSCRIBE", "UNSUBSCRIBE", "MESSAGE", "ACK", "NACK", "SEND")
_AMQP091 = ("qos", "consume", "consume-ok", "deliver", "ack", "nack", "reject")
"""The methods of the ``basic`` class that curves follow."""
_DRAWN = frozenset((*_AMQP, *_STOMP, *(f"basic.{method}" for method in _AMQP091)))
_SHORT = 40
"""The maximum size in bytes of a body that may be an answer from the broker's management."""


def _spoken(case: RecordedCase, places: Places) -> Iterator[dict[str, Any]]:
    """Yield the frames of an example that curves follow."""
    kinds, commands = case.column("kind"), case.column("command")
    vantages, protocols = case.column("vantage"), case.column("protocol")
    instants, conns, headers = case.column("at_ns"), case.column("conn"), case.column("headers")
    sizes, bodies, body_sizes = case.column("size"), case.column("body"), case.column("body_size")
    for place in places.tolist():
        if kinds[place] not in ("FrameSent", "FrameReceived") or commands[place] not in _DRAWN:
            continue
        if vantages[place] == "BROKER":
            continue
        body = bodies[place]
        yield {
            "at_ns": instants[place],
            "conn": conns[place],
            "kind": kinds[place],
            "protocol": protocols[place],
            "command": commands[place],
            "headers": headers[place],
            "size": sizes[place],
            "body": body.decode("latin-1") if body and (body_sizes[place] or 0) <= _SHORT else "",
        }
