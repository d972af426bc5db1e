"""What stood at each instant of an example, worked out from the frames: the credit of AMQP links, what STOMP subscriptions held
against their windows, the sizes of addresses as the broker told them.

For the plots of case pages. An example is read in order by one task and comes out as at most :data:`MOST_POINTS` points a
curve; only frames that matter are brought together, whatever the length of the example.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.oracles.amqp_trace import WRAP, Places, Side, WireFrame, ahead
from reports.read import CASE
from reports.schema import spark_schema
from reports.tables.addresses import ATTRIBUTES

MOST_POINTS = 240
"""Of a curve; of more, each stretch keeps its least and its greatest value."""
MOST_CURVES = 6
MOST_FRAMES = 200_000
"""Of an example; what comes behind is not drawn."""

SERIES = pa.schema([("page", pa.int64()), ("part", pa.int64()), ("curves", pa.string())])
"""``curves`` is JSON: :class:`Curve` by its fields, instants in nanoseconds of the trace's clock."""

_AMQP = ("begin", "attach", "flow", "transfer", "detach", "end", "open", "close")
_STOMP = ("SUBSCRIBE", "UNSUBSCRIBE", "MESSAGE", "ACK", "NACK", "SEND")
_WINDOWS = ("consumer-window-size", "prefetch-count", "activemq.prefetchSize")
"""Headers by which a subscription asks for its window; only the first is in octets."""
_ASKED, _OF = "_AMQ_Attribute", "_AMQ_ResourceName"
_UNITS = {"size": "octets", "messages": "messages", "pages": "pages"}
_READINGS = {attribute: (what, _UNITS[what]) for attribute, what in ATTRIBUTES.items() if what in _UNITS}


@dataclass
class Curve:
    """A quantity over time: ``points`` are instants and the value from then on; ``bound`` is what it should not pass."""

    title: str
    unit: str
    points: list[tuple[int, int]] = field(default_factory=list)
    bound: int | None = None

    def at(self, instant: int, value: int) -> None:
        """From ``instant`` on it is ``value``."""
        self.points.append((instant, value))


def series(trace: DataFrame, examples: DataFrame) -> DataFrame:
    """The curves (:data:`SERIES`) of the examples ``page, part, run, target, case``; those without any have no row."""
    spoken = trace.where(
        F.col("kind").isin("FrameSent", "FrameReceived")
        & F.col("command").isin(*_AMQP, *_STOMP)
        & (F.col("vantage") != "BROKER")
    )
    needed = spoken.join(F.broadcast(examples), [*CASE, "part"]).select(
        "page",
        "part",
        "position",
        "at_ns",
        "conn",
        "kind",
        "protocol",
        "command",
        "headers",
        "size",
        F.when(F.col("body_size") <= 40, F.decode("body", "ISO-8859-1")).alias("body"),
    )

    def draw(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        for (page, part), some in groupby(rows, key=lambda row: (row["page"], row["part"])):
            found = curves(some)
            if found:
                row = {"page": page, "part": part, "curves": json.dumps([vars(each) for each in found])}
                yield pa.RecordBatch.from_pylist([row], schema=SERIES)

    together = needed.repartition("page", "part").sortWithinPartitions("page", "part", "position")
    return together.mapInArrow(draw, spark_schema(SERIES))


def curves(rows: Iterator[Mapping[str, Any]]) -> list[Curve]:
    """The curves of one example, those with the most steps first; a curve that never moves is left out."""
    links, held, told = _Links(), _Held(), _Told()
    for count, row in enumerate(rows):
        if count >= MOST_FRAMES:
            break
        fields = {each["name"]: each["value"] for each in reversed(row["headers"] or ())}
        if row["protocol"] == "AMQP":
            links.see(row, fields)
        elif row["protocol"] == "STOMP":
            held.see(row, fields)
            told.see(row, fields)
    found = [each for each in (*told.curves.values(), *held.curves.values(), *links.curves.values()) if _moves(each)]
    found.sort(key=lambda each: (each.bound is None, -len(each.points)))
    return [Curve(each.title, each.unit, _thinned(each.points), each.bound) for each in found[:MOST_CURVES]]


def _moves(curve: Curve) -> bool:
    return len({value for _, value in curve.points}) > 1


def _thinned(points: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """At most :data:`MOST_POINTS` of them: of each stretch the least, the greatest, and the last."""
    if len(points) <= MOST_POINTS:
        return list(points)
    stretch = -(-len(points) * 3 // MOST_POINTS)
    kept: dict[int, None] = {}
    for start in range(0, len(points), stretch):
        places = range(start, min(start + stretch, len(points)))
        kept |= dict.fromkeys(
            sorted((min(places, key=lambda at: points[at][1]), max(places, key=lambda at: points[at][1]), places[-1]))
        )
    return [points[at] for at in kept]


class _Links:
    """The credit that senders of AMQP links have left."""

    def __init__(self) -> None:
        self.curves: dict[object, Curve] = {}
        self._places: dict[int, Places] = {}
        self._limit: dict[object, int] = {}
        self._count: dict[object, int] = {}
        self._going_on: dict[object, bool] = {}

    def see(self, row: Mapping[str, Any], fields: Mapping[str, str]) -> None:
        side = Side.OURS if row["kind"] == "FrameSent" else Side.BROKER
        frame = WireFrame(row["at_ns"], side, row["command"], dict(fields), row["size"] or 0)
        for step in self._places.setdefault(row["conn"], Places()).place([frame]):
            link = step.link
            if link is None:
                continue
            count = self._count.get(link, link.initial_delivery_count)
            if frame.name == "flow" and frame.number("link-credit") is not None and side is not link.sender:
                base = frame.number("delivery-count")
                start = link.initial_delivery_count if base is None else base
                self._limit[link] = (start + (frame.number("link-credit") or 0)) % WRAP
            elif frame.name == "flow" and side is link.sender:
                self._count[link] = count if (told := frame.number("delivery-count")) is None else told
            elif frame.name == "transfer":
                if not self._going_on.get(link, False):
                    self._count[link] = (count + 1) % WRAP
                self._going_on[link] = frame.flag("more") and not frame.flag("aborted")
            else:
                continue
            if link in self._limit:
                sends = "harness sends" if link.sender is Side.OURS else "broker sends"
                title = f"credit left on link {link.name[:40]} (connection {row['conn']}, {sends})"
                left = ahead(self._limit[link], self._count.get(link, link.initial_delivery_count))
                self.curves.setdefault(link, Curve(title, "messages", bound=0)).at(frame.at, left)


class _Held:
    """What STOMP subscriptions hold that is not settled."""

    def __init__(self) -> None:
        self.curves: dict[object, Curve] = {}
        self._modes: dict[tuple[int, str], str] = {}
        self._sizes: dict[tuple[int, str], dict[str, int]] = {}

    def see(self, row: Mapping[str, Any], fields: Mapping[str, str]) -> None:
        conn, command, at = row["conn"], row["command"], row["at_ns"]
        if command == "SUBSCRIBE":
            key = (conn, fields.get("id", ""))
            self._modes[key] = fields.get("ack", "auto")
            asked = next((name for name in _WINDOWS if fields.get(name, "").lstrip("-").isdigit()), None)
            octets = asked is None or asked == _WINDOWS[0]
            window = int(fields[asked]) if asked is not None else 0
            self._sizes[key] = {}
            self.curves[key] = Curve(
                f"held by subscription {key[1] or '(no id)'} of connection {conn}",
                "octets" if octets else "messages",
                [(at, 0)],
                window if window > 0 else None,
            )
        elif command == "MESSAGE":
            key = (conn, fields.get("subscription", ""))
            if self._modes.get(key, "auto") != "auto":
                name = fields.get("ack") or fields.get("message-id", "")
                self._sizes[key][name] = row["size"] or 0
                self._now(key, at)
        elif command in ("ACK", "NACK"):
            name = fields.get("id") or fields.get("message-id", "")
            for key, sizes in self._sizes.items():
                if key[0] == conn and name in sizes:
                    covered = list(sizes)[: list(sizes).index(name) + 1] if self._modes[key] == "client" else [name]
                    for each in covered:
                        del sizes[each]
                    self._now(key, at)
                    break

    def _now(self, key: tuple[int, str], at: int) -> None:
        curve, sizes = self.curves[key], self._sizes[key]
        curve.at(at, sum(sizes.values()) if curve.unit == "octets" else len(sizes))


class _Told:
    """What the broker answered when it was asked how full an address is (management over messages)."""

    def __init__(self) -> None:
        self.curves: dict[object, Curve] = {}
        self._asked: dict[tuple[str, str], tuple[str, str]] = {}

    def see(self, row: Mapping[str, Any], fields: Mapping[str, str]) -> None:
        answers = (fields.get("reply-to") or fields.get("destination", ""), fields.get("correlation-id", ""))
        if row["command"] == "SEND" and fields.get(_ASKED) in _READINGS:
            self._asked[answers] = (fields.get(_OF, ""), fields[_ASKED])
        elif row["command"] == "MESSAGE" and answers in self._asked:
            key = self._asked.pop(answers)
            text = (row["body"] or "").strip().removeprefix("[").removesuffix("]").strip()
            if text.isdigit():
                what, unit = _READINGS[key[1]]
                curve = self.curves.setdefault(key, Curve(f"{what} of {key[0]}, as the broker says", unit))
                curve.at(row["at_ns"], int(text))
