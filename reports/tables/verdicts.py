"""Verdicts as Spark sees them: their rank, and the worst of several."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from brokerproof.harness.results.verdict import WORST_FIRST


def rank(verdict: Column) -> Column:
    """0 for the worst verdict, ascending in merge order; -1 for a word that is no verdict."""
    return (
        F.array_position(F.array(*[F.lit(verdict.value) for verdict in WORST_FIRST]), verdict) - 1
    ).cast("int")
