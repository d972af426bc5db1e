"""Writes a run folder without a run: the reports' tests need every kind of verdict and event in one
place."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from brokerproof.harness.model.enums import Clock, CloseHow, Vantage
from brokerproof.harness.model.finding import Finding, JudgedFinding, Measurement
from brokerproof.harness.model.time import ms, seconds
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.results.records import Result, Unrecorded, append
from brokerproof.harness.results.verdict import with_verdict
from brokerproof.harness.trace import events as ev
from brokerproof.harness.trace.columns import FINGERPRINT
from brokerproof.harness.trace.recorder import Recorder
from brokerproof.suites.units.drivers import frames

TTL = "ARTEMIS-STOMP-ttl-3"
BEAT = "STOMP12-HB-04"
UNKNOWN = "NOWHERE-SPEC-01"
HEADER = Path(__file__).with_name("synthetic_run.json")


def header(
    name: str, *, targets: Iterable[str] = ("reference",), finished: bool = True
) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(HEADER.read_text("utf-8"))
    values |= {"run": name, "fingerprint": FINGERPRINT}
    values["targets"] = [{"name": target} | values["targets"][0] for target in targets]
    if not finished:
        del values["footer"]
    return values


def write_header(folder: Path, values: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(values), "utf-8")


def connection(conn: int, heart_beat: str, *, at: int = 0) -> list[ev.Event]:
    return [
        ev.ConnectionOpened(
            at_ns=at, conn=conn, protocol="STOMP", acceptor="stomp", remote="127.0.0.1:61613"
        ),
        frames.sent(
            "CONNECT",
            {"accept-version": "1.2", "host": "localhost", "heart-beat": heart_beat},
            at_ns=at + ms(1),
            conn=conn,
            size=62,
        ),
        frames.received(
            "CONNECTED",
            {"version": "1.2", "heart-beat": "0,500", "server": "<script>alert(1)</script>"},
            at_ns=at + ms(2),
            conn=conn,
            size=70,
        ),
    ]


def silence(
    closed_at: int, *, example: int | None = None, verdict: Seen = Seen.HELD
) -> list[ev.Event]:
    """Return a silent connection that is closed at ``closed_at``, judged against 2 s to 4 s."""
    start: ev.Event = (
        ev.CaseStarted(at_ns=0, detail="silence")
        if example is None
        else ev.ExampleStarted(
            at_ns=0, example=example, detail=f"heart_beat=(1000, 0), check={closed_at % 7}"
        )
    )
    expected = {"at_ns": ms(2), "conn": 1, "label": "connection TTL", "lo_ns": seconds(2)}
    beats = [
        ev.HeartBeatReceived(at_ns=ms(2) + number * ms(500), conn=1, protocol="STOMP", size=1)
        for number in range(1, 20)
    ]
    return [
        start,
        *connection(1, "1000,0"),
        *(
            ev.IntervalExpected(requirement=requirement, hi_ns=seconds(4), **expected)
            for requirement in (TTL, BEAT)
        ),
        ev.IntervalExpected(at_ns=ms(2), conn=1, label="a broker's ERROR", lo_ns=seconds(2)),
        ev.Noted(at_ns=ms(2), detail="the client stays silent from here on"),
        *[beat for beat in beats if beat.at_ns < closed_at],
        ev.JitterMeasured(at_ns=closed_at // 2, late_ns=120_000),
        ev.Observed(
            at_ns=closed_at,
            conn=1,
            vantage=Vantage.BROKER,
            requirement=TTL,
            detail="TTL of 2000 ms ran out",
        ),
        frames.received(
            "ERROR",
            {"message": "connection timed out", "content-type": "text/plain"},
            at_ns=closed_at,
            body=b"AMQ229014: no data\n\x00\xff<b>",
            body_size=23,
            size=88,
        ),
        ev.ConnectionClosed(at_ns=closed_at, conn=1, how=CloseHow.EOF),
        ev.Measured(
            at_ns=closed_at,
            label="connection TTL",
            requirement=TTL,
            value=closed_at - ms(1),
            lo=seconds(2),
            hi=seconds(4),
            margin=ms(50),
            unit="ns",
        ),
        ev.Judged(
            at_ns=closed_at,
            requirement=TTL,
            seen=verdict.value,
            detail=f"closed after {closed_at // 10**6} ms",
        ),
    ]


def measured(closed_at: int) -> dict[str, Measurement]:
    """The measurement of :func:`silence` in the form of results."""
    return {"connection TTL": Measurement(closed_at - ms(1), "ns", seconds(2), seconds(4), ms(50))}


def two_connections() -> list[ev.Event]:
    """Return two consumers, malformed bytes, a reset, and unreadable bytes."""
    busy = [
        frames.received(
            "MESSAGE",
            {"message-id": str(number), "destination": "/queue/a"},
            at_ns=ms(20 + number),
            conn=1 + number % 2,
            body=b"x" * 64,
            body_size=1024,
            size=1100,
        )
        for number in range(30)
    ]
    return [
        ev.CaseStarted(at_ns=0, detail="windows"),
        *connection(1, "0,0"),
        *connection(2, "0,0", at=ms(5)),
        frames.sent(
            "SUBSCRIBE",
            {"id": "1", "destination": "/queue/a", "consumer-window-size": "0"},
            at_ns=ms(10),
            size=80,
        ),
        *busy,
        ev.OctetsSent(at_ns=ms(60), conn=2, data=b"SEND\nbad header\n\n\x00", size=17),
        ev.OctetsRefused(
            at_ns=ms(61), conn=2, data=b"\xc3\x28 not STOMP", detail="the command is not UTF-8"
        ),
        ev.ConnectionClosed(at_ns=ms(62), conn=2, how=CloseHow.RESET),
        ev.Measured(
            at_ns=ms(63),
            label="messages outstanding",
            requirement="ARTEMIS-STOMP-window-2",
            value=30,
            lo=1,
            hi=1,
            unit="messages",
        ),
        ev.Judged(
            at_ns=ms(63),
            requirement="ARTEMIS-STOMP-window-2",
            seen="VIOLATED",
            detail="30 messages; expected 1",
        ),
        ev.ConnectionAbandoned(at_ns=ms(64), conn=1, how=CloseHow.EOF),
    ]


def held(requirement: str, detail: str = "as it should be") -> Finding:
    return Finding(requirement, Seen.HELD, detail)


def violated(requirement: str, detail: str, uncertain: str | None = None) -> Finding:
    return Finding(requirement, Seen.VIOLATED, detail, uncertain)


def full_run(
    folder: Path, *, targets: tuple[str, ...] = ("reference", "artemis"), finished: bool = True
) -> Path:
    """Write a run with every verdict on the last target, and mostly PASS on the others."""
    name = folder.name
    write_header(folder, header(name, targets=targets, finished=finished))
    docs: dict[str, Any] = {}
    for target in targets:
        recorder = Recorder(folder, name, target, Clock.VIRTUAL)
        for result, doc, trace in _cases(target, worst=target == targets[-1]):
            recorder.write(result.case, trace)
            append(folder, result)
            docs[result.case] = {
                "doc": doc,
                "requirements": list(result.requirements),
                "source": "suites/stomp/test_x.py:12",
            }
        recorder.flush()
    (folder / "cases.json").write_text(json.dumps(docs), "utf-8")
    return folder


def judged_in(case: Verdict, finding: Finding) -> JudgedFinding:
    """Return ``finding`` with its verdict in a case whose verdict is ``case``."""
    if case in (Verdict.ERROR, Verdict.SKIP) or finding.seen is Seen.VIOLATED:
        return with_verdict(finding, case)
    held = finding.seen is Seen.HELD
    return with_verdict(finding, Verdict.PASS if held else Verdict.INCONCLUSIVE)


def _cases(target: str, *, worst: bool) -> Iterable[tuple[Result, str, list[ev.Event]]]:
    late = seconds(9) if worst else seconds(3)
    seen = Seen.VIOLATED if worst else Seen.HELD
    finding = violated if worst else held

    def result(
        case: str, verdict: Verdict, detail: str = "", *findings: Finding, **more: Any
    ) -> Result:
        own = verdict if worst else Verdict.PASS
        ids = tuple(dict.fromkeys(finding.requirement for finding in findings))
        judged = tuple(judged_in(own, finding) for finding in findings)
        said = detail if worst else ""
        more |= {"duration_s": 0.25, "trace_ref": "trace"}
        return Result(case, target, ids, own, said, judged, **more)

    found = [finding(TTL, "closed after 9000 ms"), held(BEAT)]
    detail = "closed after 9000 ms; expected between 2000 and 4000 ms"
    case = "stomp.liveness.a_silent_connection_is_closed[1.2]"
    closed = result(case, Verdict.FAIL, detail, *found, measurements=measured(late))
    doc = (
        "A client that promised a beat and stays silent is closed after its TTL,\n"
        "neither earlier nor later."
    )
    yield closed, doc, silence(late, verdict=seen)

    examples = [
        event
        for number in range(12)
        for event in silence(seconds(2) + ms(50 * number), example=number)
    ]
    examples += silence(late, example=12, verdict=seen)
    arithmetic = result(
        "stomp.liveness.the_ttl_follows_the_arithmetic",
        Verdict.KNOWN,
        "the window is [ttl, 2 ttl) (known: the release differs)",
        finding(TTL, "closed late"),
        measurements=measured(late),
        unrecorded=Unrecorded(examples=187, events=5_610),
    )
    doc = "For any heart-beat header the connection lives as long as the arithmetic says."
    yield arithmetic, doc, examples

    case, detail = "flow.window.zero_gives_one_message_per_ack", "30 messages; expected 1"
    found = [finding("ARTEMIS-STOMP-window-2", detail), held(UNKNOWN)]
    doc = "A window of zero gives one message per ACK."
    yield result(case, Verdict.FAIL, detail, *found), doc, two_connections()

    eols = result("stomp.frames.trailing_eols", Verdict.PASS, "", held("STOMP12-FRAME-03"))
    yield eols, "EOLs between frames are ignored.", two_connections()

    found = [finding("STOMP12-SEND-03", "no content-type")]
    should = result("stomp.frames.a_should", Verdict.WARN, "no content-type", *found)
    yield should, "", silence(seconds(3))

    found = [Finding("STOMP10-SUB-03", Seen.NEVER_REACHED, "")]
    lacking = "the target has no selectors"
    yield result("stomp.selectors.needs_selectors", Verdict.SKIP, lacking, *found), "", []

    found = [finding(BEAT, "4020 ms", "within the margin of 50 ms") if worst else held(BEAT)]
    case, detail = "stomp.liveness.in_the_margin", "within the margin"
    late = seconds(4) + ms(20)
    yield result(case, Verdict.INCONCLUSIVE, detail, *found), "", silence(late)

    failed = "control failed: <b>no CONNECTED</b> within 5 s"
    broken = result("stomp.connect.control", Verdict.ERROR, failed, held("STOMP12-CONN-01"))
    yield broken, "", connection(1, "0,0")
