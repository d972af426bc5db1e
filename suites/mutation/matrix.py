"""Runs cases against mutants, in one process or in several, and reports the fate of each mutant.

Everything happens in virtual time and depends only on the seed and the effort, so two runs give the
same matrix.
"""

import enum
import gc
import logging
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from types import FrameType

from brokerproof.harness.cases.calls import all_calls
from brokerproof.harness.cases.execution import Call, Run, execute
from brokerproof.harness.catalogue import requirements
from brokerproof.harness.catalogue.requirements import Catalogue
from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results.records import Result
from brokerproof.harness.results.verdict import is_unmet, never_reached
from brokerproof.harness.session.case_runs import COLLECT_AT
from brokerproof.harness.targets.target import RECONFIGURABLE
from brokerproof.harness.trace.recorder import Recorder
from brokerproof.suites.mutation import all_mutants
from brokerproof.suites.mutation.controls import IDENTITY, LATE
from brokerproof.suites.mutation.judging import Kill, Status, beside_the_point, kills
from brokerproof.suites.mutation.mutant import Fault, Mutant, restore
from brokerproof.suites.mutation.target import MutantTarget

LONGEST_CASE_S = 30.0
"""The maximum processor time of a case on a mutant, because some faults make a broker loop forever.
Wall time would let a busy machine decide which mutants are killed, so it limits only waits for
events that never occur."""
_LONGEST_WAIT_S = 600.0


class Extent(enum.StrEnum):
    """The cases to run on a mutant. Survivors are tried with all the other cases."""

    FIRST = "first kill"
    """Run the cases that cite a requirement of the mutant, until one kills it."""
    CITING = "citing cases"
    """Run all of these cases: the matrix shows by which requirements the mutant can be killed."""
    EVERY = "every case"


@dataclass(frozen=True)
class Plan:
    """How to run the cases. The efforts are those of ``brokerproof run``."""

    effort: str = "smoke"
    seed: int = 1
    extent: Extent = Extent.CITING


@dataclass
class Fate:
    """The fate of one mutant."""

    mutant: str
    status: Status
    reached: int = 0
    """How often the mutated code deviated from the original, over all cases that ran."""
    cases: int = 0
    """Cases that ran."""
    killed_by: list[Kill] = field(default_factory=list)
    beside: list[Kill] = field(default_factory=list)
    """Violations of requirements that the mutant does not declare."""
    noticed_by: list[str] = field(default_factory=list)
    """Cases with a failed control that holds without the mutant, each with the control's
    sentence."""
    errors: list[str] = field(default_factory=list)
    """Cases that ended in an error of ours, each with its sentence."""
    verdicts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


class TooLong(BaseException):
    """A case on a mutant took too long. This is not an ``Exception``, so that nothing catches it on
    the way."""


@cache
def _catalogue() -> Catalogue:
    return requirements.load()


def in_order(mutant: Fault, calls: Sequence[Call]) -> list[Call]:
    """Sort calls: those that cite a violated requirement first, single cases before properties."""
    breaks = set(mutant.breaks)
    return sorted(
        calls,
        key=lambda call: (
            -min(1, len(breaks & set(call.cited))),
            call.case.over is not None,
            call.id,
        ),
    )


def results(mutant: Mutant, calls: Sequence[Call], plan: Plan) -> Iterator[tuple[Result, int]]:
    """Yield each call's result on the mutant, and how often it reached the mutated code."""
    return results_on(MutantTarget(mutant), calls, plan)


def results_on(
    target: MutantTarget, calls: Sequence[Call], plan: Plan
) -> Iterator[tuple[Result, int]]:
    """Yield each call's result on ``target``, and how often it reached the mutated code."""
    # stomp.py warns of the mutants' faults.
    logging.getLogger("stomp.py").addHandler(logging.NullHandler())
    gc.set_threshold(COLLECT_AT)
    facts = target.start(Path())
    recorder = Recorder(None, run="", target=target.identity.name, clock=Clock.VIRTUAL)
    run = Run(target, facts, _catalogue(), (), recorder, plan.effort, plan.seed, shrink=False)
    for call in calls:
        before = target.reached.count
        with _guard():
            try:
                result = execute(run, call)
            except TooLong:
                detail = f"given up after {LONGEST_CASE_S:g} s of processor time"
                result = Result(
                    case=call.id,
                    target=target.identity.name,
                    requirements=call.cited,
                    verdict=Verdict.ERROR,
                    detail=detail,
                    findings=never_reached(call.cited, Verdict.ERROR, detail),
                )
        restore()
        yield result, target.reached.count - before
    target.stop()


@contextmanager
def _guard() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLong

    limits = (
        (signal.ITIMER_PROF, signal.SIGPROF, LONGEST_CASE_S),
        (signal.ITIMER_REAL, signal.SIGALRM, _LONGEST_WAIT_S),
    )
    before = [signal.signal(number, stop) for _, number, _ in limits]
    for timer, _, most in limits:
        signal.setitimer(timer, most)
    try:
        yield
    finally:
        for (timer, number, _), handler in zip(limits, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def verdicts(name: str, plan: Plan, every: int = 1) -> dict[str, int]:
    """Count the verdicts on a control in each ``every``-th case; if the control changes something,
    only in the cases in which it did. The control that closes silent connections late skips the
    models that bind only the reference, because they do not wait that long."""
    counts: Counter[str] = Counter()
    control = all_mutants.named(name)
    calls = [call for call in all_calls() if name != LATE or RECONFIGURABLE not in call.case.needs]
    for result, reached in results(control, calls[::every], plan):
        if reached or name == IDENTITY:
            counts[result.verdict.value] += 1
    return dict(sorted(counts.items()))


def judge(name: str, plan: Plan) -> Fate:
    """Runs cases on one mutant."""
    mutant = all_mutants.named(name)
    fate = Fate(name, Status.NOT_REACHED)
    began = time.perf_counter()
    calls = in_order(mutant, all_calls())
    for call, (result, reached) in zip(calls, results(mutant, calls, plan), strict=False):
        if fate.killed_by and plan.extent is not Extent.EVERY:
            cites = bool(set(mutant.breaks) & set(call.cited))
            if plan.extent is Extent.FIRST or not cites:
                break
        fate.cases += 1
        fate.reached += reached
        fate.verdicts[result.verdict.value] = fate.verdicts.get(result.verdict.value, 0) + 1
        fate.killed_by += kills(mutant, result, reached, _catalogue())
        fate.beside += beside_the_point(mutant, result, reached, _catalogue())
        # the suites show that the control holds on the original broker
        if reached and is_unmet(result.findings):
            fate.noticed_by.append(f"{result.case}: {result.detail[:200]}")
        if result.verdict is Verdict.ERROR:
            fate.errors.append(f"{result.case}: {result.detail[:200]}")
    fate.status = status(fate)
    fate.seconds = round(time.perf_counter() - began, 3)
    return fate


def status(fate: Fate) -> Status:
    if fate.killed_by:
        return Status.KILLED
    if fate.beside:
        return Status.WRONG_REASON
    if not fate.reached:
        return Status.NOT_REACHED
    if fate.noticed_by:
        return Status.NOTICED
    return Status.ERROR if fate.errors else Status.SURVIVED


def judge_all(
    names: Sequence[str],
    plan: Plan,
    *,
    processes: int = 2,
    done: Callable[[Fate], None] = lambda fate: None,
) -> list[Fate]:
    """Judge these mutants concurrently, in the given order; ``done`` receives each fate as soon as
    it is known."""
    if processes <= 1 or len(names) <= 1:
        fates = []
        for name in names:
            fates.append(judge(name, plan))
            done(fates[-1])
        return fates
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(judge, name, plan) for name in names]
        decided = []
        for job in jobs:
            decided.append(job.result())
            done(decided[-1])
    return decided
