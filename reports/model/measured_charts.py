"""Small charts for the first screen: every quantity measured on a target, by mission area and unit,
against its expected interval.

A measurement is a dot on the bar of its interval. Measurements are ordered by expected value, so
correct TTLs rise with the requested TTLs. The scale is logarithmic, so that both milliseconds and
minutes fit."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass

from brokerproof.harness.catalogue.areas import Area, area_of
from brokerproof.harness.model.finding import Measurement
from brokerproof.harness.model.time import NS_PER_MS
from brokerproof.harness.results.records import measurements_of
from brokerproof.reports.model.index_model import CaseRow
from brokerproof.reports.model.quantities import counted, duration

AREAS = (Area.HEARTBEAT, Area.WINDOW, Area.THRESHOLD, Area.PAGING)
WIDTH, HEIGHT, HEAD, FOOT = 240, 64, 15, 4
"""The size of a chart, in its own units. ``HEAD`` is the space above the highest value."""
MOST_MARKS = 40
SHORTEST_BAR = 3.0
_UNITS = {"ns": "time", "octets": "bytes"}


@dataclass(frozen=True, slots=True)
class Measured:
    case: CaseRow
    label: str
    value: Measurement

    @property
    def words(self) -> str:
        low, high, unit = self.value.low, self.value.high, self.value.unit
        bounds = [quantity(bound, unit) for bound in (low, high) if bound is not None]
        expected = " … ".join(dict.fromkeys(bounds))
        if low is None:
            expected = f"at most {expected}"
        elif high is None:
            expected = f"at least {expected}"
        return f"{self.label}: {quantity(self.value.value, unit)}, expected {expected}"

    @property
    def place(self) -> tuple[int, int]:
        """The sort key: first the expected bound, then the value."""
        low, high = self.value.low, self.value.high
        return (low if high is None else high) or 0, self.value.value

    @property
    def room(self) -> float:
        """The distance to the nearest bound, as a fraction of that bound."""
        nearest = self.value.distance_to_bound or 0
        return nearest / max(abs(self.value.high or self.value.low or 1), 1)

    @property
    def is_outside(self) -> bool:
        distance = self.value.distance_to_bound
        return distance is not None and distance < -self.value.margin

    @property
    def is_undecided(self) -> bool:
        """True if the value is outside its bounds but within the margin."""
        distance = self.value.distance_to_bound
        return distance is not None and -self.value.margin <= distance < 0


@dataclass(frozen=True, slots=True)
class Mark:
    """A drawn measurement: a bar of this ``length`` from ``top``, and a dot at ``y``."""

    x: float
    top: float
    length: float
    y: float
    is_outside: bool
    words: str


@dataclass(frozen=True, slots=True)
class Chart:
    """The measurements of one area in one unit. ``nearest`` is the measurement nearest to a bound,
    or furthest outside its bounds."""

    area: str
    unit: str
    greatest: str
    marks: tuple[Mark, ...]
    total: int
    outside: int
    undecided: int
    nearest: Measured
    hides_break: bool = False
    """True if the area is broken but none of its measurements shows why."""


def quantity(value: int, unit: str) -> str:
    if unit == "ns":
        return duration(value)
    return counted(value, _UNITS.get(unit, unit))


def charts(cases: Iterable[CaseRow]) -> list[Chart]:
    """Return the charts of one target in one run, in the order of areas, without unbounded
    measurements."""
    grouped: dict[tuple[Area, str], list[Measured]] = {}
    for case in cases:
        if case.measurements == "{}" or not case.requirements:
            continue
        area = area_of(case.requirements[0])
        for label, value in measurements_of(json.loads(case.measurements)).items():
            if value.distance_to_bound is not None:
                grouped.setdefault((area, value.unit), []).append(Measured(case, label, value))
    return [
        _chart(area.label, unit, grouped[area, unit])
        for area in AREAS
        for unit in sorted(unit for of_area, unit in grouped if of_area is area)
    ]


def _chart(area: str, unit: str, measured: list[Measured]) -> Chart:
    shown = _spread(sorted(measured, key=lambda measurement: measurement.place))
    values = [
        bound
        for measurement in shown
        for bound in (measurement.value.value, measurement.value.low, measurement.value.high)
        if bound is not None
    ]
    step = NS_PER_MS if unit == "ns" else 1
    greatest = max(max(values), step)

    def height(value: int) -> float:
        share = math.log1p(max(value, 0) / step) / math.log1p(greatest / step)
        return round(HEIGHT - FOOT - share * (HEIGHT - HEAD - FOOT), 1)

    def mark(at: int, measurement: Measured) -> Mark:
        low, high = measurement.value.low, measurement.value.high
        top = float(HEAD) - FOOT if high is None else height(high)
        bottom = float(HEIGHT) if low is None else height(low)
        if bottom - top < SHORTEST_BAR:
            top, bottom = top - SHORTEST_BAR / 2, top + SHORTEST_BAR / 2
        x = round((at + 0.5) * WIDTH / len(shown), 1)
        y = height(measurement.value.value)
        length = round(bottom - top, 1)
        return Mark(x, top, length, y, measurement.is_outside, measurement.words)

    return Chart(
        area,
        _UNITS.get(unit, unit),
        quantity(greatest, unit),
        tuple(mark(at, measurement) for at, measurement in enumerate(shown)),
        len(measured),
        sum(measurement.is_outside for measurement in measured),
        sum(measurement.is_undecided for measurement in measured),
        min(measured, key=lambda measurement: measurement.room),
    )


def _spread(measured: list[Measured]) -> list[Measured]:
    """Return at most :data:`MOST_MARKS` measurements: those outside their intervals, and evenly
    spaced others."""
    outside = [place for place, value in enumerate(measured) if value.is_outside][:MOST_MARKS]
    inside = [place for place, value in enumerate(measured) if not value.is_outside]
    room = MOST_MARKS - len(outside)
    if len(inside) > room:
        inside = [inside[at * len(inside) // room] for at in range(room)]
    return [measured[place] for place in sorted(outside + inside)]
