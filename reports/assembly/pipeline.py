"""Turns run folders into a report folder."""

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from brokerproof.harness.catalogue import profiles
from brokerproof.harness.oracles.expectations import Expectations, expectations_of
from brokerproof.reports.assembly import case_data
from brokerproof.reports.assembly.tasks import SparkTasks, Tasks
from brokerproof.reports.exports import badge, ctrf, junit, summary
from brokerproof.reports.judging.recorded_verdicts import AGAIN, beside_verdicts
from brokerproof.reports.model.index_model import CaseRow, Model
from brokerproof.reports.model.index_model_builder import (
    Limits,
    Tables,
    case_rows,
    model,
    with_recordings,
)
from brokerproof.reports.model.overview import Overview, overview
from brokerproof.reports.model.requirement_compliance import Keeper, keepers
from brokerproof.reports.model.requirements import Requirements
from brokerproof.reports.model.slugs import plain_slug, slug
from brokerproof.reports.model.tables.behaviours import behaviours, compared
from brokerproof.reports.model.tables.coverage import coverage
from brokerproof.reports.model.tables.errors import ERRORS, errors_of
from brokerproof.reports.model.tables.history import history
from brokerproof.reports.model.tables.kills import kills
from brokerproof.reports.model.tables.matrix import matrix
from brokerproof.reports.model.tables.verdicts import cases, counts
from brokerproof.reports.model.target_history import in_order
from brokerproof.reports.model.target_summaries import Broker, Measured, brokers
from brokerproof.reports.sources.result_rows import Outcomes, flatten
from brokerproof.reports.sources.runs import Run
from brokerproof.reports.view.case_page import CasePages
from brokerproof.reports.view.render import Pages

INDEX_BYTES = 5_000_000
"""The maximum size of the index in bytes. Its lists are halved until it fits."""

Result = TypeVar("Result")
Step = Callable[[str], None]
"""A function that is called with each next step, in a few words."""


@dataclass(frozen=True)
class Report:
    folder: Path
    model: Model
    pages: int

    @property
    def index(self) -> Path:
        return self.folder / "index.html"


def build(
    tasks: Tasks,
    runs: Sequence[Run],
    out: Path,
    requirements: Requirements,
    *,
    outcomes: Outcomes | None = None,
    limits: Limits | None = None,
    measured: Measured | None = None,
    trace_tables: bool = False,
    step: Step = lambda _: None,
) -> Report:
    """Write the report on ``runs`` into ``out``, replacing any older one. ``measured`` has inferred
    parameters of targets (:func:`brokerproof.reports.model.target_summaries.read_measured`).
    ``trace_tables`` also writes the tables that grow with the recording, which needs Spark.

    Raises :class:`brokerproof.harness.results.records.UnreadableResults` for a line that is not a
    result, and ``OSError`` if ``out`` cannot be written."""
    flattened = outcomes if outcomes is not None else flatten(runs)
    limits = limits or Limits()
    out.mkdir(parents=True, exist_ok=True)
    rows = case_rows(flattened.results, runs)
    judgements = flattened.findings.to_pylist()
    judged = {row["requirement"] for row in judgements if row["verdict"] != "SKIP"}
    pages = Pages(requirements, judged)
    of_cases = CasePages(requirements, runs, judged)
    cases_written = partial(
        case_data.write, tasks, rows, judgements, runs, of_cases, _grounds(runs), out / "cases"
    )
    with _beside(tasks, cases_written) as writing:
        tables = tables_of(flattened, requirements, runs)
        shown = model(tables, rows, runs, requirements, limits)
        step("targets and requirements")
        of_targets = brokers(
            runs,
            shown.bars,
            shown.groups,
            shown.columns,
            rows,
            judgements,
            measured or {},
            requirements,
        )
        _write_brokers(out / "targets", of_targets, pages)
        latest = [(bar.column.run, bar.column.target) for bar in shown.latest]
        open_points = compared(tables.behaviours, latest)
        (out / "behaviours.html").write_text(pages.behaviours(shown, open_points), "utf-8")
        _write_judgements(shown, rows, judgements, judged, pages, limits, out)
        step("exports")
        _write_exports(rows, runs, shown, out)
        step("cases")
        data, chunks = writing.result()
    step("tables")
    verdicts = {(row.run, row.target, row.case): row.verdict for row in rows}
    irregular = beside_verdicts(data.anomalies, verdicts)
    errors = errors_of(rows, data.unreadable)
    _write_tables(tables, irregular, errors, out / "tables")
    if trace_tables:
        step("tables of the trace")
        _write_trace_tables(tasks, runs, out / "tables")
    step("index")
    shown = with_recordings(shown, irregular, errors, limits)
    first = overview(
        runs,
        shown.latest,
        shown.groups,
        shown.columns,
        requirements,
        rows,
        irregular,
        data.sightings,
    )
    _write_index(shown, first, pages, out / "index.html")
    (out / "summary.html").write_text(pages.summary(shown, first), "utf-8")
    facts = of_cases.facts([run.name for run in in_order(runs)], chunks)
    (out / "case.html").write_text(pages.case(facts), "utf-8")
    return Report(out, shown, data.pages)


@contextmanager
def _beside(tasks: Tasks, work: Callable[[], Result]) -> Iterator[Future[Result]]:
    """Run ``work`` in other processes during the block. If the block fails, the work is
    cancelled."""
    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool.submit(work)
        except BaseException:
            tasks.cancel()
            raise


def tables_of(outcomes: Outcomes, requirements: Requirements, runs: Sequence[Run]) -> Tables:
    """Return every table of results. Results fit into this process; only recordings need Spark."""
    of_cases = cases(outcomes.results)
    return Tables(
        cases=of_cases,
        counts=counts(of_cases),
        matrix=matrix(outcomes.findings),
        coverage=coverage(requirements.table(), outcomes.findings),
        history=history(of_cases, [run.name for run in in_order(runs)]),
        behaviours=behaviours(outcomes.results),
        kills=kills(runs),
    )


def _grounds(runs: Sequence[Run]) -> Mapping[tuple[str, str], Expectations]:
    """Return the expectations for each target's recordings: those that apply to every acceptor in
    the target's profile."""
    known = profiles.names()
    return {
        (run.name, str(target["name"])): expectations_of(
            name, profiles.load(name).parameters, defaults=False
        )
        for run in runs
        for target in run.targets
        if (name := str(target.get("profile", ""))) in known
    }


def _write_tables(
    tables: Tables,
    irregular: Sequence[Mapping[str, Any]],
    errors: Sequence[Mapping[str, Any]],
    folder: Path,
) -> None:
    """Write each table of results as a folder ``NAME.parquet`` that contains one file."""
    if folder.is_dir():
        shutil.rmtree(folder)
    small: dict[str, pa.Table] = {
        field.name: getattr(tables, field.name) for field in fields(tables)
    }
    small["again"] = pa.Table.from_pylist(list(irregular), schema=AGAIN)
    small["errors"] = pa.Table.from_pylist(list(errors), schema=ERRORS)
    for name, table in small.items():
        path = folder / f"{name}.parquet"
        path.mkdir(parents=True)
        pq.write_table(table, path / "part-00000.parquet", compression="zstd")


def _write_trace_tables(tasks: Tasks, runs: Sequence[Run], folder: Path) -> None:
    from pyspark.sql import SparkSession

    from brokerproof.reports.model.tables import trace_table
    from brokerproof.reports.sources.dataframes import trace

    assert isinstance(tasks, SparkTasks)
    trace_table.write(trace(SparkSession(tasks.context), runs), folder)


def _write_brokers(folder: Path, brokers_of_targets: Sequence[Broker], pages: Pages) -> None:
    emptied(folder)
    for broker in brokers_of_targets:
        page = folder / f"{plain_slug(broker.target)}.html"
        page.write_text(pages.target(broker), "utf-8")


def _write_requirements(folder: Path, known: Mapping[str, Sequence[Keeper]], pages: Pages) -> None:
    emptied(folder)
    for name, text in pages.shared().items():
        (folder.parent / name).write_text(text, "utf-8")
    for name, of_requirement in known.items():
        page = pages.requirement(name, of_requirement)
        (folder / f"{plain_slug(name)}.html").write_text(page, "utf-8")


def _write_judgements(
    shown: Model,
    rows: Sequence[CaseRow],
    judgements: Sequence[Mapping[str, Any]],
    judged: Set[str],
    pages: Pages,
    limits: Limits,
    out: Path,
) -> None:
    """Write the pages of judged requirements and of findings, and redirects."""
    places = {(row.run, row.target, row.case): row.page or "" for row in rows}
    compliance = keepers(judgements, shown.columns, places)
    shown_requirements = {name: compliance[name] for name in compliance if name in judged}
    _write_requirements(out / "requirements", shown_requirements, pages)
    findings = pages.findings(shown, judgements, limits.findings)
    (out / "findings.html").write_text(findings, "utf-8")
    _write_moved(out / "cases", rows[: limits.findings], pages)


def _write_moved(folder: Path, rows: Sequence[CaseRow], pages: Pages) -> None:
    """Write redirects from the pages of older reports for cases that did not pass, because issue
    trackers link to them."""
    emptied(folder, _OURS)
    for row in rows:
        if row.verdict not in ("PASS", "NOTE", "SKIP"):
            name = slug(row.run, row.target, row.case)
            (folder / f"{name}.html").write_text(pages.moved(row), "utf-8")


_OURS = re.compile(r".*-[0-9a-f]{10}\.html|more\.html")


def emptied(folder: Path, ours: re.Pattern[str] | None = None) -> None:
    """Make a folder for pages. Remove an older report's pages from it: those whose names are
    ``ours``, or all pages."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.html"):
        if ours is None or ours.fullmatch(old.name):
            old.unlink()


def _write_index(shown: Model, first: Overview, pages: Pages, path: Path) -> None:
    text = pages.index(shown, first)
    while len(text.encode()) > INDEX_BYTES and (shown.cases or shown.groups):
        shown = shown.halved()
        text = pages.index(shown, first)
    path.write_text(text, "utf-8")


def _write_exports(rows: Sequence[CaseRow], runs: Sequence[Run], shown: Model, out: Path) -> None:
    started = {run.name: str(run.header.get("started", "")) for run in runs}
    places = {(bar.column.run, bar.column.target): place for place, bar in enumerate(shown.bars)}
    in_columns = sorted(rows, key=lambda row: (places[row.run, row.target], row.case))
    junit.write(out / "junit.xml", shown.bars, in_columns, started)
    ctrf.write(out / "ctrf.json", runs, shown.bars, in_columns)
    (out / "summary.md").write_text(summary.markdown(shown), "utf-8")
    (out / "badge.json").write_text(badge.badge(shown), "utf-8")
