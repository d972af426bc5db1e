"""Runs one case on one target: examples, attempts, and from its findings to a result.

A property draws its examples with Hypothesis. In virtual time each is run as it is drawn and a
failure is shrunk. In real time the examples are drawn first and then run side by side, each on
connections of its own: there the wall time is near the longest example, and shrinking against a
clock would prove little.
"""

from __future__ import annotations

import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from brokerproof.harness.cases import reproduction
from brokerproof.harness.cases.example_record import ExampleRecord
from brokerproof.harness.cases.examples import (
    EFFORTS,
    Call,
    Run,
    ViolationFound,
    draw,
    explain,
    one_example,
)
from brokerproof.harness.catalogue.deviations import Deviation, match, match_control
from brokerproof.harness.counterexamples import writer
from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.finding import Finding, combine
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.protocols.conversation import ControlFailed
from brokerproof.harness.results.records import Result
from brokerproof.harness.results.verdict import merge, verdict_for
from brokerproof.harness.trace.events import CaseEnded

__all__ = ["ATTEMPTS", "EFFORTS", "Call", "Run", "execute"]

ATTEMPTS = 3
"""How often a case in real time is run while the host leaves its findings uncertain, or a control
fails.

A failed control says nothing about the broker but that the case could not be put to it. In real
time that may be a race of a moment; what it was stays in the result's detail.
"""
SIDE_BY_SIDE_EXAMPLES = 16


def execute(run: Run, call: Call) -> Result:
    """Runs ``call`` and returns its result; the trace goes to the recorder. Never raises for what a
    broker did."""
    began = time.perf_counter()
    missing = call.case.needs - run.target.identity.capabilities
    if missing:
        return _result(
            run,
            call,
            Verdict.SKIP,
            f"the target has no {', '.join(sorted(missing))}",
            ExampleRecord(),
            0,
            began,
        )
    most = ATTEMPTS if run.target.clock is Clock.REAL else 1
    before = ""
    for attempt in range(1, most + 1):
        outcome = ExampleRecord()
        problem = _attempt(run, call, outcome, attempt)
        findings = _complete(call, outcome.findings)
        if (excuse := _excuse(run, call, problem)) is not None:
            break
        if isinstance(problem, ControlFailed):
            before += f" (attempt {attempt}: {explain(problem)})" if attempt < most else ""
        elif problem is not None or not any(each.uncertain for each in findings):
            break
    outcome.findings = findings
    if problem is not None:
        verdict, detail = Verdict.ERROR, explain(problem)
        if excuse is not None:
            # What held before is not the case's answer: it was never put whole, so the deviation
            # shows.
            outcome.findings = [_unanswered(each, detail) for each in findings]
            verdict, detail = Verdict.KNOWN, f"{detail} (known: {excuse.reason})"
            failed = [each for each in _judged(run, call, findings) if each[1] is Verdict.FAIL]
            verdict, detail = (
                _verdict(failed) if failed else (verdict, detail)
            )  # what was judged before counts
    else:
        judged = _judged(run, call, findings)
        failing = frozenset(
            each.requirement for each, verdict, _ in judged if verdict is Verdict.FAIL
        )
        example = reproduction.example_of(outcome, failing)
        if example is not None and run.target.clock is Clock.REAL:
            example = reproduction.confirmed(
                run, call, example, failing, _seed(run, call, most + 1)
            )
            doubt = ""
            if example is None:
                doubt = reproduction.IRREPRODUCIBLE
            elif run.plain is not None:
                doubt = run.plain.lost()
            if doubt:
                example = None
                outcome.findings = reproduction.without(findings, failing, doubt)
                judged = _judged(run, call, outcome.findings)
        verdict, detail = _verdict(judged)
        if example is not None and run.counterexamples is not None:
            writer.keep(run, call, example, failing, run.counterexamples)
    outcome.events.append(
        CaseEnded(at_ns=outcome.events[-1].at_ns if outcome.events else 0, detail=verdict.value)
    )
    run.recorder.write(call.id, outcome.events)
    return _result(run, call, verdict, detail + before, outcome, attempt, began)


def _excuse(run: Run, call: Call, problem: Exception | None) -> Deviation | None:
    """The known deviation by which this control fails on this broker, if there is one."""
    if not isinstance(problem, ControlFailed):
        return None
    return match_control(run.deviations, call.id, explain(problem), run.facts.version)


def _unanswered(finding: Finding, why: str) -> Finding:
    return (
        finding
        if finding.seen is Seen.VIOLATED
        else Finding(finding.requirement, Seen.NEVER_REACHED, why)
    )


def _attempt(run: Run, call: Call, outcome: ExampleRecord, attempt: int) -> Exception | None:
    """One attempt; returns what makes it an error of ours, or None."""
    seed = _seed(run, call, attempt)
    try:
        if call.case.over is None:
            one_example(run, call, outcome, {}, seed, None)
        elif run.target.clock is Clock.VIRTUAL:
            _property(run, call, outcome, seed)
        else:
            _side_by_side(run, call, outcome, seed)
    except Exception as problem:
        return problem
    return None


def _seed(run: Run, call: Call, attempt: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{run.seed} {call.id} {attempt}".encode()).digest()[:5])


def _property(run: Run, call: Call, total: ExampleRecord, seed: int) -> None:
    """In virtual time: draw and run, shrink what fails; the smallest failing example is the last in
    the trace."""
    numbers = iter(range(10**9))
    failed: list[ExampleRecord] = []

    def example(**plan: Any) -> None:
        outcome = ExampleRecord()
        one_example(run, call, outcome, plan, seed, next(numbers))
        if any(each.seen is Seen.VIOLATED for each in outcome.findings):
            failed[:] = [outcome]
            raise ViolationFound
        if not failed:  # while shrinking, what passes is of no interest
            _add(total, outcome)

    draw(run, call, example, seed, run.database, shrink=run.shrink)
    if failed:
        _add(total, failed[0])


def _side_by_side(run: Run, call: Call, total: ExampleRecord, seed: int) -> None:
    """In real time: draw every plan, then run them at the same time, each with a world of its
    own."""
    plans: list[dict[str, Any]] = []

    def collect(**plan: Any) -> None:
        plans.append(plan)

    draw(run, call, collect, seed, None, shrink=False)
    outcomes = [ExampleRecord() for _ in plans]
    with ThreadPoolExecutor(SIDE_BY_SIDE_EXAMPLES, thread_name_prefix="example") as pool:
        jobs = [
            pool.submit(one_example, run, call, outcome, plan, seed + number, number)
            for number, (plan, outcome) in enumerate(zip(plans, outcomes, strict=True))
        ]
        problems = [job.exception() for job in jobs]
    for outcome in outcomes:
        _add(total, outcome)
    for problem in problems:
        if problem is not None:
            raise problem


def _add(total: ExampleRecord, outcome: ExampleRecord) -> None:
    if outcome.wire.violations:
        total.failing.append(outcome)
    total.events += outcome.events
    total.findings = combine(total.findings + outcome.findings)
    for label, measured in outcome.measured.items():
        if label not in total.measured or measured["distance"] < total.measured[label]["distance"]:
            total.measured[label] = measured
            total.expected[label] = outcome.expected[label]


def _complete(call: Call, findings: list[Finding]) -> list[Finding]:
    """One finding per cited requirement: what nothing was said about was never reached."""
    known = {each.requirement: each for each in combine(findings)}
    return [
        known.get(each, Finding(each, Seen.NEVER_REACHED, "the case never came to judge it"))
        for each in call.cited
    ]


def _judged(run: Run, call: Call, findings: list[Finding]) -> list[tuple[Finding, Verdict, str]]:
    """Each finding with its verdict and the sentence that explains it."""
    judged = []
    for finding in findings:
        verdict = verdict_for(run.catalogue.find(finding.requirement).level, finding)
        detail = f"{finding.requirement}: {finding.detail}" + (
            f" ({finding.uncertain})" if finding.uncertain else ""
        )
        if verdict in (Verdict.FAIL, Verdict.WARN):
            known = match(
                run.deviations, call.id, finding.requirement, finding.detail, run.facts.version
            )
            if known is not None:
                verdict, detail = Verdict.KNOWN, f"{detail} (known: {known.reason})"
        judged.append((finding, verdict, detail))
    return judged


def _verdict(judged: list[tuple[Finding, Verdict, str]]) -> tuple[Verdict, str]:
    """The verdict on a case and the sentence that explains it: that of its worst finding."""
    worst = merge(verdict for _, verdict, _ in judged)
    if worst is Verdict.PASS:
        return worst, "; ".join(f"{each.requirement}: {each.detail}" for each, _, _ in judged)[:600]
    return worst, next(detail for _, verdict, detail in judged if verdict is worst)


def _result(
    run: Run,
    call: Call,
    verdict: Verdict,
    detail: str,
    outcome: ExampleRecord,
    attempts: int,
    began: float,
) -> Result:
    return Result(
        case=call.id,
        target=run.target.identity.name,
        requirements=call.cited,
        verdict=verdict,
        detail=detail,
        findings=tuple(outcome.findings),
        measured={
            label: {k: v for k, v in each.items() if k != "distance"}
            for label, each in outcome.measured.items()
        },
        expected=outcome.expected,
        attempts=attempts,
        duration_s=round(time.perf_counter() - began, 3),
        trace_ref=run.recorder.reference(call.id) if attempts else "",
    )
