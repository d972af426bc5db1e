"""What a recording does not hold, across a cluster: which irregularities it makes uncertain, and
what there is to say of it.

The rule is that of :mod:`brokerproof.harness.oracles.capture_gaps`; what was not seen is in the
summaries of lives.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerproof.harness.oracles.capture_gaps import doubtful
from brokerproof.harness.trace.facts import FAR
from brokerproof.reports.judging.recheck import FOUND
from brokerproof.reports.judging.recheck_plan import SCOPE
from brokerproof.reports.judging.segment_summary import LIFE, TOUCH
from brokerproof.reports.schema import spark_schema

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

_SINCE = ("anywhere", "of_queue")


def unseen(groups: DataFrame) -> DataFrame:
    """What is missing on each connection (:data:`UNSEEN`), from merged summaries."""

    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [told for row in batch.to_pylist() for told in _told(row)]
            yield pa.RecordBatch.from_pylist(rows, schema=UNSEEN)

    return groups.where(F.col("what") == LIFE).mapInArrow(tell, spark_schema(UNSEEN))


def _told(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    life = pickle.loads(row["summary"])  # written by our own workers a moment ago
    scope = {name: row[name] for name in (*SCOPE, "conn")}
    for why, (since, octets) in sorted(life.unseen.items()):
        yield {**scope, "why": why, "since_ns": since, "octets": octets}


_WORDS = {
    "BEGUN": (
        "began before the recording did: what was agreed then, and what was under way, is not known"
    ),
    "LOST": "lack octets that were not captured",
    "CUT": "lack octets that the capture cut off",
    "TLS": "are encrypted",
    "FOREIGN": "carry what nobody here can read",
    "CLOCK": "went on while the clock of whoever captured was set back",
    "FAR": (
        "were captured far from the broker, or nobody knows how far: a silence may be the network's"
    ),
    "ENDS": "went on when the recording ended",
}


@dataclass(frozen=True, slots=True)
class Missing:
    """What is not in a recording for one reason: on how many connections, how many octets at least,
    and since when (ns)."""

    why: str
    connections: int
    octets: int
    since_ns: int

    def __str__(self) -> str:
        octets = f" ({self.octets} octets)" if self.octets else ""
        return f"{self.connections} connections {_WORDS.get(self.why, self.why)}{octets}"

    def as_data(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)


def missing_in(groups: DataFrame) -> list[Missing]:
    """What is missing in a recording, by reason; from merged summaries."""
    told = unseen(groups).groupBy("why").agg(F.count("*"), F.sum("octets"), F.min("since_ns"))
    return [Missing(*row) for row in told.orderBy("why").collect()]


def doubted(found: DataFrame, groups: DataFrame, *, whole: bool) -> DataFrame:
    """Irregularities (:data:`brokerproof.reports.judging.recheck.FOUND`), uncertain where what was
    not seen could explain them."""
    missing = (
        unseen(groups)
        .where(F.col("why") != FAR)
        .groupBy(*SCOPE, "conn")
        .agg(F.min("since_ns").alias("since"))
    )
    touching = groups.where(F.col("what") == TOUCH).select(*SCOPE, "queue", "conn").distinct()
    anywhere = missing.groupBy(*SCOPE).agg(F.min("since").alias("anywhere"))
    of_queue = (
        touching.join(missing, [*SCOPE, "conn"])
        .groupBy(*SCOPE, "queue")
        .agg(F.min("since").alias("of_queue"))
    )

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch.to_pylist()
            for row in rows:
                last = max((each["at_ns"] for each in row["witness"]), default=0)
                since = (row.pop(name) for name in _SINCE)
                row["uncertain"] = row["uncertain"] or doubtful(
                    row["kind"], last, *since, whole=whole
                )
            yield pa.RecordBatch.from_pylist(rows, schema=FOUND)

    beside = found.join(anywhere, list(SCOPE), "left").join(of_queue, [*SCOPE, "queue"], "left")
    return beside.select(*FOUND.names, *_SINCE).mapInArrow(judge, spark_schema(FOUND))
