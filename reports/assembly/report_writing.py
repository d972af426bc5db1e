"""Writes the report on run folders, in a separate Spark session or without Spark."""

import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

import click

from brokerproof.harness.catalogue.requirements import load
from brokerproof.harness.targets.java_runtime import NoJava
from brokerproof.harness.trace.read import DAMAGED
from brokerproof.reports.assembly.case_data import ready
from brokerproof.reports.assembly.failures import in_one_sentence
from brokerproof.reports.assembly.pipeline import Report, Step, build
from brokerproof.reports.assembly.tasks import LocalTasks, SparkTasks, local_tasks
from brokerproof.reports.model.requirements import Requirements
from brokerproof.reports.model.target_summaries import read_measured
from brokerproof.reports.sources.result_rows import flatten
from brokerproof.reports.sources.runs import check_data, open_runs
from brokerproof.reports.spark import on_demand
from brokerproof.reports.spark.gateway import NoGateway

BRIEF_EVENTS = 400_000
"""With fewer events than this in the tables, an optimising compiler takes more time than it saves.
Without tables of the trace, Python's workers handle the events."""
WORKERS = "brokerproof.reports.assembly.case_workers"
_CASES = "brokerproof.reports.assembly.case_data"
_EARLY_NICENESS = 5
"""The niceness of a process that starts Spark while other processes measure times."""


def command(
    runs: Sequence[Path],
    out: Path,
    master: str | None,
    inferred: Iterable[str],
    *,
    trace_tables: bool,
    as_json: bool,
    quiet: bool,
    early: bool,
) -> None:
    """Write the report as ``brokerproof report`` does. The arguments are the command's options."""
    with in_one_sentence(), ExitStack() as stack:
        say = _silent if quiet or as_json else _say
        started = stack.enter_context(_started_early(master)) if early else None
        written = write(runs, out, master, say, inferred, trace_tables, started)
    if as_json:
        click.echo(json.dumps(facts(written), indent=1))
    elif not quiet:
        click.echo(f"report: {written.index}")


@contextmanager
def processes(master: str | None, *, brief: bool) -> Iterator[SparkTasks | LocalTasks]:
    """Return Spark's processes if PySpark is installed, else local ones. ``brief`` means that there
    is little data."""
    if master is not None:
        on_demand.require("--master")
    if not on_demand.installed():
        with local_tasks(_CASES) as tasks:
            yield tasks
        return
    from brokerproof.reports.spark.session import context
    from brokerproof.reports.spark.without_pandas import leave_pandas_out

    leave_pandas_out()
    with context(master, brief=brief, daemon=WORKERS) as spark:
        yield SparkTasks(spark)


@contextmanager
def _started_early(master: str | None) -> Iterator[SparkTasks | LocalTasks]:
    """Start processes that suit little data, then wait for a line on standard input; if there is
    none, exit. A failure to start Spark is reported only after that line."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    os.nice(_EARLY_NICENESS)
    with ExitStack() as stack:
        problem: Exception | None = None
        try:
            started = stack.enter_context(processes(master, brief=True))
            started.warm_up(ready)
        except (NoJava, NoGateway, on_demand.NoSpark) as failed:
            problem = failed
        except on_demand.problems() as failed:
            problem = failed
        if not sys.stdin.readline():
            sys.exit(0)
        if problem is not None:
            raise problem
        yield started


def write(
    runs: Iterable[Path],
    out: Path,
    master: str | None = None,
    step: Step = lambda _: None,
    inferred: Iterable[str] = (),
    trace_tables: bool = False,
    started: SparkTasks | LocalTasks | None = None,
) -> Report:
    """Write the report on ``runs`` to ``out``, with ``inferred`` in the form of ``--infer``. Use
    the ``started`` processes, or start new ones. Raises the errors that :func:`command` turns into
    sentences.

    Bad input is found before a JVM is started, except a damaged segment with an intact footer. Only
    the processes notice such damage. The segment is then searched for, so that the error can name
    it."""
    if trace_tables:
        on_demand.require("--tables")
    requirements = Requirements(load().values())
    opened = open_runs(runs)
    outcomes = flatten(opened)
    measured = read_measured(inferred)
    out.mkdir(parents=True, exist_ok=True)
    brief = not trace_tables or sum(run.events() for run in opened) < BRIEF_EVENTS
    try:
        with processes(master, brief=brief) if started is None else nullcontext(started) as tasks:
            return build(
                tasks,
                opened,
                out,
                requirements,
                outcomes=outcomes,
                measured=measured,
                trace_tables=trace_tables,
                step=step,
            )
    except (*on_demand.problems(), BrokenProcessPool, *DAMAGED):
        check_data(opened)
        raise


def facts(written: Report) -> dict[str, object]:
    """Return the data that ``--json`` prints."""
    shown = written.model
    return {
        "report": str(written.folder),
        "index": str(written.index),
        "runs": [
            {"run": run.name, "folder": str(run.folder), "finished": run.footer is not None}
            for run in shown.runs
        ],
        "targets": [
            {
                "run": bar.column.run,
                "target": bar.column.target,
                "cases": bar.cases,
                "verdicts": dict(bar.counts),
            }
            for bar in shown.bars
        ],
        "requirements": {"judged": shown.judged_total, "unjudged": shown.unjudged_total},
        "pages": written.pages,
        "warnings": shown.warnings,
    }


def _say(what: str) -> None:
    click.echo(f"report: {what}", err=True)


def _silent(_: str) -> None: ...
