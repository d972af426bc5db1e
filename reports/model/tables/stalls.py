"""Producers that had to wait for a full address or a slow broker."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from brokerproof.harness.model.time import NS_PER_S, Duration
from brokerproof.reports.model.tables.deliveries import SCOPE

SHORTEST: Duration = NS_PER_S // 10


def stalls(trace: DataFrame, shortest: Duration = SHORTEST) -> DataFrame:
    """``run, target, case, part, conn, since_ns, until_ns, lasted_ns, ended_by``: the times of at
    least ``shortest`` (ns) in which a connection received nothing before a frame that lets a
    producer continue: a RECEIPT or an AMQP flow."""
    frames = trace.where(F.col("kind").isin("FrameSent", "FrameReceived"))
    line = Window.partitionBy(*SCOPE, "conn").orderBy("position")
    before = frames.select(
        *SCOPE,
        "conn",
        "kind",
        "command",
        F.col("at_ns").alias("until_ns"),
        F.lag("at_ns").over(line).alias("since_ns"),
    )
    lasted = F.col("until_ns") - F.col("since_ns")
    freeing = (F.col("kind") == "FrameReceived") & F.col("command").isin("RECEIPT", "flow")
    return before.where(freeing & (lasted >= shortest)).select(
        *SCOPE,
        "conn",
        "since_ns",
        "until_ns",
        lasted.alias("lasted_ns"),
        F.col("command").alias("ended_by"),
    )
