"""The pages of cases: rendered where their events are, in Spark's workers, and written by the
driver.

The worst cases get a file each: it can be sent to somebody as it is. The pages of all others are
packed by :data:`EACH` into chunks, which ``cases/more.html`` shows: a hundred thousand files help
nobody. A chunk is a script, because a page that was opened from a disk may load scripts and nothing
else.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from brokerproof.reports.curves.compute import Settings
from brokerproof.reports.curves.sample import series
from brokerproof.reports.dataframes import CASE, arrow
from brokerproof.reports.excerpts import EXAMPLES, chosen_examples, excerpts, of_page
from brokerproof.reports.html.case_page import CasePages
from brokerproof.reports.index_model import CaseRow
from brokerproof.reports.runs import Run
from brokerproof.reports.spark_schema import spark_schema

EACH = 50
"""Pages in a chunk."""
PER_TASK = 200
"""Pages that a task renders."""
FETCHED = 8
"""Tasks whose pages the driver fetches at once, some tens of megabytes: every fetch is a job, and a
job with so much behind it takes longer to set up than a task's pages to fetch."""
PACKED_EXAMPLES = 1
"""Examples of a property on a page that is packed: the one that was nearest to a bound."""
SHOWN_OF_A_FINDING = (
    "number",
    "requirement",
    "seen",
    "detail",
    "uncertain",
    "verdict",
    "deviation_reason",
    "deviation_link",
)
"""Columns of the table of findings that a case page shows, in order of ``number``."""
KEPT = "<!--kept-->"
"""Replaced by the counterexample of a case, which only the driver can read."""

_OURS = re.compile(r".*-[0-9a-f]{10}\.html|more\.html")
_CHUNK = re.compile(r"\d{5}\.js")

_PAGES = pa.schema(
    [
        ("page", pa.int64()),
        ("case", pa.string()),
        ("run", pa.string()),
        ("target", pa.string()),
        ("group", pa.int64()),
        ("examples", pa.int64()),
        ("row", pa.string()),
    ]
)
_RENDERED = pa.schema([("group", pa.int64()), ("page", pa.int64()), ("octets", pa.binary())])


def write(
    spark: SparkSession,
    cases: Sequence[CaseRow],
    runs: Sequence[Run],
    events: DataFrame,
    findings: DataFrame,
    pages: CasePages,
    folder: Path,
) -> int:
    """Write the page of every case below ``folder``, over older ones; return their number."""
    _clear(folder)
    if not cases:
        return 0
    alone = sum(row.place is None for row in cases)
    by_name = {run.name: run for run in runs}
    settings = {
        (run.name, str(target["name"])): target.get("addresses") or ()
        for run in runs
        for target in run.targets
    }
    for group, page, octets in _rendered(spark, cases, alone, events, findings, pages, settings):
        if group < alone:
            row = cases[page]
            assert row.page is not None
            text = zlib.decompress(octets).decode()
            if row.verdict == "FAIL":
                text = text.replace(KEPT, pages.kept(by_name[row.run], row), 1)
            (folder.parent / row.page).write_text(text, "utf-8")
        else:
            chunk = group - alone
            script = f'brokerproof_pages({chunk},"{base64.b64encode(octets).decode()}");\n'
            (folder / "more" / f"{chunk:05}.js").write_text(script, "ascii")
    if alone < len(cases):
        (folder / "more.html").write_text(pages.more(EACH, alone), "utf-8")
    return len(cases)


def _clear(folder: Path) -> None:
    (folder / "more").mkdir(parents=True, exist_ok=True)
    for old in (*folder.iterdir(), *(folder / "more").iterdir()):
        if (_OURS if old.parent == folder else _CHUNK).fullmatch(old.name):
            old.unlink()


def _rendered(
    spark: SparkSession,
    cases: Sequence[CaseRow],
    alone: int,
    events: DataFrame,
    findings: DataFrame,
    pages: CasePages,
    settings: Mapping[tuple[str, str], Settings],
) -> Iterator[tuple[int, int, bytes]]:
    """Yield group, page and bytes: of a page alone its HTML (zlib), of a chunk the JSON of its
    pages (gzip)."""
    chosen = arrow(spark, _chosen(cases, alone)).persist(StorageLevel.MEMORY_AND_DISK)
    keys = chosen.select("page", *CASE, "examples")
    parts = chosen_examples(events, keys).persist(StorageLevel.MEMORY_AND_DISK)
    judged = findings.join(F.broadcast(keys.select("page", *CASE)), list(CASE))
    in_order = F.sort_array(F.collect_list(F.struct(*SHOWN_OF_A_FINDING)))
    together = (
        chosen.join(judged.groupBy("page").agg(in_order.alias("findings")), "page", "left")
        .join(_together(excerpts(events, parts)), "page", "left")
        .join(_curves(events, parts, settings), "page", "left")
        .drop(*CASE, "examples")
    )
    tasks = max(-(-len(cases) // PER_TASK), min(spark.sparkContext.defaultParallelism, len(cases)))
    ready = (
        together.repartitionByRange(tasks, "group")
        .sortWithinPartitions("group", "page")
        .mapInArrow(_worker(pages, alone), spark_schema(_RENDERED))
        .persist(StorageLevel.MEMORY_AND_DISK)
    )
    try:
        ready.count()  # every task at once; the iterator below takes one after the other
        for row in ready.coalesce(-(-tasks // FETCHED)).toLocalIterator():
            yield row.group, row.page, bytes(row.octets)
    finally:
        for frame in (ready, parts, chosen):
            frame.unpersist()


def _worker(pages: CasePages, alone: int) -> Any:
    def render(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        for group, some in groupby(rows, key=lambda row: int(row["group"])):
            if group < alone:
                (row,) = some
                octets, page = (
                    zlib.compress(_page(pages, row, alone=True).encode("utf-8", "replace"), 1),
                    row["page"],
                )
            else:
                texts = [_page(pages, row, alone=False) for row in some]
                octets, page = (
                    gzip.compress(packed(texts).encode("utf-8", "replace"), 6, mtime=0),
                    -1,
                )
            yield pa.RecordBatch.from_pylist(
                [{"group": group, "page": page, "octets": octets}], schema=_RENDERED
            )

    return render


def packed(texts: Iterable[str]) -> str:
    """Return pages as JSON: every different line once, and the numbers of the lines of each page.
    Pages are much alike, and longer than what gzip looks back."""
    numbers: dict[str, int] = {}
    pages = [
        [numbers.setdefault(line, len(numbers)) for line in text.split("\n")] for text in texts
    ]
    return json.dumps([list(numbers), pages], ensure_ascii=False, separators=(",", ":"))


def _page(pages: CasePages, row: dict[str, Any], *, alone: bool) -> str:
    columns = json.loads(row["row"])
    case = CaseRow(**{**columns, "requirements": tuple(columns["requirements"])})
    curves = {part["part"]: part["curves"] for part in row["curves"] or ()}
    return pages.case(
        case, row["findings"] or (), list(of_page(row["events"] or ())), curves, alone=alone
    )


def _together(events: DataFrame) -> DataFrame:
    """Return one row a page; the events of a page are bounded."""
    return events.groupBy("page").agg(
        F.collect_list(F.struct(*[name for name in events.columns if name != "page"])).alias(
            "events"
        )
    )


def _curves(
    events: DataFrame, parts: DataFrame, settings: Mapping[tuple[str, str], Settings]
) -> DataFrame:
    curves = series(events, parts.select("page", "part", *CASE), settings)
    return curves.groupBy("page").agg(F.collect_list(F.struct("part", "curves")).alias("curves"))


def _chosen(cases: Sequence[CaseRow], alone: int) -> pa.Table:
    names = [column.name for column in fields(CaseRow)]
    return pa.table(
        {
            "page": pa.array(range(len(cases)), pa.int64()),
            "case": [row.case for row in cases],
            "run": [row.run for row in cases],
            "target": [row.target for row in cases],
            "group": pa.array(
                [at if at < alone else alone + (at - alone) // EACH for at in range(len(cases))],
                pa.int64(),
            ),
            "examples": pa.array(
                [EXAMPLES if at < alone else PACKED_EXAMPLES for at in range(len(cases))],
                pa.int64(),
            ),
            "row": [json.dumps({name: getattr(row, name) for name in names}) for row in cases],
        },
        schema=_PAGES,
    )
