"""The map step: summarises a piece of a recording in the task that reads it.

A piece is a few consecutive segments of one recorder. Connections, queues and producers that
continue in the next piece have a row in both pieces. :mod:`brokerproof.reports.judging.merge`
merges these rows."""

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from brokerproof.harness.oracles.expectations import Expectations
from brokerproof.reports.judging.channels import ChannelSummaries
from brokerproof.reports.judging.columns import (
    ENDS,
    FOREIGN,
    FOREIGN_OUT,
    NEEDED,
    NOTHING,
    OCTETS,
    UNSEEN,
    Columns,
    Names,
    columns,
)
from brokerproof.reports.judging.connection_lifetimes import ConnectionSummaries
from brokerproof.reports.judging.delivery_bitmaps import DeliveryBitmaps
from brokerproof.reports.judging.dense_ids import Ints, Pairs
from brokerproof.reports.judging.order import OrderSummaries
from brokerproof.reports.judging.protocol_columns import (
    BLIND,
    OF_AMQP091,
    OF_STOMP,
    READ_WHOLLY,
    SILENT,
)
from brokerproof.reports.judging.summary import (
    CHANNELS,
    CONNECTION,
    CONSUMES,
    DELIVERIES,
    ORACLE_JUDGED,
    ORDER,
    QUEUE_USE,
    SCOPE,
    SCOPE_PROTOCOLS,
    SUMMARIES,
    WINDOWS,
    OracleJudged,
    QueueUse,
    ScopeProtocols,
)
from brokerproof.reports.judging.windows import WindowSummaries
from brokerproof.reports.sources import Opener, Piece, Source, Work
from brokerproof.reports.spark.schema import in_batches, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_QUEUE_HEADER = {
    "SUBSCRIBE": "destination",
    **dict.fromkeys(
        ("basic.consume", "queue.declare", "queue.delete", "queue.purge", "create-consumer"),
        "queue",
    ),
    "create-queue": "address",
    "create-queue-v2": "address",
}
"""The header that names the queue, in frames that name one."""
_BITS = 3
"""The number of bits that hold any code of
:data:`brokerproof.reports.judging.protocol_columns.CODES`."""


def summarise(spark: "SparkSession", source: Source, ground: Expectations) -> "DataFrame":
    """Summarise each piece in its own task (:data:`SUMMARIES`)."""
    return source.each(spark, summariser(source.open, ground), spark_schema(SUMMARIES))


def summariser(open_piece: Opener, ground: Expectations) -> Work:
    """Return a function for tasks that summarises a piece (:data:`SUMMARIES`)."""

    def summarise_piece(piece: Piece) -> Iterator[pa.RecordBatch]:
        summaries = SegmentSummaries(ground)
        for batch in open_piece(piece, NEEDED):
            summaries.update(batch)
        yield from in_batches(summaries.rows(piece["place"]), SUMMARIES)

    return summarise_piece


class SegmentSummaries:
    def __init__(self, ground: Expectations) -> None:
        self._names = Names.none()
        self._deliveries = DeliveryBitmaps(self._names)
        self._order = OrderSummaries()
        self._windows = WindowSummaries(self._names, ground)
        self._connections = ConnectionSummaries()
        self._channels = ChannelSummaries()
        self._connection_queues = Pairs()
        self._queue_uses = Pairs()
        """Groups: pairs of (connection and queue) and producer."""
        self._spoken: dict[int, int] = {}
        """The protocols by scope
        (:func:`brokerproof.reports.judging.protocol_columns.all_known`)."""
        self._other_protocols: set[tuple[int, int]] = set()
        """Connections and the protocols that they speak, except STOMP."""

    def update(self, batch: pa.RecordBatch) -> None:
        """Add a batch with at least the columns of
        :data:`brokerproof.reports.judging.columns.NEEDED`."""
        if not batch.num_rows:
            return
        events = columns(batch, self._names)
        self._deliveries.update(events)
        self._order.update(events)
        self._windows.update(events.of_stomp)
        self._connections.update(events)
        self._channels.update(events)
        self._update_queue_uses(events)
        self._update_protocols(events)

    def _update_queue_uses(self, batch: Columns) -> None:
        connection, sent, got = batch.connection, batch.sent, batch.got
        self._queue_uses.of(
            self._connection_queues.of(connection[sent.rows], sent.queue), sent.producer - CONSUMES
        )
        consumer: Ints = np.zeros(len(got.rows), np.int64)
        self._queue_uses.of(self._connection_queues.of(connection[got.rows], got.queue), consumer)
        for row, command, headers in batch.rare:
            header = _QUEUE_HEADER.get(command)
            if header is not None and header in headers:
                queue = self._names.queues.one(headers[header])
                pair = self._connection_queues.one(int(connection[row]), queue)
                self._queue_uses.one(pair, 0)

    def _update_protocols(self, batch: Columns) -> None:
        blind = np.isin(batch.what, (OCTETS, FOREIGN, FOREIGN_OUT, UNSEEN))
        spoken = (
            (batch.what != NOTHING)
            & (batch.spoken != SILENT)
            & (batch.what != UNSEEN)
            & (batch.what != ENDS)
        )
        for scope in _distinct(batch.scope):
            self._spoken.setdefault(scope, 0)
        for scope in _distinct(batch.scope[blind]):
            self._spoken[scope] |= BLIND
        for packed in _distinct(batch.scope[spoken] << _BITS | batch.spoken[spoken]):
            self._spoken[packed >> _BITS] |= 1 << (packed & ((1 << _BITS) - 1))
        other = spoken & (batch.spoken != OF_STOMP)
        if other.any():
            for packed in _distinct(batch.connection[other] << _BITS | batch.spoken[other]):
                self._other_protocols.add((packed >> _BITS, packed & ((1 << _BITS) - 1)))

    def rows(self, place: int) -> Iterator[dict[str, Any]]:
        """Yield the summaries as rows of :data:`SUMMARIES`. ``place`` is the place of the piece."""
        for kind, scope, group, summary in self._summaries(place):
            yield {
                "kind": kind,
                **dict(zip(SCOPE, self._names.scopes.values[scope], strict=True)),
                **{"queue": "", "producer": 0, "conn": 0, "subscription": "", "block": 0},
                **group,
                "place": place,
                "summary": pickle.dumps(summary),
            }

    def _summaries(self, place: int) -> Iterator[tuple[str, int, dict[str, Any], object]]:
        """Yield each summary with its kind, its scope, and the columns that name its group."""
        names = self._names
        queues, subscriptions = names.queues.values, names.subscriptions.values
        for scope in sorted(self._spoken):
            yield SCOPE_PROTOCOLS, scope, {}, ScopeProtocols(self._spoken[scope])
        for connection, code in sorted(self._other_protocols):
            if code in READ_WHOLLY:
                scope, conn = names.connections.parts(connection)
                group = {"conn": conn, "subscription": READ_WHOLLY[code]}
                yield ORACLE_JUDGED, scope, group, OracleJudged(code == OF_AMQP091)
        for number in range(len(self._queue_uses)):
            pair, producer = self._queue_uses.parts(number)
            connection, queue = self._connection_queues.parts(pair)
            scope, conn = names.connections.parts(connection)
            group = {"queue": queues[queue], "producer": producer + CONSUMES, "conn": conn}
            yield QUEUE_USE, scope, group, QueueUse()
        for (scope, queue, producer, block), bitmap in self._deliveries.summaries():
            group = {"queue": queues[queue], "producer": producer, "block": block}
            yield DELIVERIES, scope, group, bitmap
        for number, order in self._order.summaries():
            connection, subscription, queue, producer = self._order.parts(number)
            scope, conn = names.connections.parts(connection)
            group = {
                "queue": queues[queue],
                "subscription": subscriptions[subscription],
                "producer": producer,
                "conn": conn,
            }
            yield ORDER, scope, group, order
        by_connection = (
            (WINDOWS, self._windows.summaries(place)),
            (CONNECTION, self._connections.summaries()),
            (CHANNELS, self._channels.summaries()),
        )
        for kind, summaries in by_connection:
            for connection, summary in summaries:
                scope, conn = names.connections.parts(connection)
                yield kind, scope, {"conn": conn}, summary


def _distinct(codes: Ints) -> list[int]:
    distinct: list[int] = np.flatnonzero(np.bincount(codes)).tolist() if len(codes) else []
    return distinct
