"""The whole way from run folders to a report folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from brokerproof.harness.catalogue import profiles
from brokerproof.harness.oracles.expectations import Expectations, expectations_of
from brokerproof.reports import spark_paths as places
from brokerproof.reports.dataframes import arrow, trace
from brokerproof.reports.exports import badge, ctrf, junit, summary
from brokerproof.reports.html.case_page import CasePages
from brokerproof.reports.html.render import Pages
from brokerproof.reports.html.templates import STYLE
from brokerproof.reports.index_model import CaseRow, Model
from brokerproof.reports.index_model_builder import Limits, Tables, case_row, model
from brokerproof.reports.pages import write
from brokerproof.reports.requirement_compliance import Keeper, keepers
from brokerproof.reports.requirements import Requirements
from brokerproof.reports.result_rows import Outcomes, flatten
from brokerproof.reports.runs import Run
from brokerproof.reports.slugs import plain_slug
from brokerproof.reports.tables.addresses import addresses
from brokerproof.reports.tables.coverage import coverage
from brokerproof.reports.tables.deliveries import deliveries
from brokerproof.reports.tables.errors import errors
from brokerproof.reports.tables.frames import frames
from brokerproof.reports.tables.history import history
from brokerproof.reports.tables.kills import kills
from brokerproof.reports.tables.latencies import latencies
from brokerproof.reports.tables.liveness import liveness
from brokerproof.reports.tables.matrix import matrix
from brokerproof.reports.tables.measurements import measurements
from brokerproof.reports.tables.stalls import stalls
from brokerproof.reports.tables.trace_verdicts import again, beside_verdicts
from brokerproof.reports.tables.unsettled import credit, held
from brokerproof.reports.tables.verdicts import cases, counts
from brokerproof.reports.target_history import in_order
from brokerproof.reports.target_summaries import Broker, Measured, brokers

INDEX_OCTETS = 5_000_000
"""The index is never larger: its lists are halved until it fits."""

_SMALL = ("cases", "counts", "matrix", "coverage", "history", "kills")
"""Tables of results, written as one file."""
_FEW = ("errors", "again", "latencies")
"""Tables of the trace that come out small, written as one file: their rows are brought together at
the end. Were they coalesced, one task would do all that leads to them, from numbering the events to
judging them again."""
_TALL = (
    "frames",
    "measurements",
    "liveness",
    "deliveries",
    "held",
    "credit",
    "stalls",
    "addresses",
)
"""Tables that grow with the trace."""

Step = Callable[[str], None]
"""Called with the next step, in a few words."""


@dataclass(frozen=True)
class Report:
    """The files of a written report."""

    folder: Path
    model: Model
    pages: int

    @property
    def index(self) -> Path:
        """The page to open."""
        return self.folder / "index.html"


def build(
    spark: SparkSession,
    runs: Sequence[Run],
    out: Path,
    requirements: Requirements,
    *,
    outcomes: Outcomes | None = None,
    limits: Limits | None = None,
    measured: Measured | None = None,
    step: Step = lambda _: None,
) -> Report:
    """Write the report on ``runs`` into ``out``, over an older one if there is one; ``measured``
    is what was inferred of targets (:func:`brokerproof.reports.target_summaries.read_measured`).

    Raises :class:`brokerproof.harness.results.records.UnreadableResults` for a line that is no
    result, and ``OSError`` when ``out`` cannot be written.
    """
    flattened = outcomes if outcomes is not None else flatten(runs)
    limits = limits or Limits()
    out.mkdir(parents=True, exist_ok=True)
    events = trace(spark, runs).persist(StorageLevel.MEMORY_AND_DISK)
    findings = arrow(spark, flattened.findings).persist()
    tables = tables_of(spark, events, arrow(spark, flattened.results), findings, requirements, runs)
    try:
        step("tables")
        _write_tables(tables, out / "tables", min(4, spark.sparkContext.defaultParallelism))
        step("index")
        shown = model(tables, runs, requirements, limits)
        pages = Pages(requirements)
        _write_index(shown, pages, out / "index.html")
        step("targets and requirements")
        places = {
            (row.run, row.target, row.case): row.page for row in shown.cases if row.page is not None
        }
        of_targets = brokers(
            runs, shown.bars, shown.groups, shown.columns, tables.cases, findings, measured or {}
        )
        _write_brokers(out / "targets", of_targets, pages)
        _write_requirements(out / "requirements", keepers(findings, shown.columns, places), pages)
        step("case pages")
        of_cases = CasePages(requirements, runs)
        written = write(spark, shown.cases, runs, tables.trace, findings, of_cases, out / "cases")
        step("exports")
        _write_exports(tables, runs, shown, out)
        return Report(out, shown, written)
    finally:
        for frame in (events, findings, tables.cases, tables.again, tables.deliveries):
            frame.unpersist()


def tables_of(
    spark: SparkSession,
    events: DataFrame,
    results: DataFrame,
    findings: DataFrame,
    requirements: Requirements,
    runs: Sequence[Run],
) -> Tables:
    """Every table, not yet computed."""
    of_cases = cases(results).persist()
    delivered = deliveries(events).persist(StorageLevel.MEMORY_AND_DISK)
    return Tables(
        trace=events,
        frames=frames(events),
        cases=of_cases,
        counts=counts(of_cases),
        matrix=matrix(findings),
        measurements=measurements(events),
        liveness=liveness(events),
        coverage=coverage(arrow(spark, requirements.table()), findings),
        errors=errors(of_cases, events),
        history=history(of_cases, [run.name for run in in_order(runs)]),
        again=beside_verdicts(again(events, _grounds(runs)), of_cases).persist(),
        deliveries=delivered,
        held=held(delivered),
        credit=credit(events),
        stalls=stalls(events),
        addresses=addresses(events),
        latencies=latencies(events),
        kills=kills(spark, runs),
    )


def _grounds(runs: Sequence[Run]) -> Mapping[tuple[str, str], Expectations]:
    """Return the expectations of each target's recordings: those that hold for every acceptor of
    its profile."""
    known = profiles.names()
    return {
        (run.name, str(target["name"])): expectations_of(
            name, profiles.load(name).parameters, defaults=False
        )
        for run in runs
        for target in run.targets
        if (name := str(target.get("profile", ""))) in known
    }


def _write_tables(tables: Tables, folder: Path, at_once: int) -> None:
    """Write each table as a folder ``NAME.parquet`` of part files."""

    def write(name: str) -> None:
        frame = gathered(name, getattr(tables, name))
        frame.write.mode("overwrite").parquet(places.written(folder / f"{name}.parquet"))

    names = [*_SMALL, *_FEW, *_TALL]
    with ThreadPoolExecutor(at_once, thread_name_prefix="table") as pool:
        list(pool.map(write, names))


def gathered(name: str, table: DataFrame) -> DataFrame:
    """The table ``name`` in as many partitions as it is written in files: a small one in a single
    one."""
    if name in _SMALL:
        return table.coalesce(1)
    return table.repartition(1) if name in _FEW else table


def _write_brokers(folder: Path, brokers_of_targets: Sequence[Broker], pages: Pages) -> None:
    emptied(folder)
    for broker in brokers_of_targets:
        page = folder / f"{plain_slug(broker.target)}.html"
        page.write_text(pages.target(broker), "utf-8")


def _write_requirements(folder: Path, known: Mapping[str, Sequence[Keeper]], pages: Pages) -> None:
    emptied(folder)
    (folder.parent / STYLE).write_text(pages.style(), "utf-8")
    for words in pages.requirements(known):
        text = pages.requirement(words, known.get(words.id, ()))
        (folder / f"{plain_slug(words.id)}.html").write_text(text, "utf-8")


def emptied(folder: Path) -> None:
    """Make a folder of pages, without the pages of an older report."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.html"):
        old.unlink()


def _write_index(shown: Model, pages: Pages, path: Path) -> None:
    text = pages.index(shown)
    while len(text.encode()) > INDEX_OCTETS and (shown.cases or shown.groups):
        shown = shown.halved()
        text = pages.index(shown)
    path.write_text(text, "utf-8")


def _write_exports(tables: Tables, runs: Sequence[Run], shown: Model, out: Path) -> None:
    started = {run.name: str(run.header.get("started", "")) for run in runs}
    junit.write(out / "junit.xml", shown.bars, _in_columns(tables.cases, runs, shown), started)
    ctrf.write(out / "ctrf.json", runs, shown.bars, _in_columns(tables.cases, runs, shown))
    (out / "summary.md").write_text(summary.markdown(shown), "utf-8")
    (out / "badge.json").write_text(badge.badge(shown), "utf-8")


def _in_columns(table: DataFrame, runs: Sequence[Run], shown: Model) -> Iterator[CaseRow]:
    """Every case, grouped in the order of the bars; only a few are in memory at a time."""
    places = {(bar.column.run, bar.column.target): place for place, bar in enumerate(shown.bars)}
    place = F.create_map(
        *[F.lit(text) for (run, target), at in places.items() for text in (f"{run}\0{target}", at)]
    )
    key = F.concat("run", F.lit("\0"), "target")
    facts = {run.name: run.cases for run in runs}
    if not places:
        return
    for row in table.orderBy(place[key], "case").coalesce(1).toLocalIterator():
        yield case_row(row.asDict(), facts)
