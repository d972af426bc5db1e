"""Connections judged by the oracles of their protocol: AMQP 1.0 (credit, drains, session windows,
deliveries, settlement, idle time-outs), CORE (credit of consumers and producers), and AMQP 0-9-1
(prefetch, tags, being blocked, heartbeats) if the connection's summary
(:mod:`brokerproof.reports.judging.channels`) requires it.

In AMQP 1.0 and CORE, the meaning of a frame depends on all earlier frames, so a piece of such a
connection cannot be summarised. The frames are grouped by connection instead, and one task reads
those of a connection in order. Only the first :data:`MOST` frames of a connection are judged; the
rest are reported as not judged."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.oracles import (
    amqp091_rules,
    amqp_credit,
    amqp_deliveries,
    amqp_liveness,
    amqp_windows,
    connection_lifetimes,
    core_credit,
)
from brokerproof.harness.oracles.connection_reader import AMQP091, CORE
from brokerproof.harness.oracles.recorded_anomalies import Anomaly
from brokerproof.harness.protocols.amqp10.fact_reader import ConnectionEvents
from brokerproof.harness.trace import read
from brokerproof.harness.trace.events import Event
from brokerproof.harness.trace.facts import FAR, UNSEEN_KINDS
from brokerproof.reports.judging import columns
from brokerproof.reports.judging.columns import NEEDED, WHERE, Names
from brokerproof.reports.judging.executors import OnSpark, Row
from brokerproof.reports.judging.recheck import ANOMALIES, anomaly_row
from brokerproof.reports.judging.recheck_plan import MOST as MOST_CONNECTIONS
from brokerproof.reports.judging.recheck_plan import ConnectionKey, scope_of
from brokerproof.reports.judging.summary import CHANNELS, ORACLE_JUDGED, SCOPE
from brokerproof.reports.sources import Opener, Piece, Source, Work
from brokerproof.reports.spark.on_demand import F
from brokerproof.reports.spark.schema import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST = 1_000_000
LISTED = 100
"""The maximum number of violations of a kind that are listed for one connection."""

ORACLES: dict[str, Callable[[Sequence[Event], int], list[Finding]]] = {
    "over the credit": amqp_credit.credit,
    "drain unanswered": amqp_credit.drains,
    "over the session window": amqp_windows.windows,
    "delivery ids": amqp_deliveries.delivery_ids,
    "settlement": amqp_deliveries.settlement,
    connection_lifetimes.SILENT: amqp_liveness.idle_as_recorded,
}
ORACLES_091: dict[str, Callable[[Sequence[Event], int], list[Finding]]] = {
    "over the prefetch": amqp091_rules.deliveries,
    "settled twice": amqp091_rules.unknown_tags,
    "blocked unasked": amqp091_rules.blocking,
    connection_lifetimes.SILENT: amqp091_rules.beats,
}
ORACLES_CORE: dict[str, Callable[[Sequence[Event], int], list[Finding]]] = {
    "over the credit": core_credit.consumers,
    "granted unasked": core_credit.producers,
}
OF_PROTOCOL = {AMQP091: ORACLES_091, CORE: ORACLES_CORE}
KINDS = (*ORACLES, *ORACLES_091, *ORACLES_CORE, "not judged")
LEFT_OPEN = frozenset({amqp_deliveries.OWN_TAG})
"""Rules that are not judged here. Once the receiver has settled, the sender may settle without a
frame and then reuse the tag."""

FRAMES = pa.schema(
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


def connection_anomalies(events: Sequence[Event], conn: int) -> Iterator[tuple[Anomaly, str]]:
    """Yield the anomalies of one connection, each with the requirement that it breaks. Numbers
    continue from frame to frame, so once bytes are missing from a recording, every later anomaly is
    uncertain."""
    far = any(getattr(event, "command", "") == FAR for event in events)
    gaps = (
        place
        for place, event in enumerate(events)
        if type(event).__name__ in UNSEEN_KINDS and getattr(event, "command", "") != FAR
    )
    end = next(gaps, len(events))
    known = list(_violations(ConnectionEvents(events[:end]), conn, going_on=end < len(events)))
    for anomaly, requirement in known:
        delayed = far and anomaly.kind == connection_lifetimes.SILENT
        yield (replace(anomaly, uncertain=True) if delayed else anomaly), requirement
    if end < len(events):
        certain = {(anomaly.kind, anomaly.what, requirement) for anomaly, requirement in known}
        for anomaly, requirement in _violations(ConnectionEvents(events), conn):
            if (anomaly.kind, anomaly.what, requirement) not in certain:
                yield replace(anomaly, uncertain=True), requirement


def _violations(
    events: ConnectionEvents, conn: int, *, going_on: bool = False
) -> Iterator[tuple[Anomaly, str]]:
    last = (events[-1].at_ns, -1) if events else (0, -1)
    spoken = {getattr(event, "protocol", "") for event in events}
    oracles = next(
        (OF_PROTOCOL[protocol] for protocol in OF_PROTOCOL if protocol in spoken), ORACLES
    )
    for kind, oracle in oracles.items():
        if going_on and kind == "drain unanswered":
            continue  # the answer may follow in later frames
        violations = (
            finding
            for finding in oracle(events, conn)
            if finding.seen is Seen.VIOLATED and finding.requirement not in LEFT_OPEN
        )
        for finding in islice(violations, LISTED):
            uncertain = finding.uncertain is not None
            anomaly = Anomaly(kind, "", conn, "", finding.detail, (last,), uncertain)
            yield anomaly, finding.requirement


def find_anomalies(spark: "SparkSession", source: Source, merged: "DataFrame") -> "DataFrame":
    """Return the anomalies, with ``requirement``, of the connections that the merged summaries
    name."""
    asking = merged.where(F.col("kind").isin(ORACLE_JUDGED, CHANNELS) & F.col("needs_recheck"))
    rows = asking.select(*SCOPE, "conn").distinct().limit(MOST_CONNECTIONS + 1).collect()
    chosen = frozenset(map(tuple, rows)) if len(rows) <= MOST_CONNECTIONS else None
    frames = source.each(spark, frame_reader(source.open, chosen), spark_schema(FRAMES))
    return OnSpark().run(anomalies_of, frames, WITH_REQUIREMENT, CONNECTION_KEY, ("place", "row"))


def frame_reader(open_piece: Opener, chosen: frozenset[ConnectionKey] | None) -> Work:
    """Return a function for tasks that reads the frames (:data:`FRAMES`) of the chosen connections
    (None: of all) in a piece."""

    def read(piece: Piece) -> Iterator[pa.RecordBatch]:
        names, begin = Names.none(), 0
        for batch in open_piece(piece, (*NEEDED, "seq", "how")) if chosen != frozenset() else ():
            frames = _frames(batch, names, chosen, piece["place"], begin)
            begin += batch.num_rows
            if frames is not None:
                yield frames

    return read


CONNECTION_KEY = (*SCOPE, "conn")
WITH_REQUIREMENT = pa.schema([*ANOMALIES, ("requirement", pa.string())])


def anomalies_of(rows: Iterator[Row]) -> Iterator[Row]:
    """Yield the anomalies (:data:`WITH_REQUIREMENT`) in frames grouped by connection and in
    order."""
    for (*scope, conn), of_connection in groupby(
        rows, key=lambda row: (*scope_of(row), row["conn"])
    ):
        judged = list(islice(of_connection, MOST))
        empty = {"body": b"", "body_size": 0, "detail": ""}
        events = [read.event({**row, **empty}) for row in judged]
        for anomaly, requirement in connection_anomalies(events, conn):
            witness = [{"at_ns": at, "seq": None} for at, _ in anomaly.witness]
            row = anomaly_row(scope, anomaly)
            yield {**row, "witness": witness, "requirement": requirement}
        remaining = sum(1 for _ in of_connection)  # noqa: B031
        if remaining:
            what = f"the last {remaining} frames of this connection were not judged"
            last = judged[-1]["at_ns"], judged[-1]["seq"]
            row = anomaly_row(scope, Anomaly("not judged", "", conn, "", what, (last,), True))
            yield {**row, "requirement": ""}


def _frames(
    batch: pa.RecordBatch,
    names: Names,
    chosen: frozenset[ConnectionKey] | None,
    place: int,
    begin: int,
) -> pa.RecordBatch | None:
    """Return the frames of the chosen connections (None: of all connections)."""
    if not batch.num_rows:
        return None
    origins = columns.row_origins(batch, names)
    every = map(names.connection, range(len(names.connections)))
    own = np.array([chosen is None or (*scope, conn) in chosen for scope, conn in every])
    kept = own[origins.connection] & batch.column("conn").is_valid().to_numpy(zero_copy_only=False)
    kept &= pc.is_in(batch.column("kind").cast(pa.string()), pa.array(_KINDS)).to_numpy(
        zero_copy_only=False
    )
    rows = np.flatnonzero(kept)
    if not len(rows):
        return None
    part = batch.take(pa.array(rows))
    scopes = [names.scopes.values[scope] for scope in origins.scope[rows].tolist()]
    arrays = {name: part.column(name) for name in FRAMES.names if name in batch.schema.names}
    arrays |= {name: pa.array([scope[at] for scope in scopes]) for at, name in enumerate(SCOPE)}
    arrays |= {"place": pa.array(np.full(len(rows), place)), "row": pa.array(rows + begin)}
    return pa.RecordBatch.from_arrays(
        [arrays[field.name].cast(field.type) for field in FRAMES], schema=FRAMES
    )
