"""Every MESSAGE to a STOMP consumer, and the frame that settled it by name."""

from typing import TYPE_CHECKING

from brokerproof.reports.spark.on_demand import F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


SCOPE = ("run", "target", "case", "part")


def deliveries(trace: "DataFrame") -> "DataFrame":
    """``run, target, case, part, position, conn, queue, subscription, message, redelivered, at_ns,
    size, settled_by, settled_ns, held_ns``.

    ``message`` is the id used in settlements (header ``ack``, else ``message-id``). ``settled_by``
    is ``ACK`` or ``NACK``, null if no frame names the delivery: in ``auto`` mode, or in ``client``
    mode if the acknowledgement of a later delivery covers it. ``held_ns`` is the time between the
    two."""
    stomp = trace.where(F.col("protocol") == "STOMP")
    got = stomp.where((F.col("kind") == "FrameReceived") & (F.col("command") == "MESSAGE")).select(
        *SCOPE,
        "position",
        "conn",
        value("destination").alias("queue"),
        value("subscription").alias("subscription"),
        F.coalesce(value("ack"), value("message-id")).alias("message"),
        (F.coalesce(value("redelivered"), F.lit("")) == "true").alias("redelivered"),
        "at_ns",
        "size",
    )
    answers = stomp.where((F.col("kind") == "FrameSent") & F.col("command").isin("ACK", "NACK"))
    named = answers.select(
        *SCOPE,
        "conn",
        F.coalesce(value("id"), value("message-id")).alias("message"),
        "position",
        "command",
        "at_ns",
    )
    first = (
        named.groupBy(*SCOPE, "conn", "message")
        .agg(F.min(F.struct("position", "command", "at_ns")).alias("by"))
        .select(
            *SCOPE,
            "conn",
            "message",
            F.col("by.command").alias("settled_by"),
            F.col("by.at_ns").alias("settled_ns"),
        )
    )
    return got.join(first, [*SCOPE, "conn", "message"], "left").select(
        *SCOPE,
        "position",
        "conn",
        "queue",
        "subscription",
        "message",
        "redelivered",
        "at_ns",
        "size",
        "settled_by",
        "settled_ns",
        (F.col("settled_ns") - F.col("at_ns")).alias("held_ns"),
    )


def value(name: str) -> "Column":
    """The first value of one of the event's headers, null if there is none."""
    return F.get(F.filter("headers", lambda header: header["name"] == name), F.lit(0))["value"]
