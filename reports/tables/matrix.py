"""Requirement by target: the worst verdict that any case's finding has."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerproof.reports.tables.verdicts import rank


def matrix(findings: DataFrame) -> DataFrame:
    """``requirement, run, target, verdict, rank, cases, case``; ``case`` is one that has the worst
    verdict."""
    worst = F.min(F.struct("rank", "case", "verdict"))
    return (
        findings.withColumn("rank", rank(F.col("verdict")))
        .groupBy("requirement", "run", "target")
        .agg(worst.alias("worst"), F.countDistinct("case").alias("cases"))
        .select(
            "requirement", "run", "target", "worst.verdict", "worst.rank", "cases", "worst.case"
        )
    )
