"""From lines of results.ndjson to rows."""

from pathlib import Path

import pytest

from brokerproof.harness.model.finding import JudgedFinding, ListedDeviation
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.results.records import Result, UnreadableResults, append
from brokerproof.reports.sources.result_rows import flatten
from brokerproof.reports.sources.runs import open_run
from brokerproof.suites.units.drivers.synthetic_run import header, write_header


def violated(requirement: str, verdict: Verdict) -> JudgedFinding:
    return JudgedFinding(requirement, Seen.VIOLATED, "seen", verdict=verdict)


def held(requirement: str) -> JudgedFinding:
    return JudgedFinding(requirement, Seen.HELD, "seen", verdict=Verdict.PASS)


def test_each_finding_keeps_the_verdict_and_the_deviation_it_was_given(tmp_path: Path) -> None:
    deviation = ListedDeviation("c*", "MUST-1", "It does.", "https://example.org/1")
    known = JudgedFinding(
        "MUST-1", Seen.VIOLATED, "seen", verdict=Verdict.KNOWN, deviation=deviation
    )
    new = violated("MUST-2", Verdict.FAIL)
    write_header(tmp_path, header("r"))
    append(tmp_path, Result("c", "t", ("MUST-1", "MUST-2"), Verdict.FAIL, "", (known, new)))
    rows = flatten([open_run(tmp_path)]).findings.to_pylist()
    expected = [("MUST-1", "KNOWN"), ("MUST-2", "FAIL")]
    assert [(row["requirement"], row["verdict"]) for row in rows] == expected
    assert [(row["deviation_reason"], row["deviation_link"]) for row in rows] == [
        ("It does.", "https://example.org/1"),
        (None, None),
    ]


def test_of_a_resumed_run_the_last_line_of_a_case_counts(tmp_path: Path) -> None:
    write_header(tmp_path, header("r"))
    append(
        tmp_path,
        Result(
            "c1", "t", ("MUST-1",), Verdict.ERROR, "first", (violated("MUST-1", Verdict.ERROR),)
        ),
    )
    append(tmp_path, Result("c2", "t", (), Verdict.PASS, ""))
    append(tmp_path, Result("c1", "t", ("MUST-1",), Verdict.PASS, "second", (held("MUST-1"),)))
    found = flatten([open_run(tmp_path)])
    expected = [("c1", "second"), ("c2", "")]
    assert [(row["case"], row["detail"]) for row in found.results.to_pylist()] == expected
    assert [row["verdict"] for row in found.findings.to_pylist()] == ["PASS"]


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    write_header(tmp_path, header("r"))
    append(tmp_path, Result("c1", "t", (), Verdict.PASS, ""))
    with (tmp_path / "results.ndjson").open("a") as file:
        file.write('{"case":"c2","tar')
    run = open_run(tmp_path)
    assert run.torn
    assert flatten([run]).results.num_rows == 1


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "{}",
        "[]",
        '{"case":1,"target":"t","requirements":[],"verdict":"PASS","detail":"","findings":[]}',
        '{"case":"c","target":"t","requirements":[],"verdict":"PASS","detail":"","findings":[],"duration_s":"long"}',
        '{"case":"c","target":"t","requirements":[],"verdict":"PASS","detail":"","findings":[],"measurements":[]}',
        '{"case":"c","target":"t","requirements":[],"verdict":"SPLENDID","detail":"","findings":[]}',
    ],
)
def test_a_line_that_is_no_result_is_named(tmp_path: Path, line: str) -> None:
    write_header(tmp_path, header("r"))
    append(tmp_path, Result("c1", "t", (), Verdict.PASS, ""))
    with (tmp_path / "results.ndjson").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(UnreadableResults, match=r"results\.ndjson, line 2: is not a result"):
        flatten([open_run(tmp_path)])


def test_a_lone_surrogate_does_not_stop_the_report(tmp_path: Path) -> None:
    write_header(tmp_path, header("r"))
    line = '{"case":"c","target":"t","requirements":[],"verdict":"PASS","detail":"\\ud800","findings":[]}\n'  # noqa: E501
    (tmp_path / "results.ndjson").write_text(line)
    assert flatten([open_run(tmp_path)]).results.to_pylist()[0]["detail"] == "?"
