"""One row per run, target and case, with its verdict."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerproof.reports.tables.verdicts import rank


def cases(results: DataFrame) -> DataFrame:
    """The result of each case, with ``rank`` (0 is the worst verdict)."""
    return results.withColumn("rank", rank(F.col("verdict")))
