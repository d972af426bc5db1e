"""Summaries across a cluster: each piece is summarised by its own task, and the summaries of a group are put together.

What travels between machines is a row for each group and piece, never an event.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from itertools import groupby, islice
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from harness.oracles.ground import Ground
from reports.judges import books, lives, order, windows
from reports.judges.columns import NEEDED
from reports.judges.stretch import BOOK, GROUP, LIFE, PART, RISE, SCOPE, SUMMARIES, Stretch, table
from reports.schema import spark_schema
from reports.sources import Source

ROWS_AT_ONCE = 5_000

MERGED = pa.schema([*(SUMMARIES.field(name) for name in GROUP), ("fine", pa.bool_()), ("summary", pa.binary())])
"""A row for each group. ``fine`` is false where a second look is needed, and in ``scope`` rows where not everything that
was sent could be read; ``summary`` is kept for lives."""


def summaries(spark: SparkSession, source: Source, ground: Ground) -> DataFrame:
    """Every piece's summaries (:data:`reports.judges.stretch.SUMMARIES`)."""
    open_piece = source.open

    def summarise(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for pieces in batches:
            for piece in pieces.to_pylist():
                stretch = Stretch(ground)
                for batch in open_piece(piece, NEEDED):
                    stretch.note(batch)
                yield from _batches(stretch.rows(piece["place"]), SUMMARIES)

    return source.pieces_frame(spark).mapInArrow(summarise, spark_schema(SUMMARIES))


def merged(of: DataFrame) -> DataFrame:
    """The summaries of each group put together in the order of the pieces (:data:`MERGED`)."""

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        groups = groupby(rows, key=lambda row: tuple(row[name] for name in GROUP))
        yield from _batches((_merged(group, parts) for group, parts in groups), MERGED)

    together = of.repartition(*GROUP).sortWithinPartitions(*GROUP, "place")
    return together.mapInArrow(merge, spark_schema(MERGED))


def _merged(group: tuple[Any, ...], rows: Iterator[dict[str, Any]]) -> dict[str, Any]:
    row = dict(zip(GROUP, group, strict=True))
    parts = (pickle.loads(each["summary"]) for each in rows)  # written by our own workers a moment ago
    fine, summary = True, b""
    match row["what"]:
        case what if what == BOOK:
            fine = books.merged(parts).balanced
        case what if what == RISE:
            fine = not order.merged(parts).broken
        case what if what == PART:
            fine = not windows.overrun(parts)
        case what if what == LIFE:
            summary = pickle.dumps(lives.merged(parts))
        case what if what == SCOPE:
            fine = all(parts)
    return {**row, "fine": fine, "summary": summary}


def _batches(rows: Iterator[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while some := list(islice(rows, ROWS_AT_ONCE)):
        yield table(some, schema)
