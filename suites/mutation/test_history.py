"""Pairs of releases: the shipped lists, and when the results distinguish a pair."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from brokerproof.harness.cases.calls import all_calls
from brokerproof.harness.catalogue.tables import BadData
from brokerproof.harness.model.finding import JudgedFinding
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.results.records import Result
from brokerproof.suites.mutation.history import command, pairs
from brokerproof.suites.mutation.history.pairs import Pair

PAIR = Pair("BUG-1", "flow.x", "STOMP12-ACK-01", "two of them", "artemis@1.0.0", "artemis@1.1.0")
BAD = JudgedFinding("STOMP12-ACK-01", Seen.VIOLATED, "there were two of them", verdict=Verdict.FAIL)
GOOD = JudgedFinding("STOMP12-ACK-01", Seen.HELD, "there was one", verdict=Verdict.PASS)


def result(verdict: Verdict, *findings: JudgedFinding) -> Result:
    return Result("flow.x", "artemis@1.0.0", ("STOMP12-ACK-01",), verdict, "as found", findings)


def complaints(before: Result, after: Result) -> list[str]:
    results = {"artemis@1.0.0": {"flow.x": before}, "artemis@1.1.0": {"flow.x": after}}
    return command.told_apart(PAIR, results)


def test_a_bug_that_shows_on_one_release_only_tells_them_apart() -> None:
    assert complaints(result(Verdict.FAIL, BAD), result(Verdict.PASS, GOOD)) == []


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (
            result(Verdict.PASS, GOOD),
            result(Verdict.PASS, GOOD),
            "artemis@1.0.0: PASS instead of FAIL",
        ),
        (
            result(Verdict.FAIL, BAD),
            result(Verdict.FAIL, BAD),
            "artemis@1.1.0: FAIL instead of PASS",
        ),
        (result(Verdict.FAIL, BAD), result(Verdict.ERROR), "artemis@1.1.0: ERROR instead of PASS"),
        (
            result(Verdict.FAIL, BAD),
            result(Verdict.PASS),
            "artemis@1.1.0: it passed without a look at STOMP12-ACK-01",
        ),
    ],
)
def test_anything_else_is_told(before: Result, after: Result, sentence: str) -> None:
    (complaint,) = complaints(before, after)
    assert complaint.startswith(f"BUG-1, {sentence}")


@pytest.mark.parametrize(
    "other",
    [
        replace(BAD, requirement="STOMP12-ACK-02"),
        replace(BAD, detail="none arrived"),
        replace(BAD, uncertain="late", verdict=Verdict.INCONCLUSIVE),
    ],
)
def test_a_failure_for_another_reason_is_not_the_bug(other: JudgedFinding) -> None:
    (complaint,) = complaints(result(Verdict.FAIL, other), result(Verdict.PASS, GOOD))
    assert "it failed, but not through STOMP12-ACK-01 with 'two of them'" in complaint


def test_the_shipped_lists_name_cases_that_judge_what_they_say() -> None:
    cited = {call.id: call.cited for call in all_calls()}
    listed = [pair for path in pairs.shipped() for pair in pairs.load(path)]
    assert len({pair.bug for pair in listed}) >= 6
    assert not [pair.bug for pair in listed if pair.requirement not in cited[pair.case]]


def test_the_page_has_a_row_for_each_pair() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "reference" / "historical_bugs.md"
    if not page.is_file():
        pytest.skip("no checkout: the wheel has no docs")
    tried = (
        page.read_text("utf-8")
        .partition("\n## Tested on releases")[2]
        .partition("\nTested, but not distinguished")[0]
    )
    rows = re.findall(r"^\| (\S+ ?[^|]*?) \| ([\d.]+) \| ([\d.]+) \| (\S+) \|", tried, re.MULTILINE)
    listed = [pair for path in pairs.shipped() for pair in pairs.load(path)]
    versions = [
        tuple(release.rpartition("@")[2] for release in (pair.before, pair.after))
        for pair in listed
    ]
    expected = [
        (pair.bug, *between, pair.case) for pair, between in zip(listed, versions, strict=True)
    ]
    assert sorted(rows) == sorted(expected)


def test_a_release_is_asked_each_case_once() -> None:
    other = replace(PAIR, bug="BUG-2", before="artemis@1.1.0", after="artemis@1.2.0")
    assert pairs.wanted([PAIR, PAIR, other]) == {f"artemis@1.{n}.0": ["flow.x"] for n in (0, 1, 2)}


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            'before = "artemis@1.0.0"',
            'before = "elsewhere@1.0.0"',
            "before is 'elsewhere@1.0.0'; it should be a shipped",
        ),
        (
            'after = "artemis@1.1.0"',
            'after = "artemis"',
            "after is 'artemis'; it should be a shipped target with a release",
        ),
        ('said = "two"', 'said = "two|"', r"said is 'two\|', which matches anything"),
        ('said = "two"', 'said = "("', "said is not a regular expression"),
    ],
)
def test_a_bad_entry_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, sentence: str
) -> None:
    text = (
        '[[pair]]\nbug = "BUG-1"\ncase = "flow.x"\nrequirement = "STOMP12-ACK-01"\nsaid = "two"\n'
        'before = "artemis@1.0.0"\nafter = "artemis@1.1.0"\n'
    )
    path = tmp_path / "history.toml"
    path.write_text(text)
    assert pairs.load(path)[0].bug == "BUG-1"
    path.write_text(text.replace(old, new))
    with pytest.raises(BadData, match=rf"history\.toml, line 1.*{sentence}"):
        pairs.load(path)
