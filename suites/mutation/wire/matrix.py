"""Runs cases against a target behind each rewriting link, one after the other, until one detects
the fault."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from brokerproof.harness.cases.example_runs import Call, Run
from brokerproof.harness.cases.execution import execute
from brokerproof.harness.catalogue import deviations, requirements
from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results.verdict import is_unmet
from brokerproof.harness.targets.target import Target
from brokerproof.harness.trace.recorder import Recorder
from brokerproof.suites.mutation.judging import beside_the_point, kills
from brokerproof.suites.mutation.matrix import Fate, Plan, Status, in_order, status
from brokerproof.suites.mutation.wire.mutant import WireMutant
from brokerproof.suites.mutation.wire.target import WireTarget

MOST_IN_REAL_TIME = 12
"""The maximum number of cases tried against one fault in real time."""


def judge_all(
    target: Target,
    mutants: Sequence[WireMutant],
    calls: Sequence[Call],
    plan: Plan,
    folder: Path,
    done: Callable[[Fate], None] = lambda fate: None,
) -> list[Fate]:
    """Yield the fate of each fault on the wire of ``target``, which starts once for all faults.

    Only cases that cite a violated requirement run. Known deviations of the target are not kills.
    Raises :class:`brokerproof.harness.targets.failure.SetUpFailed`.
    """
    catalogue, listed = requirements.load(), target.identity.deviations
    known = () if listed is None else tuple(deviations.load(listed, target.identity.name))
    facts = target.start(folder)
    fates = []
    for mutant in mutants:
        wired = WireTarget(mutant, target)
        recorder = Recorder(None, run="", target=wired.identity.name, clock=target.clock)
        run = Run(wired, facts, catalogue, known, recorder, plan.effort, plan.seed, shrink=False)
        fates.append(_judge(run, replace(run, target=target), wired, mutant, calls))
        done(fates[-1])
    return fates


def _judge(
    run: Run, honest: Run, wired: WireTarget, mutant: WireMutant, calls: Sequence[Call]
) -> Fate:
    fate = Fate(mutant.name, Status.NOT_REACHED)
    began = time.perf_counter()
    breaks = set(mutant.breaks)
    citing = [call for call in in_order(mutant, calls) if breaks & set(call.cited)]
    able = [call for call in citing if call.case.needs <= wired.identity.capabilities]
    for call in able if wired.clock is Clock.VIRTUAL else able[:MOST_IN_REAL_TIME]:
        before = wired.reached.count
        result = execute(run, call)
        reached = wired.reached.count - before
        fate.cases += 1
        fate.reached += reached
        fate.verdicts[result.verdict.value] = fate.verdicts.get(result.verdict.value, 0) + 1
        fate.killed_by += kills(mutant, result, reached, run.catalogue)
        fate.beside += beside_the_point(mutant, result, reached, run.catalogue)
        if reached and is_unmet(result.findings) and not is_unmet(execute(honest, call).findings):
            fate.noticed_by.append(f"{result.case}: {result.detail[:200]}")
        if result.verdict is Verdict.ERROR:
            fate.errors.append(f"{result.case}: {result.detail[:200]}")
        if fate.killed_by:
            break
    fate.status = status(fate)
    fate.seconds = round(time.perf_counter() - began, 3)
    return fate
