"""Latencies by case, as quantiles computed from recordings."""

from typing import TYPE_CHECKING

from brokerproof.reports.model.tables.deliveries import SCOPE, value
from brokerproof.reports.spark.on_demand import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ACCURACY = 10_000
_CASE = ("run", "target", "case")


def latencies(trace: "DataFrame") -> "DataFrame":
    """``run, target, case, what, count, p50_ns, p90_ns, p99_ns, most_ns``.

    ``what`` is ``receipt``, from a STOMP frame that requests one to its RECEIPT on the same
    connection, or ``delivery``, from a SEND to the first MESSAGE with its body in the same example.
    Bodies that were sent more than once are excluded. Quantiles are Spark's, approximate to
    1/10,000 of the count.
    """
    stomp = trace.where(F.col("protocol") == "STOMP")
    sent, got = (
        stomp.where(F.col("kind") == "FrameSent"),
        stomp.where(F.col("kind") == "FrameReceived"),
    )
    asked = sent.withColumn("receipt", value("receipt")).where(F.col("receipt").isNotNull())
    asked = asked.groupBy(*SCOPE, "conn", "receipt").agg(F.min("at_ns").alias("from_ns"))
    answered = got.where(F.col("command") == "RECEIPT").withColumn("receipt", value("receipt-id"))
    answered = answered.groupBy(*SCOPE, "conn", "receipt").agg(F.min("at_ns").alias("to_ns"))
    message = (*SCOPE, "body", "body_size")
    first = (F.min("at_ns").alias("from_ns"), F.count("*").alias("times"))
    sends = (
        sent.where(F.col("command") == "SEND")
        .groupBy(*message)
        .agg(*first)
        .where(F.col("times") == 1)
    )
    came = (
        got.where(F.col("command") == "MESSAGE")
        .groupBy(*message)
        .agg(F.min("at_ns").alias("to_ns"))
    )
    took = (F.col("to_ns") - F.col("from_ns")).alias("took")
    both = asked.join(answered, [*SCOPE, "conn", "receipt"]).select(
        *_CASE, F.lit("receipt").alias("what"), took
    )
    other = sends.join(came, list(message)).select(*_CASE, F.lit("delivery").alias("what"), took)
    quantiles = F.percentile_approx("took", [0.5, 0.9, 0.99], ACCURACY)
    return (
        both.unionByName(other)
        .groupBy(*_CASE, "what")
        .agg(F.count("*").alias("count"), quantiles.alias("q"), F.max("took").alias("most_ns"))
        .select(
            *_CASE,
            "what",
            "count",
            F.col("q")[0].alias("p50_ns"),
            F.col("q")[1].alias("p90_ns"),
            F.col("q")[2].alias("p99_ns"),
            "most_ns",
        )
    )
