"""A stretch: recorded batches in their order, summarised where they lie. What leaves it is small:
one row for each group.

A stretch is some consecutive segments of one recorder. Connections, queues and producers that go on
in the next one have a row in both, and their summaries are put together in the order of the
stretches.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from brokerproof.harness.oracles.expectations import Expectations
from brokerproof.reports.judging.channels import Channels
from brokerproof.reports.judging.columns import (
    ENDS,
    FOREIGN,
    FOREIGN_OUT,
    NOTHING,
    OCTETS,
    UNSEEN,
    Columns,
    Names,
    columns,
)
from brokerproof.reports.judging.connection_lifetimes import Lives
from brokerproof.reports.judging.delivery_bitmaps import Books
from brokerproof.reports.judging.dense_ids import Ints, Pairs
from brokerproof.reports.judging.order import Order
from brokerproof.reports.judging.protocol_columns import (
    BLIND,
    OF_AMQP091,
    OF_STOMP,
    READ_AS_LINES,
    SILENT,
)
from brokerproof.reports.judging.windows import Windows

BOOK, RISE, PART, LIFE, TOUCH, SCOPE, AMQP = (
    "book",
    "rise",
    "part",
    "life",
    "touch",
    "scope",
    "amqp",
)
CHANNELS = "channels"

SUMMARIES = pa.schema(
    [
        ("what", pa.string()),
        ("run", pa.string()),
        ("target", pa.string()),
        ("case", pa.string()),
        ("example", pa.int64()),
        ("queue", pa.string()),
        ("producer", pa.int64()),
        ("conn", pa.int64()),
        ("subscription", pa.string()),
        ("block", pa.int64()),
        ("place", pa.int64()),
        ("summary", pa.binary()),
    ]
)
"""A row for each group of each stretch. ``producer`` is -1 for messages without a stamp, and in
``touch`` rows -2 for those who consume; ``block`` is that of a book; ``conn``, ``producer`` and
``block`` are 0 and the names empty where they mean nothing; ``place`` is the stretch's."""

_CONCERNS = {
    "SUBSCRIBE": "destination",
    **dict.fromkeys(
        ("basic.consume", "queue.declare", "queue.delete", "queue.purge", "create-consumer"),
        "queue",
    ),
    "create-queue": "address",
    "create-queue-v2": "address",
}
"""Frames that have to do with a queue, and which header names it."""
_BITS = 3
CONSUMES = -2
GROUP = (
    "what",
    "run",
    "target",
    "case",
    "example",
    "queue",
    "producer",
    "conn",
    "subscription",
    "block",
)
"""What rows that belong together have in common."""


class Touch(NamedTuple):
    """That a connection has to do with a queue: as a consumer, or as who sends a producer's
    messages."""

    line: int
    queue: int
    producer: int


class Stretch:
    """The state of all summaries while batches come in."""

    def __init__(self, ground: Expectations) -> None:
        self._names = Names.none()
        self._books, self._order, self._lives = Books(self._names), Order(), Lives()
        self._channels = Channels()
        self._windows = Windows(self._names, ground)
        self._touched, self._touching = Pairs(), Pairs()
        self._scopes: dict[int, int] = {}
        """What is spoken in each
        (:func:`brokerproof.reports.judging.protocol_columns.all_known`)."""
        self._foreign: set[tuple[int, int]] = set()
        """Lines and what they speak, but for STOMP."""

    def note(self, batch: pa.RecordBatch) -> None:
        """Enters a batch of the trace's columns (at least
        :data:`brokerproof.reports.judging.columns.NEEDED`)."""
        if not batch.num_rows:
            return
        found = columns(batch, self._names)
        self._books.note(found)
        self._order.note(found)
        self._windows.note(found.of_stomp)
        self._lives.note(found)
        self._channels.note(found)
        self._touch(found)

    def _touch(self, batch: Columns) -> None:
        line, sent, got = batch.line, batch.sent, batch.got
        self._touching.of(self._touched.of(line[sent.rows], sent.queue), sent.producer + 2)
        consumed: Ints = np.zeros(len(got.rows), np.int64)
        self._touching.of(self._touched.of(line[got.rows], got.queue), consumed)
        for row, command, headers in batch.rare:
            name = _CONCERNS.get(command)
            if name is not None and name in headers:
                queue = self._names.queues.one(headers[name])
                self._touching.one(self._touched.one(int(line[row]), queue), 0)
        self._speak(batch)

    def _speak(self, batch: Columns) -> None:
        """Enters what is spoken in each scope, and on lines that have judges of their own."""
        blind = np.isin(batch.what, (OCTETS, FOREIGN, FOREIGN_OUT, UNSEEN))
        heard = (
            (batch.what != NOTHING)
            & (batch.spoken != SILENT)
            & (batch.what != UNSEEN)
            & (batch.what != ENDS)
        )
        for scope in _distinct(batch.scope):
            self._scopes.setdefault(scope, 0)
        for scope in _distinct(batch.scope[blind]):
            self._scopes[scope] |= BLIND
        for packed in _distinct(batch.scope[heard] << _BITS | batch.spoken[heard]):
            self._scopes[packed >> _BITS] |= 1 << (packed & ((1 << _BITS) - 1))
        foreign = heard & (batch.spoken != OF_STOMP)
        if foreign.any():
            for packed in _distinct(batch.line[foreign] << _BITS | batch.spoken[foreign]):
                self._foreign.add((packed >> _BITS, packed & ((1 << _BITS) - 1)))

    def rows(self, place: int) -> Iterator[dict[str, Any]]:
        """The summaries as rows of :data:`SUMMARIES`."""
        names = self._names
        queues, subscriptions = names.queues.values, names.subscriptions.values
        for scope in sorted(self._scopes):
            yield self._row(SCOPE, place, scope, summary=self._scopes[scope])
        for line, code in sorted(self._foreign):
            if code in READ_AS_LINES:
                scope, conn = names.lines.parts(line)
                about = {"conn": conn, "subscription": READ_AS_LINES[code]}
                yield self._row(AMQP, place, scope, **about, summary=code == OF_AMQP091)
        for line, told in self._channels.summaries():
            scope, conn = names.lines.parts(line)
            yield self._row(CHANNELS, place, scope, conn=conn, summary=told)
        for number in range(len(self._touching)):
            of_line, producer = self._touching.parts(number)
            line, queue = self._touched.parts(of_line)
            scope, conn = names.lines.parts(line)
            yield self._row(
                TOUCH, place, scope, queue=queues[queue], producer=producer - 2, conn=conn
            )
        for (scope, queue, producer, block), book in self._books.summaries():
            yield self._row(
                BOOK,
                place,
                scope,
                queue=queues[queue],
                producer=producer,
                block=block,
                summary=book,
            )
        for group, rise in self._order.summaries():
            line, subscription, queue, producer = self._order.parts(group)
            scope, conn = names.lines.parts(line)
            named = {"queue": queues[queue], "subscription": subscriptions[subscription]}
            yield self._row(RISE, place, scope, **named, producer=producer, conn=conn, summary=rise)
        for line, part in self._windows.summaries():
            scope, conn = names.lines.parts(line)
            yield self._row(PART, place, scope, conn=conn, summary=part)
        for line, life in self._lives.summaries():
            scope, conn = names.lines.parts(line)
            yield self._row(LIFE, place, scope, conn=conn, summary=life)

    def _row(
        self, what: str, place: int, scope: int, *, summary: object = None, **group: Any
    ) -> dict[str, Any]:
        run, target, case, example = self._names.scopes.values[scope]
        row = {"queue": "", "producer": 0, "conn": 0, "subscription": "", "block": 0} | group
        row |= {
            "what": what,
            "run": run,
            "target": target,
            "case": case,
            "example": example,
            "place": place,
        }
        return {**row, "summary": pickle.dumps(summary)}


def _distinct(codes: Ints) -> list[int]:
    found: list[int] = np.flatnonzero(np.bincount(codes)).tolist() if len(codes) else []
    return found


def table(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as one Arrow batch."""
    return pa.RecordBatch.from_pylist(rows, schema=schema)
