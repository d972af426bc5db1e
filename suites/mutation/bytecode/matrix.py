"""Runs the cases on the unchanged broker and on its mutants, on several brokers in parallel.

A case in real time mostly waits, so brokers in parallel cost little. Cases on one broker run one
after the other, because the effect of one case must not be attributed to another.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context, util
from pathlib import Path

from brokerproof.harness.cases.calls import all_calls
from brokerproof.harness.cases.example_runs import Call
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results.records import Result
from brokerproof.harness.results.verdict import is_unmet
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.suites.mutation.bytecode import plan
from brokerproof.suites.mutation.bytecode.agent import BytecodeMutant
from brokerproof.suites.mutation.bytecode.broker import MutableBroker
from brokerproof.suites.mutation.bytecode.plan import STARTING
from brokerproof.suites.mutation.bytecode.records import ControlRecord, Fate, FateRecord

MOST_INCONCLUSIVE = 3
"""After this many cases that could not test the broker, no more cases run on a mutant."""
MUTANTS_PER_BROKER = 25
"""A broker is replaced after this many mutants, because leftovers of their faults accumulate."""


@dataclass
class _Worker:
    """The state of a worker process."""

    broker: MutableBroker
    calls: Mapping[str, Call]
    controls: Mapping[str, ControlRecord]
    turn_s: float = plan.TURN_S
    served: int = 0
    is_running: bool = False


_worker: _Worker | None = None


def _begin(
    target: str, seed: int, controls: Mapping[str, ControlRecord], turn_s: float = plan.TURN_S
) -> None:
    global _worker
    folder = Path(tempfile.mkdtemp(prefix="brokerproof-bytecode-"))
    broker = MutableBroker(target, folder, seed)
    _worker = _Worker(broker, {call.id: call for call in all_calls()}, controls, turn_s)
    util.Finalize(None, shutil.rmtree, (folder, True), exitpriority=5)
    util.Finalize(None, broker.stop, exitpriority=10)


def record_controls(
    target: str,
    calls: Sequence[Call],
    scope: Sequence[str],
    seed: int,
    processes: int,
    done: Callable[[ControlRecord], None],
) -> None:
    """Run every call on the unchanged broker; report each call with the lines that it executed."""
    context = get_context("spawn")
    with ProcessPoolExecutor(processes, context, _begin, (target, seed, {})) as pool:
        jobs = [pool.submit(_control, call.id, tuple(scope)) for call in calls]
        for job in as_completed(jobs):
            for record in job.result():
                done(record)


def _control(case: str, scope: tuple[str, ...]) -> list[ControlRecord]:
    assert _worker is not None
    records = []
    agent = _worker.broker.agent
    if not _worker.is_running:
        _worker.broker.start(scope)
        _worker.is_running = True
        records.append(ControlRecord(STARTING, "", 0.0, tuple(agent.lines())))
    agent.lines()
    result = _worker.broker.execute(_worker.calls[case])
    lines = tuple(agent.lines())
    records.append(ControlRecord(case, result.verdict.value, result.duration_s, lines))
    return records


def judge_all(
    target: str,
    mutants: Iterable[BytecodeMutant],
    controls: Mapping[str, ControlRecord],
    seed: int,
    processes: int,
    done: Callable[[FateRecord], None],
    turn_s: float = plan.TURN_S,
) -> None:
    """Judge these mutants; report the fate of each as soon as it is known."""
    context = get_context("spawn")
    with ProcessPoolExecutor(processes, context, _begin, (target, seed, controls, turn_s)) as pool:
        jobs = []
        for mutant in mutants:
            covering = plan.covering(mutant, controls)
            if covering or mutant.source_line in controls[STARTING].lines:
                jobs.append(pool.submit(_judge, mutant))
            else:
                done(_record(mutant, Fate.NOT_EXECUTED))
        for job in as_completed(jobs):
            done(job.result())


def _record(
    mutant: BytecodeMutant, fate: Fate, case: str = "", detail: str = "", cases: int = 0
) -> FateRecord:
    return FateRecord(
        mutant.name, mutant.area, mutant.description, fate, case, detail[:300], cases=cases
    )


def _judge(mutant: BytecodeMutant) -> FateRecord:
    assert _worker is not None
    record = _judged(_worker, mutant)
    covering = sum(mutant.source_line in control.lines for control in _worker.controls.values())
    return replace(record, covering=covering)


def _judged(worker: _Worker, mutant: BytecodeMutant) -> FateRecord:
    """Return the fate of one mutant. A case that noticed the mutant decides only if the case then
    passes without it; otherwise the broker was harmed, and a new broker decides."""
    covering = plan.covering(mutant, worker.controls, worker.turn_s)
    if plan.begins_mutated(mutant, bool(covering)):
        return _judged_from_the_start(worker, mutant, covering)
    _ensure_running(worker)
    record = _tried(worker, mutant, covering)
    if record.fate is Fate.SURVIVED:
        _restore(worker)
        return record
    if worker.broker.has_ended or (_restore(worker) and _passes(worker, record.case)):
        return record
    worker.is_running = False
    _ensure_running(worker)
    again = _tried(worker, mutant, [worker.controls[record.case]])
    worker.is_running = False
    return again if again.fate is not Fate.SURVIVED else _unsure(again, record)


def _unsure(again: FateRecord, before: FateRecord) -> FateRecord:
    """Return a survivor whose kill could not be repeated on a new broker."""
    detail = f"once {before.fate} by {before.case}, not again: {before.detail}"[:300]
    return FateRecord(
        again.mutant, again.area, again.description, Fate.SURVIVED, "", detail, before.cases
    )


def _judged_from_the_start(
    worker: _Worker, mutant: BytecodeMutant, covering: Sequence[ControlRecord]
) -> FateRecord:
    """Return the fate of a mutant in code that runs while the broker starts."""
    worker.is_running = False
    try:
        worker.broker.start(mutant=mutant)
    except SetUpFailed as problem:
        return _record(mutant, Fate.KILLED, STARTING, str(problem))
    return _run_cases(worker, mutant, covering or plan.quickest(worker.controls, worker.turn_s))


def _tried(
    worker: _Worker, mutant: BytecodeMutant, covering: Sequence[ControlRecord]
) -> FateRecord:
    worker.broker.agent.mutate(mutant)
    return _run_cases(worker, mutant, covering)


def _run_cases(
    worker: _Worker, mutant: BytecodeMutant, covering: Sequence[ControlRecord]
) -> FateRecord:
    """Run cases on the current mutant until one kills it."""
    left_open: list[Result] = []
    for number, control in enumerate(covering, 1):
        result = worker.broker.execute(worker.calls[control.case])
        if worker.broker.has_ended:
            return _record(mutant, Fate.KILLED, control.case, "the broker ended", number)
        if result.verdict in (Verdict.FAIL, Verdict.ERROR):
            return _record(mutant, Fate.KILLED, control.case, result.detail, number)
        if result.verdict is Verdict.INCONCLUSIVE:
            left_open.append(result)
            if len(left_open) == MOST_INCONCLUSIVE:
                break
    if left_open:
        noticed = next((result for result in left_open if is_unmet(result.findings)), None)
        fate = Fate.INCONCLUSIVE if noticed is None else Fate.NOTICED
        first = noticed or left_open[0]
        return _record(mutant, fate, first.case, first.detail, number)
    return _record(mutant, Fate.SURVIVED, cases=len(covering))


def _ensure_running(worker: _Worker) -> None:
    worker.served += 1
    if (
        worker.is_running
        and worker.served % MUTANTS_PER_BROKER
        and not worker.broker.has_ended
        and not worker.broker.agent.busy_threads()
    ):
        return
    worker.broker.start()
    worker.is_running = True


def _restore(worker: _Worker) -> bool:
    """Restore the original class; return False if the broker no longer answers."""
    try:
        worker.broker.agent.restore()
    except (OSError, ValueError):
        worker.is_running = False
        return False
    return True


def _passes(worker: _Worker, case: str) -> bool:
    """True if the case ends on the restored broker as it did before any mutation."""
    result = worker.broker.execute(worker.calls[case])
    return result.verdict.value in plan.JUDGING
