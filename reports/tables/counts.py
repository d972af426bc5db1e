"""How many cases of each verdict a target has."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def counts(cases: DataFrame) -> DataFrame:
    """``run, target, verdict, rank, cases, seconds`` of the table of cases."""
    return cases.groupBy("run", "target", "verdict", "rank").agg(
        F.count("*").alias("cases"), F.sum("duration_s").alias("seconds")
    )
