"""From lines of results.ndjson to rows: what a finding's own verdict is."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.verdicts import Level, Seen, Verdict
from brokerproof.harness.results.finding_verdicts import judged
from brokerproof.harness.results.records import Result, UnreadableResults, append
from brokerproof.reports.outcomes import flatten
from brokerproof.reports.runs import open_run
from brokerproof.suites.units.drivers.synthetic_run import header, write_header

LEVELS = {"MUST-1": Level.MUST, "SHOULD-1": Level.SHOULD, "MAY-1": Level.MAY, "DOC-1": Level.DOC}


def verdicts(whole: Verdict, *findings: Finding, cited: tuple[str, ...] = ()) -> dict[str, str]:
    result = Result(
        "c", "t", cited or tuple(each.requirement for each in findings), whole, "", findings
    )
    return {finding.requirement: verdict.value for finding, verdict in judged(result, LEVELS.get)}


def violated(requirement: str, uncertain: str | None = None) -> Finding:
    return Finding(requirement, Seen.VIOLATED, "seen", uncertain)


def held(requirement: str) -> Finding:
    return Finding(requirement, Seen.HELD, "seen")


def test_each_finding_is_judged_by_its_own_level() -> None:
    assert verdicts(
        Verdict.FAIL,
        violated("MUST-1"),
        violated("SHOULD-1"),
        violated("MAY-1"),
        violated("DOC-1"),
        held("MUST-2"),
    ) == {"MUST-1": "FAIL", "SHOULD-1": "WARN", "MAY-1": "NOTE", "DOC-1": "FAIL", "MUST-2": "PASS"}


def test_in_a_known_result_violations_are_known_and_the_rest_is_what_it_was() -> None:
    assert verdicts(
        Verdict.KNOWN, violated("MUST-1"), violated("SHOULD-1"), violated("MAY-1"), held("DOC-1")
    ) == {"MUST-1": "KNOWN", "SHOULD-1": "KNOWN", "MAY-1": "NOTE", "DOC-1": "PASS"}


@pytest.mark.parametrize("whole", [Verdict.SKIP, Verdict.ERROR])
def test_a_skipped_or_broken_case_says_nothing_of_the_broker(whole: Verdict) -> None:
    assert verdicts(
        whole, violated("MUST-1"), held("DOC-1"), cited=("MUST-1", "DOC-1", "SHOULD-1")
    ) == {"MUST-1": whole.value, "DOC-1": whole.value, "SHOULD-1": whole.value}


def test_what_was_cited_and_never_spoken_of_is_inconclusive() -> None:
    assert verdicts(Verdict.INCONCLUSIVE, held("MUST-1"), cited=("MUST-1", "DOC-1")) == {
        "MUST-1": "PASS",
        "DOC-1": "INCONCLUSIVE",
    }


def test_an_uncertain_violation_is_inconclusive() -> None:
    assert verdicts(Verdict.INCONCLUSIVE, violated("MUST-1", "the canary was late")) == {
        "MUST-1": "INCONCLUSIVE"
    }


def test_an_unknown_requirement_is_never_worse_than_its_case() -> None:
    assert verdicts(Verdict.WARN, violated("NOWHERE-1")) == {"NOWHERE-1": "WARN"}
    assert verdicts(Verdict.FAIL, violated("NOWHERE-1")) == {"NOWHERE-1": "FAIL"}


def test_of_a_resumed_run_the_last_line_of_a_case_counts(tmp_path: Path) -> None:
    write_header(tmp_path, header("r"))
    append(tmp_path, Result("c1", "t", ("MUST-1",), Verdict.ERROR, "first", (violated("MUST-1"),)))
    append(tmp_path, Result("c2", "t", (), Verdict.PASS, ""))
    append(tmp_path, Result("c1", "t", ("MUST-1",), Verdict.PASS, "second", (held("MUST-1"),)))
    found = flatten([open_run(tmp_path)], LEVELS.get)
    assert [(row["case"], row["detail"]) for row in found.results.to_pylist()] == [
        ("c1", "second"),
        ("c2", ""),
    ]
    assert [row["verdict"] for row in found.findings.to_pylist()] == ["PASS"]


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    write_header(tmp_path, header("r"))
    append(tmp_path, Result("c1", "t", (), Verdict.PASS, ""))
    with (tmp_path / "results.ndjson").open("a") as file:
        file.write('{"case":"c2","tar')
    run = open_run(tmp_path)
    assert run.torn
    assert flatten([run], LEVELS.get).results.num_rows == 1


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "{}",
        "[]",
        '{"case":1,"target":"t","requirements":[],"verdict":"PASS","detail":"","findings":[]}',
        '{"case":"c","target":"t","requirements":[],"verdict":"PASS","detail":"","findings":[],"duration_s":"long"}',
        '{"case":"c","target":"t","requirements":[],"verdict":"PASS","detail":"","findings":[],"measured":[]}',
        '{"case":"c","target":"t","requirements":[],"verdict":"SPLENDID","detail":"","findings":[]}',
    ],
)
def test_a_line_that_is_no_result_is_named(tmp_path: Path, line: str) -> None:
    write_header(tmp_path, header("r"))
    append(tmp_path, Result("c1", "t", (), Verdict.PASS, ""))
    with (tmp_path / "results.ndjson").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(UnreadableResults, match=r"results\.ndjson, line 2: is no result"):
        flatten([open_run(tmp_path)], LEVELS.get)


def test_a_lone_surrogate_does_not_stop_the_report(tmp_path: Path) -> None:
    write_header(tmp_path, header("r"))
    line = '{"case":"c","target":"t","requirements":[],"verdict":"PASS","detail":"\\ud800","findings":[]}\n'  # noqa: E501
    (tmp_path / "results.ndjson").write_text(line)
    assert flatten([open_run(tmp_path)], LEVELS.get).results.to_pylist()[0]["detail"] == "?"
