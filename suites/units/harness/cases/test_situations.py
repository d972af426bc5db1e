"""Situations that a property declares: reached by examples, sought by more draws, or missed."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import strategies as st

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import Over, Situations
from brokerproof.harness.cases.execution import Call, execute
from brokerproof.harness.commands.requirements import requirements_
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import records
from brokerproof.harness.results.records import Result
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.target import Target
from brokerproof.suites.units.drivers.executed_case import MUST, OTHER_MUST, SHOULD, made, run_of


def property_of(most: int, situations: Situations = ("even", "odd")) -> Call:
    """Return a property whose examples draw a number up to ``most`` and record the situation that
    it is even."""

    def function(target: Bench, number: int) -> None:
        target.reached("odd" if number % 2 else "even")
        target.record_finding(MUST, True, f"{number}")

    over = Over({"number": st.integers(0, most)}, 20, situations=situations)
    return made(function, MUST, over=over)


def test_the_examples_that_reached_a_situation_are_counted(reference: Target) -> None:
    result = execute(run_of(reference), property_of(100))
    assert result.verdict is Verdict.PASS
    assert list(result.situations) == ["even", "odd"]
    assert all(examples > 0 for examples in result.situations.values())


def test_a_situation_that_no_example_reaches_leaves_the_case_inconclusive(
    reference: Target,
) -> None:
    result = execute(run_of(reference), property_of(0))
    assert (result.verdict, result.situations["odd"]) == (Verdict.INCONCLUSIVE, 0)
    assert [finding.uncertain for finding in result.findings] == ["no example reached: odd"]
    assert "no example reached: odd" in result.detail


def test_more_examples_are_drawn_for_a_situation_that_is_rare(reference: Target) -> None:
    numbers: list[int] = []

    def function(target: Bench, number: int) -> None:
        numbers.append(number)
        if len(numbers) > 12:
            target.reached("late")
        target.record_finding(MUST, True, f"{number}")

    over = Over({"number": st.integers(0, 10**9)}, 20, situations=("late",))
    result = execute(run_of(reference), made(function, MUST, over=over))
    assert result.verdict is Verdict.PASS
    assert len(numbers) > 12, "6 examples are drawn at normal effort"


@pytest.mark.parametrize("name", ["reference", "reference-real"])
def test_more_examples_are_drawn_for_a_requirement_that_none_judged(name: str) -> None:
    target = target_file.load(name)
    run = replace(run_of(target), attempts=1)
    numbers: list[int] = []

    def function(target: Bench, number: int) -> None:
        numbers.append(number)
        target.record_finding(MUST, True, f"{number}")
        if len(numbers) > 12:
            target.record_finding(OTHER_MUST, True, f"{number}")

    over = Over({"number": st.integers(0, 10**9)}, 20)
    result = execute(run, made(function, MUST, OTHER_MUST, over=over))
    target.stop()
    assert result.verdict is Verdict.PASS
    assert 12 < len(numbers) < 30, "no more than it took"


@pytest.mark.parametrize(("cited", "verdict"), [(OTHER_MUST, Verdict.FAIL), (SHOULD, Verdict.WARN)])
def test_a_violation_ends_the_drawing_and_leaves_no_doubt(
    reference: Target, cited: str, verdict: Verdict
) -> None:
    def function(target: Bench, number: int) -> None:
        target.record_finding(MUST, True, f"{number}")
        target.record_finding(cited, False, f"{number}")

    over = Over({"number": st.integers(0, 9)}, 20, situations=("never",))
    result = execute(run_of(reference), made(function, MUST, cited, over=over))
    assert result.verdict is verdict
    assert [finding.uncertain for finding in result.findings] == [None, None]


def test_situations_may_depend_on_the_target(reference: Target) -> None:
    names = {"reference": ("even",)}
    call = property_of(0, lambda target: names[target.identity.name])
    assert list(execute(run_of(reference), call).situations) == ["even"]


def test_an_undeclared_situation_is_our_error(reference: Target) -> None:
    result = execute(run_of(reference), property_of(100, ("even",)))
    assert result.verdict is Verdict.ERROR
    assert "does not declare the situation 'odd'" in result.detail


def test_in_real_time_a_missed_situation_is_counted_and_nothing_else(
    reference: Target, tmp_path: Path
) -> None:
    """In real time there may be only three examples."""
    target = target_file.load("reference-real")
    facts = target.start(tmp_path)
    try:
        result = execute(replace(run_of(reference), target=target, facts=facts), property_of(0))
    finally:
        target.stop()
    assert (result.verdict, result.situations["odd"]) == (Verdict.PASS, 0)


RESULT = Result("c", "t", (MUST,), Verdict.PASS, "", situations={"even": 3, "odd": 0})


def test_the_command_lists_the_situations_of_a_run(tmp_path: Path) -> None:
    records.append(tmp_path, RESULT)
    records.append(tmp_path, replace(RESULT, case="d", situations={}))
    shown = CliRunner().invoke(requirements_, ["--reached", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert shown.output.splitlines() == [
        f"c on t ({MUST})",
        "       3  even",
        "       0  odd",
        "2 situations of 1 cases, 1 never reached",
    ]
    other = CliRunner().invoke(requirements_, ["STOMP12-HB-02", "--reached", str(tmp_path)])
    assert other.output.splitlines() == ["0 situations of 0 cases, 0 never reached"]
    shown = CliRunner().invoke(requirements_, ["--reached", str(tmp_path), "--json"])
    assert [fields["situations"] for fields in json.loads(shown.output)] == [{"even": 3, "odd": 0}]


@pytest.mark.parametrize("situations", ['{"even": "3"}', "[]", '{"even": 1.5}'])
def test_situations_of_another_type_are_no_result(tmp_path: Path, situations: str) -> None:
    line = RESULT.line().replace('{"even":3,"odd":0}', situations)
    (tmp_path / records.NAME).write_text(line + "\n")
    with pytest.raises(records.UnreadableResults, match="line 1: is not a result"):
        list(records.read(tmp_path))
