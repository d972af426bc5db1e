"""The first screen: the violations in each area, when they appeared, and how certain they are."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from brokerproof.harness.model.finding import JudgedFinding, Measurement
from brokerproof.harness.model.time import ms, seconds
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.results.records import Result, append
from brokerproof.reports.model.certainty import Sighting
from brokerproof.reports.model.index_model import Bar, CaseRow, Cell, Column, Group, MatrixRow
from brokerproof.reports.model.index_model_builder import case_rows
from brokerproof.reports.model.overview import CauseLine, Overview, overview
from brokerproof.reports.model.requirements import Requirements, Words
from brokerproof.reports.sources.result_rows import flatten
from brokerproof.reports.sources.runs import Run

CANARY = {"canary": {"t": {"p99_ns": 11_400_000, "worst_ns": 1_430_000_000}}}
REAL = [{"name": "t", "clock": "REAL", "version": "2.0"}]
WINDOW = "ARTEMIS-STOMP-window-3"


def failed(case: str, requirement: str = "R-1", **more: Any) -> Result:
    finding = JudgedFinding(requirement, Seen.VIOLATED, "closed late", verdict=Verdict.FAIL)
    return Result(case, "t", (requirement,), Verdict.FAIL, "closed late", (finding,), **more)


def screen(
    folder: Path,
    *results: Result,
    sightings: Mapping[tuple[str, str, str], Sighting] | None = None,
    cases: tuple[CaseRow, ...] = (),
    **header: Any,
) -> Overview:
    for result in results:
        append(folder, result)
    bar = Bar(Column("r", "t", "t"), (), 1.0)
    run = Run(folder, "r", header)
    return overview([run], [bar], [], [], Requirements([]), cases, sightings=sightings)


def cause(folder: Path, *results: Result, **more: Any) -> CauseLine:
    (line,) = screen(folder, *results, **more).causes
    return line


def test_a_failure_in_real_time_was_repeated_on_a_host_of_known_lateness(tmp_path: Path) -> None:
    line = cause(tmp_path, failed("suite.case"), targets=REAL, host=CANARY)
    assert line.certainty.whole == (
        "found again when the case was repeated; this host woke threads at most 1.5 s late; in"
        " 99 of 100 measurements at most 12 ms"
    )
    found = line.certainty.brief
    assert found == "found again when the case was repeated; this host was at most 1.5 s late"


@pytest.mark.parametrize(
    ("verdict", "targets", "certainty"),
    [
        (Verdict.FAIL, [{"name": "t", "clock": "REAL"}], "found again when the case was repeated"),
        (Verdict.FAIL, [{"name": "t", "clock": "REAL", "kind": "proxy"}], ""),
        (
            Verdict.FAIL,
            [{"name": "t", "clock": "VIRTUAL"}],
            "found in virtual time, where every run with this seed is the same",
        ),
        (Verdict.FAIL, [{"name": "t"}], ""),
        (Verdict.ERROR, [{"name": "t", "clock": "REAL"}], ""),
    ],
    ids=["no canary", "proxy", "virtual", "no clock", "an error of ours"],
)
def test_no_more_is_said_than_the_run_recorded(
    tmp_path: Path, verdict: Verdict, targets: list[dict[str, str]], certainty: str
) -> None:
    finding = JudgedFinding("R-1", Seen.VIOLATED, "closed late", verdict=verdict)
    result = Result("suite.case", "t", ("R-1",), verdict, "closed late", (finding,))
    line = cause(tmp_path, result, targets=targets)
    assert line.certainty.whole == line.certainty.brief == certainty


@pytest.mark.parametrize(
    ("waited", "explained"),
    [(seconds(15), "which cannot explain a wait of 15 s"), (seconds(14), ""), (None, "")],
)
def test_only_a_wait_far_beyond_the_hosts_lateness_is_not_explained_by_it(
    tmp_path: Path, waited: int | None, explained: str
) -> None:
    cases = ("suite.case[1.1]", "suite.case[1.2]")
    seen = {("r", "t", case): Sighting(13, 3, waited) for case in cases}
    line = cause(tmp_path, *map(failed, cases), sightings=seen, targets=REAL, host=CANARY)
    assert line.certainty.brief.startswith(
        "found in 6 of 26 examples, and again when the case was repeated; this host was at most"
    )
    assert line.certainty.brief.endswith(explained or "1.5 s late")


@pytest.mark.parametrize(("value", "explained"), [(4, "2 s outside the interval"), (3, "")])
def test_a_time_outside_its_bounds_is_compared_with_the_hosts_lateness(
    tmp_path: Path, value: int, explained: str
) -> None:
    measured = {"TTL": Measurement(seconds(value), "ns", seconds(1), seconds(2), ms(50))}
    result = failed("suite.case", measurements=measured)
    # A long wait makes nothing certain if the violation is the long wait.
    seen = {("r", "t", "suite.case"): Sighting(0, 0, seconds(60))}
    line = cause(tmp_path, result, sightings=seen, targets=REAL, host=CANARY)
    assert line.certainty.brief.endswith(explained or "1.5 s late")


def test_a_broken_area_leads_to_its_worst_cause_and_knows_the_others(tmp_path: Path) -> None:
    results = [failed("s.one", WINDOW), failed("s.both", "STOMP12-HB-02")]
    other = JudgedFinding("ARTEMIS-STOMP-window-2", Seen.VIOLATED, "30", verdict=Verdict.FAIL)
    results += [
        Result(f"s.{name}", "t", (other.requirement,), Verdict.FAIL, "30", (other,))
        for name in ("a", "b")
    ]
    shown = screen(tmp_path, *results, targets=REAL)
    heartbeat, window = shown.areas["r", "t"]
    expected = ["heartbeats and TTL", "windows and credit"]
    assert [line.label for line in (heartbeat, window)] == expected
    assert [line.words.id for line in window.causes if line.words] == [WINDOW, other.requirement]
    assert window.link == f"#{window.causes[0].anchor}" == f"#{shown.causes[0].anchor}"
    # The same observation is one cause, and both affected areas link to it.
    assert heartbeat.causes == window.causes[:1]
    assert window.cases == "#target=t&area=windows+and+credit"
    found = window.causes[0].repeat
    assert found == "brokerproof run --target t --case one --effort normal --seed 0"


def test_charts_of_a_broken_area_say_that_they_do_not_show_why(tmp_path: Path) -> None:
    def row(name: str, requirement: str, value: int) -> CaseRow:
        bounds = {"low": 1, "high": 2, "margin": 0}
        measured = json.dumps({"held": {"value": value, "unit": "messages", **bounds}})
        return CaseRow("r", "t", name, "PASS", "", (requirement,), 1, 0.0, measured)

    def charts_of(held: int) -> list[tuple[str, bool]]:
        rows = (row("s.window", WINDOW, held), row("s.beat", "STOMP12-HB-02", 1))
        shown = screen(tmp_path, failed("s.window", WINDOW), cases=rows, targets=REAL)
        return [(chart.area, chart.hides_break) for chart in shown.charts["r", "t"]]

    assert charts_of(2) == [("heartbeats and TTL", False), ("windows and credit", True)]
    assert charts_of(3) == [("heartbeats and TTL", False), ("windows and credit", False)]


def test_what_was_skipped_is_beside_what_was_kept(tmp_path: Path) -> None:
    kept = JudgedFinding(WINDOW, Seen.HELD, verdict=Verdict.PASS)
    lacking = "the target has no amqp (it speaks STOMP alone); no core (judged on the target x)"
    skipped = JudgedFinding(WINDOW, Seen.NEVER_REACHED, lacking, verdict=Verdict.SKIP)
    details = [lacking, "the target has no amqp (it speaks STOMP alone)", "judged on the target x"]
    rows = tuple(
        CaseRow("r", "t", f"s.{number}", "SKIP", detail, (WINDOW,), 0, 0.0, "{}")
        for number, detail in enumerate([*details, "another reason"])
    )
    results = [
        Result("s.kept", "t", (WINDOW,), Verdict.PASS, "", (kept,)),
        *(Result(row.case, "t", (WINDOW,), Verdict.SKIP, "", (skipped,)) for row in rows[:2]),
    ]
    shown = screen(tmp_path, *results, cases=rows, targets=REAL)
    (line,) = shown.areas["r", "t"]
    assert (line.state, line.why) == ("kept", "1 requirement; 2 cases skipped")
    assert line.link == line.cases
    skips = shown.skips["r", "t"]
    assert skips.reasons == (("no further protocols", 2), ("judged on the target x", 1))
    assert skips.others == 1


def test_what_areas_judged_adds_up_to_the_headline(tmp_path: Path) -> None:
    def result(requirement: str, seen: Seen, verdict: Verdict) -> Result:
        finding = JudgedFinding(requirement, seen, verdict=verdict)
        return Result(f"s.{requirement}", "t", (requirement,), verdict, "", (finding,))

    shown = screen(
        tmp_path,
        result(WINDOW, Seen.HELD, Verdict.PASS),
        result("ARTEMIS-STOMP-window-2", Seen.NOT_APPLICABLE, Verdict.NOTE),
        result("STOMP12-HB-02", Seen.NEVER_REACHED, Verdict.INCONCLUSIVE),
        result("STOMP12-HB-04", Seen.NEVER_REACHED, Verdict.SKIP),
        targets=REAL,
    )
    heartbeat, window = shown.areas["r", "t"]
    assert window.why == "1 requirement, 1 did not apply"
    assert heartbeat.why == "1 requirement, 1 undecided"
    assert (shown.judged, shown.open) == (2, 1)


def test_a_history_of_releases_says_since_which_one_it_is_broken(tmp_path: Path) -> None:
    names = ("old", "new", "newest")
    runs = []
    for number, name in enumerate(names):
        (tmp_path / name).mkdir()
        append(tmp_path / name, failed("s.c"))
        target = [{"name": "t", "clock": "REAL", "version": f"2.{number}"}]
        runs.append(Run(tmp_path / name, name, {"targets": target}))
    columns = [Column(name, "t", name, latest=name == "newest") for name in names]

    def since(*verdicts: str | None) -> tuple[str, ...]:
        cells = tuple(
            None if verdict is None else Cell(verdict, 1, "s.c", None) for verdict in verdicts
        )
        group = Group("S", "", (MatrixRow(Words("R-1"), cells),))
        bar = Bar(columns[-1], (), 1.0)
        (line,) = overview(runs, [bar], [group], columns, Requirements([])).causes
        return line.since

    assert since("PASS", "FAIL", "FAIL") == ("broken since new (2.1); PASS in old (2.0)",)
    assert since(None, None, "FAIL") == ("broken since newest (2.2); not judged in new (2.1)",)
    assert since("FAIL", "FAIL", "FAIL") == ("broken since old (2.0), the first run",)


def test_releases_beside_each_other_say_since_which_one_it_is_broken(tmp_path: Path) -> None:
    releases = ("2.10.0", "2.9.0", "2.31.2", "2.4.0")
    for release in releases:
        append(tmp_path, replace(failed("s.c"), target=f"t@{release}"))
    columns = [Column("r", f"t@{release}", "t") for release in releases]
    columns.append(Column("r", "t", "another target"))

    def since(*verdicts: str) -> dict[str, tuple[str, ...]]:
        """By target, since which release it is broken."""
        cells = tuple(Cell(verdict, 1, "s.c", None) for verdict in (*verdicts, "PASS"))
        group = Group("S", "", (MatrixRow(Words("R-1"), cells),))
        bars = [Bar(column, (), 1.0) for column in columns]
        shown = overview([Run(tmp_path, "r", {})], bars, [group], columns, Requirements([]))
        assert shown.has_past
        return {line.target: line.since for line in shown.causes}

    newly = since("FAIL", "PASS", "FAIL", "PASS")
    assert newly["t@2.10.0"] == ("broken since t@2.10.0; PASS in t@2.9.0",)
    assert newly["t@2.31.2"] == ("broken since t@2.10.0; PASS in t@2.9.0",)
    steadily = since("FAIL", "FAIL", "FAIL", "FAIL")
    assert steadily["t@2.31.2"] == ("broken since t@2.4.0, the first release",)
    assert steadily["t@2.4.0"] == ()


def test_a_requirement_is_quoted_and_cut_between_words() -> None:
    line = CauseLine("r", "t", "FAIL", "a", Words("R-1", quotation="one two three"), (), (), 0, "")
    assert line.sentence(20) == "“one two three”"
    assert line.sentence(12) == "“one two…”"
    ours = CauseLine("r", "t", "FAIL", "a", Words("R-1", statement="our words"), (), (), 0, "")
    assert ours.sentence(20) == "our words"


def test_of_one_verdict_the_worst_impact_is_listed_first(tmp_path: Path) -> None:
    def failed(case: str, requirement: str) -> Result:
        finding = JudgedFinding(requirement, Seen.VIOLATED, verdict=Verdict.FAIL)
        return Result(case, "t", (requirement,), Verdict.FAIL, "", (finding,))

    append(tmp_path, failed("a.stalls", WINDOW))
    append(tmp_path, failed("b.loses", "ARTEMIS-PAGING-11"))
    run = Run(tmp_path, "r", {})
    rows = case_rows(flatten([run]).results, [run])
    assert [(row.case, row.impact) for row in rows] == [("b.loses", "loss"), ("a.stalls", "stall")]
