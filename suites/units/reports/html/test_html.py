"""Times, marks, the log and the drawings, without Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import pytest

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import ms, seconds
from brokerproof.harness.results.records import measurements_of
from brokerproof.harness.trace import events as ev
from brokerproof.harness.trace.columns import FIELDS, SCHEMA
from brokerproof.reports.excerpts import Excerpt
from brokerproof.reports.html.axis import axis, gauge
from brokerproof.reports.html.examples import endings
from brokerproof.reports.html.gauges import gauges
from brokerproof.reports.html.log import between, lines, shown
from brokerproof.reports.html.marks import Band, End, gaps, marks
from brokerproof.reports.html.templates import paragraphs, took
from brokerproof.reports.html.times import clock, duration, quantity, step
from brokerproof.reports.index_model import CaseRow
from brokerproof.reports.slugs import slug
from brokerproof.suites.units.drivers.synthetic_run import silence, two_connections


def excerpt(events: Sequence[ev.Event], *, leave_out: range = range(0)) -> Excerpt:
    """An excerpt as Spark gives it; ``leave_out`` are places, from 0."""
    rows: list[dict[str, Any]] = []
    for place, event in enumerate(events):
        if place in leave_out:
            continue
        kind = type(event).__name__
        row: dict[str, Any] = dict.fromkeys(SCHEMA.names)
        row |= {
            "at_ns": event.at_ns,
            "conn": event.conn,
            "vantage": event.vantage.value,
            "kind": kind,
        }
        row |= {name: getattr(event, name) for name in FIELDS[kind]}
        row["data_size"] = None if row["data"] is None else len(row["data"])
        row |= {name: row[name] and row[name].decode("latin-1") for name in ("body", "data")}
        row["headers"] = [{"name": name, "value": value} for name, value in row["headers"] or ()]
        rows.append(row | {"index": place + 1})
    return Excerpt(0, len(events), 0, rows)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0 s"),
        (1, "1 ns"),
        (1500, "1.5 µs"),
        (ms(4) + 20_000, "4.02 ms"),
        (-ms(4), "-4 ms"),
        (seconds(90), "90 s"),
        (seconds(120), "2 min"),
        (seconds(3600), "1 h"),
        (seconds(2100), "35 min"),
        (seconds(3601), "60.017 min"),
    ],
)
def test_durations_for_people(nanoseconds: int, text: str) -> None:
    assert duration(nanoseconds) == text


def test_instants_of_the_log_have_microseconds() -> None:
    assert [clock(0), clock(1_999), clock(seconds(61) + ms(5)), clock(-ms(1))] == [
        "0.000000",
        "0.000001",
        "61.005000",
        "-0.001000",
    ]


def test_quantities_and_intervals_in_words() -> None:
    assert quantity(None, "ns") == "∞"
    assert quantity(3, "messages") == "3 messages"
    assert between(seconds(2), seconds(4), "ns") == "2 s to 4 s"
    assert between(1, 1, "messages") == "exactly 1 message"
    assert between(3, None, "octets") == "at least 3 bytes"
    assert between(None, 3, "octets") == "at most 3 bytes"


@pytest.mark.parametrize("span", [1, 999, ms(7), seconds(9), seconds(4000), seconds(10**7)])
def test_an_axis_has_few_and_round_steps(span: int) -> None:
    assert 0 < span / step(span, 10) <= 10


def test_marks_are_lanes_bands_closings_and_the_canary() -> None:
    found = marks(excerpt(silence(seconds(3))))
    (lane,) = found.lanes
    assert lane.end == End(seconds(3), "closed by the broker", by_broker=True)
    assert [(tick.label, tick.sent) for tick in lane.ticks[:2]] == [
        ("CONNECT", True),
        ("CONNECTED", False),
    ]
    assert found.bands == [
        Band("connection TTL", ("ARTEMIS-STOMP-ttl-3", "STOMP12-HB-04"), seconds(2), seconds(4)),
        Band("a broker's ERROR", (), seconds(2), None),
    ]
    assert found.jitter == [(seconds(3) // 2, 120_000)]
    assert (found.first, found.last) == (0, seconds(4))


def test_what_the_broker_says_of_itself_is_no_connection() -> None:
    only = [
        event
        for event in silence(seconds(3))
        if isinstance(event, ev.Observed | ev.ExampleStarted | ev.CaseStarted)
    ]
    assert marks(excerpt(only)).lanes == []


def test_left_out_events_leave_a_gap_with_their_number() -> None:
    part = excerpt(two_connections(), leave_out=range(10, 25))
    assert [count for _, _, count in gaps(part)] == [15]
    assert "15 events not shown" in [line.title for line in lines(part)]
    assert "15 events not shown" in axis(marks(part))


@pytest.mark.parametrize(
    "events", [silence(seconds(9)), two_connections(), [ev.CaseStarted(at_ns=5)]], ids=len
)
def test_a_drawing_is_well_formed(events: list[ev.Event]) -> None:
    drawing = ElementTree.fromstring(axis(marks(excerpt(events))))
    xs = [float(element.get("x1", 0)) for element in drawing.iter("line")]
    assert all(0 <= x <= 1000 for x in xs)


def test_drawings_escape_what_the_broker_sent() -> None:
    frame = ev.FrameReceived(at_ns=1, conn=1, protocol="STOMP", command='<script>"x"&', size=1)
    drawing = axis(marks(excerpt([frame])))
    assert "<script>" not in drawing
    ElementTree.fromstring(drawing)


def test_frames_of_one_command_in_a_row_are_folded_and_all_there() -> None:
    sends = [
        ev.FrameSent(
            at_ns=ms(number),
            conn=1,
            protocol="STOMP",
            command="SEND",
            headers=(("n", str(number)),),
            size=40,
        )
        for number in range(9)
    ]
    found = list(lines(excerpt(sends)))
    assert [line.title for line in found] == ["SEND", "7 more SEND", "SEND"]
    assert [line.split("  ")[-1] for line in found[1].inside] == [
        f"n:{number}" for number in range(1, 8)
    ]
    assert found[1].note == "until 0.007000, 40 bytes each"


def test_a_row_of_heart_beats_becomes_one_line() -> None:
    beats = [
        ev.HeartBeatReceived(at_ns=seconds(number), conn=1, protocol="STOMP", size=1)
        for number in range(1, 7)
    ]
    other = ev.HeartBeatSent(at_ns=seconds(7), conn=1, protocol="STOMP", size=1)
    found = list(lines(excerpt([*beats, other])))
    assert [(line.title, line.way) for line in found] == [
        ("6 heartbeats", "received"),
        ("heartbeat", "sent"),
    ]
    assert found[0].note == "until 5.000000, 1 s apart"


def test_heart_beats_on_either_side_of_a_gap_are_not_one_line() -> None:
    beats = [
        ev.HeartBeatReceived(at_ns=seconds(number), conn=1, protocol="STOMP", size=1)
        for number in range(20)
    ]
    found = list(lines(excerpt(beats, leave_out=range(8, 12))))
    assert [line.title for line in found] == [
        "8 heartbeats",
        "4 events not shown",
        "8 heartbeats",
    ]


def test_one_expectation_of_two_requirements_is_one_line() -> None:
    found = [line for line in lines(excerpt(silence(seconds(3)))) if line.kind == "expects"]
    assert [line.note for line in found] == [
        "between 2.000000 and 4.000000 (ARTEMIS-STOMP-ttl-3, STOMP12-HB-04)",
        "between 2.000000 and any time later",
    ]


def test_every_kind_of_event_has_a_line() -> None:
    whole = [
        *silence(seconds(3), example=4),
        *two_connections(),
        ev.Advanced(at_ns=1, duration_ns=seconds(1)),
        ev.HeartBeatSent(at_ns=1, conn=1, protocol="STOMP", size=1),
        ev.LinkFaulted(at_ns=1, detail="cut"),
        ev.OctetsSentUnseen(
            at_ns=1, conn=1, protocol="STOMP", command="LOST", size=3, detail="3 octets"
        ),
        ev.OctetsReceivedUnseen(
            at_ns=1, conn=1, protocol="STOMP", command="TLS", size=0, detail="encrypted"
        ),
        ev.CaseEnded(at_ns=1, detail="PASS"),
    ]
    assert {type(event).__name__ for event in whole} == {kind.__name__ for kind in ev.ALL}
    assert all(line.title for line in lines(excerpt(whole)))


def test_octets_are_shown_as_text_that_cannot_mislead() -> None:
    assert shown("a\\b\n\x00\xff\t", 7) == "a\\\\b\\n\\x00\\xff\\t"
    assert shown("ab", 2000) == "ab … (2\N{NARROW NO-BREAK SPACE}000 bytes)"


def test_docstrings_are_set_anew_and_times_are_short() -> None:
    assert paragraphs("One line,\n    and more.\n\n  Another.\n") == [
        "One line, and more.",
        "Another.",
    ]
    assert [took(0.0004), took(0.0351), took(75.5)] == ["0 s", "35 ms", "75.5 s"]


def test_how_each_connection_ended() -> None:
    assert endings(excerpt(two_connections()), 0) == [
        "Connection 1 was closed by the harness at 64 ms, 16 ms after it sent MESSAGE.",
        "Connection 2 was reset by the broker at 62 ms, 13 ms after it sent MESSAGE.",
    ]
    opened = ev.ConnectionOpened(at_ns=0, conn=3, protocol="STOMP", acceptor="a")
    assert endings(excerpt([opened]), 0) == ["Connection 3 was still open when the trace ended."]
    closed = ev.ConnectionClosed(at_ns=ms(1), conn=3, how=CloseHow.EOF)
    assert endings(excerpt([opened, closed]), 0) == [
        "Connection 3 was closed by the broker at 1 ms."
    ]


def case(measurements: str) -> CaseRow:
    return CaseRow(
        run="r",
        target="t",
        case="c",
        verdict="PASS",
        detail="",
        requirements=(),
        attempts=1,
        duration_s=0.0,
        measurements=measurements,
    )


def test_gauges_say_how_far_from_the_nearest_bound() -> None:
    (shown_gauge,) = gauges(
        case('{"TTL": {"value": 4020, "unit": "bytes", "low": 2000, "high": 4000, "margin": 50}}')
    )
    assert (shown_gauge.distance, shown_gauge.stands) == ("20 bytes outside", "margin")
    ElementTree.fromstring(shown_gauge.drawing)


def test_gauges_without_bounds_have_no_drawing() -> None:
    drawn = gauges(
        case('{"c": {"value": 5, "unit": "frames"}, "d": {"value": 3, "unit": "ns", "high": 2}}')
    )
    assert [(row.label, row.stands) for row in drawn] == [("c", "in"), ("d", "out")]
    assert gauge(5, None, None, 0) == ""


@pytest.mark.parametrize(
    "measurements",
    [
        '{"a": 1}',
        '{"b": {"value": "x", "unit": ""}}',
        '{"c": {"value": 5}}',
        '{"d": {"value": 3, "unit": "ns", "low": "low"}}',
        '{"e": {"value": 3, "unit": "ns", "lo": 1}}',
        "[]",
    ],
)
def test_measurements_of_another_shape_are_refused(measurements: str) -> None:
    with pytest.raises(TypeError):
        measurements_of(json.loads(measurements))


def test_slugs_keep_apart_what_reads_alike() -> None:
    names = {
        slug("r", "t", number) for number in ("a.b[1]", "a.b[1 ]", "a-b-1", "../a/b/1", "Ä" * 300)
    }
    assert len(names) == 5
    assert all(
        name.isascii() and "/" not in name and "." not in name and len(name) <= 90 for name in names
    )
