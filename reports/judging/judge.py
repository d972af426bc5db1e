"""One judgement on one recording: summaries, their merger, the second look, and what was looked
at."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from brokerproof.harness.oracles import connection_lifetimes as lives
from brokerproof.harness.oracles.connection_reader import READABLE, STOMP
from brokerproof.harness.oracles.expectations import Expectations
from brokerproof.harness.oracles.recording import Anomaly
from brokerproof.reports.judging import amqp, local_recheck, recheck
from brokerproof.reports.judging.capture_gaps import doubted
from brokerproof.reports.judging.connection_lifetimes import NEVER, Life
from brokerproof.reports.judging.merge import merged, summaries
from brokerproof.reports.judging.recheck import FOUND
from brokerproof.reports.judging.recheck_plan import SCOPE as SCOPE_NAMES
from brokerproof.reports.judging.recheck_plan import Wanted, wanted
from brokerproof.reports.judging.requirement_map import KINDS, statement
from brokerproof.reports.judging.segment_summary import (
    AMQP,
    BOOK,
    CHANNELS,
    LIFE,
    PART,
    RISE,
    SCOPE,
)
from brokerproof.reports.read import arrow
from brokerproof.reports.schema import spark_schema
from brokerproof.reports.sources import Source

LOOKED_AT = {
    BOOK: "books, of a queue, a producer and 1,024 messages",
    RISE: "orders of a producer's messages on the way to a subscription",
    PART: "connections under a window",
    LIFE: "connections",
}
"""What a group of each kind of summary is, in the plural."""

LIVES = pa.schema(
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
"""A row for each connection. Instants are of the trace's clock; null is what was not seen, and of
``promised_ns`` that no beats were promised. A stall is the time that a producer heard nothing
before a receipt."""


@dataclass(frozen=True)
class Judgement:
    """What came out, as DataFrames that are computed when they are asked for.

    ``found`` has :data:`brokerproof.reports.judging.recheck.FOUND` with ``requirement`` (empty: no
    document of the profile says it); ``lives`` has :data:`LIVES`; ``looked_at`` has, by
    :data:`LOOKED_AT`, how many groups there were of each summary, and how many were looked at again
    (that much is known at once).
    """

    found: DataFrame
    lives: DataFrame
    looked_at: Mapping[str, tuple[int, int]]
    merged: DataFrame

    def release(self) -> None:
        """Gives back what was kept."""
        for frame in (self.found, self.merged):
            frame.unpersist()


def judge(spark: SparkSession, source: Source, ground: Expectations) -> Judgement:
    """Judges a recording. Nothing but the merged summaries is kept, on disk where memory is
    short."""
    groups = merged(summaries(spark, source, ground))
    if not source.whole:  # nobody knows what was sent besides
        groups = groups.withColumn("fine", F.col("fine") & (F.col("what") != SCOPE))
    groups = groups.persist(StorageLevel.MEMORY_AND_DISK)
    counted = {
        row.what: (row.groups, row.again)
        for row in groups.groupBy("what")
        .agg(F.count("*").alias("groups"), F.sum((~F.col("fine")).cast("long")).alias("again"))
        .collect()
    }
    seen = source.whole and not counted.get(LIFE, (0, 0))[1]
    found = _of_lives(groups, ground, source.whole)
    again = (
        look_again(spark, source, ground, groups)
        if any(counted.get(each, (0, 0))[1] for each in LOOKED_AT)
        else None
    )
    if again is not None:
        found = found.unionByName(again if seen else doubted(again, groups, whole=source.whole))
    kept = _stated(found, groups if AMQP in counted else None, ground)
    if any(counted.get(each, (0, 0))[1] for each in (AMQP, CHANNELS)):
        kept = kept.unionByName(amqp.judge(spark, source, groups))
    kept = kept.persist(StorageLevel.MEMORY_AND_DISK)
    looked_at = {
        what: (number, 0 if what == LIFE else again)
        for what, (number, again) in counted.items()
        if what in LOOKED_AT
    }
    return Judgement(kept, _lives(groups), looked_at, groups)


def look_again(
    spark: SparkSession, source: Source, ground: Expectations, merged: DataFrame
) -> DataFrame | None:
    """Every irregularity among what is suspicious
    (:data:`brokerproof.reports.judging.recheck.FOUND`); None when nothing is."""
    again = wanted(merged, "messages" in ground.windows.values())
    if again is None:
        return None
    found = recheck.overruns_in_parts(spark, source, ground, again) if again.shut else None
    if not (again.lines or again.everything):
        return found
    rest = _read_again(spark, source, ground, merged, again)
    return rest if found is None else found.unionByName(rest)


def _read_again(
    spark: SparkSession, source: Source, ground: Expectations, merged: DataFrame, again: Wanted
) -> DataFrame:
    """What is found in the events that are wanted: in this process if they are few, else across the
    cluster."""
    events = recheck.read_again(spark, source, again)
    some = None if again.everything else local_recheck.few(events)
    about = None if some is None else local_recheck.beside(merged, some)
    if some is not None and about is not None:
        return arrow(spark, local_recheck.found(some, about, ground, again))
    facts = recheck.amount(events, ground, again).persist(StorageLevel.DISK_ONLY)
    found = recheck.overruns(facts)
    if not (again.numbered or again.whole or again.everything):
        return found
    judged = recheck.by_message(facts, merged).persist(StorageLevel.DISK_ONLY)
    single = judged.where(~F.col("kind").isin("first", "missing"))
    messages = single.unionByName(recheck.lost(judged)).unionByName(recheck.disordered(judged))
    return found.unionByName(messages)


def _stated(found: DataFrame, groups: DataFrame | None, ground: Expectations) -> DataFrame:
    """Irregularities with ``requirement``: what says so, by the protocol of the connection.
    ``groups``: the merged summaries, where others than STOMP are spoken."""
    spoken = READABLE if groups is not None else (STOMP,)
    pairs = [(each, kind) for each in spoken for kind in KINDS]
    named = [
        F.lit(word)
        for each, kind in pairs
        for word in (f"{each} {kind}", statement(ground.name, kind, each))
    ]
    if groups is None:
        return found.withColumn(
            "requirement", F.create_map(*named)[F.concat(F.lit(f"{STOMP} "), "kind")]
        )
    others = groups.where(F.col("what") == AMQP).select(
        *SCOPE_NAMES, "conn", F.col("subscription").alias("spoken")
    )
    beside = found.join(
        others.dropDuplicates([*SCOPE_NAMES, "conn"]), [*SCOPE_NAMES, "conn"], "left"
    )
    key = F.concat(F.coalesce("spoken", F.lit(STOMP)), F.lit(" "), "kind")
    return beside.withColumn("requirement", F.coalesce(F.create_map(*named)[key], F.lit(""))).drop(
        "spoken"
    )


def _of_lives(groups: DataFrame, ground: Expectations, whole: bool) -> DataFrame:
    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [
                _irregular(row, found)
                for row in batch.to_pylist()
                for found in lives.find_anomalies(
                    lifetime(row["conn"], pickle.loads(row["summary"])), ground, whole=whole
                )
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=FOUND)

    return groups.where(F.col("what") == LIFE).mapInArrow(judge, spark_schema(FOUND))


def _lives(groups: DataFrame) -> DataFrame:
    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [_life(row, pickle.loads(row["summary"])) for row in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, schema=LIVES)

    return groups.where(F.col("what") == LIFE).mapInArrow(tell, spark_schema(LIVES))


def _seen(value: int) -> int | None:
    return None if value == NEVER else value


def lifetime(conn: int, life: Life) -> lives.Lifetime:
    """A connection's summary as the oracle takes it."""
    return lives.Lifetime(
        conn,
        life.heard.longest,
        life.heard.until,
        _seen(life.heard.last),
        _seen(life.spoken.last),
        _seen(life.ended),
        life.ended_by,
        life.asked,
        life.agreed,
        life.error,
        life.goodbye,
        life.opaque,
        min((since for since, _ in life.unseen.values()), default=None),
    )


def _irregular(row: Mapping[str, Any], found: Anomaly) -> dict[str, Any]:
    scope = {name: row[name] for name in ("run", "target", "case", "example", "conn")}
    told = {
        "kind": found.kind,
        "queue": "",
        "subscription": "",
        "what": found.what,
        "uncertain": found.uncertain,
    }
    return {**scope, **told, "witness": [{"at_ns": at, "seq": None} for at, _ in found.witness]}


def _life(row: Mapping[str, Any], life: Life) -> dict[str, Any]:
    known = lifetime(row["conn"], life)
    scope = {name: row[name] for name in ("run", "target", "case", "example", "conn")}
    return {
        **scope,
        "opened_ns": _seen(life.opened),
        "ended_ns": known.ended,
        "ended_by": life.ended_by or None,
        "promised_ns": lives.promised(known),
        "longest_silence_ns": life.heard.longest,
        "silent_until_ns": _seen(life.heard.until),
        "last_spoken_ns": known.spoken,
        "longest_stall_ns": life.stalled[0],
        "stalled_until_ns": _seen(life.stalled[1]),
    }
