"""Turns run folders and Arrow tables into DataFrames."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from brokerproof.reports.sources.runs import Run
from brokerproof.reports.spark import paths as spark_paths
from brokerproof.reports.spark.on_demand import F
from brokerproof.reports.spark.schema import spark_schema, trace_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

CASE = ("run", "target", "case")
"""The columns that name one case of one run against one target."""
LOAD = "load"
"""A key that occurs only in the header of a load's run."""


def arrow(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return an Arrow table, which may be empty, as a DataFrame."""
    if table.num_rows == 0:  # Spark's own conversion from Arrow requires a batch
        return empty(spark, spark_schema(table.schema))
    return spark.createDataFrame(table)


def empty(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return an empty DataFrame without starting a Python worker, as an empty list would do."""
    return spark.range(0).select(
        [F.lit(None).cast(field.dataType).alias(field.name) for field in schema]
    )


def trace(spark: SparkSession, runs: Iterable[Run]) -> DataFrame:
    """Return every recorded event of ``runs``, with its ``part`` and its ``position`` in the case.
    If a case was recorded more than once (a resumed run), its last recording counts."""
    reader = (
        spark.read.schema(trace_schema())
        .option("recursiveFileLookup", True)
        .option("pathGlobFilter", "part-*.parquet")
    )
    segment = F.struct("_metadata.file_modification_time", "_metadata.file_path")
    parts = [
        # The folder identifies the run: two machines may have given their runs the same name.
        reader.parquet(spark_paths.read(run.trace))
        .withColumns(
            {
                "segment": segment,
                "row": F.col("_metadata.row_index"),
                "once": F.lit(LOAD in run.header),
            }
        )
        .withColumn("run", F.lit(run.name))
        for run in runs
        if run.segments()
    ]
    if not parts:
        return ordered(
            empty(spark, trace_schema()).withColumns(
                {"segment": F.lit(""), "row": F.lit(0), "once": F.lit(False)}
            )
        )
    return ordered(reduce(lambda above, below: above.unionByName(below), parts))


def ordered(events: DataFrame) -> DataFrame:
    """Take events with columns ``segment``, ``row`` and ``once``. Keep each case's last segment, or
    all segments if cases are recorded only ``once`` (a load fills many segments of several
    recorders). Number the events and parts.

    ``position`` counts from 0 in each case; ``part`` is 0 before a property's first example, then
    1, 2, ….
    """
    from pyspark.sql.window import Window

    case = Window.partitionBy(*CASE)
    order = case.orderBy("segment", "row")
    until_now = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    # The order is the same, so Spark sorts only once.
    throughout = order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    starts = (F.col("kind") == "ExampleStarted").cast("long")
    return (
        events.withColumn("latest", F.max("segment").over(throughout))
        .where(F.col("once") | (F.col("segment") == F.col("latest")))
        .withColumns(
            {"position": F.row_number().over(order) - 1, "part": F.sum(starts).over(until_now)}
        )
        .drop("segment", "latest", "row", "once")
    )
