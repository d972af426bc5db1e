"""The usage of addresses as brokers report it: sizes, messages, pages, and whether addresses
page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.reports.model.tables.deliveries import SCOPE, value
from brokerproof.reports.spark.on_demand import F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ATTRIBUTES = {
    "addressSize": "size",
    "messageCount": "messages",
    "numberOfPages": "pages",
    "paging": "paging",
}
"""The attributes that cases request (:mod:`brokerproof.harness.clients.artemis_management`), and
their names here."""
_SHORT = 64
"""The maximum size in bytes of an answer with a number or a boolean."""


def addresses(trace: DataFrame) -> DataFrame:
    """``run, target, case, part, position, at_ns, address, what, value``: a row for each reading,
    at the instant of the answer. ``what`` is ``size`` (bytes of memory counted for the address),
    ``messages``, ``pages`` (files), or ``paging`` (1 while sent messages go to disk, are dropped or
    refused). Non-numeric answers are omitted."""
    stomp = trace.where((F.col("protocol") == "STOMP") & (F.col("vantage") != "BROKER"))
    named = F.create_map(*[F.lit(name) for pair in ATTRIBUTES.items() for name in pair])
    asked = (
        stomp.where((F.col("kind") == "FrameSent") & (F.col("command") == "SEND"))
        .select(
            *SCOPE,
            value("reply-to").alias("to"),
            value("correlation-id").alias("number"),
            F.regexp_replace(value("_AMQ_ResourceName"), "^address\\.", "").alias("address"),
            named[value("_AMQ_Attribute")].alias("what"),
        )
        .where(F.col("what").isNotNull() & F.col("to").isNotNull())
        .dropDuplicates([*SCOPE, "to", "number"])
    )
    answered = stomp.where(
        (F.col("kind") == "FrameReceived")
        & (F.col("command") == "MESSAGE")
        & (F.col("body_size") <= _SHORT)
    ).select(
        *SCOPE,
        "position",
        "at_ns",
        value("destination").alias("to"),
        value("correlation-id").alias("number"),
        _number(F.decode("body", "ISO-8859-1")).alias("value"),
    )
    both = asked.join(answered.where(F.col("value").isNotNull()), [*SCOPE, "to", "number"])
    return both.select(*SCOPE, "position", "at_ns", "address", "what", "value")


def _number(answer: Column) -> Column:
    """Return the number or boolean that is the only element of a JSON array; null for anything
    else."""
    bare = F.regexp_extract(answer, r"^\s*\[\s*(\d+|true|false)\s*\]\s*$", 1)
    truth = F.when(bare == "true", F.lit(1)).when(bare == "false", F.lit(0))
    return F.coalesce(truth.cast("long"), bare.try_cast("long"))
