"""Runs one case on one target: its examples, further attempts, and the result of its findings.

Hypothesis draws the examples of a property. In virtual time each example runs as soon as it is
drawn, and failures are shrunk. In real time the examples are drawn first and then run concurrently
on separate connections, which takes little longer than the longest example. Failures in real time
are not shrunk, because that would prove little."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from brokerproof.harness.cases import confirm_and_shrink
from brokerproof.harness.cases.example_record import ExampleRecord
from brokerproof.harness.cases.example_runs import (
    ATTEMPTS,
    EFFORTS,
    Call,
    Run,
    ViolationFound,
    binding,
    draw,
    explain,
    one_example,
    plans_in_real_time,
    situations,
    unreached,
)
from brokerproof.harness.cases.recording_budget import RecordingBudget
from brokerproof.harness.catalogue.deviations import Deviation, match, match_control
from brokerproof.harness.catalogue.profiles import MissingParameter
from brokerproof.harness.catalogue.release_ranges import binds, manual_of
from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.finding import (
    Finding,
    JudgedFinding,
    ListedDeviation,
    Measurement,
    combine,
)
from brokerproof.harness.model.time import NS_PER_MS, Duration
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.protocols.conversation import ControlFailed, Symptom
from brokerproof.harness.results.records import HOST_LATENESS, Result, Unrecorded
from brokerproof.harness.results.verdict import (
    NEVER_JUDGED,
    WORST_FIRST,
    behind_violation,
    merge,
    never_reached,
    verdict_for,
    with_verdict,
)
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.trace.events import CaseEnded, Event
from brokerproof.harness.worlds.bounds import Action, LimitReached

__all__ = ["ATTEMPTS", "EFFORTS", "Call", "Run", "execute"]

LATE: Duration = 500 * NS_PER_MS
"""If the host was this late, its delay may have made a control fail: our clients have TTLs of 1 s
and send something every half second."""
SIDE_BY_SIDE_EXAMPLES = 16
MORE_DRAWS = 4
"""The maximum number of further sets of examples drawn while a situation is unreached."""


def execute(run: Run, call: Call) -> Result:
    """Run ``call``, record the trace and return the result. Raises the exceptions of
    :func:`execute_unrecorded`."""
    result, events = execute_unrecorded(run, call)
    if events:
        run.recorder.write(call.id, events)
    return result


@dataclass(frozen=True, slots=True)
class EarlierAttempts:
    """Earlier attempts that decided nothing because a control failed or a finding was uncertain."""

    lateness: tuple[Duration, ...] = ()
    """The host's worst lateness during each attempt."""
    sentences: str = ""
    """A sentence for each failed control, in parentheses."""
    duration_s: float = 0.0


def execute_unrecorded(run: Run, call: Call) -> tuple[Result, list[Event]]:
    """Run ``call`` as often as needed; return the result and the trace (empty if skipped). Raises
    the exceptions of :func:`attempt`."""
    outcome: EarlierAttempts | tuple[Result, list[Event]] = EarlierAttempts()
    while isinstance(outcome, EarlierAttempts):
        outcome = attempt(run, call, outcome)
    return outcome


def attempt(
    run: Run, call: Call, earlier: EarlierAttempts
) -> EarlierAttempts | tuple[Result, list[Event]]:
    """Run ``call`` once. Return its result and trace; if it should run again, all attempts so far.
    The next attempt need not follow immediately, because the host may still be late.

    Raises :class:`brokerproof.harness.worlds.bounds.RunStopped` if the broker no longer serves; no
    other behaviour of a broker raises an exception."""
    began = time.perf_counter()
    rows = binding(run, call)
    if detail := _refusal(run, call, rows):
        judgement = _Judgement(
            Verdict.SKIP, detail, never_reached(call.cited, Verdict.SKIP, detail)
        )
        return _result(run, call, judgement, ExampleRecord(), 0, 0.0), []
    most = run.attempts if run.target.clock is Clock.REAL else 1
    number = len(earlier.lateness) + 1
    record = ExampleRecord()
    problem = _run_examples(run, call, record, number)
    lateness = (*earlier.lateness, record.late)
    findings = _complete(rows, record)
    if run.target.clock is Clock.VIRTUAL:
        findings = _doubt_unreached(findings, unreached(run, call, record))
    excuse = _excuse(run, call, problem)
    unmet_premise = isinstance(problem, ControlFailed) and problem.symptom is Symptom.UNMET
    is_final = excuse is not None or unmet_premise or _is_absent(problem)
    if problem is not None and run.health is not None and not is_final:
        run.health.examine(call.id, explain(problem))
    is_open = isinstance(problem, ControlFailed) or (
        problem is None and any(_is_open(run, call, finding) for finding in findings)
    )
    if is_open and not is_final and number < most:
        sentences = earlier.sentences
        if problem is not None:
            sentences += f" (attempt {number}: {explain(problem)})"
        return EarlierAttempts(
            lateness, sentences, earlier.duration_s + time.perf_counter() - began
        )
    if problem is None:
        judgement = _judge_completed(run, call, record, findings, _seed(run, call, most + 1))
    elif excuse is not None:
        judgement = _judge_excused(run, call, findings, explain(problem), excuse.listed)
    else:
        judgement = _judge_problem(run, call, findings, problem, min(lateness))
    judgement = replace(judgement, detail=judgement.detail + earlier.sentences)
    ended_at = record.events[-1].at_ns if record.events else 0
    record.events.append(CaseEnded(at_ns=ended_at, detail=judgement.verdict.value))
    duration_s = earlier.duration_s + time.perf_counter() - began
    return _result(run, call, judgement, record, number, duration_s), record.events


def try_once(run: Run, call: Call) -> ExampleRecord:
    """Run the examples of ``call`` once, whatever their outcome."""
    record = ExampleRecord()
    _run_examples(run, call, record, 1)
    return record


def died_of(
    run: Run, call: Call, record: ExampleRecord, frames: Sequence[Action], how: str
) -> tuple[Result, list[Event]]:
    """Return the result and the trace of a case whose ``frames`` killed the broker. The gravest of
    the requirements not known to hold counts as violated. The others are not judged, because a dead
    broker looks the same to every client."""

    def gravity(finding: Finding) -> tuple[bool, int, bool]:
        level = run.catalogue.find(finding.requirement).level
        verdict = verdict_for(level, Finding(finding.requirement, Seen.VIOLATED, ""))
        return (
            finding.seen is Seen.HELD,
            WORST_FIRST.index(verdict),
            finding.seen is not Seen.VIOLATED,
        )

    sent = ", ".join(dict.fromkeys(frame.command for frame in frames))
    detail = f"the broker died of {sent}, once beside other cases and twice alone: {how}"
    findings = sorted(_complete(binding(run, call), record), key=gravity)
    died = _judged(run, call, [Finding(findings[0].requirement, Seen.VIOLATED, detail)])
    others = [finding.requirement for finding in findings[1:]]
    skipped = never_reached(others, Verdict.SKIP, "the broker died in this case")
    judgement = _Judgement(died[0].verdict, died[0].sentence, (*died, *skipped))
    return _result(run, call, judgement, record, 1, 0.0), record.events


def _judge_problem(
    run: Run, call: Call, findings: list[Finding], problem: Exception, late: Duration
) -> "_Judgement":
    """Judge a case that ended early; ``late`` is the host's least lateness in any attempt."""
    if _is_absent(problem):
        return _judge_lacking(run, call, findings, str(problem))
    if isinstance(problem, ControlFailed):
        if problem.symptom is Symptom.UNMET:
            return _judge_unmet(findings, str(problem))
        if late >= LATE:
            words = f"the host was late by {late // NS_PER_MS} ms: {problem}"
            return _judge_unmet(findings, words, Seen.NEVER_REACHED)
        return _judge_unmet(findings, f"precondition not met: {problem}")
    if run.target.clock is Clock.REAL and isinstance(problem, LimitReached):
        seen = Seen.NEVER_REACHED if problem.may_be_the_hosts else Seen.UNMET
        return _judge_unmet(findings, explain(problem), seen)
    return _judge_broken(findings, explain(problem))


def _refusal(run: Run, call: Call, rows: tuple[str, ...]) -> str:
    """Return why the case does not run on this target: missing capabilities, the wrong kind of
    target, documents that do not bind the target, or the harm that the case would do; empty if it
    runs."""
    identity = run.target.identity
    if not rows:
        vendors = " or ".join(sorted({str(run.catalogue[cited].profile) for cited in call.cited}))
        return f"only for brokers of {vendors}: the case judges what their documents say"
    if reason := identity.skip_reason(call.needs, call.id):
        return reason
    if call.case.harm and not (identity.started_here or run.allow_harm):
        return (
            f"failing this case harms a broker ({call.case.harm}), and brokerproof did not start"
            " this one; --allow-harm runs the case anyway"
        )
    return ""


@dataclass(frozen=True, slots=True)
class _Judgement:
    verdict: Verdict
    detail: str
    findings: tuple[JudgedFinding, ...]


def _judge_completed(
    run: Run, call: Call, record: ExampleRecord, findings: list[Finding], seed: int
) -> _Judgement:
    """Judge a completed case, and save a counterexample of a failure.

    In real time a failure (or, without a failure, an unmet recommendation) counts only if it recurs
    while the broker still serves other clients."""
    findings = _unlisted_first(run, call, record, findings)
    judged = _judged(run, call, findings)
    failed, warned = (
        frozenset(finding.requirement for finding in judged if finding.verdict is verdict)
        for verdict in (Verdict.FAIL, Verdict.WARN)
    )
    failing = failed or warned
    example = confirm_and_shrink.example_of(run, call, record, failing)
    if example is not None and run.target.clock is Clock.REAL:
        example, reason = confirm_and_shrink.confirmed(run, call, example, failing, seed)
        if run.health is not None:  # on a dead broker, nothing recurs either
            reason = run.health.refusal(call.id) or reason
        if reason:
            example = None
            judged = _judged(run, call, confirm_and_shrink.without(findings, failing, reason))
    if failed and example is not None and run.keep_counterexample is not None:
        run.keep_counterexample(run, call, example, failing)
    worst = merge(finding.verdict for finding in judged)
    if worst is Verdict.PASS:
        detail = "; ".join(f"{finding.requirement}: {finding.detail}" for finding in judged)[:600]
    else:
        detail = _worst_sentence(judged, worst)
    return _Judgement(worst, detail, judged)


def _judge_broken(findings: list[Finding], problem: str) -> _Judgement:
    """Judge a case that was ended by an error of ours: every finding becomes ERROR, because an
    aborted case proves nothing about the broker."""
    judged = tuple(with_verdict(finding, Verdict.ERROR) for finding in findings)
    return _Judgement(Verdict.ERROR, problem, judged)


def _judge_unmet(findings: list[Finding], problem: str, seen: Seen = Seen.UNMET) -> _Judgement:
    """Judge a case that ended early although the broker serves other clients. Either the broker
    refused or lacked something on which the case relies, or the host was late, or a limit was
    reached."""
    unmet = [Finding(finding.requirement, seen, problem) for finding in findings]
    judged = tuple(with_verdict(finding, Verdict.INCONCLUSIVE) for finding in unmet)
    return _Judgement(Verdict.INCONCLUSIVE, problem, judged)


def _judge_lacking(run: Run, call: Call, findings: list[Finding], problem: str) -> _Judgement:
    """Judge a case that reached a part for which the target lacks a capability or an acceptor.

    Earlier violations are judged normally; other findings become SKIP."""
    violations = [finding for finding in findings if finding.seen is Seen.VIOLATED]
    judged = {finding.requirement: finding for finding in _judged(run, call, violations)}
    skipped = {
        finding.requirement: finding
        for finding in never_reached(binding(run, call), Verdict.SKIP, problem)
    }
    complete = tuple({**skipped, **judged}.values())
    worst = merge(finding.verdict for finding in complete)
    detail = problem if worst is Verdict.SKIP else _worst_sentence(complete, worst)
    return _Judgement(worst, detail, complete)


def _judge_excused(
    run: Run, call: Call, findings: list[Finding], problem: str, deviation: ListedDeviation
) -> _Judgement:
    """Judge a case whose control failed as a known deviation predicts. Earlier violations are
    judged normally. Other findings are ignored, because the case did not run in full. Its verdict
    is KNOWN, from the control's deviation."""
    violations = [finding for finding in findings if finding.seen is Seen.VIOLATED]
    by_requirement = {finding.requirement: finding for finding in _judged(run, call, violations)}
    judged = tuple(
        by_requirement.get(finding.requirement)
        or JudgedFinding(
            finding.requirement,
            Seen.NEVER_REACHED,
            problem,
            verdict=Verdict.KNOWN,
            deviation=deviation,
        )
        for finding in findings
    )
    worst = merge([Verdict.KNOWN, *(finding.verdict for finding in judged)])
    if worst is Verdict.KNOWN:
        return _Judgement(worst, f"{problem} (known: {deviation.reason})", judged)
    return _Judgement(worst, _worst_sentence(judged, worst), judged)


def _is_absent(problem: Exception | None) -> bool:
    """True if a case ended because the target does not offer or state something that it needs."""
    if isinstance(problem, MissingParameter):
        return True
    return isinstance(problem, ControlFailed) and problem.symptom is Symptom.ABSENT


def _excuse(run: Run, call: Call, problem: Exception | None) -> Deviation | None:
    """Return the known deviation, if any, that explains this failed control or the flood that
    reached a limit."""
    if not isinstance(problem, ControlFailed | LimitReached):
        return None
    return match_control(run.deviations, call.id, explain(problem), run.facts.version)


def _run_examples(run: Run, call: Call, record: ExampleRecord, attempt: int) -> Exception | None:
    seed = _seed(run, call, attempt)
    try:
        if call.case.over is None:
            one_example(run, call, record, {}, seed, None)
        elif run.target.clock is Clock.VIRTUAL:
            _property(run, call, record, seed)
        else:
            _side_by_side(run, call, record, seed, last=attempt == run.attempts)
    except Exception as problem:
        return problem
    return None


def _seed(run: Run, call: Call, attempt: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{run.seed} {call.id} {attempt}".encode()).digest()[:5])


def _property(run: Run, call: Call, total: ExampleRecord, seed: int) -> None:
    """In virtual time, draw and run examples and shrink failures; the trace ends with the smallest
    failing example."""
    numbers = iter(range(10**9))
    failed: list[ExampleRecord] = []
    budget = RecordingBudget()

    def example(**plan: Any) -> None:
        record = ExampleRecord()
        one_example(run, call, record, plan, seed, next(numbers))
        if any(finding.seen is Seen.VIOLATED for finding in record.findings):
            failed[:] = [record]
            raise ViolationFound
        if not failed:  # while shrinking, passing examples do not matter
            _add(total, record, budget)

    draw(run, call, example, seed, run.database, shrink=run.shrink)
    for more in range(1, MORE_DRAWS + 1):
        if failed or not (unreached(run, call, total) or _unjudged(run, call, total)):
            break
        draw(run, call, example, seed + more, None, shrink=run.shrink, fixed=False)
    if failed:
        _add(total, failed[0])


def _unjudged(run: Run, call: Call, record: ExampleRecord) -> bool:
    return any(row.detail == NEVER_JUDGED for row in _complete(binding(run, call), record))


def _side_by_side(run: Run, call: Call, total: ExampleRecord, seed: int, *, last: bool) -> None:
    """In real time, run the drawn examples concurrently, and further ones if a requirement was not
    judged."""
    played = 0
    for more in range(1 + MORE_DRAWS):
        played = _batch(run, call, total, seed + more, played, last=last)
        if total.failing or not _unjudged(run, call, total):
            break


def _batch(
    run: Run, call: Call, total: ExampleRecord, seed: int, played: int, *, last: bool
) -> int:
    """Draw all plans, then run them concurrently in separate worlds numbered from ``played``;
    return the next number. Examples that the host's lateness left undecided run again. In the
    ``last`` attempt, a few whose control failed, perhaps in a race, also run again at the end, one
    by one. Once as many examples have failed as can run at once, no more are started. A missing
    kind of address does not count as a failure."""
    plans = plans_in_real_time(run, call, seed, fixed=not played)
    jobs: list[Future[ExampleRecord]] = []

    def example(record: ExampleRecord, number: int, plan: Mapping[str, Any]) -> ExampleRecord:
        failed = [problem for job in jobs if job.done() and (problem := job.exception())]
        if len(failed) >= SIDE_BY_SIDE_EXAMPLES:
            raise failed[0]
        one_example(run, call, record, plan, seed + number, number)
        if not any(finding.uncertain for finding in combine(record.findings)):
            return record
        again = ExampleRecord()
        # Use new names, because the broker may not have noticed yet that the first run is over.
        one_example(run, call, again, plan, seed + len(plans) + number, number)
        return again

    records = [ExampleRecord() for _ in plans]
    with ThreadPoolExecutor(SIDE_BY_SIDE_EXAMPLES, thread_name_prefix="example") as pool:
        jobs += [
            pool.submit(example, record, played + number, plan)
            for number, (plan, record) in enumerate(zip(plans, records, strict=True))
        ]
        problems = [job.exception() for job in jobs]
    for number, (job, problem) in enumerate(zip(jobs, problems, strict=True)):
        if problem is None:
            records[number] = job.result()
    raced = [number for number, problem in enumerate(problems) if _may_be_a_race(problem)]
    if last and 2 * len(raced) <= len(plans):
        for number in raced:
            records[number], problems[number] = ExampleRecord(), None
            try:
                again = played + 2 * len(plans) + number
                records[number] = example(records[number], again, plans[number])
            except Exception as still:
                problems[number] = still
    for record in records:
        _add(total, record)
    if not played and all(record.unmet for record in records):
        problems.append(records[0].unmet)
    for problem in problems:
        if problem is not None:
            raise problem
    return played + 3 * len(plans)


def _may_be_a_race(problem: BaseException | None) -> bool:
    """True if the control may hold when its example runs again."""
    return isinstance(problem, ControlFailed) and problem.symptom in (
        Symptom.REFUSED,
        Symptom.CLOSED,
    )


def _add(
    total: ExampleRecord, record: ExampleRecord, budget: RecordingBudget | None = None
) -> None:
    """Add an example to its case, with its events if the ``budget`` allows."""
    if record.wire.violations:
        total.failing.append(record)
    total.late = max(total.late, record.late)
    total.unbound_end = total.unbound_end or record.unbound_end
    total.findings = combine(total.findings + record.findings)
    nearer_to_bound = False
    for label, measurement in record.measurements.items():
        nearer_to_bound |= total.measure(label, measurement)
    size = len(record.events)
    if budget is None or budget.records(
        size, record.findings, record.situations, nearer_to_bound=nearer_to_bound
    ):
        total.events += record.events
    else:
        left_out = total.unrecorded
        total.unrecorded = Unrecorded(left_out.examples + 1, left_out.events + size)
    for situation, examples in record.situations.items():
        total.situations[situation] = total.situations.get(situation, 0) + examples
    for what, amount in record.amounts.items():
        total.amounts[what] = max(amount, total.amounts.get(what, 0))
    for behaviour, values in record.behaviours.items():
        total.behaviours.setdefault(behaviour, set()).update(values)


def _doubt_unreached(findings: list[Finding], missing: Sequence[str]) -> list[Finding]:
    """Return ``findings`` with HELD marked as uncertain if a situation is ``missing``. In virtual
    time that is a fault of the generator, unless a violation ended the drawing; in real time there
    are too few examples to tell."""
    if not missing or any(finding.seen is Seen.VIOLATED for finding in findings):
        return findings
    doubt = f"no example reached: {', '.join(missing)}"
    return [
        replace(finding, uncertain=doubt) if finding.seen is Seen.HELD else finding
        for finding in findings
    ]


def _complete(rows: tuple[str, ...], record: ExampleRecord) -> list[Finding]:
    """Return one finding for each requirement in ``rows``, and those of the aftermath. An unjudged
    requirement is NEVER_REACHED, or not applicable if another vendor's document ended the case."""
    judged = {finding.requirement: finding for finding in combine(record.findings)}
    missing = (Seen.NEVER_REACHED, NEVER_JUDGED)
    if record.unbound_end:
        missing = (Seen.NOT_APPLICABLE, f"this broker need not: {record.unbound_end}")
    beyond = [finding for finding in judged if finding not in rows]
    return [
        judged.get(requirement) or Finding(requirement, *missing)
        for requirement in (*rows, *beyond)
    ]


def _unlisted_first(
    run: Run, call: Call, record: ExampleRecord, findings: list[Finding]
) -> list[Finding]:
    """Return ``findings`` with unlisted violations first, so that known deviations do not hide
    them."""
    unlisted: dict[str, Finding] = {}
    for finding in confirm_and_shrink.violations(record):
        if not confirm_and_shrink.is_listed(run, call, finding):
            unlisted.setdefault(finding.requirement, finding)
    return [unlisted.get(finding.requirement, finding) for finding in findings]


def _is_open(run: Run, call: Call, finding: Finding) -> bool:
    """True if another attempt may decide the finding."""
    level = run.catalogue.find(finding.requirement).level
    return (
        finding.uncertain is not None
        and verdict_for(level, finding) is Verdict.INCONCLUSIVE
        and _listed_deviation(run, call, finding) is None
    )


def _listed_deviation(run: Run, call: Call, finding: Finding) -> Deviation | None:
    """Return the known deviation that explains a violation. The violation may be uncertain, since a
    reset may have lost earlier bytes."""
    if finding.seen is not Seen.VIOLATED:
        return None
    return match(run.deviations, call.id, finding.requirement, finding.detail, run.facts.version)


def _judged(run: Run, call: Call, findings: list[Finding]) -> tuple[JudgedFinding, ...]:
    """Give each finding a verdict: KNOWN for a listed deviation, otherwise by the requirement's
    level."""
    judged = []
    release = run.target.identity.bound_release(run.facts.broker, run.facts.version)
    for finding in findings:
        requirement = run.catalogue.find(finding.requirement)
        if not binds(requirement.releases, release):
            finding = Finding(
                requirement.id,
                Seen.NOT_APPLICABLE,
                f"{manual_of(release)} does not state this; those of {requirement.releases} do",
            )
        verdict = verdict_for(requirement.level, finding)
        may_be_known = verdict in (Verdict.FAIL, Verdict.WARN, Verdict.INCONCLUSIVE)
        known = _listed_deviation(run, call, finding) if may_be_known else None
        if known is None:
            judged.append(with_verdict(finding, verdict))
        else:
            judged.append(with_verdict(finding, Verdict.KNOWN, known.listed))
    return behind_violation(judged)


def _worst_sentence(judged: tuple[JudgedFinding, ...], worst: Verdict) -> str:
    return next(finding.sentence for finding in judged if finding.verdict is worst)


def _result(
    run: Run,
    call: Call,
    judgement: _Judgement,
    record: ExampleRecord,
    attempts: int,
    duration_s: float,
) -> Result:
    redaction = run.target.identity.redaction
    findings, measurements = judgement.findings, record.measurements
    if judgement.verdict is Verdict.INCONCLUSIVE and isinstance(run.target, SocketTarget):
        late = run.target.canary.worst(record.events[0].at_ns if record.events else 0)
        measurements = {**measurements, HOST_LATENESS: Measurement(late, "ns")}
    declared = situations(run, call) if attempts else ()
    rows = binding(run, call) or call.cited
    if redaction.by_value:
        findings = tuple(
            replace(
                finding,
                detail=redaction.text(finding.detail),
                uncertain=None if finding.uncertain is None else redaction.text(finding.uncertain),
            )
            for finding in findings
        )
    return Result(
        case=call.id,
        target=run.target.identity.name,
        requirements=tuple(dict.fromkeys((*rows, *(finding.requirement for finding in findings)))),
        verdict=judgement.verdict,
        detail=redaction.text(judgement.detail),
        findings=findings,
        measurements=measurements,
        situations={name: record.situations.get(name, 0) for name in declared},
        amounts=record.amounts,
        behaviours={name: tuple(sorted(seen)) for name, seen in record.behaviours.items()},
        attempts=attempts,
        duration_s=round(duration_s, 3),
        trace_ref=run.recorder.reference(call.id) if attempts else "",
        unrecorded=record.unrecorded,
    )
