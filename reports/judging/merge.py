"""Summaries across a cluster: each piece is summarised by its own task, and the summaries of a
group are put together.

What travels between machines is a row for each group and piece, never an event.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from itertools import groupby, islice
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from brokerproof.harness.oracles.expectations import Expectations
from brokerproof.reports.judging import (
    channels,
    connection_lifetimes,
    delivery_bitmaps,
    order,
    windows,
)
from brokerproof.reports.judging.columns import NEEDED
from brokerproof.reports.judging.protocol_columns import all_known
from brokerproof.reports.judging.segment_summary import (
    AMQP,
    BOOK,
    CHANNELS,
    GROUP,
    LIFE,
    PART,
    RISE,
    SCOPE,
    SUMMARIES,
    Stretch,
    table,
)
from brokerproof.reports.schema import spark_schema
from brokerproof.reports.sources import Piece, Source

ROWS_AT_ONCE = 5_000

MERGED = pa.schema(
    [
        *(SUMMARIES.field(name) for name in GROUP),
        ("fine", pa.bool_()),
        ("came", pa.int64()),
        ("summary", pa.binary()),
    ]
)
"""A row for each group. ``fine`` is false where a second look is needed (in ``amqp`` and
``channels`` rows: at all of a connection), in ``life`` rows where not everything was seen, and in
``scope`` rows where not everything that was sent could be read. ``came`` is the greatest number of
a book that surely came (-1: none); ``summary`` is :attr:`Group.told`, pickled."""


class Group:
    """The summaries of one group put together one after the other, in the order of their places."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._whole: Any = _BEGIN[what]() if what in _BEGIN else None

    def add(self, place: int, summary: Any) -> None:
        """Enters the next one; ``place`` is where its stretch stands."""
        match self.what:
            case what if what == BOOK:
                self._whole = self._whole.plus(summary)
            case what if what in (RISE, LIFE, CHANNELS):
                self._whole = self._whole.then(summary)
            case what if what == PART:
                self._whole.add(place, summary)
            case what if what == SCOPE:
                self._whole |= summary
            case what if what == AMQP:
                self._whole = self._whole and summary

    @property
    def fine(self) -> bool:
        """False where a second look is needed; of a ``scope``, where not everything that was sent
        could be read; of a ``life``, where something was not seen."""
        match self.what:
            case what if what == BOOK:
                return bool(self._whole.balanced)
            case what if what == RISE:
                return not self._whole.broken
            case what if what == PART:
                return not self._whole.overrun
            case what if what == LIFE:
                return not self._whole.unseen
            case what if what == SCOPE:
                return all_known(self._whole)
            case what if what == AMQP:
                return bool(self._whole)
            case what if what == CHANNELS:
                return bool(self._whole.fine)
        return True

    @property
    def told(self) -> Any:
        """What is known of the group: a :class:`Book`, :class:`Rise`, :class:`Life`,
        :class:`Account`, of ``channels`` a :class:`brokerproof.reports.judging.channels.Told`, of a
        scope what is spoken there; None of others."""
        return self._whole


_BEGIN: dict[str, Callable[[], Any]] = {
    BOOK: delivery_bitmaps.Book,
    RISE: order.Rise,
    PART: windows.Account,
    LIFE: connection_lifetimes.Life,
    SCOPE: int,
    AMQP: lambda: True,
    CHANNELS: channels.Told,
}


def summaries(spark: SparkSession, source: Source, ground: Expectations) -> DataFrame:
    """Every piece's summaries (:data:`brokerproof.reports.judging.segment_summary.SUMMARIES`)."""
    open_piece = source.open

    def summarise(piece: Piece) -> Iterator[pa.RecordBatch]:
        stretch = Stretch(ground)
        for batch in open_piece(piece, NEEDED):
            stretch.note(batch)
        yield from _batches(stretch.rows(piece["place"]), SUMMARIES)

    return source.each(spark, summarise, spark_schema(SUMMARIES))


def merged(of: DataFrame) -> DataFrame:
    """The summaries of each group put together in the order of the pieces (:data:`MERGED`)."""

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        groups = groupby(rows, key=lambda row: tuple(row[name] for name in GROUP))
        yield from _batches((_merged(group, parts) for group, parts in groups), MERGED)

    together = of.repartition(*GROUP).sortWithinPartitions(*GROUP, "place")
    return together.mapInArrow(merge, spark_schema(MERGED))


def _merged(group: tuple[Any, ...], rows: Iterator[dict[str, Any]]) -> dict[str, Any]:
    row = dict(zip(GROUP, group, strict=True))
    whole = Group(row["what"])
    for each in rows:
        whole.add(
            each["place"], pickle.loads(each["summary"])
        )  # written by our own workers a moment ago
    came = -1
    if (
        row["what"] == BOOK
        and row["block"] != delivery_bitmaps.LOOSE
        and (of_block := whole.told.came) >= 0
    ):
        came = row["block"] * delivery_bitmaps.BLOCK + of_block
    matters = row["what"] in (LIFE, PART) or not whole.fine
    return {
        **row,
        "fine": whole.fine,
        "came": came,
        "summary": pickle.dumps(whole.told) if matters else b"",
    }


def _batches(rows: Iterator[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while some := list(islice(rows, ROWS_AT_ONCE)):
        yield table(some, schema)
