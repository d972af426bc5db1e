"""Requirements of the catalogue that the runs judged, and those that no case touched."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def coverage(catalogue: DataFrame, findings: DataFrame) -> DataFrame:
    """The catalogue with ``cases`` (that cite it), ``judged`` (findings that held or not) and
    ``covered``.

    ``covered`` is whether a finding on any target saw the requirement hold or not; a requirement
    that was only cited is not covered.
    """
    seen = F.col("seen").isin("HELD", "VIOLATED") & ~F.col("verdict").isin("SKIP", "ERROR")
    cited = findings.groupBy("requirement").agg(
        F.countDistinct("case").alias("cases"), F.sum(seen.cast("long")).alias("judged")
    )
    return (
        catalogue.join(cited, "requirement", "left")
        .fillna(0, ["cases", "judged"])
        .withColumn("covered", F.col("judged") > 0)
    )
