"""The cases of a session on its target. They are started concurrently and awaited one by one.

Real-time cases mostly wait, so they run in threads; many cases run in the threads of several
processes (``real_time_workers.py``), longest first (``real_time_order.py``). Virtual-time cases
only compute, so they can run in separate processes (``forked_workers.py``)."""

import functools
import gc
from argparse import Namespace
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from brokerproof.harness.cases.ast_parse_lock import one_at_a_time
from brokerproof.harness.cases.execution import Call, Run, execute
from brokerproof.harness.cases.pytest_options import CASES_IN_PARALLEL, DEFAULT_TARGET
from brokerproof.harness.cases.target_health import RunWatch, TargetHealth
from brokerproof.harness.catalogue import deviations, requirements
from brokerproof.harness.catalogue.tables import BadData
from brokerproof.harness.counterexamples import case_file, writer
from brokerproof.harness.inference import discovery
from brokerproof.harness.model import cost_limits
from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import records, run_folder
from brokerproof.harness.results.records import Result
from brokerproof.harness.session.broker_deaths import BrokerDeaths
from brokerproof.harness.session.forked_workers import GRACE_S, Workers, heaviest_first
from brokerproof.harness.session.real_time_order import beginning_order
from brokerproof.harness.session.real_time_workers import Lateness, RealTimeWorkers, processes_for
from brokerproof.harness.session.target_start import TargetStart
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.external.target import AddressTarget
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.targets.target import Target
from brokerproof.harness.trace.recorder import Recorder
from brokerproof.harness.worlds.bounds import RunStopped

SET_UP_FAILED, USAGE = 3, 4
_CASES_END_WITHIN_S = 5.0
_INTERRUPTED_CASES_END_WITHIN_S = 0.5
_INTERRUPTED_WORKERS_END_WITHIN_S = 1.5
"""The time for a worker to write its last segment of the trace, which takes tens of milliseconds on
a quiet host."""
Outcome = TypeVar("Outcome")

COLLECT_AT = 50_000
"""The number of allocations between two garbage collections, in workers too. With Python's default
of 700, a case with 10,000 messages took a third longer."""
ALONE = frozenset({"alarms", "system-usage"})
"""On a target with one of these capabilities, cases affect the whole broker and so run one after
the other."""


def kills(run: Run, call: Call) -> bool:
    """True if the case is known to kill the broker."""
    return deviations.does_harm(run.deviations, call.id, run.facts.version)


def does_harm(run: Run, call: Call) -> bool:
    """True if the case may leave the broker unusable, so that it must run last and alone."""
    return bool(call.case.harm) or kills(run, call)


class CaseRuns:
    """The target of a session, started for the first case or earlier on request, and the results of
    the cases. Problems with the target end the session through ``pytest.exit``."""

    def __init__(self, options: Namespace) -> None:
        self._options = options
        self.target_name: str = options.brokerproof_target or DEFAULT_TARGET
        self.folder = (
            None if options.brokerproof_record is None else Path(options.brokerproof_record)
        )
        self.run: Run | None = None
        """None until the target has started."""
        self._target: Target | None = None
        self._starting: TargetStart | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._workers: Workers | None = None
        self._real_time_workers: RealTimeWorkers | None = None
        """The same workers, if they run in real time."""
        self._futures: list[Future[Result]] = []
        self._logs = (self.folder or Path(".pytest_cache") / "brokerproof") / "logs"
        self._harmed = False
        """True if the last case may have left the target unusable."""
        self._started: dict[str, Callable[[], Result]] = {}
        """For each case that began before pytest reached it, a function that waits for the
        result."""

    def load_target(self) -> Target:
        if self._target is None:
            try:
                changes = cost_limits.parse(tuple(self._options.brokerproof_limit))
                self._target = target_file.load(self.target_name, changes)
            except (target_file.BadTarget, ValueError) as problem:
                pytest.exit(str(problem), returncode=USAGE)
            if isinstance(self._target, SocketTarget):
                self._target.brief = True
        return self._target

    def start_early(self) -> None:
        """Start our own broker in a thread, in parallel with other work."""
        target = self.load_target()
        if target.clock is Clock.REAL and target.identity.started_here:
            self._starting = TargetStart(target, self._logs)

    def start(self) -> Run:
        """Start the target or wait for its start; return the run on it."""
        target = self.load_target()
        try:
            catalogue = requirements.load()
            facts = target.start(self._logs) if self._starting is None else self._starting.facts()
            facts = discovery.complete(target, facts, self._options.brokerproof_seed)
            identity = target.identity
            known = tuple(
                deviations.of_target(identity.deviations, identity.profile.name, identity.name)
            )
        except SetUpFailed as problem:
            target.stop()
            target.identity.redaction.folder(self._logs)
            sentence = " ".join(str(problem).split())  # pytest ends its output with the first line
            pytest.exit(target.identity.redaction.text(sentence), returncode=SET_UP_FAILED)
        except BadData as problem:
            target.stop()
            pytest.exit(str(problem), returncode=USAGE)
        self.run = Run(
            target=target,
            facts=facts,
            catalogue=catalogue,
            deviations=known,
            recorder=self._recorder(target, "0"),
            effort=self._options.brokerproof_effort,
            seed=self._options.brokerproof_seed,
            allow_harm=self._options.brokerproof_allow_harm,
            keep_counterexample=None
            if self.folder is None
            else functools.partial(writer.keep, self.folder / case_file.FOLDER),
        )
        if self.folder is not None:
            run_folder.add_target(self.folder, target, facts)
        if target.clock is Clock.REAL:
            health = or_exit(lambda: TargetHealth(target, self._options.brokerproof_seed))
            self.run = replace(self.run, health=health)
        return self.run

    def begin(self, run: Run, calls: Sequence[Call]) -> None:
        """Begin those cases that need not wait until pytest reaches them."""
        together = self._options.brokerproof_cases_in_parallel
        gc.set_threshold(COLLECT_AT)
        if run.target.clock is Clock.REAL:
            if ALONE & run.target.identity.capabilities:
                together = 1
            one_at_a_time()
            gc.freeze()  # garbage collection stops every thread: exempt the collected items
            harmless = []
            for call in calls:
                if does_harm(run, call):
                    self._started[call.id] = functools.partial(self._execute_alone, run, call)
                else:
                    harmless.append(call)
            self._begin_in_real_time(run, beginning_order(harmless), together)
        elif (together or 1) > 1 and len(calls) > 1:
            self._workers = Workers(
                heaviest_first(run, calls),
                together,
                lambda name: replace(run, recorder=self._recorder(run.target, name)),
                run.target.identity.name,
                self._keep,
            )
            for call in calls:
                self._started[call.id] = functools.partial(self._workers.result, call)

    def _begin_in_real_time(self, run: Run, calls: Sequence[Call], together: int | None) -> None:
        """Begin ``calls``. At most ``together`` of them run concurrently (default: the number of
        places)."""
        processes = processes_for(len(calls), together)
        chosen, together = together, together or CASES_IN_PARALLEL * processes
        # The release of a broker given by its address is unknown, so a frame may kill the broker.
        if isinstance(run.target, AddressTarget) or (
            processes > 1 and isinstance(run.target, SocketTarget)
        ):
            restart = self._options.brokerproof_restart
            self._workers = self._real_time_workers = RealTimeWorkers(
                calls,
                processes,
                together,
                functools.partial(self._run_in_fork, run, processes),
                run.target,
                self._keep,
                # Idle processors here show nothing about a broker on another host.
                more=chosen is None and run.target.on_this_host,
                deaths=BrokerDeaths(run, restart, self._logs, self._keep),
            )
            for call in calls:
                self._started[call.id] = functools.partial(self._workers.result, call)
            return
        self.watch(run)
        self._pool = ThreadPoolExecutor(together, thread_name_prefix="case")
        for call in calls:
            future = self._pool.submit(self._execute, run, call)
            self._futures.append(future)
            self._started[call.id] = future.result

    def _run_in_fork(self, run: Run, processes: int, name: str) -> Run:
        """Return the run as seen by one of the ``processes`` that judge the target together."""
        assert isinstance(run.target, SocketTarget)
        run.target.continue_in_fork(run.target.identity.limits.share_of(processes))
        assert run.health is not None
        run = replace(
            run, recorder=self._recorder(run.target, name), health=run.health.in_fork(name)
        )
        self.watch(run)
        return run

    def watch(self, run: Run) -> None:
        """Start watching the target and this process's memory."""
        if run.health is not None and isinstance(run.target, SocketTarget):
            RunWatch(run.target, run.health).start()

    def result(self, call: Call) -> Result:
        """Wait for the result of a case, or run it now if it has not begun."""
        assert self.run is not None
        run = self.run
        return or_exit(self._started.get(call.id) or (lambda: self._execute(run, call)))

    def _recorder(self, target: Target, tag: str) -> Recorder:
        return Recorder(
            self.folder,
            run=self.folder.resolve().name if self.folder is not None else "",
            target=target.identity.name,
            clock=target.clock,
            tag=tag,
            redaction=target.identity.redaction,
        )

    def _execute(self, run: Run, call: Call) -> Result:
        if isinstance(run.target, SocketTarget):
            run.target.bounds.check()
        result = execute(run, call)
        self._keep(result)
        return result

    def _execute_alone(self, run: Run, call: Call) -> Result:
        """Run a harmful case after all other cases have finished. If the broker then no longer
        serves, the run does not end: the broker is restarted before the next harmful case."""
        wait(self._futures)
        workers = self._real_time_workers
        if workers is not None and not workers.ended:
            workers.finish()
            self.watch(run)  # this process has judged nothing yet
        if run.health is not None:
            run.health.leave_alone()
        if self._harmed and run.target.identity.started_here:
            self._stop(run.target)
            run = replace(run, facts=run.target.start(self._logs))
        result = self._execute(replace(run, health=None), call)
        well = (Verdict.PASS, Verdict.SKIP, Verdict.NOTE)
        self._harmed = kills(run, call) or result.verdict not in well
        return result

    def _stop(self, target: Target) -> None:
        if self._harmed and isinstance(target, SocketTarget):
            target.kill()
        target.stop()

    def _keep(self, result: Result) -> None:
        if self.folder is not None:
            records.append(self.folder, result)

    def finish(self, *, interrupted: bool) -> bool:
        """End the running cases, and stop the target. Return True if a case does not end."""
        within = _INTERRUPTED_CASES_END_WITHIN_S if interrupted else _CASES_END_WITHIN_S
        stuck = False
        if self._workers is not None:
            self._workers.stop(_INTERRUPTED_WORKERS_END_WITHIN_S if interrupted else GRACE_S)
        if self._pool is not None:
            if isinstance(self._target, SocketTarget):
                self._target.bounds.stop("the run has ended")
            self._pool.shutdown(wait=False, cancel_futures=True)
            under_way = [future for future in self._futures if not future.done()]
            stuck = bool(wait(under_way, within).not_done)
        if self.run is None:
            if self._starting is not None:  # no case has started it
                self._starting.end(within)
            return stuck
        self.run.recorder.flush()
        if self.folder is not None and isinstance(self.run.target, SocketTarget):
            measured = [Lateness.of(self.run.target.canary)]
            if self._real_time_workers is not None:
                measured += self._real_time_workers.lateness
            run_folder.write_canary(
                self.folder,
                self.run.target.identity.name,
                max(lateness.p99 for lateness in measured),
                max(lateness.worst for lateness in measured),
            )
        self._stop(self.run.target)
        if self.folder is not None:
            self.run.target.identity.redaction.folder(self.folder / "logs")
        return stuck


def or_exit(work: Callable[[], Outcome]) -> Outcome:
    """Return the outcome of ``work``; end the session if the run cannot continue."""
    try:
        return work()
    except RunStopped as stopped:
        pytest.exit(str(stopped), returncode=SET_UP_FAILED)
