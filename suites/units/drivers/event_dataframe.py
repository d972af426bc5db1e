"""Events as a small DataFrame, without a file."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from brokerproof.harness.trace.columns import FIELDS, SCHEMA
from brokerproof.harness.trace.events import Event
from brokerproof.reports.spark.schema import trace_schema

RECORDED = StructType(
    [
        *trace_schema().fields,
        StructField("position", IntegerType(), False),
        StructField("part", LongType(), False),
    ]
)
"""A trace in the form of :func:`brokerproof.reports.sources.dataframes.trace`."""


def recorded(
    spark: SparkSession,
    events: Sequence[Event],
    *,
    run: str = "r",
    target: str = "t",
    case: str = "c",
) -> DataFrame:
    """Events of one case as the reader returns them, with ``position`` and ``part``."""
    rows = []
    part = 0
    for position, event in enumerate(events):
        kind = type(event).__name__
        part += kind == "ExampleStarted"
        row: dict[str, Any] = dict.fromkeys(SCHEMA.names)
        row |= {
            "run": run,
            "target": target,
            "case": case,
            "seq": position,
            "clock": "VIRTUAL",
            "kind": kind,
        }
        row |= {"at_ns": event.at_ns, "conn": event.conn, "vantage": event.vantage.value}
        row |= {name: getattr(event, name) for name in FIELDS[kind]}
        if row["body"] is not None:
            row["body"] = bytearray(row["body"])
        if row["data"] is not None:
            row["data"] = bytearray(row["data"])
        if "how" in FIELDS[kind]:
            row["how"] = str(row["how"].value)
        rows.append((*row.values(), position, part))
    return spark.createDataFrame(rows, RECORDED)
