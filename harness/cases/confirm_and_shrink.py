"""Repeats a real-time failure. If the reference fails too, searches for a smaller example."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from brokerproof.harness.cases.case import Where
from brokerproof.harness.cases.example_record import ExampleRecord
from brokerproof.harness.cases.example_runs import (
    Call,
    Run,
    ViolationFound,
    draw,
    explain,
    one_example,
)
from brokerproof.harness.catalogue.deviations import match
from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.target import Target, TargetFacts

IRREPRODUCIBLE = "irreproducible: the violation did not recur when the case was run again"
REFERENCE = "reference"
"""The shipped target on which examples are shrunk."""


def violations(outcome: ExampleRecord) -> Iterator[Finding]:
    """Return all certain violations in the examples of a property."""
    for example in outcome.failing or [outcome]:
        for finding in example.findings:
            if finding.seen is Seen.VIOLATED and finding.uncertain is None:
                yield finding


def violates(run: Run, call: Call, outcome: ExampleRecord, requirements: frozenset[str]) -> bool:
    """True if one of ``requirements`` was certainly violated, other than by a listed deviation."""
    return any(
        finding.requirement in requirements and not is_listed(run, call, finding)
        for finding in violations(outcome)
    )


def is_listed(run: Run, call: Call, finding: Finding) -> bool:
    """True if a known deviation expects the finding."""
    requirement, detail = finding.requirement, finding.detail
    return match(run.deviations, call.id, requirement, detail, run.facts.version) is not None


def example_of(
    run: Run, call: Call, outcome: ExampleRecord, failing: frozenset[str]
) -> ExampleRecord | None:
    """Return the example that violated one of ``failing``: the first one of a property, otherwise
    the case itself."""
    for example in outcome.failing or [outcome]:
        if violates(run, call, example, failing):
            return example
    return None


def run_again(
    run: Run, call: Call, plan: Mapping[str, Any], seed: int
) -> tuple[ExampleRecord, str | None]:
    """Run the case once with these drawn arguments. Return the run, and the reason if an error of
    ours ended it (else None)."""
    outcome = ExampleRecord()
    try:
        one_example(run, call, outcome, plan, seed, None if call.case.over is None else 0)
    except Exception as problem:
        return outcome, explain(problem)
    return outcome, None


def confirmed(
    run: Run, call: Call, example: ExampleRecord, failing: frozenset[str], seed: int
) -> tuple[ExampleRecord | None, str]:
    """Repeat the failure on the same target, with a smaller example if possible. Repeat it again if
    a delay of the host leaves the outcome uncertain. Return the failure, or None and the reason why
    nothing is confirmed."""
    plans = [example.plan]
    if call.case.over is not None:
        small = _smaller(run, call, example.plan, failing, seed)
        plans = [*([small] if small is not None else []), example.plan]
    reason = IRREPRODUCIBLE
    for number in range(max(run.attempts, len(plans))):
        plan = plans[min(number, len(plans) - 1)]
        outcome, error = run_again(run, call, plan, seed + number)
        if error is None and violates(run, call, outcome, failing):
            return outcome, ""
        findings = (found for record in outcome.failing or [outcome] for found in record.findings)
        doubts = (found.uncertain for found in findings if found.requirement in failing)
        doubt = error or next(filter(None, doubts), None)
        if doubt is not None:
            reason = f"uncertain: when the case was run again, {doubt}"
        elif number + 1 >= len(plans):
            break
    return None, reason


def without(findings: list[Finding], failing: frozenset[str], why: str) -> list[Finding]:
    """Return ``findings`` with violations of ``failing`` marked as uncertain because of ``why``."""
    return [
        replace(finding, uncertain=why) if finding.requirement in failing else finding
        for finding in findings
    ]


def _smaller(
    run: Run, call: Call, plan: Mapping[str, Any], failing: frozenset[str], seed: int
) -> Mapping[str, Any] | None:
    """Return the smallest example that fails on the reference in virtual time; None if the given
    example passes there."""
    smaller = _reference(run.target, plan)
    if smaller is None or not call.needs <= smaller[0].identity.capabilities:
        return None
    there = replace(run, target=smaller[0], facts=smaller[1])
    try:
        smallest: list[Mapping[str, Any]] = []

        def example(**drawn: Any) -> None:
            outcome, error = run_again(there, call, drawn, seed)
            if error is None and violates(run, call, outcome, failing):
                smallest[:] = [drawn]
                raise ViolationFound

        try:
            example(**plan)
        except ViolationFound:
            # Draw the arguments as for the target under test, so that the smaller example can run
            # there too.
            draw(run, call, example, seed, None, shrink=True)
        return smallest[0] if smallest else None
    finally:
        smaller[0].stop()


def _reference(target: Target, plan: Mapping[str, Any]) -> tuple[Target, TargetFacts] | None:
    """Start the reference if it has the same profile, and the acceptors that ``plan`` uses."""
    try:
        reference = target_file.load(REFERENCE)
        if (
            reference.identity.profile.name != target.identity.profile.name
            or reference.clock is not Clock.VIRTUAL
        ):
            return None
        places = [
            place for value in plan.values() for place in (value, getattr(value, "where", None))
        ]
        known = reference.acceptors()
        if any(isinstance(place, Where) and place.acceptor not in known for place in places):
            return None
        return reference, reference.start(Path())
    except (target_file.BadTarget, SetUpFailed):
        return None
