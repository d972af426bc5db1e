"""Deliveries that consumers held unsettled over time, and the credit granted to AMQP links."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from brokerproof.reports.model.tables.deliveries import SCOPE, value


def held(deliveries: DataFrame) -> DataFrame:
    """``run, target, case, part, conn, subscription, at_ns, messages, octets``: a row for each
    change, of the deliveries that frames settle by name; ``messages`` and ``octets`` are those held
    afterwards."""
    counted = deliveries.where(F.col("settled_by").isNotNull())
    line = (*SCOPE, "conn", "subscription")
    came = counted.select(
        *line, "at_ns", "position", F.lit(1).alias("by"), F.col("size").alias("octets")
    )
    went = counted.select(
        *line,
        F.col("settled_ns").alias("at_ns"),
        "position",
        F.lit(-1).alias("by"),
        (-F.col("size")).alias("octets"),
    )
    # One task processes a connection, and sorts its rows on disk if they are many.
    so_far = (
        Window.partitionBy(*line)
        .orderBy("at_ns", F.desc("by"), "position")
        .rowsBetween(Window.unboundedPreceding, 0)
    )
    return came.unionByName(went).select(
        *line,
        "at_ns",
        F.sum("by").over(so_far).alias("messages"),
        F.sum("octets").over(so_far).alias("octets"),
    )


def credit(trace: DataFrame) -> DataFrame:
    """``run, target, case, part, position, conn, at_ns, direction, channel, handle, delivery_count,
    link_credit, drain, next_incoming_id, incoming_window, next_outgoing_id``: every AMQP flow as
    sent; ``handle`` is null in flows of the session alone."""
    flows = trace.where((F.col("protocol") == "AMQP") & (F.col("command") == "flow"))

    def number(name: str) -> Column:
        return value(name).try_cast("long").alias(name.replace("-", "_"))

    return flows.select(
        *SCOPE,
        "position",
        "conn",
        "at_ns",
        F.when(F.col("kind") == "FrameSent", "sent").otherwise("received").alias("direction"),
        number("channel"),
        number("handle"),
        number("delivery-count"),
        number("link-credit"),
        (F.coalesce(value("drain"), F.lit("")) == "true").alias("drain"),
        number("next-incoming-id"),
        number("incoming-window"),
        number("next-outgoing-id"),
    )
