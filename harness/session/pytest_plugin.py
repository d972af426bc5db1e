"""Runs conformance cases under pytest: one target per session, with an optional run folder for
results and trace.

Cases start concurrently before pytest iterates over its items (``case_runs.py``). When pytest
reaches an item, it waits for that case and reports it.

pytest-xdist may distribute cases over its processes, mixed with other tests, in virtual time or
against a broker at an address. Each process then runs its cases one by one, with its own names. The
plugin rejects this if the processes would interfere with each other: with a target that can raise
alarms, with a run folder, or if each would start a broker."""

import argparse
import functools
import gc
import inspect
import os
import random
import signal
import sys
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pytest

from brokerproof.harness.cases import case as cases
from brokerproof.harness.cases import case_index
from brokerproof.harness.cases.case_index import IndexedCase
from brokerproof.harness.cases.client_trials import TRIALS
from brokerproof.harness.cases.execution import Call, Run
from brokerproof.harness.cases.selection import BadSelection, Selection
from brokerproof.harness.catalogue import requirements
from brokerproof.harness.catalogue.areas import Area, area_of
from brokerproof.harness.catalogue.requirements import Catalogue
from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import records, run_folder
from brokerproof.harness.results.records import Result
from brokerproof.harness.session.case_runs import ALONE, CaseRuns, does_harm


def pytest_configure(config: pytest.Config) -> None:
    option = config.option
    option.brokerproof_seed = _seed(option)
    for area in Area:
        config.addinivalue_line("markers", f"{MARKER}{area}: conformance cases of {area.label}")
    session = _Session(config)
    # pytest-xdist sets this option in its controller; its workers need no check.
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
    """Return the seed of the examples; Hypothesis' own option takes precedence."""
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
    raise pytest.UsageError(
        f"pytest-xdist (-n) cannot be used with {option}: {reason}; leave one out"
    )


class CaseNotPassed(Exception):
    """A case whose verdict pytest reports as a failure. The message explains it."""


def _explanation(result: Result, catalogue: Catalogue) -> str:
    """Return the verdict and its sentence, and the words and source of each requirement
    concerned."""
    lines = [f"{result.verdict}: {result.detail}"]
    if result.verdict is Verdict.ERROR:  # an ERROR does not come from a requirement
        return lines[0]
    for finding in result.findings:
        if finding.verdict is result.verdict:
            requirement = catalogue.find(finding.requirement)
            lines += [
                f"{requirement.heading}: {requirement.required}",
                f"    {requirement.id} ({requirement.level})",
                f"    {requirement.link}",
            ]
    return "\n".join(lines)


MARKER = "brokerproof_"
"""The prefix of markers for areas, such as ``brokerproof_heartbeat``."""


def _runs_alone(run: Run, item: pytest.Item) -> bool:
    call = _call(item)
    return call is not None and does_harm(run, call)


class _Session:
    """The hooks of a session. The target starts with the first case to run or, in a recording run,
    during collection."""

    def __init__(self, config: pytest.Config) -> None:
        self._options = config.option
        self._runs = CaseRuns(config.option)
        self._folder = self._runs.folder
        self._interrupted = False
        self._stuck = False
        """True if a case had not ended when the run was over."""
        self._status = 0

    def check_spreading(self) -> None:
        """Raise ``pytest.UsageError`` if pytest-xdist's processes would interfere with each
        other."""
        options = self._options
        if self._folder is not None:
            _refuse_spreading("--brokerproof-record", "only one process can write a run folder")
        if options.brokerproof_cases_in_parallel is not None:
            _refuse_spreading("--brokerproof-cases-in-parallel", "each process would run all cases")
        if options.brokerproof_allow_harm:
            _refuse_spreading(
                "--brokerproof-allow-harm", "a broker harmed in one process fails cases in others"
            )
        target = self._runs.load_target()
        if target.clock is Clock.REAL and target.identity.started_here:
            _refuse_spreading(
                f"--brokerproof-target {self._runs.target_name}",
                "each process would start a broker; without xdist, cases in real time also run"
                " concurrently",
            )
        if target.clock is Clock.REAL and ALONE & target.identity.capabilities:
            _refuse_spreading(
                f"--brokerproof-target {self._runs.target_name}",
                "an alarm blocks the cases of other processes",
            )

    # collection

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Start our own broker during collection: a recording run always has cases, and during
        collection a core is free."""
        options = self._options
        if self._folder is None or options.collectonly or options.brokerproof_index:
            return
        _end_well()
        self._runs.start_early()

    @pytest.fixture
    def target(self) -> None:
        """Return the argument of conformance cases. The plugin, not pytest, creates its value for
        each case."""

    @pytest.hookimpl
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        declared = cases.of(metafunc.function)
        if declared is not None and "version" in metafunc.fixturenames:
            metafunc.parametrize("version", list(declared.by_version))

    @pytest.hookimpl
    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Make ``-k`` match the ids of cases, and ``-m`` their areas."""
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
            name = self._runs.load_target().identity.name
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
            self._runs.load_target().identity.name,
        )

    def _select(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect cases that the options exclude. A broker target also excludes client trials; a
        client target excludes all other cases. Ordinary tests stay."""
        options = self._options
        selection = Selection(
            tuple(options.brokerproof_case),
            tuple(options.brokerproof_exclude),
            tuple(options.brokerproof_requirement),
            tuple(options.brokerproof_area),
        )
        asks_all = options.collectonly or options.brokerproof_index is not None
        if not selection and (asks_all or not any(map(_call, items))):
            return
        judged = TRIALS if asks_all else self._runs.load_target().identity.capabilities & TRIALS
        kept: list[pytest.Item] = []
        left_out: list[pytest.Item] = []
        try:
            for item in items:
                call = _call(item)
                chosen = call is None or (
                    (asks_all or call.case.needs & TRIALS == judged)
                    and selection.chooses(_indexed(call))
                )
                (kept if chosen else left_out).append(item)
        except BadSelection as problem:
            raise pytest.UsageError(str(problem)) from None
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept

    # running

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Begin the cases, then let pytest iterate over them. An interrupted recording run ends
        here, because pytest would first spend seconds formatting the contents of all stack
        frames."""
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
        if session.config.option.collectonly or broken:  # pytest itself reports collection errors
            return
        calls = [call for item in session.items if (call := _call(item)) is not None]
        if not calls:
            return
        run = self._runs.start()
        if hasattr(session.config, "workerinput"):
            self._runs.watch(run)
            return  # pytest-xdist decides which cases run in this process: begin none early
        if run.target.clock is Clock.REAL:
            # Cases that run last must be reported last, or pytest would hold up all others.
            session.items.sort(key=functools.partial(_runs_alone, run))
        self._runs.begin(run, calls)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        call = _call(pyfuncitem)
        if call is None:
            return None
        result = self._runs.result(call)
        assert self._runs.run is not None
        pyfuncitem.user_properties += [("verdict", result.verdict.value), ("detail", result.detail)]
        if result.verdict is Verdict.SKIP:
            pytest.skip(result.detail)
        if result.verdict is Verdict.KNOWN:
            pytest.xfail(result.detail)
        if result.verdict not in (Verdict.PASS, Verdict.NOTE, Verdict.WARN):
            raise CaseNotPassed(_explanation(result, self._runs.run.catalogue))
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """If a case did not pass, report this in one sentence: a traceback through the harness
        would not help."""
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
        self._stuck = self._runs.finish(interrupted=self._interrupted)

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Record an interrupt before the first case, but not a collection error. Leave pytest only
        the first frame, because pytest fails on a frame between two lines, which has no line
        number."""
        if excinfo.type is KeyboardInterrupt:
            self._interrupted = True
            excinfo.traceback = excinfo.traceback[:1]

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """End a process that would otherwise wait for stuck cases. In other processes, skip the
        final garbage collection, which took half a second for a run's results."""
        if self._folder is not None:
            gc.freeze()
        if self._stuck:
            sys.stdout.flush()
            os._exit(self._status)


def _end_well() -> None:
    """Make SIGTERM and SIGINT end this process cleanly: recorded traces are kept, and the target
    stops. A run that is interrupted at a terminal receives the signal twice, from the terminal and
    from its parent command; the second signal is ignored."""

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt from None  # pytest would format the frames of its context too

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)


def _call(item: object) -> Call | None:
    """The case of a pytest item, with its parametrized arguments; None for ordinary tests."""
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
