"""How the browser draws and describes a case's events: axis, sequence, curves, gauges, log.

They need Chromium and are not collected by default: name the file, or run ``tox -e browser``.
"""

import functools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from brokerproof.harness.catalogue.requirements import load
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import ms, seconds
from brokerproof.harness.trace import events as ev
from brokerproof.reports.assembly.case_data import chunk_of
from brokerproof.reports.model import excerpts
from brokerproof.reports.model.quantities import duration
from brokerproof.reports.model.requirements import Requirements
from brokerproof.reports.view.render import Pages
from brokerproof.suites.browser.devtools import Browser
from brokerproof.suites.units.drivers.recorded_case import recorded_case
from brokerproof.suites.units.drivers.synthetic_run import silence, two_connections

MOST_STEPS = 90
HOSTILE = '<script>alert(1)</script>"&'
CHUNKS = 7
sent = functools.partial(ev.FrameSent, conn=1, protocol="STOMP", size=9)
received = functools.partial(ev.FrameReceived, conn=1, protocol="STOMP", size=9)
beat = functools.partial(ev.HeartBeatReceived, conn=1, protocol="STOMP", size=1)


class Viewer:
    """Calls the functions of a case's page in the browser. A drawing is returned as text."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    def call(self, name: str, *arguments: Any) -> Any:
        """Call one function. The rows of an excerpt already have numbers."""
        given = ", ".join(json.dumps(argument) for argument in arguments)
        return self._browser.run(
            f"(made => made && made.constructor.name === 'Markup' ? String(made) : made)"
            f"(brokerproof.{name}({given}))"
        )

    def rows(self, events: Sequence[ev.Event], leave_out: range = range(0)) -> list[dict[str, Any]]:
        """The rows of an excerpt; ``leave_out`` lists the places to leave out, from 0."""
        case = recorded_case(events)
        (places,) = excerpts.chosen_parts(case, 1)
        rows: list[dict[str, Any]] = excerpts.excerpt(case, places)["rows"]
        kept = [row for place, row in enumerate(rows) if place not in leave_out]
        if leave_out and leave_out.stop < len(rows):
            kept[leave_out.start]["index"] = leave_out.stop + 1
        numbered: list[dict[str, Any]] = self.call("numbered", kept)
        return numbered

    def marks(self, events: Sequence[ev.Event], leave_out: range = range(0)) -> dict[str, Any]:
        marks: dict[str, Any] = self.call("marks", self.rows(events, leave_out))
        return marks

    def lines(self, events: Sequence[ev.Event], leave_out: range = range(0)) -> list[Any]:
        lines: list[Any] = self.call("lines", self.rows(events, leave_out))
        return lines

    def sequence(self, events: Sequence[ev.Event]) -> str:
        rows = self.rows(events)
        return str(self.call("sequence", rows, self.call("marks", rows)))

    def endings(self, events: Sequence[ev.Event]) -> list[str]:
        endings: list[str] = self.call("endings", self.rows(events))
        return endings


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """Yield the page of a report without cases."""
    facts = {"chunks": CHUNKS, "several": False, "meanings": {}, "runs": {}, "targets": {}}
    page: Path = tmp_path_factory.mktemp("viewer") / "case.html"
    page.write_text(Pages(Requirements(load().values()), ()).case({**facts, "order": []}), "utf-8")
    with Browser() as browser:
        browser.open(page)
        yield Viewer(browser)


@pytest.mark.parametrize("name", ["a.b[1.2]", "ä/€", "", "x" * 300])
def test_the_browser_finds_the_chunk_that_a_case_is_in(viewer: Viewer, name: str) -> None:
    assert viewer.call("chunk_of", "target é", name) == chunk_of("target é", name, CHUNKS)


@pytest.mark.parametrize(
    "nanoseconds", [0, 1, 1500, ms(4) + 20_000, -ms(4), *map(seconds, (90, 120, 3600, 2100, 3601))]
)
def test_durations_are_those_of_the_other_pages(viewer: Viewer, nanoseconds: int) -> None:
    assert viewer.call("duration", nanoseconds) == duration(nanoseconds)


def test_instants_of_the_log_have_microseconds(viewer: Viewer) -> None:
    instants = [0, 1_999, seconds(61) + ms(5), -ms(1)]
    assert [viewer.call("clock", instant) for instant in instants] == [
        "0.000000",
        "0.000001",
        "61.005000",
        "-0.001000",
    ]


def test_quantities_and_intervals_in_words(viewer: Viewer) -> None:
    assert viewer.call("quantity", None, "ns") == "∞"
    assert viewer.call("quantity", 3, "messages") == "3 messages"
    assert viewer.call("between", seconds(2), seconds(4), "ns") == "2 s to 4 s"
    assert viewer.call("between", 1, 1, "messages") == "exactly 1 message"
    assert viewer.call("between", 3, None, "octets") == "at least 3 bytes"
    assert viewer.call("between", None, 3, "octets") == "at most 3 bytes"


@pytest.mark.parametrize("span", [1, 999, ms(7), seconds(9), seconds(4000), seconds(10**7)])
def test_an_axis_has_few_and_round_steps(viewer: Viewer, span: int) -> None:
    assert 0 < span / viewer.call("step", span, 10) <= 10


def test_marks_are_lanes_bands_closings_and_the_canary(viewer: Viewer) -> None:
    found = viewer.marks(silence(seconds(3)))
    (lane,) = found["lanes"]
    assert lane["end"] == {"at": seconds(3), "label": "closed by the broker", "by_broker": True}
    assert [(tick["label"], tick["sent"]) for tick in lane["ticks"][:2]] == [
        ("CONNECT", True),
        ("CONNECTED", False),
    ]
    assert [tuple(band.values()) for band in found["bands"]] == [
        ("connection TTL", ["ARTEMIS-STOMP-ttl-3", "STOMP12-HB-04"], seconds(2), seconds(4)),
        ("a broker's ERROR", [], seconds(2), None),
    ]
    assert found["jitter"] == [[seconds(3) // 2, 120_000]]
    assert (found["first"], found["last"]) == (0, seconds(4))


def test_what_the_broker_says_of_itself_is_no_connection(viewer: Viewer) -> None:
    only = [
        event
        for event in silence(seconds(3))
        if isinstance(event, ev.Observed | ev.ExampleStarted | ev.CaseStarted)
    ]
    assert viewer.marks(only)["lanes"] == []


def test_left_out_events_leave_a_gap_with_their_number(viewer: Viewer) -> None:
    events, missing = two_connections(), range(10, 25)
    found = viewer.marks(events, missing)
    assert [count for _, _, count in found["gaps"]] == [15]
    assert "15 events not shown" in [line["title"] for line in viewer.lines(events, missing)]
    assert "15 events not shown" in viewer.call("axis", found)


@pytest.mark.parametrize(
    "events", [silence(seconds(9)), two_connections(), [ev.CaseStarted(at_ns=5)]], ids=len
)
def test_a_drawing_is_well_formed(viewer: Viewer, events: list[ev.Event]) -> None:
    drawing = ElementTree.fromstring(viewer.call("axis", viewer.marks(events)))
    xs = [float(element.get("x1", 0)) for element in drawing.iter("line")]
    assert all(0 <= x <= 1000 for x in xs)


def test_drawings_escape_what_the_broker_sent(viewer: Viewer) -> None:
    frame = received(at_ns=1, command='<script>"x"&')
    drawing = viewer.call("axis", viewer.marks([frame]))
    assert "<script>" not in drawing
    ElementTree.fromstring(drawing)


def test_frames_of_one_command_in_a_row_are_folded_and_all_there(viewer: Viewer) -> None:
    sends = [
        sent(at_ns=ms(number), command="SEND", size=40, headers=(("n", str(number)),))
        for number in range(9)
    ]
    found = viewer.lines(sends)
    assert [line["title"] for line in found] == ["SEND", "7 more SEND", "SEND"]
    assert [line.split("  ")[-1] for line in found[1]["inside"]] == [
        f"n:{number}" for number in range(1, 8)
    ]
    assert found[1]["note"] == "until 0.007000, 40 bytes each"


def test_a_row_of_heart_beats_becomes_one_line(viewer: Viewer) -> None:
    beats = [beat(at_ns=seconds(number)) for number in range(1, 7)]
    other = ev.HeartBeatSent(at_ns=seconds(7), conn=1, protocol="STOMP", size=1)
    found = viewer.lines([*beats, other])
    assert [(line["title"], line["way"]) for line in found] == [
        ("6 heartbeats", "received"),
        ("heartbeat", "sent"),
    ]
    assert found[0]["note"] == "until 5.000000, 1 s apart"


def test_heart_beats_on_either_side_of_a_gap_are_not_one_line(viewer: Viewer) -> None:
    beats = [beat(at_ns=seconds(number)) for number in range(20)]
    found = viewer.lines(beats, range(8, 12))
    assert [line["title"] for line in found] == [
        "8 heartbeats",
        "4 events not shown",
        "8 heartbeats",
    ]


def test_one_expectation_of_two_requirements_is_one_line(viewer: Viewer) -> None:
    found = [line for line in viewer.lines(silence(seconds(3))) if line["kind"] == "expects"]
    assert [line["note"] for line in found] == [
        "between 2.000000 and 4.000000 (ARTEMIS-STOMP-ttl-3, STOMP12-HB-04)",
        "between 2.000000 and any time later",
    ]


def test_every_kind_of_event_has_a_line(viewer: Viewer) -> None:
    whole = [
        *silence(seconds(3), example=4),
        *two_connections(),
        ev.Advanced(at_ns=1, duration_ns=seconds(1)),
        ev.HeartBeatSent(at_ns=1, conn=1, protocol="STOMP", size=1),
        ev.LinkFaulted(at_ns=1, detail="cut"),
        ev.OctetsSentUnseen(
            at_ns=1, conn=1, protocol="STOMP", command="LOST", size=3, detail="3 bytes"
        ),
        ev.OctetsReceivedUnseen(
            at_ns=1, conn=1, protocol="STOMP", command="TLS", size=0, detail="encrypted"
        ),
        ev.CaseEnded(at_ns=1, detail="PASS"),
    ]
    assert {type(event).__name__ for event in whole} == {kind.__name__ for kind in ev.ALL}
    for event in whole:
        (line,) = viewer.lines([event])
        assert line["title"], event


def test_octets_are_shown_as_text_that_cannot_mislead(viewer: Viewer) -> None:
    assert viewer.call("shown", "a\\b\n\x00\xff\t", 7) == "a\\\\b\\n\\x00\\xff\\t"
    assert viewer.call("shown", "ab", 2000) == "ab … (2\N{NARROW NO-BREAK SPACE}000 bytes)"


def test_how_each_connection_ended(viewer: Viewer) -> None:
    assert viewer.endings(two_connections()) == [
        "Connection 1 was closed by the harness at 64 ms, 16 ms after it sent MESSAGE.",
        "Connection 2 was reset by the broker at 62 ms, 13 ms after it sent MESSAGE.",
    ]
    opened = ev.ConnectionOpened(at_ns=0, conn=3, protocol="STOMP", acceptor="a")
    still_open = ["Connection 3 was still open when the trace ended."]
    assert viewer.endings([opened]) == still_open
    closed = ev.ConnectionClosed(at_ns=ms(1), conn=3, how=CloseHow.EOF)
    assert viewer.endings([opened, closed]) == ["Connection 3 was closed by the broker at 1 ms."]


GAUGES = [
    ["TTL", 4020, "bytes", 2000, 4000, 50],
    ["c", 5, "frames", None, None, 0],
    ["d", 3, "ns", None, 2, 0],
    ["e", 2, "ns", None, 2, 0],
]


def test_gauges_say_how_far_from_the_nearest_bound(viewer: Viewer) -> None:
    found = viewer.call("gauges", {"gauges": GAUGES, "parts": []})
    assert re.findall(r"<td>([^<]*|<b class=\"out\">[^<]*</b>[^<]*)</td></tr>", found) == [
        '<b class="out">20 bytes outside</b>, within the margin',
        '<b class="out">1 ns outside</b>',
        "",
        "on the bound",
    ]
    for drawing in re.findall(r"<svg.*?</svg>", found):
        ElementTree.fromstring(drawing)


def test_a_violation_without_a_figure_stands_before_the_figures_inside(viewer: Viewer) -> None:
    inside = [[f"m{number}", 2, "messages", 1, None, 0] for number in range(6)]
    finding = ["REQ-1", "FAIL", "violated", "none arrived", "", "", ""]
    found = viewer.call("gauges", {"gauges": inside, "parts": [], "findings": [finding]})
    assert found.index("none arrived") < found.index("m0")
    assert "The 6 values below belong to other checks" in found
    assert "3 more figures, inside their bounds" in found
    assert "Margin" not in found
    outside = viewer.call("gauges", {"gauges": GAUGES, "parts": [], "findings": [finding]})
    assert "none arrived" not in outside
    assert "Margin" in outside


def stalled() -> list[ev.Event]:
    """A consumer that gets one more message after an ACK, and then nothing for 10 s."""
    message = functools.partial(received, command="MESSAGE", size=100)
    return [
        ev.CaseStarted(at_ns=0),
        ev.ConnectionOpened(at_ns=ms(1), conn=1, protocol="STOMP", acceptor="stomp"),
        sent(at_ns=ms(2), command="CONNECT"),
        sent(at_ns=ms(9), command="SUBSCRIBE"),
        *(message(at_ns=ms(10)), message(at_ns=ms(10))),
        sent(at_ns=ms(310), command="ACK"),
        message(at_ns=ms(311)),
        ev.Judged(at_ns=ms(10_311), requirement="REQ-1", seen="VIOLATED", detail="none arrived"),
    ]


def texts(drawing: str) -> dict[str, float]:
    """Return the texts of a drawing and the horizontal position at which each begins or ends."""
    return {
        "".join(element.itertext()).strip()
        if len(element) == 0
        else (element.text or "").strip(): float(element.get("x", 0))
        for element in ElementTree.fromstring(drawing).iter("text")
    }


@pytest.mark.parametrize("width", [1000, 350])
def test_the_axis_reaches_to_the_violation_and_names_what_decides(
    viewer: Viewer, width: int
) -> None:
    drawing = viewer.call("axis", viewer.marks(stalled()), width)
    found = texts(drawing)
    assert "violated here: nothing arrived for 10 s" in found
    assert {"ACK", "MESSAGE", "10 s"} <= set(found)
    (mark,) = ElementTree.fromstring(drawing).findall("line[@class='violated']")
    violated = float(mark.get("x1", 0))
    # The silence does not squeeze the rest: the ACK is well away from the beginning.
    assert found["10 s"] < violated < width
    assert found["CONNECT"] < found["ACK"] < violated


def test_several_silences_that_are_nearly_all_of_it_are_cut_out(viewer: Viewer) -> None:
    events = [sent(at_ns=ms(at), command="SEND") for at in (0, 4, 304, 308, 608, 612)]
    found = texts(viewer.call("axis", viewer.marks(events)))
    assert "300 ms" in found
    drawing = ElementTree.fromstring(viewer.call("axis", viewer.marks(events)))
    assert len(drawing.findall("path[@class='cut']")) == 2


def test_an_axis_without_a_long_silence_is_to_scale(viewer: Viewer) -> None:
    drawing = ElementTree.fromstring(viewer.call("axis", viewer.marks(silence(seconds(9)))))
    assert drawing.findall("path[@class='cut']") == []


def test_a_curve_reaches_to_the_violation_with_its_steps_named(viewer: Viewer) -> None:
    rows = viewer.rows(stalled())
    curve = {
        "title": "held",
        "unit": "octets",
        "points": [(ms(10), 200), (ms(310), 100), (ms(311), 200)],
        "bounds": [(300, "consumer-window-size")],
    }
    context = {"violation": viewer.call("violations", rows)[0], "notes": viewer.call("notes", rows)}
    found = texts(viewer.call("plot", curve, context))
    assert "violated here: nothing arrived for 10 s" in found
    assert {"ACK", "MESSAGE", "10.311 s"} <= set(found)
    assert found["10.311 s"] > found["ACK"]


def test_heartbeats_are_no_arrival_and_a_short_wait_is_none(viewer: Viewer) -> None:
    *before, violated = stalled()
    (beating,) = viewer.call("violations", viewer.rows([*before, beat(at_ns=seconds(5)), violated]))
    assert beating["wait"] == "nothing but heartbeats arrived for 10 s"
    at_once = ev.Judged(at_ns=ms(312), requirement="REQ-1", seen="VIOLATED", detail="")
    (judged,) = viewer.call("violations", viewer.rows([*before, at_once]))
    assert (judged["wait"], judged["waited"]) == ("", 0)


def test_what_is_left_out_before_a_violation_may_have_arrived(viewer: Viewer) -> None:
    events = stalled()
    rows = viewer.rows(events, range(len(events) - 2, len(events) - 1))
    (violation,) = viewer.call("violations", rows)
    assert violation["wait"] == ""


def test_the_deciding_frames_are_few_and_have_the_violation(viewer: Viewer) -> None:
    *before, violated = stalled()
    acks = [
        ev.FrameSent(at_ns=ms(310), conn=1, protocol="AMQP091", command="basic.ack", size=9)
        for _ in range(50)
    ]
    found = viewer.call("deciding", viewer.rows([*before, *acks, violated]), 10)
    assert len(found) == 10
    assert found[-1]["kind"] == "Judged"


def test_gauges_without_bounds_have_no_drawing(viewer: Viewer) -> None:
    assert viewer.call("gauge", 5, None, None, 0) == ""


def test_a_curve_has_its_bounds_and_words(viewer: Viewer) -> None:
    held = {
        "title": "held",
        "unit": "octets",
        "points": [(0, 0), (ms(1), 400), (ms(3), 1200), (ms(6), 0)],
        "bounds": [(1000, "consumer-window-size"), (90_000, "max-size-bytes-reject-threshold")],
    }
    drawn = viewer.call("plot", held)
    assert "consumer-window-size: 1\N{NARROW NO-BREAK SPACE}000 bytes" in drawn
    # Values far above the axis are only written as text.
    assert len(ElementTree.fromstring(drawn).findall("line[@class='bound']")) == 1
    words = viewer.call("curve_in_words", held)
    assert words.startswith(
        "held: from 0 bytes to 1\N{NARROW NO-BREAK SPACE}200 bytes, at most at 3 ms"
    )
    assert words.endswith("max-size-bytes-reject-threshold 90\N{NARROW NO-BREAK SPACE}000 bytes")


def drawn(viewer: Viewer, events: Sequence[ev.Event]) -> ElementTree.Element:
    """Return the diagram; fail if it is not well-formed."""
    return ElementTree.fromstring(viewer.sequence(events))


def words(drawing: ElementTree.Element) -> dict[str, float]:
    """Return the texts of a drawing and the vertical position of each."""
    return {
        (element.text or "").strip(): float(element.get("y", 0)) for element in drawing.iter("text")
    }


def test_a_conversation_runs_down_with_its_bounds_where_they_fall(viewer: Viewer) -> None:
    found = words(drawn(viewer, silence(seconds(3))))
    early, late = found["connection TTL: not before 2 s"], found["connection TTL: not after 4 s"]
    assert (
        found["opens"]
        < found["CONNECT  heart-beat 1000,0"]
        < found["CONNECTED  heart-beat 0,500"]
        < early
    )
    assert early < found["closed by the broker"] < late
    closed_too_late = words(drawn(viewer, silence(seconds(9))))
    assert (
        closed_too_late["connection TTL: not after 4 s"] < closed_too_late["closed by the broker"]
    )


def test_arrows_point_where_frames_went(viewer: Viewer) -> None:
    drawing = drawn(viewer, two_connections())
    broker = max(
        float(element.get("x1", 0))
        for element in drawing.iter("line")
        if element.get("class") == "life"
    )
    tips: dict[str, list[float]] = {"sent": [], "received": []}
    for path in drawing.iter("path"):
        kind = (path.get("class") or "").split()
        if kind[0] == "tip":
            tips[kind[1]].append(float(path.get("d", "")[1:].split()[0]))
    assert tips["sent"]
    assert all(abs(x - broker) < 5 for x in tips["sent"])
    assert tips["received"]
    assert all(x < broker - 50 for x in tips["received"])


def test_what_repeats_is_one_arrow_and_a_long_conversation_is_shortened(viewer: Viewer) -> None:
    sends = [sent(at_ns=ms(number), command="SEND", size=40) for number in range(30)]
    assert "30 × SEND until 29 ms" in words(drawn(viewer, sends))
    turns = [
        kind(at_ns=ms(number), conn=1, protocol="STOMP", command=name, size=9)
        for number in range(200)
        for kind, name in ((ev.FrameSent, "SEND"), (ev.FrameReceived, "RECEIPT"))
    ]
    found = drawn(viewer, turns)
    assert any("more steps, see the log" in text for text in words(found))
    assert (
        len([element for element in found.iter("path") if "tip" in (element.get("class") or "")])
        == MOST_STEPS
    )


def test_diagrams_escape_what_the_broker_sent(viewer: Viewer) -> None:
    frames: list[ev.Event] = [
        ev.ConnectionOpened(at_ns=0, conn=1, protocol="STOMP", acceptor=HOSTILE),
        received(at_ns=1, command=HOSTILE, headers=(("message", HOSTILE),)),
        received(at_ns=2, command="ERROR", headers=(("message", HOSTILE),)),
        ev.LinkFaulted(at_ns=3, conn=1, detail=HOSTILE),
        ev.Judged(at_ns=4, requirement=HOSTILE, seen="VIOLATED", detail=HOSTILE),
        ev.ConnectionClosed(at_ns=5, conn=1, how=CloseHow.RESET),
    ]
    found = viewer.sequence(frames)
    assert "<script" not in found
    ElementTree.fromstring(found)
    curve = {
        "title": HOSTILE,
        "unit": HOSTILE,
        "points": [(0, 1), (5, 2)],
        "bounds": [(1, HOSTILE)],
    }
    assert "<script" not in viewer.call("plot", curve)


def test_nothing_crossed_is_no_diagram(viewer: Viewer) -> None:
    assert viewer.sequence([ev.CaseStarted(at_ns=5)]) == ""


def test_curves_of_one_instant_stand_in_their_order(viewer: Viewer) -> None:
    points = [(0, number % 7) for number in range(20)]
    found = {"title": "credit", "unit": "messages", "points": points, "bounds": []}
    assert "in the order of the frames" in viewer.call("curve_in_words", found)
    drawing = ElementTree.fromstring(viewer.call("plot", found))
    (path,) = [element.get("d", "") for element in drawing.iter("path")]
    assert len({step.split("V")[0] for step in path.split("H")[1:]}) == 19
