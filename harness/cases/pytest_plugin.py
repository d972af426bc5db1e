"""Runs conformance cases under pytest: one target a session, results and trace into a run folder if
asked.

Cases against a target in real time mostly wait. They are started side by side in threads before
pytest walks through its items; when pytest comes to an item it waits for that case and reports it.
Many of them compute more than one core can: then the threads are those of several processes
(``harness/cases/real_time_workers.py``). The longest begin first
(``harness/cases/real_time_order.py``), and pytest still sees one item after the other. Cases in
virtual time only compute: they run side by side, if asked, in processes of their own
(``harness/cases/forked_workers.py``).

pytest-xdist may spread cases over its processes, among other tests: in virtual time, or against a
broker that runs at an address. Each process runs its cases one after the other, under names of its
own. It is refused where the processes would get into each other's way: under an alarm, in one run
folder, or where each of them would start a broker.
"""

from __future__ import annotations

import argparse
import functools
import gc
import inspect
import os
import random
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeVar

import pytest

from brokerproof.harness.cases import case as cases
from brokerproof.harness.cases import case_index
from brokerproof.harness.cases.ast_parse_lock import one_at_a_time
from brokerproof.harness.cases.case_index import IndexedCase
from brokerproof.harness.cases.execution import Call, Run, execute
from brokerproof.harness.cases.forked_workers import GRACE_S, Workers, heaviest_first
from brokerproof.harness.cases.pytest_options import CASES_IN_PARALLEL, DEFAULT_TARGET
from brokerproof.harness.cases.real_time_order import beginning_order
from brokerproof.harness.cases.real_time_workers import Lateness, RealTimeWorkers, processes_for
from brokerproof.harness.cases.selection import BadSelection, Selection
from brokerproof.harness.cases.target_health import RunWatch, TargetHealth
from brokerproof.harness.cases.target_start import TargetStart
from brokerproof.harness.catalogue import deviations, requirements
from brokerproof.harness.catalogue.areas import Area, area_of
from brokerproof.harness.catalogue.requirements import Catalogue
from brokerproof.harness.catalogue.tables import BadData
from brokerproof.harness.counterexamples import case_file
from brokerproof.harness.inference import own_addresses
from brokerproof.harness.inference.dialect import infer_dialect, is_unknown
from brokerproof.harness.model import cost_limits
from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import records, run_folder
from brokerproof.harness.results.records import Result
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.targets.target import Target
from brokerproof.harness.trace.recorder import Recorder
from brokerproof.harness.worlds.bounds import RunStopped

_SET_UP_FAILED, _USAGE = 3, 4
_CASES_END_WITHIN_S = 5.0
_INTERRUPTED_CASES_END_WITHIN_S = 0.5
_INTERRUPTED_WORKERS_END_WITHIN_S = 1.5
"""A worker writes its last segment of the trace meanwhile: tens of milliseconds on a quiet host."""
Outcome = TypeVar("Outcome")


def pytest_configure(config: pytest.Config) -> None:
    """Register the session of conformance cases."""
    option = config.option
    option.brokerproof_seed = _seed(option)
    for area in Area:
        config.addinivalue_line("markers", f"{MARKER}{area}: conformance cases of {area.label}")
    session = _Session(config)
    # pytest-xdist has this option in the process that spreads; those that it starts need not ask.
    if getattr(option, "dist", "no") != "no":
        session.check_spreading()
    record = option.brokerproof_record
    if record is not None and not (Path(record) / run_folder.HEADER).exists():
        try:
            run_folder.create(
                Path(record),
                command=sys.argv,
                seed=option.brokerproof_seed,
                effort=option.brokerproof_effort,
            )
        except run_folder.BadRunFolder as problem:
            raise pytest.UsageError(f"--brokerproof-record: {problem}") from None
    config.pluginmanager.register(session, "brokerproof-session")


def _seed(option: argparse.Namespace) -> int:
    """Return the seed of the examples: Hypothesis' own option counts where it is given."""
    given = getattr(option, "hypothesis_seed", None)
    if given is None:
        return int(option.brokerproof_seed)
    if given == "random":
        return random.SystemRandom().randrange(2**32)
    try:
        return int(given)
    except ValueError:
        raise pytest.UsageError(
            f"--hypothesis-seed is {given!r}; it should be a number or random"
        ) from None


def _refuse_spreading(option: str, reason: str) -> NoReturn:
    raise pytest.UsageError(f"pytest-xdist (-n) does not go with {option}: {reason}; leave one out")


class CaseNotPassed(Exception):
    """A case with a verdict that pytest reports as a failure; the text explains it."""


def _explanation(result: Result, catalogue: Catalogue) -> str:
    """The verdict and its sentence, and the words and the source of each requirement behind it."""
    lines = [f"{result.verdict}: {result.detail}"]
    if result.verdict is Verdict.ERROR:  # no requirement's fault
        return lines[0]
    for finding in result.findings:
        if finding.verdict is result.verdict:
            requirement = catalogue.find(finding.requirement)
            lines += [
                f"{requirement.id} ({requirement.level}): {requirement.statement}",
                f"    {requirement.link}",
            ]
    return "\n".join(lines)


MARKER = "brokerproof_"
"""Beginning of the markers of areas, such as ``brokerproof_heartbeat``."""


ALONE = frozenset({"alarms", "system-usage"})
"""On a target with one of these cases do something to all of the broker: there they run one after
the other."""


def _kills(run: Run, call: Call) -> bool:
    """True if the broker is known not to survive the case."""
    return deviations.does_harm(run.deviations, call.id, run.facts.version)


def _does_harm(run: Run, call: Call) -> bool:
    """True if the case may leave a broker unusable: such a case runs last and alone."""
    return bool(call.case.harm) or _kills(run, call)


def _runs_alone(run: Run, item: pytest.Item) -> bool:
    call = _call(item)
    return call is not None and _does_harm(run, call)


class _Session:
    """Everything between the first case and the last. The target is started only when there is a
    case to run, or beside the collection of a run that records."""

    def __init__(self, config: pytest.Config) -> None:
        self._options = config.option
        self._target_name = config.option.brokerproof_target or DEFAULT_TARGET
        self._folder = (
            None
            if config.option.brokerproof_record is None
            else Path(config.option.brokerproof_record)
        )
        self._target: Target | None = None
        self._starting: TargetStart | None = None
        self._run: Run | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._workers: Workers | None = None
        self._real_time_workers: RealTimeWorkers | None = None
        """The same, where they are of that kind."""
        self._futures: list[Future[Result]] = []
        self._logs = (self._folder or Path(".pytest_cache") / "brokerproof") / "logs"
        self._harmed = False
        """True if the last case may have left the target unusable."""
        self._stuck = False
        self._interrupted = False
        self._status = 0
        """True if a case did not end in time when the run did."""
        self._started: dict[str, Callable[[], Result]] = {}
        """Return a function that waits for the result of a case that was begun before pytest
        reached it."""

    def check_spreading(self) -> None:
        """Raise ``pytest.UsageError`` where the processes of pytest-xdist could not share what
        there is."""
        options = self._options
        if self._folder is not None:
            _refuse_spreading("--brokerproof-record", "a run folder is written by one process")
        if options.brokerproof_cases_in_parallel is not None:
            _refuse_spreading(
                "--brokerproof-cases-in-parallel", "each of its processes would begin all cases"
            )
        if options.brokerproof_allow_harm:
            _refuse_spreading(
                "--brokerproof-allow-harm", "a harmed broker fails the cases of other processes"
            )
        target = self._load_target()
        if target.clock is Clock.REAL and target.identity.started_here:
            _refuse_spreading(
                f"--brokerproof-target {self._target_name}",
                "each of its processes would start one; cases in real time run side by side"
                " without it",
            )
        if target.clock is Clock.REAL and ALONE & target.identity.capabilities:
            _refuse_spreading(
                f"--brokerproof-target {self._target_name}",
                "an alarm holds back the cases of other processes",
            )

    # collection

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Start a broker of ours while cases are collected: what records has cases, and collecting
        them leaves a core free."""
        options = self._options
        if self._folder is None or options.collectonly or options.brokerproof_index:
            return
        _end_well()
        target = self._load_target()
        if target.clock is Clock.REAL and target.identity.started_here:
            self._starting = TargetStart(target, self._logs)

    @pytest.fixture
    def target(self) -> None:
        """The argument of conformance cases. Its value is made per case by the plugin, not by
        pytest."""

    @pytest.hookimpl
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        declared = cases.of(metafunc.function)
        if declared is not None and "version" in metafunc.fixturenames:
            metafunc.parametrize("version", list(declared.by_version))

    @pytest.hookimpl
    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Make ``-k`` take the ids of cases, and ``-m`` their areas."""
        call = _call(item)
        if call is not None:
            item.extra_keyword_matches.add(call.id)
            for area in {area_of(requirement) for requirement in call.cited}:
                item.add_marker(f"{MARKER}{area}")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        self._select(config, items)
        calls = {item.nodeid: call for item in items if (call := _call(item)) is not None}
        if self._options.brokerproof_index is not None:
            levels = {row.id: row.level.value for row in requirements.load().values()}
            case_index.write_cases(
                Path(self._options.brokerproof_index),
                [
                    replace(_indexed(call), levels=tuple(levels.get(r, "") for r in call.cited))
                    for call in calls.values()
                ],
            )
        if self._folder is None or not calls:
            return
        if self._options.brokerproof_resume:
            name = self._load_target().identity.name
            done = {result.case for result in records.read(self._folder) if result.target == name}
            again = [
                item
                for item in items
                if item.nodeid not in calls or calls[item.nodeid].id not in done
            ]
            config.hook.pytest_deselected(items=[item for item in items if item not in again])
            items[:] = again
        run_folder.add_cases(
            self._folder,
            {
                call.id: {
                    "doc": call.case.doc,
                    "requirements": list(call.cited),
                    "source": call.case.source,
                    **({"drawn": drawn} if (drawn := call.case.drawn) else {}),
                }
                for call in calls.values()
            },
        )

    def _select(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect the cases that the options do not choose; ordinary tests stay."""
        options = self._options
        selection = Selection(
            tuple(options.brokerproof_case),
            tuple(options.brokerproof_exclude),
            tuple(options.brokerproof_requirement),
            tuple(options.brokerproof_area),
        )
        if not selection:
            return
        kept: list[pytest.Item] = []
        left_out: list[pytest.Item] = []
        try:
            for item in items:
                call = _call(item)
                chosen = call is None or selection.chooses(_indexed(call))
                (kept if chosen else left_out).append(item)
        except BadSelection as problem:
            raise pytest.UsageError(str(problem)) from None
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept

    # running

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Begin the cases, and let pytest walk through them. An interrupted recording ends here:
        pytest would first describe all that every frame holds, which takes seconds."""
        self._begin_cases(session)
        try:
            return (yield)
        except KeyboardInterrupt as interrupt:
            if self._folder is None or type(interrupt) is not KeyboardInterrupt:
                raise
            self._interrupted = True
            return True

    def _begin_cases(self, session: pytest.Session) -> None:
        broken = session.testsfailed and not session.config.option.continue_on_collection_errors
        if (
            session.config.option.collectonly or broken
        ):  # pytest itself says what could not be collected
            return
        calls = [call for item in session.items if (call := _call(item)) is not None]
        if not calls:
            return
        run = self._begin()
        if hasattr(session.config, "workerinput"):
            self._watch(run)
            return  # pytest-xdist decides which cases are this process's: none is begun early
        if run.target.clock is Clock.REAL:
            together = (
                1
                if ALONE & run.target.identity.capabilities
                else self._options.brokerproof_cases_in_parallel
            )
            one_at_a_time()
            gc.freeze()  # collections of garbage stop every thread: spare them what was collected
            harmless = []
            # What runs last is reported last, or pytest would wait there with all behind it.
            session.items.sort(key=functools.partial(_runs_alone, run))
            for call in calls:
                if _does_harm(run, call):
                    self._started[call.id] = functools.partial(self._execute_alone, run, call)
                else:
                    harmless.append(call)
            self._begin_in_real_time(run, beginning_order(harmless), together)
        elif (self._options.brokerproof_cases_in_parallel or 1) > 1 and len(calls) > 1:
            self._workers = Workers(
                heaviest_first(run, calls),
                self._options.brokerproof_cases_in_parallel,
                lambda name: replace(run, recorder=self._recorder(run.target, name)),
                run.target.identity.name,
                self._keep,
            )
            for call in calls:
                self._started[call.id] = functools.partial(self._workers.result, call)

    def _begin_in_real_time(self, run: Run, calls: Sequence[Call], together: int | None) -> None:
        """Begin ``calls``, ``together`` of them at the same time, or as many as there are places by
        default."""
        processes = processes_for(len(calls), together)
        chosen, together = together, together or CASES_IN_PARALLEL * processes
        if processes > 1 and isinstance(run.target, SocketTarget):
            self._workers = self._real_time_workers = RealTimeWorkers(
                calls,
                processes,
                together,
                functools.partial(self._run_in_fork, run, processes),
                run.target,
                self._keep,
                # Of a broker that runs elsewhere our idle processor says nothing.
                more=chosen is None and run.target.identity.started_here,
            )
            for call in calls:
                self._started[call.id] = functools.partial(self._workers.result, call)
            return
        self._watch(run)
        self._pool = ThreadPoolExecutor(together, thread_name_prefix="case")
        for call in calls:
            future = self._pool.submit(self._execute, run, call)
            self._futures.append(future)
            self._started[call.id] = future.result

    def _run_in_fork(self, run: Run, processes: int, name: str) -> Run:
        """The run as one of so many processes sees it that judge its target together."""
        assert isinstance(run.target, SocketTarget)
        run.target.continue_in_fork(run.target.identity.limits.share_of(processes))
        assert run.health is not None
        run = replace(
            run, recorder=self._recorder(run.target, name), health=run.health.in_fork(name)
        )
        self._watch(run)
        return run

    def _watch(self, run: Run) -> None:
        """Watch the target and the memory of this process from now on."""
        if run.health is not None and isinstance(run.target, SocketTarget):
            RunWatch(run.target, run.health).start()

    def _load_target(self) -> Target:
        if self._target is None:
            try:
                changes = cost_limits.parse(tuple(self._options.brokerproof_limit))
                self._target = target_file.load(self._target_name, changes)
            except (target_file.BadTarget, ValueError) as problem:
                pytest.exit(str(problem), returncode=_USAGE)
            if isinstance(self._target, SocketTarget):
                self._target.brief = True
        return self._target

    def _begin(self) -> Run:
        target = self._load_target()
        identity = target.identity
        try:
            known = tuple(
                deviations.of_target(identity.deviations, identity.profile.name, identity.name)
            )
            catalogue = requirements.load()
        except BadData as problem:
            pytest.exit(str(problem), returncode=_USAGE)
        try:
            facts = target.start(self._logs) if self._starting is None else self._starting.facts()
            own_addresses.complete(target, self._options.brokerproof_seed)
        except SetUpFailed as problem:
            target.stop()
            target.identity.redaction.folder(self._logs)
            pytest.exit(target.identity.redaction.text(str(problem)), returncode=_SET_UP_FAILED)
        if is_unknown(target.identity) and isinstance(target, SocketTarget):
            dialect = infer_dialect(target, self._options.brokerproof_seed)
            target.identity = dialect.applied(target.identity)
            facts = replace(facts, dialect=tuple(dialect.sentences))
        self._run = Run(
            target=target,
            facts=facts,
            catalogue=catalogue,
            deviations=known,
            recorder=self._recorder(target, "0"),
            effort=self._options.brokerproof_effort,
            seed=self._options.brokerproof_seed,
            allow_harm=self._options.brokerproof_allow_harm,
            counterexamples=None if self._folder is None else self._folder / case_file.FOLDER,
        )
        if self._folder is not None:
            run_folder.add_target(self._folder, target, facts)
        if target.clock is Clock.REAL:
            health = _or_exit(lambda: TargetHealth(target, self._options.brokerproof_seed))
            self._run = replace(self._run, health=health)
        return self._run

    def _recorder(self, target: Target, tag: str) -> Recorder:
        return Recorder(
            self._folder,
            run=self._folder.resolve().name if self._folder is not None else "",
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
        """Run a harmful case once every other case has its result. A broker that serves nobody any
        more is no reason to stop then; before another such case it is started anew."""
        wait(self._futures)
        workers = self._real_time_workers
        if workers is not None and not workers.ended:
            workers.finish()
            self._watch(run)  # this process judged nothing until now
        if run.health is not None:
            run.health.leave_alone()
        if self._harmed and run.target.identity.started_here:
            self._stop(run.target)
            run = replace(run, facts=run.target.start(self._logs))
        result = self._execute(replace(run, health=None), call)
        well = (Verdict.PASS, Verdict.SKIP, Verdict.NOTE)
        self._harmed = _kills(run, call) or result.verdict not in well
        return result

    def _stop(self, target: Target) -> None:
        if self._harmed and isinstance(target, SocketTarget):
            target.kill()
        target.stop()

    def _keep(self, result: Result) -> None:
        if self._folder is not None:
            records.append(self._folder, result)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        call = _call(pyfuncitem)
        if call is None:
            return None
        assert self._run is not None
        run = self._run
        result = _or_exit(self._started.get(call.id) or (lambda: self._execute(run, call)))
        pyfuncitem.user_properties += [("verdict", result.verdict.value), ("detail", result.detail)]
        if result.verdict is Verdict.SKIP:
            pytest.skip(result.detail)
        if result.verdict is Verdict.KNOWN:
            pytest.xfail(result.detail)
        if result.verdict not in (Verdict.PASS, Verdict.NOTE, Verdict.WARN):
            raise CaseNotPassed(_explanation(result, self._run.catalogue))
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Report a case that did not pass in one sentence; a traceback of the harness would say
        nothing."""
        report = yield
        if call.excinfo is not None and call.excinfo.errisinstance(CaseNotPassed):
            doc = inspect.cleandoc(getattr(getattr(item, "obj", None), "__doc__", "") or "")
            report.longrepr = f"{item.nodeid}\n{doc}\n{call.excinfo.value}"
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(
        self, session: pytest.Session, exitstatus: int
    ) -> Generator[None, None, None]:
        yield
        if self._interrupted:
            session.exitstatus = pytest.ExitCode.INTERRUPTED
        self._status = int(session.exitstatus)
        within = _INTERRUPTED_CASES_END_WITHIN_S if self._interrupted else _CASES_END_WITHIN_S
        if self._workers is not None:
            self._workers.stop(_INTERRUPTED_WORKERS_END_WITHIN_S if self._interrupted else GRACE_S)
        if self._pool is not None:
            if isinstance(self._target, SocketTarget):
                self._target.bounds.stop("the run has ended")
            self._pool.shutdown(wait=False, cancel_futures=True)
            under_way = [future for future in self._futures if not future.done()]
            self._stuck = bool(wait(under_way, within).not_done)
        if self._run is None:
            if self._starting is not None:  # no case came to it
                self._starting.end(within)
            return
        self._run.recorder.flush()
        if self._folder is not None and isinstance(self._run.target, SocketTarget):
            measured = [Lateness.of(self._run.target.canary)]
            if self._real_time_workers is not None:
                measured += self._real_time_workers.lateness
            run_folder.write_canary(
                self._folder,
                self._run.target.identity.name,
                max(lateness.p99 for lateness in measured),
                max(lateness.worst for lateness in measured),
            )
        self._stop(self._run.target)
        if self._folder is not None:
            self._run.target.identity.redaction.folder(self._folder / "logs")

    @pytest.hookimpl
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note an interrupt before the first case; what could not be collected is none."""
        self._interrupted |= excinfo.type is KeyboardInterrupt

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """End a process that would wait for the threads of stuck cases, and spare the others a
        collection of garbage: that of a run's results took half a second."""
        if self._folder is not None:
            gc.freeze()
        if self._stuck:
            sys.stdout.flush()
            os._exit(self._status)


def _or_exit(work: Callable[[], Outcome]) -> Outcome:
    """The outcome of ``work``; the session ends where the run cannot go on."""
    try:
        return work()
    except RunStopped as stopped:
        pytest.exit(str(stopped), returncode=_SET_UP_FAILED)


def _end_well() -> None:
    """Make SIGTERM and SIGINT end this process in order: the recorded traces are kept, and the
    target stops.

    A run that is interrupted at a terminal receives the signal twice, from the terminal and from
    the command that started it; the second is ignored.
    """

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)


def _call(item: object) -> Call | None:
    """The case behind a pytest item, with the arguments that parametrization chose; None for
    ordinary tests."""
    if not isinstance(item, pytest.Function):
        return None
    declared = cases.of(item.obj)
    if declared is None:
        return None
    chosen: dict[str, Any] = dict(item.callspec.params) if hasattr(item, "callspec") else {}
    version = chosen.pop("version", None)
    shown = "-".join(_shown(chosen))
    return Call(declared, version, chosen, declared.id(version, shown))


def _indexed(call: Call) -> IndexedCase:
    """The facts of a call by which it is selected and listed."""
    return IndexedCase(
        id=call.id,
        name=call.case.name,
        suite=call.case.suite,
        function=call.case.function.__qualname__,
        version=call.version,
        requirements=call.cited,
        needs=tuple(sorted(call.needs)),
        doc=call.case.doc,
        source=call.case.source,
    )


def _shown(arguments: dict[str, Any]) -> Sequence[str]:
    return [
        str(value) if isinstance(value, (str, int)) else type(value).__name__
        for value in arguments.values()
    ]
