"""The measured quantities of a case beside their expected intervals."""

from __future__ import annotations

import json
from dataclasses import dataclass

from markupsafe import Markup

from brokerproof.harness.model.finding import Measurement
from brokerproof.harness.results.records import measurements_of
from brokerproof.reports.html.axis import gauge
from brokerproof.reports.html.log import between
from brokerproof.reports.html.times import quantity
from brokerproof.reports.index_model import CaseRow


@dataclass(frozen=True)
class Gauge:
    """A measured quantity on a case's page."""

    label: str
    value: str
    expected: str
    margin: str
    distance: str
    stands: str
    drawing: Markup


def gauges(case: CaseRow) -> list[Gauge]:
    """The measured quantities of ``case`` with their expected intervals."""
    measurements = measurements_of(json.loads(case.measurements))
    return [_gauge(label, measurement) for label, measurement in measurements.items()]


def _gauge(label: str, measurement: Measurement) -> Gauge:
    unit = measurement.unit
    low, high, margin = measurement.low, measurement.high, measurement.margin
    return Gauge(
        label=label,
        value=quantity(measurement.value, unit),
        expected=between(low, high, unit),
        margin=f"± {quantity(margin, unit)}" if margin else "",
        distance=_distance(measurement.distance_to_bound, unit),
        stands=_position(measurement.distance_to_bound, margin),
        drawing=gauge(measurement.value, low, high, margin),
    )


def _position(distance: int | None, margin: int) -> str:
    if distance is None or distance >= 0:
        return "in"
    return "margin" if distance >= -margin else "out"


def _distance(nearest: int | None, unit: str) -> str:
    if nearest is None:
        return ""
    if nearest == 0:
        return "on the bound"
    return f"{quantity(abs(nearest), unit)} {'inside' if nearest > 0 else 'outside'}"
