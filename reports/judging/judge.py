"""The judging engine: from a recording of any size to its anomalies.

The path of an event::

    source → segment_summary (map) → merge (reduce) → recheck_plan → recheck → conclusion

1. A task for each piece of the source summarises its events by group: the messages of a producer on
   a queue, the order on a subscription, a connection's windows, silences and channels
   (:mod:`brokerproof.reports.judging.segment_summary`).
2. The summaries of a group are merged in the order of the pieces
   (:mod:`brokerproof.reports.judging.merge`). Most summaries are clean and are dropped.
3. The other summaries name the messages and connections to read again
   (:mod:`brokerproof.reports.judging.recheck_plan`).
4. These events are read again and judged one by one, with the rules of the oracles
   (:mod:`brokerproof.reports.judging.recheck`). Silences and closes are not reread, because their
   summaries are exact. Connections of AMQP and CORE are judged by the oracles of their protocol
   (:mod:`brokerproof.reports.judging.amqp`).
5. Gaps in the recording make anomalies uncertain (:mod:`brokerproof.reports.judging.capture_gaps`).
   Each anomaly gets the requirement that it breaks, and
   :mod:`brokerproof.reports.judging.conclusion` adds the verdicts.

A soak does steps 1 and 2 while the recording grows. When it suspects a violation, it judges
everything again from step 1 (:mod:`brokerproof.reports.soak.incremental`)."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from brokerproof.harness.oracles import connection_lifetimes
from brokerproof.harness.oracles.connection_reader import READABLE, STOMP
from brokerproof.harness.oracles.expectations import Expectations
from brokerproof.reports.judging import amqp, capture_gaps
from brokerproof.reports.judging.connection_lifetimes import NEVER, ConnectionSummary
from brokerproof.reports.judging.executors import OnSpark, Row
from brokerproof.reports.judging.merge import merge
from brokerproof.reports.judging.recheck import ANOMALIES, anomaly_row, recheck
from brokerproof.reports.judging.recheck_plan import recheck_plan, scope_of
from brokerproof.reports.judging.requirement_map import KINDS, statement
from brokerproof.reports.judging.segment_summary import summarise
from brokerproof.reports.judging.summary import (
    CHANNELS,
    CONNECTION,
    DELIVERIES,
    ORACLE_JUDGED,
    ORDER,
    SCOPE,
    SCOPE_PROTOCOLS,
    WINDOWS,
)
from brokerproof.reports.sources import Source
from brokerproof.reports.spark.on_demand import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JUDGED_GROUPS = {
    DELIVERIES: "blocks of 1,024 messages of a producer on a queue",
    ORDER: "orders of a producer's messages on the way to a subscription",
    WINDOWS: "connections under a window",
    CONNECTION: "connections",
}
"""The kinds of groups that are counted for readers, in the plural."""

CONNECTIONS = pa.schema(
    [
        ("run", pa.string()),
        ("target", pa.string()),
        ("case", pa.string()),
        ("example", pa.int64()),
        ("conn", pa.int64()),
        ("opened_ns", pa.int64()),
        ("ended_ns", pa.int64()),
        ("ended_by", pa.string()),
        ("promised_ns", pa.int64()),
        ("longest_silence_ns", pa.int64()),
        ("silent_until_ns", pa.int64()),
        ("last_spoken_ns", pa.int64()),
        ("longest_stall_ns", pa.int64()),
        ("stalled_until_ns", pa.int64()),
    ]
)
"""A row for each connection, with instants on the trace's clock; null if not seen. A null
``promised_ns`` means that no heartbeats were agreed. A stall is a period in which a producer
received nothing until a receipt arrived."""


@dataclass(frozen=True)
class Judgement:
    """The anomalies of a recording, as lazy DataFrames."""

    anomalies: DataFrame
    """:data:`brokerproof.reports.judging.recheck.ANOMALIES` with ``requirement``, empty if no
    document of the profile states one."""
    connections: DataFrame
    """:data:`CONNECTIONS`."""
    groups: Mapping[str, tuple[int, int]]
    """The numbers of all groups and of rechecked groups, by kind (:data:`JUDGED_GROUPS`)."""
    merged: DataFrame
    """The merged summaries (:data:`brokerproof.reports.judging.merge.MERGED`)."""

    def release(self) -> None:
        for frame in (self.anomalies, self.merged):
            frame.unpersist()


def find_anomalies(spark: SparkSession, source: Source, ground: Expectations) -> Judgement:
    """Judge a recording. Only the merged summaries and the anomalies are kept, if need be on
    disk."""
    from pyspark import StorageLevel

    merged = merge(summarise(spark, source, ground))
    if not source.whole:  # other connections may have sent messages too
        incomplete = F.col("kind") == SCOPE_PROTOCOLS
        merged = merged.withColumn("needs_recheck", F.col("needs_recheck") | incomplete)
    merged = merged.persist(StorageLevel.MEMORY_AND_DISK)
    groups = _counted(merged)
    suspicious = {kind for kind, (_, rechecked) in groups.items() if rechecked}

    anomalies = OnSpark().run(
        LifetimeAnomalies(ground, source.whole, source.captured),
        _connection_rows(merged),
        ANOMALIES,
    )
    if suspicious & {DELIVERIES, ORDER, WINDOWS}:
        counts_messages = "messages" in ground.windows.values()
        plan = recheck_plan(merged, window_counts_messages=counts_messages)
        rechecked = recheck(spark, source, ground, merged, plan)
        if rechecked is not None and (CONNECTION in suspicious or not source.whole):
            rechecked = capture_gaps.with_doubts(rechecked, merged, whole=source.whole)
        if rechecked is not None:
            anomalies = anomalies.unionByName(rechecked)
    anomalies = _with_requirement(anomalies, merged if ORACLE_JUDGED in groups else None, ground)
    if suspicious & {ORACLE_JUDGED, CHANNELS}:
        anomalies = anomalies.unionByName(amqp.find_anomalies(spark, source, merged))

    counts = {kind: groups[kind] for kind in groups if kind in JUDGED_GROUPS}
    if CONNECTION in counts:  # judged by their summaries alone
        counts[CONNECTION] = counts[CONNECTION][0], 0
    return Judgement(
        anomalies.persist(StorageLevel.MEMORY_AND_DISK),
        OnSpark().run(_connections, _connection_rows(merged), CONNECTIONS),
        counts,
        merged,
    )


def _counted(merged: DataFrame) -> Mapping[str, tuple[int, int]]:
    """Return, by kind, the number of groups and the number of groups that need a recheck."""
    suspicious = F.sum(F.col("needs_recheck").cast("long"))
    counts = merged.groupBy("kind").agg(F.count("*").alias("groups"), suspicious.alias("recheck"))
    return {row.kind: (row.groups, row.recheck) for row in counts.collect()}


def _with_requirement(
    anomalies: DataFrame, merged: DataFrame | None, ground: Expectations
) -> DataFrame:
    """Return the anomalies, each with the requirement that it breaks, by the protocol of its
    connection. Without ``merged``, all connections speak STOMP."""
    protocols = READABLE if merged is not None else (STOMP,)
    requirements = F.create_map(
        *(
            F.lit(text)
            for protocol in protocols
            for kind in KINDS
            for text in (f"{protocol} {kind}", statement(ground.name, kind, protocol))
        )
    )
    if merged is None:
        key = F.concat(F.lit(f"{STOMP} "), "kind")
        return anomalies.withColumn("requirement", requirements[key])
    others = merged.where(F.col("kind") == ORACLE_JUDGED)
    others = others.select(*SCOPE, "conn", F.col("subscription").alias("protocol"))
    known = anomalies.join(others.dropDuplicates([*SCOPE, "conn"]), [*SCOPE, "conn"], "left")
    key = F.concat(F.coalesce("protocol", F.lit(STOMP)), F.lit(" "), "kind")
    requirement = F.coalesce(requirements[key], F.lit(""))
    return known.withColumn("requirement", requirement).drop("protocol")


# --- connections ----------------------------------------------------------------------------------


def _connection_rows(merged: DataFrame) -> DataFrame:
    return merged.where(F.col("kind") == CONNECTION)


@dataclass(frozen=True)
class LifetimeAnomalies:
    """Judges connections by their summaries, and yields :data:`ANOMALIES`."""

    ground: Expectations
    whole: bool
    captured: bool

    def __call__(self, rows: Iterator[Row]) -> Iterable[Row]:
        for row in rows:
            summary = pickle.loads(row["summary"])  # written by our own workers
            for anomaly in connection_lifetimes.find_anomalies(
                lifetime(row["conn"], summary, captured=self.captured),
                self.ground,
                whole=self.whole,
            ):
                # A witness from a summary has only an instant, but no place in the recording.
                witness = [{"at_ns": at, "seq": None} for at, _ in anomaly.witness]
                yield {**anomaly_row(scope_of(row), anomaly), "witness": witness}


def _connections(rows: Iterator[Row]) -> Iterable[Row]:
    for row in rows:
        summary: ConnectionSummary = pickle.loads(row["summary"])  # written by our own workers
        yield {
            **{name: row[name] for name in (*SCOPE, "conn")},
            "opened_ns": _seen(summary.opened),
            "ended_ns": _seen(summary.closed),
            "ended_by": summary.closed_by or None,
            "promised_ns": connection_lifetimes.promised(lifetime(row["conn"], summary)),
            "longest_silence_ns": summary.received.longest,
            "silent_until_ns": _seen(summary.received.until),
            "last_spoken_ns": _seen(summary.sent.last),
            "longest_stall_ns": summary.stalled[0],
            "stalled_until_ns": _seen(summary.stalled[1]),
        }


def _seen(instant: int) -> int | None:
    return None if instant == NEVER else instant


def lifetime(
    conn: int, summary: ConnectionSummary, *, captured: bool = False
) -> connection_lifetimes.Lifetime:
    """Return the summary of a connection in the form that the oracle expects."""
    return connection_lifetimes.Lifetime(
        conn,
        summary.received.longest,
        summary.received.until,
        _seen(summary.received.last),
        _seen(summary.sent.last),
        _seen(summary.closed),
        summary.closed_by,
        summary.connect_headers,
        summary.connected_headers,
        summary.error,
        summary.disconnected,
        summary.opaque,
        min((since for since, _ in summary.unseen.values()), default=None),
        captured,
    )
