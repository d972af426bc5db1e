"""From findings to verdicts, results and exit codes."""

from pathlib import Path

import pytest

from brokerproof.harness.model.finding import Finding, ListedDeviation, Measurement, combine
from brokerproof.harness.model.verdicts import Level, Seen, Verdict
from brokerproof.harness.results import records
from brokerproof.harness.results.records import Result, UnreadableResults
from brokerproof.harness.results.verdict import (
    NEVER_JUDGED,
    behind_violation,
    exit_code,
    merge,
    verdict_for,
    with_verdict,
)

HELD = Finding("R-1", Seen.HELD, "yes")
VIOLATED = Finding("R-1", Seen.VIOLATED, "no")
LATE = Finding("R-1", Seen.VIOLATED, "no", uncertain="the host was late")
NEVER = Finding("R-1", Seen.NEVER_REACHED)
ABSENT = Finding("R-1", Seen.NOT_APPLICABLE, "no premise")


@pytest.mark.parametrize(
    ("level", "verdict"),
    [
        (Level.MUST, "FAIL"),
        (Level.DOC, "FAIL"),
        (Level.SHOULD, "WARN"),
        (Level.MAY, "NOTE"),
        (Level.READING, "NOTE"),
    ],
)
def test_a_violation_weighs_what_its_level_says(level: Level, verdict: str) -> None:
    assert verdict_for(level, VIOLATED) is Verdict(verdict)
    assert verdict_for(level, HELD) is Verdict.PASS


@pytest.mark.parametrize("level", list(Level))
def test_what_was_not_reached_or_not_certain_is_inconclusive(level: Level) -> None:
    assert verdict_for(level, NEVER) is Verdict.INCONCLUSIVE
    accuses = level not in {Level.MAY, Level.READING}
    assert verdict_for(level, LATE) is (Verdict.INCONCLUSIVE if accuses else Verdict.NOTE)


@pytest.mark.parametrize("level", list(Level))
def test_a_requirement_that_asks_nothing_is_a_note(level: Level) -> None:
    assert verdict_for(level, ABSENT) is Verdict.NOTE


def test_what_an_accepted_violation_left_unreached_is_skipped() -> None:
    unreached = with_verdict(Finding("R-2", Seen.NEVER_REACHED, NEVER_JUDGED), Verdict.INCONCLUSIVE)
    for ends, rest in (("KNOWN", "SKIP"), ("WARN", "SKIP"), ("FAIL", "INCONCLUSIVE")):
        judged = behind_violation([with_verdict(VIOLATED, Verdict(ends)), unreached])
        assert [finding.verdict.value for finding in judged] == [ends, rest]


def test_merging_takes_the_worst_and_nothing_is_inconclusive() -> None:
    order = ["ERROR", "FAIL", "INCONCLUSIVE", "KNOWN", "WARN", "SKIP", "NOTE", "PASS"]
    assert [verdict.value for verdict in Verdict] == order
    for position, worst in enumerate(order):
        assert merge(Verdict(verdict) for verdict in reversed(order[position:])) is Verdict(worst)
    assert merge([]) is Verdict.INCONCLUSIVE


def test_one_finding_per_requirement_the_most_telling_one() -> None:
    assert combine([NEVER, HELD, LATE, VIOLATED, HELD]) == [VIOLATED]
    assert combine([HELD, LATE]) == [LATE]
    assert combine([NEVER, HELD]) == [HELD]
    assert combine([ABSENT, HELD]) == [HELD]
    assert combine([NEVER, ABSENT]) == [ABSENT]
    assert combine([ABSENT, LATE]) == [LATE]
    assert [
        finding.requirement
        for finding in combine([Finding("B", Seen.HELD), Finding("A", Seen.HELD)])
    ] == ["B", "A"]


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (["PASS", "WARN", "NOTE", "KNOWN", "SKIP"], 0),
        (["PASS", "INCONCLUSIVE"], 2),
        (["FAIL", "INCONCLUSIVE"], 1),
        (["ERROR", "FAIL"], 1),
        (["ERROR", "KNOWN"], 5),
        ([], 2),
    ],
)
def test_exit_codes(verdicts: list[str], code: int) -> None:
    assert exit_code(Verdict(verdict) for verdict in verdicts) == code


def test_a_known_deviation_that_passes_fails_the_run() -> None:
    assert exit_code([Verdict.PASS], known_that_passed=True) == 1


RESULT = Result(
    "c[1.2]",
    "t",
    ("R-1",),
    Verdict.FAIL,
    "no: ünïcode",
    (
        with_verdict(VIOLATED, Verdict.FAIL),
        with_verdict(
            VIOLATED, Verdict.KNOWN, ListedDeviation("c*", "", "It does.", "https://example.org")
        ),
    ),
    {"x": Measurement(1, "ns", low=0, high=5, margin=2), "y": Measurement(7, "messages")},
)


def test_results_come_back_as_written(tmp_path: Path) -> None:
    records.append(tmp_path, RESULT)
    records.append(tmp_path, RESULT)
    assert list(records.read(tmp_path)) == [RESULT, RESULT]
    assert list(records.read(tmp_path / "nowhere")) == []


def test_results_are_followed_while_they_are_written(tmp_path: Path) -> None:
    tail = records.Tail(tmp_path)
    assert tail.new() == []
    records.append(tmp_path, RESULT)
    with (tmp_path / records.NAME).open("a") as file:
        file.write(RESULT.line()[:40])
    assert tail.new() == [RESULT]
    assert tail.new() == []
    with (tmp_path / records.NAME).open("a") as file:
        file.write(RESULT.line()[40:] + "\nno result\n")
    with pytest.raises(UnreadableResults, match=r"line 3: is not a result"):
        tail.new()


def test_a_torn_tail_is_forgiven_or_named(tmp_path: Path) -> None:
    records.append(tmp_path, RESULT)
    with (tmp_path / records.NAME).open("a") as file:
        file.write(RESULT.line()[:40])
    assert list(records.read(tmp_path)) == [RESULT]
    with pytest.raises(UnreadableResults, match="line 2: is cut off"):
        list(records.read(tmp_path, forgive_torn_tail=False))


def test_a_line_that_is_no_result_is_named(tmp_path: Path) -> None:
    (tmp_path / records.NAME).write_text('{"case": 1}\n')
    with pytest.raises(UnreadableResults, match=r"results.ndjson, line 1: is not a result"):
        list(records.read(tmp_path))


@pytest.mark.parametrize(
    "change",
    [
        ('"verdict":"FAIL","deviation":null', '"deviation":null'),
        ('"verdict":"KNOWN"', '"verdict":"SPLENDID"'),
        ('"reason":"It does."', '"reason":5'),
        ('"margin":2', '"margin":"2"'),
        ('"value":7', '"value":true'),
        ('"measurements":{', '"measured":{'),
    ],
)
def test_a_line_with_a_wrong_field_is_named(tmp_path: Path, change: tuple[str, str]) -> None:
    line = RESULT.line()
    assert change[0] in line
    (tmp_path / records.NAME).write_text(line.replace(*change) + "\n")
    with pytest.raises(UnreadableResults, match=r"results.ndjson, line 1: is not a result"):
        list(records.read(tmp_path))


@pytest.mark.parametrize(
    ("measurement", "distance"),
    [
        (Measurement(12, "ns", 10, 20), 2),
        (Measurement(19, "ns", 10, 20), 1),
        (Measurement(20, "ns", 10, 20), 0),
        (Measurement(25, "ns", 10, 20), -5),
        (Measurement(7, "ns", 10), -3),
        (Measurement(7, "ns", high=9), 2),
        (Measurement(7, "ns"), None),
    ],
)
def test_the_distance_is_that_to_the_nearest_bound(
    measurement: Measurement, distance: int | None
) -> None:
    assert measurement.distance_to_bound == distance
