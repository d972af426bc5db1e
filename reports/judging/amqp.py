"""Connections that are judged by the oracles themselves: AMQP 1.0 (credit, drains, session windows,
deliveries, settlement, idle time-outs), CORE (credit of consumers and producers), and of 0-9-1
(prefetch, tags, being blocked, heart-beats) those whose summary
(:mod:`brokerproof.reports.judging.channels`) asks for it.

What a frame means hangs on what was agreed before it, so a part of a connection of the first two
says nothing by itself and has no summary. Its frames are brought together by connection and read in
order by one task. A connection of more than :data:`MOST` frames is judged by those; the rest is
told as not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.oracles import (
    amqp091_recording,
    amqp_credit,
    amqp_deliveries,
    amqp_liveness,
    amqp_windows,
    connection_lifetimes,
    core_credit,
)
from brokerproof.harness.oracles.connection_reader import AMQP091, CORE
from brokerproof.harness.oracles.recording import Anomaly
from brokerproof.harness.trace import read
from brokerproof.harness.trace.events import Event
from brokerproof.harness.trace.facts import FAR, UNSEEN_KINDS
from brokerproof.reports.judging import columns
from brokerproof.reports.judging import recheck_plan as wanted
from brokerproof.reports.judging.columns import NEEDED, WHERE, Names
from brokerproof.reports.judging.recheck import FOUND
from brokerproof.reports.judging.recheck_plan import SCOPE, Line
from brokerproof.reports.judging.segment_summary import AMQP, CHANNELS
from brokerproof.reports.schema import spark_schema
from brokerproof.reports.sources import Piece, Source

MOST = 1_000_000
TOLD = 100
"""Violations of one kind on one connection that are told one by one."""

ORACLES: dict[str, Callable[[Sequence[Event], int], list[Finding]]] = {
    "over the credit": amqp_credit.credit,
    "drain unanswered": amqp_credit.drains,
    "over the session window": amqp_windows.windows,
    "delivery ids": amqp_deliveries.delivery_ids,
    "settlement": amqp_deliveries.settlement,
    connection_lifetimes.SILENT: amqp_liveness.idle_as_recorded,
}
ORACLES_091: dict[str, Callable[[Sequence[Event], int], list[Finding]]] = {
    "over the prefetch": amqp091_recording.deliveries,
    "settled twice": amqp091_recording.unknown_tags,
    "blocked unasked": amqp091_recording.blocking,
    connection_lifetimes.SILENT: amqp091_recording.beats,
}
ORACLES_CORE: dict[str, Callable[[Sequence[Event], int], list[Finding]]] = {
    "over the credit": core_credit.consumers,
    "granted unasked": core_credit.producers,
}
OF_PROTOCOL = {AMQP091: ORACLES_091, CORE: ORACLES_CORE}
KINDS = (*ORACLES, *ORACLES_091, *ORACLES_CORE, "not judged")
LEFT_OPEN = frozenset({amqp_deliveries.OWN_TAG})
"""Not judged here: a sender may settle without a word once the receiver has, and then the tag is
free again."""

_FRAMES = pa.schema(
    [
        *WHERE,
        ("vantage", pa.string()),
        ("kind", pa.string()),
        ("protocol", pa.string()),
        ("command", pa.string()),
        ("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))),
        ("size", pa.int64()),
        ("how", pa.string()),
    ]
)
_KINDS = (
    "FrameSent",
    "FrameReceived",
    "HeartBeatSent",
    "HeartBeatReceived",
    "ConnectionClosed",
    "ConnectionAbandoned",
    *UNSEEN_KINDS,
)


def irregularities(events: Sequence[Event], conn: int) -> Iterator[tuple[Anomaly, str]]:
    """What is wrong on one connection, with the requirement that says so.

    Numbers go on from frame to frame: behind the first octets that a recording does not hold all is
    uncertain.
    """
    far = any(getattr(each, "command", "") == FAR for each in events)
    missing = (at for at, each in enumerate(events) if type(each).__name__ in UNSEEN_KINDS)
    end = next(
        (at for at in missing if getattr(events[at], "command", "") != FAR),
        len(events),
    )
    known = list(_wrong(events[:end], conn, going_on=end < len(events)))
    for wrong, requirement in known:
        delayed = far and wrong.kind == connection_lifetimes.SILENT
        yield (replace(wrong, uncertain=True) if delayed else wrong), requirement
    if end < len(events):
        surely = {(wrong.kind, wrong.what, requirement) for wrong, requirement in known}
        for wrong, requirement in _wrong(events, conn):
            if (wrong.kind, wrong.what, requirement) not in surely:
                yield replace(wrong, uncertain=True), requirement


def _wrong(
    events: Sequence[Event], conn: int, *, going_on: bool = False
) -> Iterator[tuple[Anomaly, str]]:
    last = (events[-1].at_ns, -1) if events else (0, -1)
    spoken = {getattr(each, "protocol", "") for each in events}
    oracles = next((OF_PROTOCOL[each] for each in OF_PROTOCOL if each in spoken), ORACLES)
    for kind, oracle in oracles.items():
        if going_on and kind == "drain unanswered":
            continue  # the answer may be in what follows
        wrong = (
            each
            for each in oracle(events, conn)
            if each.seen is Seen.VIOLATED and each.requirement not in LEFT_OPEN
        )
        for finding in islice(wrong, TOLD):
            found = Anomaly(
                kind, "", conn, "", finding.detail, (last,), finding.uncertain is not None
            )
            yield found, finding.requirement


def judge(spark: SparkSession, source: Source, groups: DataFrame) -> DataFrame:
    """The irregularities, with ``requirement``, of the connections of a recording that the merged
    summaries (``groups``) ask for."""
    open_piece = source.open
    asking = groups.where(F.col("what").isin(AMQP, CHANNELS) & ~F.col("fine")).select(
        *SCOPE, "conn"
    )
    asked = asking.distinct().limit(wanted.MOST + 1).collect()
    lines = frozenset(tuple(row) for row in asked) if len(asked) <= wanted.MOST else None

    def choose(piece: Piece) -> Iterator[pa.RecordBatch]:
        names, begin = Names.none(), 0
        for batch in open_piece(piece, (*NEEDED, "seq", "how")) if lines != frozenset() else ():
            chosen = _chosen(batch, names, lines, piece["place"], begin)
            begin += batch.num_rows
            if chosen is not None:
                yield chosen

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        for line, some in groupby(
            rows, key=lambda row: (*(row[name] for name in SCOPE), row["conn"])
        ):
            yield pa.RecordBatch.from_pylist(list(_found(line, some)), schema=WITH_REQUIREMENT)

    frames = source.each(spark, choose, spark_schema(_FRAMES))
    together = frames.repartition(*SCOPE, "conn").sortWithinPartitions(
        *SCOPE, "conn", "place", "row"
    )
    return together.mapInArrow(look, spark_schema(WITH_REQUIREMENT))


WITH_REQUIREMENT = pa.schema([*FOUND, ("requirement", pa.string())])


def _found(line: tuple[Any, ...], rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    *scope, conn = line
    some = list(islice(rows, MOST))
    empty = {"body": b"", "body_size": 0, "detail": ""}
    events = [read.event({**row, **empty}) for row in some]
    told = dict(zip(SCOPE, scope, strict=True)) | {"queue": "", "conn": conn, "subscription": ""}
    for wrong, requirement in irregularities(events, conn):
        witness = [{"at_ns": at, "seq": None} for at, _ in wrong.witness]
        told_of = {
            "kind": wrong.kind,
            "what": wrong.what,
            "uncertain": wrong.uncertain,
            "witness": witness,
        }
        yield {**told, **told_of, "requirement": requirement}
    left = sum(1 for _ in rows)
    if left:
        what = f"the last {left} frames of this connection were not judged"
        witness = [{"at_ns": some[-1]["at_ns"], "seq": some[-1]["seq"]}]
        yield {
            **told,
            "kind": "not judged",
            "what": what,
            "uncertain": True,
            "witness": witness,
            "requirement": "",
        }


def _chosen(
    batch: pa.RecordBatch, names: Names, wanted: frozenset[Line] | None, place: int, begin: int
) -> pa.RecordBatch | None:
    """The frames of these connections (None: of all)."""
    if not batch.num_rows:
        return None
    known = columns.lines(batch, names)
    every = map(names.line, range(len(names.lines)))
    mine = np.array([wanted is None or (*scope, conn) in wanted for scope, conn in every])
    chosen = mine[known.line] & batch.column("conn").is_valid().to_numpy(zero_copy_only=False)
    chosen &= pc.is_in(batch.column("kind").cast(pa.string()), pa.array(_KINDS)).to_numpy(
        zero_copy_only=False
    )
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return None
    part = batch.take(pa.array(rows))
    scopes = [names.scopes.values[each] for each in known.scope[rows].tolist()]
    told = {name: part.column(name) for name in _FRAMES.names if name in batch.schema.names}
    told |= {name: pa.array([scope[at] for scope in scopes]) for at, name in enumerate(SCOPE)}
    told |= {"place": pa.array(np.full(len(rows), place)), "row": pa.array(rows + begin)}
    return pa.RecordBatch.from_arrays(
        [told[each.name].cast(each.type) for each in _FRAMES], schema=_FRAMES
    )
