"""The recording of each case, judged again from nothing but what crossed the wire, beside the
verdict that the case gave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerproof.harness.oracles import connection_lifetimes, recorded_anomalies
from brokerproof.harness.oracles.expectations import NOTHING, Expectations
from brokerproof.harness.trace import read
from brokerproof.harness.trace.events import Event
from brokerproof.reports.judging import amqp
from brokerproof.reports.judging.requirement_map import statement
from brokerproof.reports.spark_schema import spark_schema

MOST = 500_000
"""A case with more events is no case of a suite but a load; ``brokerproof judge`` is for those."""

AGAIN = pa.schema(
    [
        ("run", pa.string()),
        ("target", pa.string()),
        ("case", pa.string()),
        ("part", pa.int64()),
        ("kind", pa.string()),
        ("requirement", pa.string()),
        ("conn", pa.int64()),
        ("queue", pa.string()),
        ("what", pa.string()),
        ("uncertain", pa.bool_()),
        ("at_ns", pa.int64()),
        ("position", pa.int64()),
    ]
)
"""One irregularity a row: ``at_ns`` and ``position`` are those of the last event that shows it."""

_COLUMNS = ("run", "target", "case", "part", "position", "at_ns", "conn", "vantage", "kind")
_PAYLOAD = (
    "protocol",
    "command",
    "headers",
    "body",
    "body_size",
    "size",
    "how",
    "acceptor",
    "remote",
    "data",
    "detail",
)
_KINDS = (
    "FrameSent",
    "FrameReceived",
    "HeartBeatSent",
    "HeartBeatReceived",
    "OctetsSent",
    "OctetsRefused",
    "ConnectionOpened",
    "ConnectionClosed",
    "ConnectionAbandoned",
)
_SCOPE = ("run", "target", "case", "part")


def again(trace: DataFrame, grounds: Mapping[tuple[str, str], Expectations]) -> DataFrame:
    """Every irregularity in every example of every case (:data:`AGAIN`); ``grounds`` by run and
    target.

    The oracles take a whole example at a time; cases of more than :data:`MOST` events are left out.
    """
    known = dict(grounds)

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        for (run, target, case, part), of_scope in groupby(
            rows, key=lambda row: tuple(row[name] for name in _SCOPE)
        ):
            anomalies = list(_judged(list(of_scope), known.get((run, target), NOTHING)))
            scope = {"run": run, "target": target, "case": case, "part": part}
            yield pa.RecordBatch.from_pylist(
                [{**scope, **anomaly} for anomaly in anomalies], schema=AGAIN
            )

    spoken = trace.where(
        F.col("kind").isin(*_KINDS) & (F.col("vantage") != "BROKER") & (F.col("position") < MOST)
    )
    together = (
        spoken.select(*_COLUMNS, *_PAYLOAD)
        .repartition(*_SCOPE)
        .sortWithinPartitions(*_SCOPE, "position")
    )
    return together.mapInArrow(judge, spark_schema(AGAIN))


def _judged(rows: list[dict[str, Any]], ground: Expectations) -> Iterator[dict[str, Any]]:
    # Most examples have nothing that an oracle could speak of; all of them are looked at, so
    # looking has to be cheap.
    delivered = any(row["command"] == "MESSAGE" and row["kind"] == "FrameReceived" for row in rows)
    beating = any(row["command"] == "CONNECTED" and _beating(row["headers"]) for row in rows)
    talking: dict[int, list[Event]] = {
        row["conn"]: []
        for row in rows
        if row["kind"] == "FrameSent" and row["protocol"] == "AMQP" and row["conn"] is not None
    }
    if not (delivered or beating or talking):
        return
    events = [read.event(row) for row in rows]
    wrong = recorded_anomalies.find_anomalies(events, ground) if delivered else []
    if beating:
        wrong += [
            anomaly
            for life in connection_lifetimes.lifetimes(events).values()
            for anomaly in connection_lifetimes.find_anomalies(life, ground)
        ]
    for event in events if talking else ():
        if event.conn in talking:
            talking[event.conn].append(event)
    for conn in sorted(talking):
        for anomaly, requirement in amqp.connection_anomalies(talking[conn], conn):
            yield {
                **{
                    "kind": anomaly.kind,
                    "requirement": requirement,
                    "conn": conn,
                    "queue": "",
                    "what": anomaly.what,
                },
                **{
                    "uncertain": anomaly.uncertain,
                    "at_ns": anomaly.witness[0][0],
                    "position": None,
                },
            }
    for anomaly in wrong:
        at, place = anomaly.witness[-1]
        yield {
            "kind": anomaly.kind,
            "requirement": statement(ground.name, anomaly.kind),
            "conn": anomaly.conn,
            "queue": anomaly.queue,
            "what": anomaly.what,
            "uncertain": anomaly.uncertain,
            "at_ns": at,
            "position": rows[place]["position"]
            if anomaly.kind in recorded_anomalies.KINDS
            else None,
        }


def _beating(headers: Sequence[Mapping[str, str]] | None) -> bool:
    """True if a CONNECTED promises heartbeats, or asks for some: without it no lifetime can be
    judged."""
    return any(
        header["name"] == "heart-beat" and header["value"] != "0,0" for header in headers or ()
    )


def beside_verdicts(anomalies: DataFrame, cases: DataFrame) -> DataFrame:
    """The irregularities with ``verdict``, what the case said when it ran, and ``contradicts``: the
    case was content, and the recording surely is not."""
    live = cases.select("run", "target", "case", "verdict")
    content = (
        F.col("verdict").isin("PASS", "NOTE") & ~F.col("uncertain") & (F.col("requirement") != "")
    )
    return anomalies.join(live, ["run", "target", "case"], "left").withColumn(
        "contradicts", F.coalesce(content, F.lit(False))
    )
