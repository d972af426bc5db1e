"""The lifetime, the silences and the close of each connection."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

_CONNECTION = ("run", "target", "case", "part", "conn")
_SENT = ("FrameSent", "HeartBeatSent", "OctetsSent")
_RECEIVED = ("FrameReceived", "HeartBeatReceived", "OctetsRefused")


def liveness(trace: DataFrame) -> DataFrame:
    """One row per connection, durations in nanoseconds.

    ``opened_ns, ended_ns`` are instants of the trace (null when not seen), ``ended`` is ``broker
    EOF``, ``broker RESET``, ``harness EOF``, ``harness RESET`` or null; ``longest_sent_gap_ns`` and
    ``longest_received_gap_ns`` are the longest silences in either direction, from opening to end;
    ``silent_before_end_ns`` is the time between the harness's last bytes and the end;
    ``beats_sent`` and ``beats_received`` count heartbeats."""
    ended = F.col("kind").isin("ConnectionClosed", "ConnectionAbandoned")
    opened = F.col("kind") == "ConnectionOpened"
    by = F.when(F.col("kind") == "ConnectionClosed", F.lit("broker ")).otherwise(F.lit("harness "))
    marked = trace.where(F.col("conn").isNotNull() & (F.col("vantage") != "BROKER"))
    for name, kinds in (("sent", _SENT), ("received", _RECEIVED)):
        marked = marked.withColumn(f"{name}_gap", _gap(kinds, opened | ended))
    first_end = F.min(
        F.when(ended, F.struct("position", "at_ns", F.concat(by, "how").alias("how")))
    )
    return (
        marked.groupBy(*_CONNECTION)
        .agg(
            F.min(F.when(opened, F.col("at_ns"))).alias("opened_ns"),
            first_end.alias("end"),
            F.max("sent_gap").alias("longest_sent_gap_ns"),
            F.max("received_gap").alias("longest_received_gap_ns"),
            F.max(F.when(ended, F.col("sent_gap"))).alias("silent_before_end_ns"),
            _count("HeartBeatSent").alias("beats_sent"),
            _count("HeartBeatReceived").alias("beats_received"),
        )
        .withColumns({"ended_ns": F.col("end.at_ns"), "ended": F.col("end.how")})
        .drop("end")
    )


def _gap(kinds: tuple[str, ...], edges: Column) -> Column:
    """Return the time since the previous sign, at bytes of ``kinds`` and at either end of the
    connection; null elsewhere."""
    mark = F.col("kind").isin(*kinds) | edges
    before = (
        Window.partitionBy(*_CONNECTION)
        .orderBy("position")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    return F.when(
        mark, F.col("at_ns") - F.last(F.when(mark, F.col("at_ns")), ignorenulls=True).over(before)
    )


def _count(kind: str) -> Column:
    return F.sum((F.col("kind") == kind).cast("long"))
