"""Verdicts in tables: their rank, the verdict of each case, and the counts by target."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from brokerproof.harness.results.verdict import WORST_FIRST


def rank(verdict: Column) -> Column:
    """0 for the worst verdict, ascending in merge order; -1 for a word that is no verdict."""
    return (
        F.array_position(F.array(*[F.lit(verdict.value) for verdict in WORST_FIRST]), verdict) - 1
    ).cast("int")


def cases(results: DataFrame) -> DataFrame:
    """The result of each case, with ``rank`` (0 is the worst verdict)."""
    return results.withColumn("rank", rank(F.col("verdict")))


def counts(ranked: DataFrame) -> DataFrame:
    """``run, target, verdict, rank, cases, seconds`` of the table of cases."""
    return ranked.groupBy("run", "target", "verdict", "rank").agg(
        F.count("*").alias("cases"), F.sum("duration_s").alias("seconds")
    )
