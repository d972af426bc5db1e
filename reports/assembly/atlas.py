"""Writes the site of an atlas: pages, a report on each release, and the data."""

import json
import shutil
from collections.abc import Iterable
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from brokerproof.harness.catalogue.releases import Release
from brokerproof.harness.catalogue.requirements import load
from brokerproof.reports.assembly import report_writing
from brokerproof.reports.assembly.pipeline import Step, emptied
from brokerproof.reports.assembly.refusals import Refusal
from brokerproof.reports.model.atlas import Atlas, Judged, read
from brokerproof.reports.model.requirements import Requirements
from brokerproof.reports.model.tables.behaviours import behaviours
from brokerproof.reports.model.tables.matrix import matrix
from brokerproof.reports.sources.result_rows import flatten
from brokerproof.reports.view.atlas import pages


def build(folder: Path, releases: Iterable[Release], step: Step) -> Path:
    """Write the site of the atlas in ``folder``; return its first page."""
    atlas, requirements = read(folder, releases), Requirements(load().values())
    if not atlas.brokers:
        raise Refusal(f"{folder}: contains no judged release; start with brokerproof atlas run")
    site = folder / "site"
    judged = [judged for broker in atlas.brokers for judged in broker.judged]
    due = [one for one in judged if not _is_written(one, site / one.report)]
    with report_writing.processes(None, brief=True) if due else nullcontext() as tasks:
        for one in due:
            step(one.release.name)
            shutil.rmtree(site / one.report, ignore_errors=True)
            report_writing.write([one.run.folder], site / one.report, started=tasks)
    step("pages and data")
    emptied(site)
    day = max(str(one.run.header.get("started", "")) for one in judged)[:10]
    data = f"brokerproof-atlas-{version('brokerproof')}-{day}"
    shutil.rmtree(site / "data", ignore_errors=True)
    _write_data(atlas, judged, requirements, site / "data" / data)
    for name, text in pages(atlas, data, requirements):
        (site / name).write_text(text, "utf-8")
    return site / "index.html"


def _is_written(judged: Judged, report: Path) -> bool:
    index = report / "index.html"
    return index.exists() and index.stat().st_mtime_ns > judged.run.results.stat().st_mtime_ns


def _write_data(
    atlas: Atlas, judged: Iterable[Judged], requirements: Requirements, out: Path
) -> None:
    """Write each table as Parquet and CSV, and the schema."""
    said = (*atlas.others, *((one.release, one.sentence) for one in judged))
    facts = ("broker", "version", "origin", "target")
    releases = [
        {"run": release.slug, **{name: getattr(release, name) for name in facts}, "sentence": why}
        for release, why in said
    ]
    outcomes = flatten(one.run for one in judged)
    tables = {
        "releases": pa.Table.from_pylist(releases),
        "verdicts": matrix(outcomes.findings),
        "behaviours": behaviours(outcomes.results),
        "requirements": requirements.table(),
    }
    out.mkdir(parents=True)
    for name, table in tables.items():
        pq.write_table(table, out / f"{name}.parquet", compression="zstd")
        pa_csv.write_csv(table, out / f"{name}.csv")
    schema = {
        name: {field.name: str(field.type) for field in table.schema}
        for name, table in tables.items()
    }
    (out / "schema.json").write_text(json.dumps({"name": out.name, "tables": schema}), "utf-8")
