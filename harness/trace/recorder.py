"""Writes events to ``trace/target=NAME/part-*.parquet`` in rotating segments, so that a kill loses
at most the open one.

A segment has a temporary name until it is complete, so readers never see a partial file."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from brokerproof.harness.model.enums import Clock, Vantage
from brokerproof.harness.trace.columns import FIELDS, HEADER, HEADERS, SCHEMA
from brokerproof.harness.trace.events import Event
from brokerproof.harness.trace.redaction import Redaction

SEGMENT_ROWS = 50_000
"""A segment is closed at the end of the case in which it reaches this many rows. For a case written
in parts, the segment is closed at the end of the write."""

_REPEATED = [
    *(
        "run",
        "target",
        "case",
        "clock",
        "vantage",
        "conn",
        "kind",
        "protocol",
        "command",
        "acceptor",
        "remote",
    ),
    *("headers.list.element.name", "label", "requirement", "seen", "unit", "how"),
]
"""Columns with few distinct values. Dictionaries for the other columns would take a third of the
time and save nothing."""


class Recorder:
    """Collects whole cases, or parts of a continuing case, and writes them in segments.
    Thread-safe.

    ``folder`` is the run folder, or None to record nothing; ``tag`` distinguishes the segments of
    parallel processes."""

    def __init__(
        self,
        folder: Path | None,
        run: str,
        target: str,
        clock: Clock,
        tag: str = "0",
        *,
        segment_rows: int = SEGMENT_ROWS,
        redaction: Redaction | None = None,
    ) -> None:
        self._folder = None if folder is None else folder / "trace" / f"target={target}"
        self._run, self._target, self._clock, self._tag = run, target, clock, tag
        self._segment_rows = segment_rows
        self._redaction = redaction or Redaction()
        self._lock = threading.Lock()
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._segment = 0
        self._seq: dict[str, int] = {}
        """The number of written events of a continuing case."""
        self.segments = 0
        """The number of closed segments."""

    def reference(self, case: str) -> str:
        """Return the ``trace_ref`` of a case for results.ndjson."""
        return f"trace/target={self._target}#case={case}" if self._folder is not None else ""

    def write(self, case: str, events: Sequence[Event], *, goes_on: bool = False) -> None:
        """Add one case's events, in order; with ``goes_on``, they continue the case's earlier
        events. Closes the segment once it is large enough."""
        if self._folder is None or not events:
            return
        with self._lock:
            first = self._counted(case, len(events)) if goes_on else 0
        self._add(self._batch(case, self._redaction.events(events), first))

    def write_columns(self, case: str, columns: Mapping[str, pa.Array]) -> None:
        """Add events of a continuing case as trace columns: ``at_ns``, ``conn``, ``kind`` and the
        fields of these kinds. A load has millions of events, too many to create an object for
        each."""
        size = len(columns["at_ns"])
        if self._folder is None or not size:
            return
        with self._lock:
            first = self._counted(case, size)
        same = {"run": self._run, "target": self._target, "case": case}
        same |= {"clock": self._clock.value, "vantage": Vantage.PEER.value}
        whole = {
            name: pa.repeat(pa.scalar(value, pa.string()), size) for name, value in same.items()
        }
        whole |= {"seq": pa.array(np.arange(first, first + size)), **columns}
        arrays = [whole.get(field.name, pa.nulls(size, field.type)) for field in SCHEMA]
        self._add(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))

    def goes_on_behind(self, case: str, events: int) -> None:
        self._seq[case] = events

    def _counted(self, case: str, size: int) -> int:
        """Return the sequence number of the first of ``size`` more events of a case."""
        first = self._seq.get(case, 0)
        self._seq[case] = first + size
        return first

    def _add(self, batch: pa.RecordBatch) -> None:
        with self._lock:
            self._batches.append(batch)
            self._rows += batch.num_rows
            if self._rows >= self._segment_rows:
                self._close_segment()

    def flush(self) -> None:
        """Close the open segment if it has any rows."""
        with self._lock:
            if self._rows:
                self._close_segment()

    def _batch(self, case: str, events: Sequence[Event], first: int = 0) -> pa.RecordBatch:
        size = len(events)
        columns: dict[str, list[Any]] = {"run": [self._run] * size, "target": [self._target] * size}
        columns |= {"case": [case] * size, "clock": [self._clock.value] * size}
        columns["seq"] = list(range(first, first + size))
        columns["at_ns"] = [event.at_ns for event in events]
        columns["conn"] = [event.conn for event in events]
        columns["vantage"] = [event.vantage for event in events]
        columns["kind"] = kinds = [type(event).__name__ for event in events]
        for row, (kind, event) in enumerate(zip(kinds, events, strict=True)):
            for field in FIELDS[kind]:
                column = columns.get(field)
                if column is None:
                    column = columns[field] = [None] * size
                column[row] = getattr(event, field)
        return pa.RecordBatch.from_arrays(
            [_array(columns.get(column.name), column, size) for column in SCHEMA], schema=SCHEMA
        )

    def _close_segment(self) -> None:
        assert self._folder is not None
        self._folder.mkdir(parents=True, exist_ok=True)
        name = f"part-{self._tag}-{self._segment:05d}.parquet"
        while (self._folder / name).exists():  # a resumed run continues after existing segments
            self._segment += 1
            name = f"part-{self._tag}-{self._segment:05d}.parquet"
        partial = self._folder / f".{name}.partial"
        table = pa.Table.from_batches(self._batches, schema=SCHEMA)
        pq.write_table(
            table,
            partial,
            compression="zstd",
            use_dictionary=_REPEATED,
            write_statistics=["case", "kind", "at_ns", "conn"],
        )
        partial.rename(self._folder / name)
        self._batches, self._rows, self._segment = [], 0, self._segment + 1
        self.segments += 1


def _array(values: list[Any] | None, field: pa.Field, size: int) -> pa.Array:
    """Return a column; None if all its ``size`` rows are empty."""
    if values is None:
        return pa.nulls(size, field.type)
    if field.type != HEADERS:
        return pa.array(values, type=field.type)
    # Headers are pairs; two separate columns avoid a dict per row.
    offsets: list[int | None] = []
    names: list[str] = []
    texts: list[str] = []
    for value in values:
        offsets.append(None if value is None else len(names))
        for name, text in value or ():
            names.append(name)
            texts.append(text)
    offsets.append(len(names))
    pairs = pa.StructArray.from_arrays(
        [pa.array(names, pa.string()), pa.array(texts, pa.string())], fields=list(HEADER)
    )
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pairs, type=HEADERS)
