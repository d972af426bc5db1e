"""Our own errors, and input that our own codec could not read."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def errors(cases: DataFrame, trace: DataFrame) -> DataFrame:
    """``run, target, case, what, detail``: ``what`` is ``case`` (verdict ERROR) or ``octets``
    (unreadable bytes)."""
    broken = cases.where(F.col("verdict") == "ERROR").select(
        "run", "target", "case", F.lit("case").alias("what"), "detail"
    )
    octets = trace.where(F.col("kind") == "OctetsRefused")
    return broken.unionByName(
        octets.select("run", "target", "case", F.lit("octets").alias("what"), "detail")
    )
