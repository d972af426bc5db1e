"""The last lines of a run: causes first, one line per area, and nothing wider than 80 columns."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from brokerproof.harness.catalogue.areas import Area, area_of
from brokerproof.harness.commands import progress, summary
from brokerproof.harness.model.finding import JudgedFinding
from brokerproof.harness.model.verdicts import Impact, Seen, Verdict
from brokerproof.harness.results import area_summary, causes, impacts
from brokerproof.harness.results.area_summary import State
from brokerproof.harness.results.records import Result

LONG = "a_case_with_a_name_that_goes_on_and_on_until_it_is_wider_than_a_terminal_of_eighty"


def result(case: str, requirement: str, verdict: Verdict, detail: str = "seen") -> Result:
    seen = Seen.HELD if verdict is Verdict.PASS else Seen.VIOLATED
    finding = JudgedFinding(requirement, seen, detail, verdict=verdict)
    return Result(case, "broker", (requirement,), verdict, detail, (finding,))


RESULTS = [
    result("stomp.send.kept", "STOMP12-SEND-01", Verdict.PASS),
    result("stomp.send.broken[1.2]", "STOMP12-SEND-02", Verdict.FAIL, "got 'x', not 'y'"),
    result("stomp.heart_beats.late[1.1]", "STOMP11-HB-07", Verdict.FAIL, "nothing for 900 ms"),
    result("stomp.heart_beats.late[1.2]", "STOMP12-HB-07", Verdict.FAIL, "nothing for 901 ms"),
    result(f"clients.stomppy.{LONG}", "STOMP12-HB-07", Verdict.FAIL, "nothing " * 200),
    result("flow.window.open", "ARTEMIS-STOMP-window-1", Verdict.INCONCLUSIVE, "host late"),
    result("delivery.paging.x", "ARTEMIS-PAGING-1", Verdict.SKIP, "the target has no paging"),
    Result(
        "x.y", "broker", ("STOMP12-SEND-01",), Verdict.ERROR, "control failed: \x1b[2J no topic"
    ),
]


def rendered(results: list[Result], folder: Path) -> list[str]:
    output = io.StringIO()
    console = Console(file=output, width=80, emoji=False)
    summary.show(console, folder, results, {}, [], None)
    return output.getvalue().splitlines()


def test_the_summary_fits_80_columns_and_begins_with_what_failed(tmp_path: Path) -> None:
    lines = rendered(RESULTS, Path("run"))
    assert max(map(len, lines)) <= 80
    assert lines[:5] == [
        "FAIL  A SEND in a transaction takes effect only with COMMIT",
        "  STOMP12-SEND-02 · broker · protocol basics",
        "  at worst duplicate: messages may be processed twice",
        "  observed got 'x', not 'y'",
        "  required “SEND supports a transaction header which allows for transactional",
    ]
    heads = [line.split()[0] for line in lines if line[:2].isupper()]
    assert heads == ["FAIL", "FAIL", "ERROR", "INCONCLUSIVE"]
    assert not any("\x1b" in line for line in lines), "what a broker sent steers no terminal"
    text = "\n".join(lines)
    assert "stomp.heart_beats.late [1.1, 1.2]" in text
    assert "  STOMP11-HB-07, STOMP12-HB-07 · broker" in text
    assert "  heartbeats and TTL    broken        2 of 2 requirements" in lines
    assert "  windows and credit    undecided     1 requirement, 1 undecided" in lines
    assert "  paging and order      not judged    the target has no paging" in lines
    assert "  brokerproof requirements STOMP12-SEND-02" in lines
    assert lines[-1] == "  brokerproof run --last-failed run"


def test_cases_beyond_the_first_four_are_counted() -> None:
    failed = [result(f"stomp.x.c{n}", "STOMP12-SEND-02", Verdict.FAIL) for n in range(6)]
    lines = rendered(failed, Path("run"))
    at = lines.index("  case     stomp.x.c3")
    assert lines[at + 1 : at + 3] == ["  and 2 more", ""]


def test_a_long_reason_is_wrapped_below_itself() -> None:
    reason = "the target has no paging (give it an address whose policy is PAGE, and its size)"
    lines = rendered([result("p.x", "ARTEMIS-PAGING-1", Verdict.SKIP, reason)], Path("run"))
    assert "  SKIP: cases that need paging (1); `brokerproof capabilities` explains these" in lines
    assert lines[1] == "  paging and order      not judged    the target has no paging (give it an"
    assert lines[2] == " " * 38 + "address whose policy is PAGE, and its"


def test_an_area_with_a_known_deviation_is_not_kept() -> None:
    known = result("stomp.send.known", "STOMP12-SEND-02", Verdict.KNOWN, "lost")
    recommended = result("stomp.send.warned", "STOMP12-SEND-03", Verdict.WARN, "no content-type")
    lines = rendered([RESULTS[0], known, recommended], Path("run"))
    assert lines[0].startswith("WARN  "), "a recommendation that is not followed is shown"
    assert any(
        line.startswith("  protocol basics       deviates      3 requirements, ") for line in lines
    )
    assert "1 with a known deviation, 1 recommended but not followed" in " ".join(
        " ".join(line.split()) for line in lines
    )


def test_what_passed_needs_no_next_step() -> None:
    lines = rendered([kept(name) for name in ("CONNECT-01", "SEND-01", "SUB-01")], Path("run"))
    assert lines == [
        "broker, 3 cases: 3 PASS",
        "  protocol basics       kept          3 requirements",
        "",
    ]


def kept(name: str) -> Result:
    return result(f"stomp.{name}", f"STOMP12-{name}", Verdict.PASS)


def test_an_area_of_which_the_core_was_not_judged_is_partly_judged() -> None:
    state = {
        area.area: (area.state, area.why)
        for area in area_summary.summarise(
            [
                kept("SEND-01"),
                result("a", "AMQP10-CREDIT-03", Verdict.PASS),
                result("b", "AMQP10-CREDIT-12", Verdict.SKIP, "the target has no drain"),
                result("c", "ARTEMIS-STOMP-window-1", Verdict.SKIP, "for artemis: like"),
                result("d", "ARTEMIS-PAGING-1", Verdict.SKIP, "for artemis: like"),
            ]
        )["broker"]
    }
    assert state[Area.WINDOW] == (
        State.PARTLY,
        "1 of 3 parts; not judged: drain, windows of a session",
    )
    assert state[Area.PAGING] == (
        State.NOT_JUDGED,
        "nothing in STOMP and AMQP 1.0 covers order, or messages that exceed memory",
    )
    [*_, (window, why)] = [
        (area.state, area.why)
        for area in area_summary.summarise(
            [
                kept("SEND-01"),
                result("c", "ARTEMIS-FLOW-consumer-2", Verdict.SKIP, "the target has no core"),
                result("e", "AMQP10-CREDIT-03", Verdict.SKIP, "the target has no amqp"),
            ]
        )["broker"]
        if area.area is Area.WINDOW
    ]
    assert window is State.NOT_JUDGED
    assert why == "STOMP has no window of its own, and brokerproof knows of none in this broker"


def test_cases_that_did_not_come_to_judge_by_one_reason_are_one_cause(tmp_path: Path) -> None:
    reason = "no AMQP 1.0 node was found that keeps a message"
    unmet = [
        Result(
            f"amqp10.x.c{number}",
            "broker",
            (requirement,),
            Verdict.INCONCLUSIVE,
            reason,
            (JudgedFinding(requirement, Seen.UNMET, reason, verdict=Verdict.INCONCLUSIVE),),
        )
        for number, requirement in enumerate(
            ["AMQP10-CREDIT-03", "AMQP10-WIN-02", "AMQP10-IDLE-20"]
        )
    ]
    other = replace(unmet[0], case="other", findings=unmet[0].findings)
    [cause] = causes.group([*unmet, other], Verdict.INCONCLUSIVE)
    assert len(cause.cases) == 4
    lines = rendered(unmet, tmp_path)
    expected = ["INCONCLUSIVE  A precondition was not met · broker", f"  observed {reason}"]
    assert lines[:2] == expected
    assert not any("required" in line for line in lines)


def test_versions_variants_and_one_requirement_are_one_cause() -> None:
    grouped = causes.group(RESULTS, Verdict.FAIL)
    assert [len(cause.cases) for cause in grouped] == [1, 3]
    assert [cause.impact for cause in grouped] == [Impact.DUPLICATE, Impact.DISCONNECT]
    assert [cause.area for cause in grouped] == [Area.PROTOCOL, Area.HEARTBEAT]
    assert len(grouped[1].observed) == 2, "900 and 901 ms are one observation"


def test_a_rule_that_its_versions_number_differently_is_one_cause() -> None:
    rows = ("STOMP11-SUB-11", "STOMP12-SUB-13")
    [cause] = causes.group(
        [result(f"a.{row}", row, Verdict.FAIL, row) for row in rows], Verdict.FAIL
    )
    assert len(cause.cases) == 2
    twice = ("AMQP091-VER-03", "AMQP10-VER-11")
    assert len({impacts.rule_of(row) for row in twice}) == 2, "protocols are judged apart"


def test_of_several_findings_the_worst_impact_leads() -> None:
    stalled, lost = (
        JudgedFinding(name, Seen.VIOLATED, verdict=Verdict.FAIL)
        for name in ("ARTEMIS-STOMP-window-4", "ARTEMIS-PAGING-11")
    )
    [cause] = causes.group(
        [Result("a", "broker", (), Verdict.FAIL, "", (stalled, lost))], Verdict.FAIL
    )
    assert (cause.finding, cause.impact) == (lost, Impact.LOSS)


def test_a_cause_stands_before_what_follows_from_it() -> None:
    narrow, wide = ("STOMP12-SUB-10",), ("STOMP12-BEGIN-03", "STOMP12-SUB-10", "STOMP12-SEND-02")

    def failed(case: str, cited: tuple[str, ...], requirement: str) -> Result:
        finding = JudgedFinding(requirement, Seen.VIOLATED, case, verdict=Verdict.FAIL)
        return Result(case, "broker", cited, Verdict.FAIL, "", (finding,))

    lost = failed("transaction", wide, "STOMP12-BEGIN-03")
    again = failed("ack", narrow, "STOMP12-SUB-10")
    broad = failed("many", wide, "STOMP12-SUB-10")
    other = failed("heart", ("STOMP12-HB-07",), "STOMP12-HB-07")
    grouped = causes.group([lost, broad, other, again], Verdict.FAIL)
    assert [cause.cases for cause in grouped] == [["ack", "many"], ["transaction"], ["heart"]]
    assert grouped[0].observed == ["ack", "many"], "the case that cites least comes first"


def test_a_case_is_named_by_the_first_sentence_of_its_docstring(tmp_path: Path) -> None:
    doc = "A SEND goes\ninto a transaction. It stays there.\n\nAnd more."
    described = {"stomp.send.broken[1.2]": {"doc": doc}}
    (tmp_path / "cases.json").write_text(json.dumps(described), "utf-8")
    lines = rendered(RESULTS[:2], tmp_path)
    at = lines.index("  case     A SEND goes into a transaction")
    assert lines[at + 1] == " " * 11 + "stomp.send.broken [1.2]"


def test_a_skip_beside_a_judged_case_does_not_count() -> None:
    kept = result("a", "ARTEMIS-PAGING-1", Verdict.PASS)
    skipped = result("b", "ARTEMIS-PAGING-1", Verdict.SKIP)
    for order in ([kept, skipped], [skipped, kept]):
        [state] = area_summary.summarise(order)["broker"]
        assert state.state is State.KEPT
    for verdict in (Verdict.SKIP, Verdict.NOTE):
        only = result("a", "ARTEMIS-PAGING-1", verdict)
        [state] = area_summary.summarise([only])["broker"]
        assert state.state is State.NOT_JUDGED, "what was only noted is not kept"


def test_a_requirement_that_did_not_apply_is_not_counted_as_judged() -> None:
    kept = result("a", "ARTEMIS-PAGING-1", Verdict.PASS)
    unasked = JudgedFinding("ARTEMIS-PAGING-2", Seen.NOT_APPLICABLE, verdict=Verdict.NOTE)
    other = Result("b", "broker", ("ARTEMIS-PAGING-2",), Verdict.NOTE, "", (unasked,))
    nor_here = replace(other, findings=(replace(unasked, requirement="ARTEMIS-PAGING-1"),))
    [state] = area_summary.summarise([nor_here, kept, other])["broker"]
    assert state.judged == state.requirements(Verdict.PASS) == ["ARTEMIS-PAGING-1"]
    assert state.why == "1 requirement, 1 did not apply"


@pytest.mark.parametrize(
    ("requirement", "area"),
    [
        ("STOMP12-HB-07", Area.HEARTBEAT),
        ("ARTEMIS-STOMP-ttl-3", Area.HEARTBEAT),
        ("OPENWIRE-INACT-01", Area.HEARTBEAT),
        ("AMQP10-CREDIT-01", Area.WINDOW),
        ("AMQP091-QOS-01", Area.WINDOW),
        ("AMQP091-PUB-04", Area.PAGING),
        ("ARTEMIS-FLOW-amqp-1", Area.WINDOW),
        ("ARTEMIS-FLOW-amqp-4", Area.THRESHOLD),
        ("ARTEMIS-PAGING-8", Area.THRESHOLD),
        ("ARTEMIS-PAGING-11", Area.PAGING),
        ("RABBITMQ-FLOW-mem-1", Area.THRESHOLD),
        ("ARTEMIS-REDELIVERY-back-1", Area.RECOVERY),
        ("STOMP12-FH-01", Area.PROTOCOL),
    ],
)
def test_a_requirement_has_an_area(requirement: str, area: Area) -> None:
    assert area_of(requirement) is area


@pytest.mark.parametrize(
    ("done", "total", "elapsed", "words"),
    [
        (0, 0, 5.0, ""),
        (10, 100, 5.0, ""),
        (50, 100, 30.0, "about 30 s left"),
        (30, 100, 180.0, "about 7 min left"),
        (100, 100, 60.0, ""),
    ],
)
def test_the_time_that_is_left(done: int, total: int, elapsed: float, words: str) -> None:
    assert progress.time_left(done, total, elapsed) == words
