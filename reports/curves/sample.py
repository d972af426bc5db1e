"""Curves of case pages (:mod:`brokerproof.reports.curves.compute`) at any size: an example is read
in order by one task and comes out as a few hundred points a curve; only frames that matter are
brought together, whatever the length of the example.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerproof.reports.curves.compute import Settings, curves
from brokerproof.reports.dataframes import CASE
from brokerproof.reports.spark_schema import spark_schema

SERIES = pa.schema([("page", pa.int64()), ("part", pa.int64()), ("curves", pa.string())])
"""``curves`` is JSON: :class:`brokerproof.reports.curves.compute.Curve` by its fields, instants in
nanoseconds of the trace's clock."""

_AMQP = ("begin", "attach", "flow", "transfer", "detach", "end", "open", "close")
_STOMP = ("SUBSCRIBE", "UNSUBSCRIBE", "MESSAGE", "ACK", "NACK", "SEND")
_AMQP091 = ("qos", "consume", "consume-ok", "deliver", "ack", "nack", "reject")
"""Methods of the class basic."""


def series(
    trace: DataFrame,
    examples: DataFrame,
    settings: Mapping[tuple[str, str], Settings] | None = None,
) -> DataFrame:
    """The curves (:data:`SERIES`) of the examples ``page, part, run, target, case``; those without
    any have no row. ``settings`` are the address-settings of brokers by run and target."""
    known = dict(settings or {})
    spoken = trace.where(
        F.col("kind").isin("FrameSent", "FrameReceived")
        & F.col("command").isin(*_AMQP, *_STOMP, *(f"basic.{command}" for command in _AMQP091))
        & (F.col("vantage") != "BROKER")
    )
    needed = spoken.join(F.broadcast(examples), [*CASE, "part"]).select(
        "page",
        "part",
        "run",
        "target",
        "position",
        "at_ns",
        "conn",
        "kind",
        "protocol",
        "command",
        "headers",
        "size",
        F.when(F.col("body_size") <= 40, F.decode("body", "ISO-8859-1")).alias("body"),
    )

    def draw(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        for (page, part, *of), some in groupby(rows, key=_example):
            drawn = curves(some, known.get((of[0], of[1]), ()))
            if drawn:
                row = {
                    "page": page,
                    "part": part,
                    "curves": json.dumps([vars(curve) for curve in drawn]),
                }
                yield pa.RecordBatch.from_pylist([row], schema=SERIES)

    together = needed.repartition("page", "part").sortWithinPartitions("page", "part", "position")
    return together.mapInArrow(draw, spark_schema(SERIES))


def _example(row: Mapping[str, Any]) -> tuple[int, int, str, str]:
    return row["page"], row["part"], row["run"], row["target"]
