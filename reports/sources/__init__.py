"""Sources of recordings: the pieces of a recording, and how a worker reads a piece as trace
batches."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from brokerproof.harness.trace.columns import SCHEMA
from brokerproof.reports.spark.schema import trace_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Piece: TypeAlias = Mapping[str, Any]
Opener: TypeAlias = Callable[[Piece, Sequence[str]], Iterator[pa.RecordBatch]]
Work: TypeAlias = Callable[[Piece], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Source:
    """A recording in pieces, each small enough for one task. A piece has at least a ``place``, its
    position among all pieces. The places of a connection's successive events must ascend. ``open``
    runs on a worker and must be picklable. It yields the batches of one piece, in order, with at
    least the requested columns, in the types of :data:`brokerproof.harness.trace.columns.SCHEMA` (a
    dictionary of strings for a string). ``profile`` is the broker's family according to the
    recording itself, or empty if unknown.
    """

    pieces: Sequence[Piece]
    open: Opener
    profile: str = ""
    unseen: Sequence[str] = field(default_factory=tuple)
    """Sentences about files that could not be read."""
    whole: bool = True
    """True if the recording is known to contain every connection of the broker."""
    captured: bool = False
    """True if the events come from captured packets, with the instants of the kernel that saw them,
    or from a proxy, with the proxy's instants."""
    proxied: bool = False
    """True if events were also captured next to the application, so that the application's side can
    be judged."""
    load: Callable[[SparkSession, Sequence[Piece]], DataFrame] | None = None
    """Fetches recordings that workers cannot reach. Returns the pieces as rows with ``place`` and
    the other keys that ``open`` needs."""

    def each(
        self,
        spark: SparkSession,
        work: Work,
        schema: StructType,
        places: Container[int] | None = None,
    ) -> DataFrame:
        """Return the batches that ``work`` yields for each piece, or only for the pieces at
        ``places``. Every piece is a separate task; no data is moved between workers."""
        chosen = [piece for piece in self.pieces if places is None or piece["place"] in places]
        if self.load is not None:

            def fetched(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                for batch in batches:
                    for row in range(batch.num_rows):
                        yield from work(batch.slice(row, 1).to_pylist()[0])

            return self.load(spark, chosen).mapInArrow(fetched, schema)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    yield from work(chosen[number])

        return spark.range(0, len(chosen), 1, max(1, len(chosen))).mapInArrow(run, schema)

    def collect(self, work: Work) -> list[Mapping[str, Any]]:
        """Return the rows that ``work`` yields for each piece, in order, without Spark. The rows
        must fit into this process."""
        return [row for piece in self.pieces for batch in work(piece) for row in batch.to_pylist()]

    def of_clients(self) -> Source:
        """Return the recording with both sides exchanged: the clients' events become the
        broker's."""
        return replace(self, open=partial(_exchanged, self.open))

    def events(self, spark: SparkSession) -> DataFrame:
        """Return every event of the recording, with the trace's columns."""
        open_piece, schema = self.open, trace_schema()

        def read(piece: Piece) -> Iterator[pa.RecordBatch]:
            for batch in open_piece(piece, SCHEMA.names):
                yield plain(batch)

        return self.each(spark, read, schema)


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with strings instead of dictionaries of strings, also in headers."""
    return pa.RecordBatch.from_arrays(
        [batch.column(field.name).cast(field.type) for field in SCHEMA], schema=SCHEMA
    )


_PASSED = (("Frame", ""), ("HeartBeat", ""), ("Octets", "Unseen"))
_EXCHANGED = {
    "kind": {
        **{f"{what}Sent{unseen}": f"{what}Received{unseen}" for what, unseen in _PASSED},
        "OctetsSent": "OctetsRefused",
        "ConnectionAbandoned": "ConnectionClosed",
    },
    "command": {"CONNECT": "CONNECTED", "STOMP": "CONNECTED"},
}


def _exchanged(
    open_piece: Opener, piece: Piece, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    for batch in open_piece(piece, [*dict.fromkeys((*columns, *_EXCHANGED))]):
        # Both halves keep the interval of tune-ok, which only a client sends.
        is_kept = pc.fill_null(
            pc.equal(batch["command"].cast(pa.string()), "connection.tune-ok"), False
        )
        for name, pairs in _EXCHANGED.items():
            both = {**{there: here for here, there in pairs.items()}, **pairs}
            old = batch[name].cast(pa.string())
            places = pc.index_in(old, pa.array(both))
            new = pc.coalesce(pc.take(pa.array(both.values()), places), old)
            place = batch.schema.get_field_index(name)
            batch = batch.set_column(place, name, pc.if_else(is_kept, old, new))
        yield batch.select(list(columns))
