"""In virtual time, the recording of a property has a budget of events and contains every decisive
event."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.harness.cases import recording_budget
from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import Over
from brokerproof.harness.cases.execution import execute
from brokerproof.harness.cases.recording_budget import RecordingBudget
from brokerproof.harness.model.finding import Finding, combine
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.results.records import Result, Unrecorded
from brokerproof.harness.targets.target import Target
from brokerproof.harness.trace import read
from brokerproof.harness.trace.events import ExampleStarted, Judged
from brokerproof.suites.units.drivers.executed_case import MUST, made, run_of

PASSING = st.sampled_from([Seen.HELD, Seen.NOT_APPLICABLE, Seen.NEVER_REACHED])


@dataclass(frozen=True)
class Example:
    events: int
    findings: list[Finding]
    situations: list[str]
    nearer: bool


FINDINGS = st.lists(st.builds(Finding, st.sampled_from("abc"), PASSING, st.sampled_from("xyz")))
EXAMPLES = st.lists(
    st.builds(
        Example, st.integers(1, 50), FINDINGS, st.lists(st.sampled_from(["s", "t"])), st.booleans()
    ),
    max_size=40,
)


@given(EXAMPLES, st.integers(1, 300))
def test_what_is_left_out_changes_no_finding_and_no_situation(
    examples: list[Example], events: int
) -> None:
    budget = RecordingBudget(events)
    recorded = [
        example
        for example in examples
        if budget.records(
            example.events, example.findings, example.situations, nearer_to_bound=example.nearer
        )
    ]

    def findings(of: list[Example]) -> list[Finding]:
        return combine([finding for example in of for finding in example.findings])

    def situations(of: list[Example]) -> set[str]:
        return {situation for example in of for situation in example.situations}

    assert findings(recorded) == findings(examples)
    assert situations(recorded) == situations(examples)
    assert [example for example in recorded if example.nearer] == [
        example for example in examples if example.nearer
    ]


@given(EXAMPLES, st.integers(1, 300))
def test_what_adds_nothing_stays_within_the_budget(examples: list[Example], events: int) -> None:
    budget = RecordingBudget(events)
    spent = 0
    for example in examples:
        if budget.records(example.events, [], [], nearer_to_bound=False):
            assert spent < events
            assert example.events <= events
            spent += example.events
    fitting = [example.events for example in examples if example.events <= events]
    assert spent >= min(events, sum(fitting))


TALKATIVE = 100
"""An example of :func:`talk` has at least this many events."""


def talk(target: Bench, size: int = 0) -> None:
    for _ in range(TALKATIVE):
        target.record_note("the same again")
    target.record_finding(MUST, size < 990, "small enough" if size < 990 else "too large")


@pytest.mark.parametrize(("most", "verdict"), [(900, Verdict.PASS), (2_000, Verdict.FAIL)])
def test_a_property_records_up_to_its_budget_and_what_fails(
    reference: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, verdict: Verdict
) -> None:
    monkeypatch.setattr(recording_budget, "EVENTS", 3 * TALKATIVE)
    over = Over({"size": st.integers(0, most)}, 100, always=lambda _: [{"size": 0}] * 10)
    run = run_of(reference, tmp_path)
    result = execute(run, made(talk, MUST, over=over))
    run.recorder.flush()
    assert result.verdict is verdict
    assert result.unrecorded.examples >= 7
    assert result.unrecorded.events >= 7 * TALKATIVE
    events = read.case(tmp_path, "reference", "units.example")
    started = [event.detail for event in events if isinstance(event, ExampleStarted)]
    # The budget's examples, then the failing one, which is the last.
    assert len(started) == (3 if verdict is Verdict.PASS else 4)
    assert ("size=990" in str(started[-1])) is (verdict is Verdict.FAIL)


def test_what_was_left_out_is_read_back_from_a_result(reference: Target) -> None:
    found = execute(run_of(reference), made(talk, MUST))
    assert Result.parse(found.line()).unrecorded == Unrecorded()
    found = replace(found, unrecorded=Unrecorded(3, 400))
    assert Result.parse(found.line()) == found
    older = found.line().replace(',"unrecorded":{"examples":3,"events":400}', "")
    assert Result.parse(older).unrecorded == Unrecorded()
    with pytest.raises(TypeError):
        Result.parse(found.line().replace('"events":400', '"events":"many"'))


def test_what_holds_again_in_the_same_words_is_one_event(reference: Target, tmp_path: Path) -> None:
    def repeat(target: Bench) -> None:
        for detail in ("in order", "in order", "complete", "in order"):
            target.record_finding(MUST, True, detail)
        for _ in range(2):
            target.record_finding(MUST, False, "out of order")

    run = run_of(reference, tmp_path)
    execute(run, made(repeat, MUST))
    run.recorder.flush()
    events = read.case(tmp_path, "reference", "units.example")
    judged = [event.detail for event in events if isinstance(event, Judged)]
    assert judged == ["in order", "complete", "out of order", "out of order"]
