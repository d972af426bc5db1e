"""Draws one example's time axis as inline SVG: lanes, ticks, expected intervals, closings, the
canary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from brokerproof.reports.html.marks import Band, End, Lane, Marks, Tick, band_text
from brokerproof.reports.html.svg import fill
from brokerproof.reports.html.times import duration, step

WIDTH = 1000
LEFT, RIGHT = 92, 24
BAND, LANE, FOOT = 26, 78, 40
NARROW, WIDE = 6.0, 8.0
"""Roughly how wide a small and a capital letter of the 11 px labels are."""


def axis(marks: Marks) -> Markup:
    """The drawing; every text in it is escaped."""
    return _Drawing(marks).draw()


def _room(text: str) -> float:
    capitals = sum(character.isupper() for character in text)
    return capitals * WIDE + (len(text) - capitals) * NARROW


def _ending_room(end: End) -> float:
    """The mark and the words at the end of a lane; they are bold."""
    return 14 + 1.12 * _room(f"{end.label}, {duration(end.at)}")


class _Drawing:
    def __init__(self, marks: Marks) -> None:
        self.marks = marks
        span = max(marks.last - marks.first, 1)
        self.lo = marks.first - span // 50
        self.hi = max([marks.last + span // 20 + 1, *map(self._with_its_end, marks.lanes)])
        self.lanes_top = 14 + BAND * len(marks.bands)
        self.bottom = self.lanes_top + LANE * max(len(marks.lanes), 1)
        self.height = self.bottom + FOOT
        self.parts: list[str] = []

    def _with_its_end(self, lane: Lane) -> int:
        """Until when the axis has to go for the words at the end of a lane to have room behind
        it."""
        if lane.end is None:
            return self.lo
        whole = WIDTH - LEFT - RIGHT
        share = max(WIDTH - LEFT - _ending_room(lane.end), 0.6 * whole) / whole
        return self.lo + int((lane.end.at - self.lo) / share) + 1

    def x(self, at: int) -> float:
        share = (at - self.lo) / (self.hi - self.lo)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def put(self, template: str, *values: object) -> None:
        self.parts.append(fill(template, *values))

    def draw(self) -> Markup:
        self.put(
            '<svg class="axis" viewBox="0 0 {} {}" role="img" aria-label="Time axis: {}'
            ' connections, {} expected intervals">',
            WIDTH,
            self.height,
            len(self.marks.lanes),
            len(self.marks.bands),
        )
        self.put(
            '<defs><pattern id="gap" width="7" height="7" patternUnits="userSpaceOnUse"'
            ' patternTransform="rotate(45)"><line class="hatch" x1="0" y1="0" x2="0"'
            ' y2="7"/></pattern></defs>'
        )
        self._scale()
        for start, end, count in self.marks.gaps:
            self._gap(start, end, count)
        for row, band in enumerate(self.marks.bands):
            self._band(band, 14 + BAND * row)
        for row, lane in enumerate(self.marks.lanes):
            self._lane(lane, self.lanes_top + LANE * row + LANE / 2)
        self._jitter()
        self.parts.append("</svg>")
        return Markup("\n".join(self.parts))

    def _scale(self) -> None:
        stride = step(self.hi - self.lo, 10)
        at = -(-self.lo // stride) * stride
        while at <= self.hi:
            x = self.x(at)
            self.put('<line class="grid" x1="{0}" y1="8" x2="{0}" y2="{1}"/>', x, self.bottom)
            self.put(
                '<text class="tick" x="{}" y="{}">{}</text>', x, self.bottom + 15, duration(at)
            )
            at += stride
        self.put(
            '<line class="base" x1="{0}" y1="{2}" x2="{1}" y2="{2}"/>',
            LEFT,
            WIDTH - RIGHT,
            self.bottom,
        )

    def _gap(self, start: int, end: int, count: int) -> None:
        left, width = self.x(start), max(self.x(end) - self.x(start), 3.0)
        self.put(
            '<rect class="gap" x="{}" y="{}" width="{:.1f}" height="{}" fill="url(#gap)">'
            "<title>{} events not shown</title></rect>",
            left,
            self.lanes_top,
            width,
            self.bottom - self.lanes_top,
            count,
        )
        if width > 130:
            self.put(
                '<text class="note mid" x="{:.1f}" y="{}">{} events not shown</text>',
                left + width / 2,
                self.bottom - 6,
                count,
            )

    def _band(self, band: Band, top: float) -> None:
        left = self.x(band.lo)
        right = WIDTH - RIGHT if band.hi is None else self.x(band.hi)
        width = max(right - left, 2.5)
        kind = "open" if band.hi is None else ""
        self.put(
            '<rect class="reach {}" x="{}" y="{}" width="{:.1f}" height="{}"/>',
            kind,
            left,
            top + 16,
            width,
            self.bottom - top - 16,
        )
        self.put(
            '<rect class="band {}" x="{}" y="{}" width="{:.1f}" height="7" rx="2"><title>{}'
            " {}</title></rect>",
            kind,
            left,
            top + 14,
            width,
            band_text(band),
            ", ".join(band.requirements),
        )
        text = band_text(band)
        room = _room(text)
        anchored = max(LEFT, min(left, WIDTH - RIGHT - room))
        self.put('<text class="label" x="{:.1f}" y="{}">{}</text>', anchored, top + 10, text)

    def _lane(self, lane: Lane, middle: float) -> None:
        start = self.x(lane.opened) if lane.opened is not None else LEFT
        end = self.x(lane.end.at) if lane.end is not None else WIDTH - RIGHT
        self.put('<text class="lane" x="8" y="{}">connection {}</text>', middle - 2, lane.conn)
        self.put('<text class="note" x="8" y="{}">{}</text>', middle + 11, lane.acceptor[:14])
        self.put('<line class="life" x1="{0}" y1="{2}" x2="{1}" y2="{2}"/>', start, end, middle)
        for sent in (True, False):
            self._ticks(
                [tick for tick in lane.ticks if tick.sent is sent], middle, -1 if sent else 1
            )
        if lane.end is not None:
            self._end(lane, middle)

    def _ticks(self, ticks: Sequence[Tick], middle: float, side: int) -> None:
        way = "sent" if side < 0 else "received"
        drawn: set[tuple[float, str]] = set()
        for tick in ticks:
            x = self.x(tick.at)
            if (x, tick.kind) in drawn:
                continue
            drawn.add((x, tick.kind))
            length = 10 if tick.kind == "beat" else 18
            self.put(
                '<line class="{0} {1}" x1="{2}" y1="{3}" x2="{2}" y2="{4}"><title>{5} {0} at'
                " {6}</title></line>",
                way,
                tick.kind,
                x,
                middle,
                middle + side * length,
                tick.label,
                duration(tick.at),
            )
        free = 0.0
        for x, labels in _clusters(
            (self.x(tick.at), tick.label) for tick in ticks if tick.kind != "beat"
        ):
            text = labels[0] if len(labels) == 1 else f"{labels[0]} +{len(labels) - 1}"
            if x < free:
                continue
            anchored = min(x - 2, WIDTH - RIGHT - _room(text))
            self.put(
                '<text class="label {}" x="{:.1f}" y="{:.1f}">{}<title>{}</title></text>',
                way,
                anchored,
                middle + (-22 if side < 0 else 30),
                text,
                ", ".join(labels[:20]),
            )
            free = x + _room(text) + 6

    def _end(self, lane: Lane, middle: float) -> None:
        assert lane.end is not None
        x, kind = self.x(lane.end.at), "broker" if lane.end.by_broker else "harness"
        self.put(
            '<path class="end {}" d="M{:.1f} {:.1f}l10 10m0 -10l-10 10"><title>{} at'
            " {}</title></path>",
            kind,
            x - 5,
            middle - 5,
            lane.end.label,
            duration(lane.end.at),
        )
        text = f"{lane.end.label}, {duration(lane.end.at)}"
        if x + _ending_room(lane.end) <= WIDTH + 1:
            self.put(
                '<text class="label end {}" x="{:.1f}" y="{}">{}</text>',
                kind,
                x + 10,
                middle + 4,
                text,
            )
        else:
            self.put(
                '<text class="label end {} before" x="{:.1f}" y="{}">{}</text>',
                kind,
                x - 10,
                middle - 7,
                text,
            )

    def _jitter(self) -> None:
        for at, late in self.marks.jitter:
            self.put(
                '<path class="jitter" d="M{:.1f} {}l4 7h-8z"><title>canary {} late</title></path>',
                self.x(at),
                self.bottom + 20,
                duration(late),
            )
        if self.marks.jitter:
            worst = max(late for _, late in self.marks.jitter)
            self.put(
                '<text class="note" x="{}" y="{}">canary: at most {} late</text>',
                LEFT,
                self.bottom + 36,
                duration(worst),
            )


def _clusters(labelled: Iterable[tuple[float, str]]) -> Iterable[tuple[float, list[str]]]:
    """Labels that would fall on one another, together."""
    start: float | None = None
    labels: list[str] = []
    for x, label in labelled:
        if start is not None and x - start <= 5:
            labels.append(label)
            continue
        if start is not None:
            yield start, labels
        start, labels = x, [label]
    if start is not None:
        yield start, labels


def gauge(value: int, lo: int | None, hi: int | None, margin: int) -> Markup:
    """A small drawing of a measured value against its interval and margin."""
    bounds = [bound for bound in (lo, hi) if bound is not None]
    if not bounds:
        return Markup("")
    edges = [value, min(bounds) - margin, max(bounds) + margin]
    span = max(max(edges) - min(edges), 1)
    start, width = min(edges) - span * 0.08, span * 1.16

    def x(at: float) -> float:
        return round((at - start) / width * 160, 1)

    left, right = (x(lo) if lo is not None else 0.0), (x(hi) if hi is not None else 160.0)
    margin_left = x(lo - margin) if lo is not None else 0.0
    margin_right = x(hi + margin) if hi is not None else 160.0
    inside = (lo is None or value >= lo) and (hi is None or value <= hi)
    return Markup(
        '<svg class="gauge" viewBox="0 0 160 18" aria-hidden="true"><line class="base" x1="0"'
        ' y1="9" x2="160" y2="9"/><rect class="margin" x="{:.1f}" y="4" width="{:.1f}"'
        ' height="10"/><rect class="band" x="{:.1f}" y="4" width="{:.1f}" height="10"/><line'
        ' class="value {}" x1="{}" y1="1" x2="{}" y2="17"/></svg>'
    ).format(
        margin_left,
        max(margin_right - margin_left, 2),
        left,
        max(right - left, 2),
        "in" if inside else "out",
        x(value),
        x(value),
    )
