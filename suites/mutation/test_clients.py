"""The cases that put clients on trial, judged by what they detect: no honest client is reported,
and every fault of the small client is found by a requirement that the fault violates."""

from functools import cache
from pathlib import Path

import pytest

from brokerproof.harness.cases.calls import all_calls
from brokerproof.harness.cases.client_trials import TRIALS
from brokerproof.harness.cases.execution import Call, Run, execute
from brokerproof.harness.catalogue import requirements
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results.records import Result
from brokerproof.harness.trace.recorder import Recorder
from brokerproof.suites.mutation.clients.faults import FAULTS
from brokerproof.suites.mutation.clients.target import STYLES, load
from brokerproof.suites.mutation.judging import violated

CATALOGUE = requirements.load()


@cache
def trials() -> tuple[Call, ...]:
    return tuple(call for call in all_calls() if call.is_trial)


def trials_of(name: str) -> tuple[Call, ...]:
    capabilities = load(name).identity.capabilities
    return tuple(call for call in trials() if call.case.needs & TRIALS <= capabilities)


def judged(name: str, calls: tuple[Call, ...]) -> list[Result]:
    target = load(name)
    recorder = Recorder(None, run="", target=name, clock=target.clock)
    facts = target.start(Path())
    run = Run(target, facts, CATALOGUE, (), recorder, "smoke", 1, shrink=False)
    return [execute(run, call) for call in calls]


@pytest.mark.parametrize("style", list(STYLES))
def test_an_honest_client_is_not_accused(style: str) -> None:
    results = judged(style, trials_of(style))
    assert len(results) > 30
    accused = [
        f"{result.case}: {result.verdict} {result.detail}"
        for result in results
        if result.verdict not in (Verdict.PASS, Verdict.NOTE)
    ]
    assert not accused, "\n".join(accused)


@pytest.mark.parametrize("name", list(FAULTS))
def test_a_fault_is_found_by_a_requirement_that_it_breaks(name: str) -> None:
    breaks = set(FAULTS[name].breaks)
    calls = tuple(call for call in trials_of(name) if breaks & set(call.cited))
    found = {finding.requirement for result in judged(name, calls) for finding in violated(result)}
    assert found & breaks, f"{FAULTS[name].sentence} Cases that should find it: {len(calls)}"


def test_every_fault_has_a_sentence_and_known_requirements() -> None:
    for fault in FAULTS.values():
        assert fault.sentence.endswith("."), fault.name
        assert all(CATALOGUE[requirement].subject != "server" for requirement in fault.breaks)
