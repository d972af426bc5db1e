"""Draws one example's conversation as a sequence diagram: time runs down, every connection is a
line to the broker, deadlines and bounds are drawn across where they fall.

Events keep their order and each gets room for its words, so the scale is not even: the room between
two events grows with the logarithm of the time between them, and the time stands at the left.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from brokerproof.harness.model.time import NS_PER_MS
from brokerproof.reports.excerpts import Excerpt
from brokerproof.reports.html.marks import MAX_BANDS, Band, Marks, band_text, ending
from brokerproof.reports.html.steps import Row, steps
from brokerproof.reports.html.svg import fill
from brokerproof.reports.html.times import duration

MOST_STEPS = 90
"""A conversation of more steps shows its first two thirds and its last third."""
MAX_CONNECTIONS = 5

_TIME, _LAST, _BAND = 74, 24, 18
_HEAD, _STEP = 34, 23
_LETTER = 6.1
_FRAMES = (
    "FrameSent",
    "HeartBeatSent",
    "OctetsSent",
    "FrameReceived",
    "HeartBeatReceived",
    "OctetsRefused",
)
_ENDS = ("ConnectionClosed", "ConnectionAbandoned")


@dataclass(frozen=True, slots=True)
class Shown:
    """One step of the conversation at its place: ``look`` is sent, received, opened, ended, said,
    judged or left-out."""

    at: int
    look: str
    words: str
    conn: int | None = None
    style: str = ""


def sequence(excerpt: Excerpt, marks: Marks) -> Markup:
    """The diagram, with every text escaped; empty when nothing crossed the wire."""
    shown = list(_shortened(list(_shown(excerpt, marks.zero))))
    conns = sorted({step.conn for step in shown if step.conn is not None})
    if not any(step.look in ("sent", "received", "opened") for step in shown):
        return Markup("")
    return _Diagram(shown, conns, marks).draw()


def _shown(excerpt: Excerpt, zero: int) -> Iterator[Shown]:
    before = None
    for group in steps(excerpt.rows):
        first, last = group[0], group[-1]
        at = first["at_ns"] - zero
        if before is not None and first["index"] > before + 1:
            yield Shown(at, "left-out", f"{first['index'] - before - 1} events not shown")
        before = last["index"]
        shown = _step(group, at, last["at_ns"] - zero)
        if shown is not None:
            yield shown


def _step(group: list[Row], at: int, until: int) -> Shown | None:
    row = group[0]
    kind, conn = row["kind"], row["conn"]
    if conn is not None and row["vantage"] != "BROKER":
        if kind in _FRAMES:
            look = "sent" if kind.endswith("Sent") else "received"
            words = _words(row)
            if len(group) > 1:
                words = f"{len(group)} × {_name(row)}" + (
                    f" until {duration(until)}" if until > at else ""
                )
            return Shown(at, look, words, conn, "beat" if kind.startswith("Heart") else "frame")
        if kind == "ConnectionOpened":
            return Shown(at, "opened", "opens", conn)
        if kind in _ENDS:
            style = "broker" if kind == "ConnectionClosed" else "harness"
            return Shown(at, "ended", ending(kind, row["how"]), conn, style)
    if kind == "LinkFaulted":
        return Shown(at, "said", f"link disturbed: {row['detail'] or ''}", conn)
    if kind == "Noted":
        return Shown(at, "said", row["detail"] or "", conn)
    if kind == "Judged" and row["seen"] == "VIOLATED":
        return Shown(at, "judged", f"✗ {row['requirement']} violated")
    return None


def _name(row: Row) -> str:
    return {"HeartBeatSent": "heartbeat", "HeartBeatReceived": "heartbeat"}.get(
        row["kind"], row["command"] or "bytes"
    )


_TELLING = {
    "flow": ("link-credit", "drain", "incoming-window"),
    "transfer": ("delivery-id",),
    "disposition": ("first", "last", "state"),
    "attach": ("role",),
    "open": ("idle-time-out",),
    "SUBSCRIBE": ("ack", "consumer-window-size"),
    "CONNECT": ("heart-beat",),
    "CONNECTED": ("heart-beat",),
    "ERROR": ("message",),
    "basic.qos": ("prefetch-count",),
    "channel.flow": ("active",),
}
"""The fields that a diagram has room for, by command."""


def _words(row: Row) -> str:
    """A command with what matters most about flow and liveness."""
    fields = {header["name"]: header["value"] for header in row["headers"] or ()}
    details = [
        f"{name.removeprefix('link-')} {fields[name]}"
        for name in _TELLING.get(row["command"] or "", ())
        if fields.get(name) not in (None, "", "false")
    ]
    if details:
        return f"{_name(row)}  {', '.join(details)}"
    size = row["size"] or row["data_size"]
    return (
        f"{_name(row)}  {size} bytes"
        if size and row["kind"] not in ("HeartBeatSent", "HeartBeatReceived")
        else _name(row)
    )


def _shortened(shown: Sequence[Shown]) -> Iterator[Shown]:
    if len(shown) <= MOST_STEPS:
        yield from shown
        return
    head, tail = MOST_STEPS * 2 // 3, MOST_STEPS // 3
    yield from shown[:head]
    missing = len(shown) - head - tail
    yield Shown(shown[-tail].at, "left-out", f"{missing} more steps, see the log")
    yield from shown[-tail:]


class _Diagram:
    def __init__(self, shown: Sequence[Shown], conns: Sequence[int], marks: Marks) -> None:
        self.shown, self.marks = shown, marks
        self.conns = conns[:MAX_CONNECTIONS]
        self.left_out = conns[MAX_CONNECTIONS:]
        self.column = 220 if len(self.conns) < 2 else 190 if len(self.conns) == 2 else 150
        self.broker = _TIME + 20 + self.column * max(len(self.conns), 1)
        self.right = self.broker + _LAST
        self.bands = marks.bands[:MAX_BANDS]
        self.label_x = self.right + _BAND * len(self.bands) + 8
        words = [_words_of(band.label, "not before", band.hi or band.lo) for band in self.bands]
        self.width = round(self.label_x + _LETTER * max(map(len, words), default=0) + 20)
        self.parts: list[str] = []
        self.places: list[tuple[Shown, float]] = []
        self.knots: list[tuple[int, float]] = []
        self._lay_out()

    def _lay_out(self) -> None:
        """A height for every step; those of bounds lie between, in proportion."""
        y, before = float(_HEAD + 16), None
        edges = [edge for band in self.bands for edge in (band.lo, band.hi) if edge is not None]
        for step in self.shown:
            if step.look != "left-out" and step.conn in self.left_out:
                continue
            if before is not None:
                crossed = sum(before < edge < step.at for edge in edges)
                y += _STEP + _stretch(step.at - before) + 13 * crossed
            self.places.append((step, y))
            if before is None or step.at > before:
                self.knots.append((step.at, y))
            else:
                self.knots[-1] = (self.knots[-1][0], y)
            before = step.at if before is None else max(before, step.at)
        last = self.knots[-1][0]
        for edge in sorted({instant for instant in edges if instant > last}):
            y += _STEP + _stretch(edge - self.knots[-1][0])
            self.knots.append((edge, y))
        self.bottom = y + 24

    def y(self, at: int) -> float:
        """The height of an instant."""
        place = bisect_right(self.knots, at, key=lambda knot: knot[0])
        if place == 0:
            return float(_HEAD + 4)
        if place == len(self.knots):
            return self.bottom - 12
        (from_at, from_y), (to_at, to_y) = self.knots[place - 1], self.knots[place]
        return round(from_y + (at - from_at) / (to_at - from_at) * (to_y - from_y), 1)

    def x(self, conn: int) -> int:
        """Return the x position of a connection's line."""
        return _TIME + 20 + self.column * self.conns.index(conn)

    def put(self, template: str, *values: object) -> None:
        self.parts.append(fill(template, *values))

    def draw(self) -> Markup:
        for place, band in enumerate(self.bands):
            self._bound(band, place)
        self._bounds_in_words()
        below, self.parts = self.parts, []
        self.put(
            '<svg class="sequence" viewBox="0 0 {0} {1}" style="width:{0}px" role="img"'
            ' aria-label="Sequence diagram: {2} steps, {3} connections, {4} expected intervals; the'
            ' log below says the same">',
            self.width,
            round(self.bottom, 1),
            len(self.places),
            len(self.conns),
            len(self.bands),
        )
        self.parts += below
        for conn in self.conns:
            self._line(conn)
        self.put(
            '<line class="life" x1="{0}" y1="{1}" x2="{0}" y2="{2:.1f}"/>',
            self.broker,
            _HEAD,
            self.bottom - 6,
        )
        self.put('<text class="lane mid" x="{}" y="{}">broker</text>', self.broker, _HEAD - 10)
        above = ""
        for step, y in self.places:
            text = duration(step.at)
            if text != above:
                self.put(
                    '<text class="tick end" x="{}" y="{:.1f}">{}</text>', _TIME - 8, y + 4, text
                )
                above = text
            getattr(self, f"_{step.look.replace('-', '_')}")(step, y)
        self.parts.append("</svg>")
        return Markup("\n".join(self.parts))

    def _bound(self, band: Band, place: int) -> None:
        x = self.right + _BAND * place + 8
        top = self.y(band.lo)
        bottom = self.bottom - 4 if band.hi is None else max(self.y(band.hi), top + 3)
        self.put(
            '<rect class="band{}" x="{}" y="{}" width="8" height="{:.1f}" rx="2"><title>{}'
            " {}</title></rect>",
            " open" if band.hi is None else "",
            x,
            top,
            bottom - top,
            band_text(band),
            ", ".join(band.requirements),
        )
        for edge, _ in _edges(band, self.marks.first):
            self.put(
                '<line class="bound" x1="{0}" y1="{2}" x2="{1}" y2="{2}"/>',
                _TIME,
                self.label_x - 4,
                self.y(edge),
            )

    def _bounds_in_words(self) -> None:
        """Place the labels of the dashed lines at the right, none on another."""
        words = {
            (self.y(edge), _words_of(band.label, word, edge))
            for band in self.bands
            for edge, word in _edges(band, self.marks.first)
        }
        free = 0.0
        for at, text in sorted(words):
            y = max(at + 4, free)
            self.put('<text class="bound" x="{}" y="{:.1f}">{}</text>', self.label_x, y, text)
            free = y + 13
        self.bottom = max(self.bottom, free)

    def _line(self, conn: int) -> None:
        x = self.x(conn)
        opened = next(
            (y for step, y in self.places if step.conn == conn and step.look == "opened"),
            float(_HEAD),
        )
        ended = next(
            (y for step, y in self.places if step.conn == conn and step.look == "ended"),
            self.bottom - 6,
        )
        self.put(
            '<text class="lane mid" x="{}" y="{}">connection {}</text>',
            max(x, 46),
            _HEAD - 10,
            conn,
        )
        self.put(
            '<line class="before" x1="{0}" y1="{1}" x2="{0}" y2="{2:.1f}"/>', x, _HEAD - 4, opened
        )
        self.put(
            '<line class="life" x1="{0}" y1="{1:.1f}" x2="{0}" y2="{2:.1f}"/>', x, opened, ended
        )

    def _arrow(self, step: Shown, y: float, way: str) -> None:
        assert step.conn is not None
        x, to = self.x(step.conn), self.broker
        left, right = x + 3, to - 3
        tip, back = (right, -7) if way == "sent" else (left, 7)
        self.put(
            '<line class="{0} {1}" x1="{2}" y1="{4:.1f}" x2="{3}" y2="{4:.1f}"/>'
            '<path class="tip {0}" d="M{5} {4:.1f}l{6} -4v8z"/>',
            *(way, step.style, left, right, y, tip, back),
        )
        text = _cut(step.words, min(right - left, 330) - 14)
        self.put(
            '<text class="label {}" x="{}" y="{:.1f}">{}<title>{}</title></text>',
            way,
            left + 8,
            y - 4,
            text,
            step.words,
        )

    def _sent(self, step: Shown, y: float) -> None:
        self._arrow(step, y, "sent")

    def _received(self, step: Shown, y: float) -> None:
        self._arrow(step, y, "received")

    def _opened(self, step: Shown, y: float) -> None:
        assert step.conn is not None
        self.put('<circle class="open" cx="{}" cy="{:.1f}" r="4"/>', self.x(step.conn), y)
        self.put(
            '<text class="note" x="{}" y="{:.1f}">{}</text>',
            self.x(step.conn) + 9,
            y + 4,
            step.words,
        )

    def _ended(self, step: Shown, y: float) -> None:
        assert step.conn is not None
        x = self.x(step.conn)
        self.put(
            '<path class="end {}" d="M{} {:.1f}l10 10m0 -10l-10 10"/>', step.style, x - 5, y - 5
        )
        self.put(
            '<text class="label end {}" x="{}" y="{:.1f}">{}</text>',
            step.style,
            x + 11,
            y + 4,
            step.words,
        )

    def _said(self, step: Shown, y: float) -> None:
        self._across(step, y, "note")

    def _judged(self, step: Shown, y: float) -> None:
        self._across(step, y, "violated")

    def _left_out(self, step: Shown, y: float) -> None:
        self._across(step, y, "note")

    def _across(self, step: Shown, y: float, style: str) -> None:
        text = _cut(step.words, self.right - _TIME - 24)
        self.put(
            '<text class="{} label" x="{}" y="{:.1f}">{}<title>{}</title></text>',
            style,
            _TIME + 30,
            y + 4,
            text,
            step.words,
        )


def _edges(band: Band, begin: int) -> Iterator[tuple[int, str]]:
    """The bounds that somebody waits for: one at the very beginning is none."""
    if band.lo > begin:
        yield band.lo, "not before"
    if band.hi is not None:
        yield band.hi, "not after"


def _words_of(label: str, word: str, edge: int) -> str:
    return f"{_cut(label, 240)}: {word} {duration(edge)}"


def _stretch(apart: int) -> float:
    """Room for a time beyond the room for words: 0 for a millisecond, 22 more for every factor of a
    hundred."""
    return max(0.0, 11 * math.log10(max(apart, 1) / NS_PER_MS)) if apart > 0 else 0.0


def _cut(text: str, room: float) -> str:
    most = max(int(room / _LETTER), 8)
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
