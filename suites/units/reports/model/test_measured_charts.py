"""Charts of measured quantities: which measurements are drawn, and where."""

import json
from typing import Any

from brokerproof.harness.model.time import NS_PER_S
from brokerproof.reports.model.index_model import CaseRow
from brokerproof.reports.model.measured_charts import HEIGHT, MOST_MARKS, Chart, charts
from brokerproof.reports.view.templates import templates

TTL, WINDOW, BASICS = "ARTEMIS-STOMP-ttl-3", "ARTEMIS-STOMP-window-1", "STOMP12-ENC-1"


def case(requirement: str, **measured: dict[str, Any]) -> CaseRow:
    whole = {name: {"low": None, "high": None, "margin": 0} | it for name, it in measured.items()}
    return CaseRow("r", "t", "s.c", "PASS", "", (requirement,), 1, 0.0, json.dumps(whole), "p.html")


def seconds(value: float, low: float, high: float, margin: float = 0) -> dict[str, Any]:
    return {
        "unit": "ns",
        "value": int(value * NS_PER_S),
        "low": int(low * NS_PER_S),
        "high": int(high * NS_PER_S),
        "margin": int(margin * NS_PER_S),
    }


def kept(*measured: dict[str, Any]) -> Chart:
    (chart,) = charts([case(TTL, **{f"m{at}": value for at, value in enumerate(measured)})])
    return chart


def test_areas_and_units_have_charts_of_their_own_and_the_basics_none() -> None:
    octets = {"unit": "octets", "value": 5, "low": None, "high": 9}
    without_bounds = {"unit": "octets", "value": 5}
    drawn = charts(
        [
            case(WINDOW, held=octets, free=without_bounds),
            case(TTL, silence=seconds(2, 1, 3)),
            case(BASICS, silence=seconds(2, 1, 3)),
        ]
    )
    expected = [("heartbeats and TTL", "time", 1), ("windows and credit", "bytes", 1)]
    assert [(chart.area, chart.unit, chart.total) for chart in drawn] == expected
    assert drawn[1].nearest.words == "held: 5 bytes, expected at most 9 bytes"


def test_marks_stand_in_the_order_of_what_was_expected() -> None:
    chart = kept(seconds(61, 60, 62), seconds(1.5, 1, 2))
    short, long = chart.marks
    assert short.x < long.x
    assert short.y > long.y  # a higher value is drawn higher up
    for mark in chart.marks:
        assert mark.top <= mark.y <= mark.top + mark.length
        assert mark.top >= 0
        assert mark.top + mark.length <= HEIGHT


def test_only_what_exceeds_its_margin_is_outside() -> None:
    chart = kept(seconds(2.1, 1, 2, margin=0.2), seconds(2.3, 1, 2, margin=0.2))
    assert [mark.is_outside for mark in chart.marks] == [False, True]
    assert (chart.outside, chart.undecided) == (1, 1)
    assert chart.nearest.words == "m1: 2.3 s, expected 1 s … 2 s"
    outside = chart.marks[1]
    assert not outside.top <= outside.y <= outside.top + outside.length


def test_of_many_measurements_those_outside_are_all_drawn() -> None:
    many = [seconds(at, at - 0.5, at + 0.5) for at in range(1, 200)]
    chart = kept(*many, seconds(300, 1, 2), seconds(400, 150, 160))
    assert len(chart.marks) == MOST_MARKS
    assert chart.total == 201
    assert sum(mark.is_outside for mark in chart.marks) == chart.outside == 2


def test_a_chart_is_described_for_those_who_do_not_see_it() -> None:
    macros = templates().get_template("macros.j2").module
    drawn = str(macros.mini(kept(seconds(5, 1, 2), seconds(1.5, 1, 2))))  # type: ignore[attr-defined]
    assert "2 measurements of heartbeats and TTL in time, 1 outside" in drawn
    assert "<title>m0: 5 s, expected 1 s … 2 s</title>" in drawn
    assert drawn.count('<g class="out">') == 1
