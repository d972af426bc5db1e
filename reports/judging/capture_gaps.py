"""Capture gaps: the parts that are missing from a recording, and the anomalies that gaps make
uncertain.

The rule is that of :mod:`brokerproof.harness.oracles.capture_gaps`. The gaps are in the summaries
of connections."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brokerproof.harness.oracles.capture_gaps import doubtful
from brokerproof.harness.trace.facts import FAR
from brokerproof.reports.judging.connection_lifetimes import ConnectionSummary
from brokerproof.reports.judging.executors import OnSpark, Row
from brokerproof.reports.judging.recheck import ANOMALIES
from brokerproof.reports.judging.summary import CONNECTION, QUEUE_USE, SCOPE
from brokerproof.reports.spark.on_demand import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

UNSEEN = pa.schema(
    [
        ("run", pa.string()),
        ("target", pa.string()),
        ("case", pa.string()),
        ("example", pa.int64()),
        ("conn", pa.int64()),
        ("why", pa.string()),
        ("since_ns", pa.int64()),
        ("octets", pa.int64()),
    ]
)
"""A row for each connection and reason
(:class:`brokerproof.harness.trace.events.OctetsSentUnseen`)."""


def unseen(merged: DataFrame) -> DataFrame:
    """Return what is missing on each connection (:data:`UNSEEN`), according to the merged
    summaries."""
    return OnSpark().run(unseen_of, merged.where(F.col("kind") == CONNECTION), UNSEEN)


def unseen_of(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield what is missing (:data:`UNSEEN`), according to the merged summaries of connections."""
    for row in rows:
        summary: ConnectionSummary = pickle.loads(row["summary"])  # written by our own workers
        connection = {name: row[name] for name in (*SCOPE, "conn")}
        for why, (since, size) in sorted(summary.unseen.items()):
            yield {**connection, "why": why, "since_ns": since, "octets": size}


_REASONS = {
    "BEGUN": ("began before the recording: earlier agreements and deliveries are not known"),
    "LOST": "lack bytes that were not captured",
    "CUT": "lack bytes that the capture cut off",
    "TLS": "are encrypted",
    "FOREIGN": "use a protocol that brokerproof cannot read",
    "CLOCK": "were open when the clock of the capturing machine was set back",
    "FAR": (
        "were captured far from the broker, or at an unknown distance: the network may have"
        " caused a silence"
    ),
    "ENDS": "were still open when the recording ended",
}


@dataclass(frozen=True, slots=True)
class Missing:
    """The connections that were recorded incompletely for one reason."""

    why: str
    connections: int
    size: int
    """The smallest possible number of missing bytes."""
    since_ns: int

    def __str__(self) -> str:
        size = f" ({self.size} bytes)" if self.size else ""
        return f"{self.connections} connections {_REASONS.get(self.why, self.why)}{size}"

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def missing_in(merged: DataFrame) -> list[Missing]:
    """Return what is missing from a recording by reason, according to merged summaries."""
    reasons = unseen(merged).groupBy("why").agg(F.count("*"), F.sum("octets"), F.min("since_ns"))
    return [Missing(*row) for row in reasons.orderBy("why").collect()]


@dataclass(frozen=True)
class Doubts:
    """Marks anomalies as uncertain if something unseen could explain them."""

    whole: bool

    def __call__(self, rows: Iterator[Row]) -> Iterable[Row]:
        for row in rows:
            last = max((witness["at_ns"] for witness in row["witness"]), default=0)
            gaps = row["anywhere"], row["of_queue"]
            uncertain = row["uncertain"] or doubtful(row["kind"], last, *gaps, whole=self.whole)
            yield {name: row[name] for name in ANOMALIES.names} | {"uncertain": uncertain}


def with_doubts(anomalies: DataFrame, merged: DataFrame, *, whole: bool) -> DataFrame:
    """Return the anomalies (:data:`brokerproof.reports.judging.recheck.ANOMALIES`), marked as
    uncertain where something unseen could explain them."""
    gaps = (
        unseen(merged)
        .where(F.col("why") != FAR)
        .groupBy(*SCOPE, "conn")
        .agg(F.min("since_ns").alias("since"))
    )
    uses = merged.where(F.col("kind") == QUEUE_USE).select(*SCOPE, "queue", "conn").distinct()
    anywhere = gaps.groupBy(*SCOPE).agg(F.min("since").alias("anywhere"))
    of_queue = (
        uses.join(gaps, [*SCOPE, "conn"])
        .groupBy(*SCOPE, "queue")
        .agg(F.min("since").alias("of_queue"))
    )
    known = anomalies.join(anywhere, list(SCOPE), "left")
    known = known.join(of_queue, [*SCOPE, "queue"], "left")
    return OnSpark().run(Doubts(whole), known, ANOMALIES)
