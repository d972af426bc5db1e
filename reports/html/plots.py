"""Draws a quantity over time as a stepped curve with its bound: inline SVG, no script, no network.

Not Altair: its charts need Vega's megabyte of JavaScript in every page, or a rendered picture that
knows no dark scheme; these take the page's colours, print, and are a few kilobytes of text each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup, escape

from brokerproof.reports.curves.compute import Curve
from brokerproof.reports.html.times import duration, quantity, step

WIDTH, HEIGHT = 560, 150
_LEFT, _RIGHT, _TOP, _FOOT = 64, 12, 20, 24
_HALF_LETTER = 3.2


def plot(curve: Curve, zero: int) -> Markup:
    """The drawing; ``zero`` is the instant that the page counts from. A curve has at least two
    points.

    Where many changes share an instant, as in virtual time, they stand in their order, evenly, and
    not on a time axis.
    """
    points = [(at - zero, value) for at, value in curve.points]
    places = list(range(len(points))) if _in_order(curve) else [at for at, _ in points]
    first, last = places[0], max(places[-1], places[0] + 1)
    values = [value for _, value in points]
    shown = [*values, *(level for level, _ in _near(curve, values))]
    low, high = min(0, *shown), max(shown)
    high = high if high > low else low + 1

    def x(place: int) -> float:
        return round(_LEFT + (place - first) / (last - first) * (WIDTH - _LEFT - _RIGHT), 1)

    def y(value: float) -> float:
        return round(_TOP + (high - value) / (high - low) * (HEIGHT - _TOP - _FOOT), 1)

    right = WIDTH - _RIGHT
    parts = [
        Markup('<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(
            WIDTH, HEIGHT, in_words(curve, zero)
        )
    ]
    rise = _round(high - low)
    mark = -(-low // rise) * rise
    while mark <= high:
        parts.append(
            Markup(f'<line class="grid" x1="{_LEFT}" y1="{y(mark)}" x2="{right}" y2="{y(mark)}"/>')
        )
        parts.append(
            Markup(
                f'<text class="tick end" x="{_LEFT - 6}"'
                f' y="{y(mark) + 4}">{escape(_short(mark))}</text>'
            )
        )
        mark += rise
    for place, words in _ticks(points, first, last, in_order=_in_order(curve)):
        half = len(words) * _HALF_LETTER
        where = min(max(x(place), _LEFT - 8 + half), right + 8 - half)
        parts.append(
            Markup(f'<text class="tick" x="{where}" y="{HEIGHT - 7}">{escape(words)}</text>')
        )
    for level, _ in _near(curve, values):
        parts.append(
            Markup(
                f'<line class="bound" x1="{_LEFT}" y1="{y(level)}" x2="{right}" y2="{y(level)}"/>'
            )
        )
    path = f"M{x(places[0])} {y(values[0])}"
    for place, value in zip(places[1:], values[1:], strict=True):
        path += f"H{x(place)}V{y(value)}"
    parts.append(Markup(f'<path class="curve" d="{path}H{x(last)}"/>'))
    for level, name in _near(curve, values):
        text = escape(name if level == 0 else f"{name}: {quantity(level, curve.unit)}")
        at, style = (_LEFT + 4, "") if _crowded(places, values, level) else (right, " before")
        parts.append(
            Markup(f'<text class="bound{style}" x="{at}" y="{y(level) - 4}">{text}</text>')
        )
    parts.append(Markup("</svg>"))
    return Markup("").join(parts)


def _near(curve: Curve, values: Sequence[int]) -> list[tuple[int, str]]:
    """Return the bounds that are drawn: one far above everything would press the curve flat; the
    caption names it."""
    return [(level, name) for level, name in curve.bounds if level <= 4 * max(1, *values)]


def _crowded(places: Sequence[int], values: Sequence[int], level: int) -> bool:
    """True if the curve comes nearer to this level in its second half than in its first, where its
    label then has room."""
    middle = (places[0] + places[-1]) / 2
    gaps = [
        (abs(value - level), place > middle) for place, value in zip(places, values, strict=True)
    ]
    first, second = (
        min((gap for gap, late in gaps if late is half), default=None) for half in (False, True)
    )
    # A curve that has no step in its second half goes on as it was.
    second = gaps[-1][0] if second is None else second
    return first is not None and second < first


def _in_order(curve: Curve) -> bool:
    return len({at for at, _ in curve.points}) * 3 < len(curve.points)


def _ticks(
    points: list[tuple[int, int]], first: int, last: int, *, in_order: bool
) -> Iterator[tuple[int, str]]:
    """Yield the labels of the axis and their places, at most five; in order, only where the time
    has moved."""
    if not in_order:
        stride = step(last - first, 5)
        yield from (
            (at, duration(at)) for at in range(-(-first // stride) * stride, last + 1, stride)
        )
        return
    labelled: tuple[int, int] | None = None
    for place in range(first, len(points)):
        at = points[place][0]
        if labelled is None or (at != labelled[1] and place - labelled[0] >= (last - first) / 5):
            yield place, duration(at)
            labelled = (place, at)


def in_words(curve: Curve, zero: int) -> str:
    """Return the description of the drawing: its text alternative and its caption."""
    values = [value for _, value in curve.points]
    most = max(curve.points, key=lambda point: point[1])
    bounds = ", ".join(
        f"{name} {quantity(level, curve.unit)}" if level else name for level, name in curve.bounds
    )
    bound = f"; {'bound' if len(curve.bounds) == 1 else 'bounds'}: {bounds}" if bounds else ""
    return (
        f"{curve.title}: from {quantity(min(values), curve.unit)} to"
        f" {quantity(most[1], curve.unit)}, "
        "at most at"
        f" {duration(most[0] - zero)}{bound}{'; in the order of the frames' if _in_order(curve) else ''}"  # noqa: E501
    )


def _round(span: int) -> int:
    """A round step that cuts ``span`` in two to five."""
    size = 1
    while True:
        for factor in (1, 2, 5):
            if span / (factor * size) <= 4:
                return factor * size
        size *= 10


def _short(value: int) -> str:
    for scale, letter in ((1_000_000, "M"), (1000, "k")):
        if abs(value) >= 10 * scale:
            return f"{value / scale:g}\N{NARROW NO-BREAK SPACE}{letter}"
    return str(value)
