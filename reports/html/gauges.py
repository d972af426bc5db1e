"""The measured quantities of a case beside the intervals that they were held against."""

from __future__ import annotations

import json
from dataclasses import dataclass

from markupsafe import Markup

from brokerproof.reports.html.axis import gauge
from brokerproof.reports.html.log import between
from brokerproof.reports.html.times import quantity
from brokerproof.reports.model import CaseRow


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
    """The measured quantities of a case with the intervals they were held against."""
    measured, expected = json.loads(case.measured), json.loads(case.expected)
    found = []
    for label, each in measured.items():
        value, want = _whole(each, "value"), expected.get(label)
        if value is None:
            continue
        lo, hi, margin = _whole(want, "lo"), _whole(want, "hi"), _whole(want, "margin") or 0
        unit = str(each.get("unit", ""))
        room = [] if lo is None else [value - lo]
        room += [] if hi is None else [hi - value]
        nearest = min(room, default=None)
        found.append(
            Gauge(
                label=label,
                value=quantity(value, unit),
                expected=between(lo, hi, unit),
                margin=f"± {quantity(margin, unit)}" if margin else "",
                distance=_distance(nearest, unit),
                stands="in"
                if nearest is None or nearest >= 0
                else "margin"
                if nearest >= -margin
                else "out",
                drawing=gauge(value, lo, hi, margin),
            )
        )
    return found


def _whole(values: object, name: str) -> int | None:
    """The whole number of that name, if there is one: results are written by cases, and a page must
    not depend on it."""
    value = values.get(name) if isinstance(values, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _distance(nearest: int | None, unit: str) -> str:
    if nearest is None:
        return ""
    if nearest == 0:
        return "on the bound"
    return f"{quantity(abs(nearest), unit)} {'inside' if nearest > 0 else 'outside'}"
