"""Chooses the events of a case that its page shows: a bounded part, before anything leaves
Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from brokerproof.reports.dataframes import CASE
from brokerproof.reports.redaction import blanked, blanked_bytes

EXAMPLES = 3
"""Examples of a property on its page."""
HEAD, TAIL, MARKED = 120, 60, 60
"""Events from the beginning and the end of an example, and judgements and the like from between."""
BODY_OCTETS = 200
HEADERS = 40
HEADER_LENGTH = 300

_MARKED = (
    "ConnectionAbandoned",
    "ConnectionClosed",
    "ConnectionOpened",
    "IntervalExpected",
    "Judged",
    "LinkFaulted",
    "Measured",
    "OctetsRefused",
)


@dataclass(frozen=True)
class Excerpt:
    """Some of one example's events, as rows by column name, in order.

    ``part`` is 0 for a case that is no property, otherwise which of its ``examples`` this is, from
    1; the trace has ``events`` of it. ``index`` in a row is the event's place in the example, from
    1; a jump shows where events were left out.
    """

    part: int
    events: int
    examples: int
    rows: list[dict[str, Any]]


def excerpts(trace: DataFrame, examples: DataFrame) -> DataFrame:
    """The events for the pages of ``examples`` (see :func:`chosen_examples`), a bounded number of
    each: its beginning, its end, and what was judged and measured between; ``choice`` and
    ``position`` are their order."""
    events = trace.join(F.broadcast(examples), [*CASE, "part"])
    of_example = Window.partitionBy("page", "part")
    marked = F.col("kind").isin(*_MARKED).cast("long")
    numbered = events.withColumn(
        "index", F.row_number().over(of_example.orderBy("position"))
    ).withColumn("mark", F.sum(marked).over(of_example.orderBy("position")))
    in_reach = (F.col("index") <= HEAD) | (F.col("index") > F.col("events") - TAIL)
    return (
        numbered.where(in_reach | ((marked == 1) & (F.col("mark") <= MARKED)))
        .withColumn("data_size", F.octet_length("data"))
        .withColumn("body", blanked_bytes(F.col("body"), BODY_OCTETS))
        .withColumn("data", blanked_bytes(F.col("data"), BODY_OCTETS))
        .withColumn(
            "headers",
            F.transform(
                F.slice("headers", 1, HEADERS),
                lambda header: F.struct(
                    F.substring(header["name"], 1, HEADER_LENGTH).alias("name"),
                    F.substring(blanked(header["name"], header["value"]), 1, HEADER_LENGTH).alias(
                        "value"
                    ),
                ),
            ),
        )
        .drop("run", "target", "case", "mark", "seq", "clock", "segment")
    )


def chosen_examples(trace: DataFrame, chosen: DataFrame) -> DataFrame:
    """``page, part, choice, events, examples`` with the case: the examples to show on the pages of
    ``chosen`` (``run, target, case, page, examples``: at most so many of each).

    Of a property: failing examples first, the last of them (the shrunk one) before the others; then
    those nearest to a bound.
    """
    events = trace.join(F.broadcast(chosen.withColumnRenamed("examples", "most")), list(CASE))
    violated = F.max(((F.col("kind") == "Judged") & (F.col("seen") == "VIOLATED")).cast("int"))
    room = F.least(F.col("value") - F.col("lo"), F.col("hi") - F.col("value"))
    width = F.greatest(F.coalesce(F.col("hi") - F.col("lo"), F.col("lo")), F.lit(1))
    ranked = Window.partitionBy("page").orderBy(
        F.col("part") == 0,  # what comes before the first example is no example
        F.desc("violated"),
        F.when(F.col("violated") == 1, -F.col("part")),
        F.asc_nulls_last("nearest"),
        "part",
    )
    return (
        events.groupBy("page", *CASE, "part", "most")
        .agg(
            violated.alias("violated"),
            F.min(room / width).alias("nearest"),
            F.count("*").alias("events"),
        )
        .withColumn("choice", F.row_number().over(ranked))
        .withColumn(
            "examples", F.sum((F.col("part") > 0).cast("long")).over(Window.partitionBy("page"))
        )
        .where(F.col("choice") <= F.col("most"))
        .select("page", *CASE, "part", "choice", "events", "examples")
    )


def of_page(events: Sequence[dict[str, Any]]) -> Iterator[Excerpt]:
    """Rows of :func:`excerpts` that belong to one page, in any order, by example."""
    in_order = sorted(events, key=lambda row: (row["choice"], row["position"]))
    for _, group in groupby(in_order, key=lambda row: row["choice"]):
        rows = list(group)
        yield Excerpt(rows[0]["part"], rows[0]["events"], rows[0]["examples"], rows)
