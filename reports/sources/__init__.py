"""Where recordings come from. A source says which pieces there are, and how a worker reads one piece as trace batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from harness.trace.columns import SCHEMA
from reports.read import arrow
from reports.schema import TRACE

Piece: TypeAlias = Mapping[str, Any]
Opener: TypeAlias = Callable[[Piece, Sequence[str]], Iterator[pa.RecordBatch]]

PIECES = pa.schema([("place", pa.int64()), ("paths", pa.list_(pa.string()))])
"""``place`` is where a piece stands among all: the events of one connection have to be in pieces of rising places."""


@dataclass(frozen=True)
class Source:
    """A recording in pieces, each small enough to be one task.

    ``open`` runs on a worker and has to be picklable: it gives the batches of one piece, in order, with at least the
    columns asked for, in the types of :data:`harness.trace.columns.SCHEMA` (a dictionary of strings for a string).
    ``profile`` is what the recording itself says of the broker's family, empty for nothing.
    """

    pieces: Sequence[Piece]
    open: Opener
    profile: str = ""
    unseen: Sequence[str] = field(default_factory=tuple)
    """What could not be read, in sentences."""
    whole: bool = True
    """Whether every connection of the broker is known to be in the recording."""
    load: Callable[[SparkSession, DataFrame], DataFrame] = lambda _, pieces: pieces
    """Adds to the pieces what workers cannot fetch themselves."""

    def pieces_frame(self, spark: SparkSession) -> DataFrame:
        """A DataFrame of the pieces, one in each partition."""
        table = pa.Table.from_pylist([dict(each) for each in self.pieces], schema=PIECES)
        return self.load(spark, arrow(spark, table)).repartition(max(1, len(self.pieces)), "place")

    def events(self, spark: SparkSession) -> DataFrame:
        """Every event of the recording, as a DataFrame of the trace's columns."""
        open_piece = self.open

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for pieces in batches:
                for piece in pieces.to_pylist():
                    for batch in open_piece(piece, TRACE.fieldNames()):
                        yield plain(batch)

        return self.pieces_frame(spark).mapInArrow(read, TRACE)


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with strings where it has dictionaries of strings, also inside of headers."""
    return pa.RecordBatch.from_arrays([batch.column(field.name).cast(field.type) for field in SCHEMA], schema=SCHEMA)
