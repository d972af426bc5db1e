"""Marks of an excerpt on the time axis: lanes with ticks, bands, closings, gaps. Plain data, no
drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from brokerproof.reports.excerpts import Excerpt
from brokerproof.reports.html.times import duration

MAX_LANES = 8
MAX_BANDS = 12

SENT = {"FrameSent": "frame", "HeartBeatSent": "beat", "OctetsSent": "octets"}
RECEIVED = {"FrameReceived": "frame", "HeartBeatReceived": "beat", "OctetsRefused": "octets"}


@dataclass(frozen=True, slots=True)
class Tick:
    """A frame, a heartbeat or loose bytes at an instant; ``sent`` by the harness or received."""

    at: int
    sent: bool
    kind: str
    label: str


@dataclass(frozen=True, slots=True)
class End:
    """The close of a connection."""

    at: int
    label: str
    by_broker: bool


@dataclass
class Lane:
    """One connection."""

    conn: int
    acceptor: str = ""
    opened: int | None = None
    end: End | None = None
    ticks: list[Tick] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Band:
    """An expected interval; ``hi`` is None when it is open."""

    label: str
    requirements: tuple[str, ...]
    lo: int
    hi: int | None


@dataclass
class Marks:
    """Everything on one axis, in nanoseconds since ``zero``, the first event's instant."""

    zero: int
    first: int
    last: int
    lanes: list[Lane]
    bands: list[Band]
    jitter: list[tuple[int, int]]
    gaps: list[tuple[int, int, int]]
    """Stretches whose events are not shown: from, to, how many."""
    lanes_left_out: int = 0
    bands_left_out: int = 0


def marks(excerpt: Excerpt) -> Marks:
    """The marks of ``excerpt``; it has at least one event."""
    rows = excerpt.rows
    zero = min(row["at_ns"] for row in rows)
    lanes: dict[int, Lane] = {}
    jitter: list[tuple[int, int]] = []
    for row in rows:
        at, kind, conn = row["at_ns"] - zero, row["kind"], row["conn"]
        if kind == "JitterMeasured":
            jitter.append((at, row["late_ns"]))
        if conn is None or row["vantage"] == "BROKER":
            continue
        _onto(lanes.setdefault(conn, Lane(conn)), at, kind, row)
    bands = _bands(rows, zero)
    instants = [row["at_ns"] - zero for row in rows]
    edges = [edge for band in bands[:MAX_BANDS] for edge in (band.lo, band.hi) if edge is not None]
    in_order = [lanes[conn] for conn in sorted(lanes)]
    return Marks(
        zero=zero,
        first=min([0, *edges]),
        last=max([*instants, *edges]),
        lanes=in_order[:MAX_LANES],
        bands=bands[:MAX_BANDS],
        jitter=jitter,
        gaps=gaps(excerpt, zero),
        lanes_left_out=max(0, len(in_order) - MAX_LANES),
        bands_left_out=max(0, len(bands) - MAX_BANDS),
    )


def gaps(excerpt: Excerpt, zero: int = 0) -> list[tuple[int, int, int]]:
    """Return the gaps of the excerpt: from, to, and the number of events left out."""
    missed = []
    for before, after in pairwise(excerpt.rows):
        missing = after["index"] - before["index"] - 1
        if missing:
            missed.append((before["at_ns"] - zero, after["at_ns"] - zero, missing))
    return missed


def ending(kind: str, how: str) -> str:
    """``ConnectionClosed`` or ``ConnectionAbandoned`` in words."""
    manner = "closed" if how == "EOF" else "reset" if how == "RESET" else how.lower()
    return f"{manner} by the broker" if kind == "ConnectionClosed" else f"{manner} by the harness"


def _onto(lane: Lane, at: int, kind: str, row: dict[str, Any]) -> None:
    if kind == "ConnectionOpened":
        lane.opened, lane.acceptor = at, row["acceptor"] or ""
    elif kind in ("ConnectionClosed", "ConnectionAbandoned"):
        if lane.end is None:
            lane.end = End(at, ending(kind, row["how"]), kind == "ConnectionClosed")
    elif kind in SENT or kind in RECEIVED:
        sent = kind in SENT
        what = SENT[kind] if sent else RECEIVED[kind]
        label = row["command"] if what == "frame" else "heartbeat" if what == "beat" else "bytes"
        lane.ticks.append(Tick(at, sent, what, label or "?"))


def _bands(rows: Sequence[dict[str, Any]], zero: int) -> list[Band]:
    merged: dict[tuple[str, int, int | None], list[str]] = {}
    for row in rows:
        if row["kind"] == "IntervalExpected":
            hi = None if row["hi_ns"] is None else row["hi_ns"] - zero
            requirements = merged.setdefault((row["label"], row["lo_ns"] - zero, hi), [])
            if row["requirement"] and row["requirement"] not in requirements:
                requirements.append(row["requirement"])
    return [Band(label, tuple(ids), lo, hi) for (label, lo, hi), ids in merged.items()]


def band_text(band: Band) -> str:
    """``connection TTL: 2 s … 4 s``."""
    upper = "any time later" if band.hi is None else duration(band.hi)
    return f"{band.label}: {duration(band.lo)} … {upper}"
