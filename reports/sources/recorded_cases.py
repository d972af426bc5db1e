"""The events of recorded cases, column by column: Arrow reads the segments, and only requested
columns become Python objects."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from brokerproof.harness.model.enums import CloseHow, Vantage
from brokerproof.harness.trace import events as ev
from brokerproof.harness.trace.columns import FIELDS

MOST_EVENTS = 500_000
"""The maximum number of events of a case that are read from its beginning. A case with more events
is a load, whose last segment is read as well."""

_KINDS = {kind.__name__: kind for kind in ev.ALL}
_VANTAGES = {vantage.value: vantage for vantage in Vantage}


class Columns:
    """The columns of recorded events as Python values. A column is converted on first use, for all
    cases of a segment together, because starting a conversion takes longer than converting the
    values of most cases.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._values: dict[str, list[Any]] = {}

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __getitem__(self, name: str) -> list[Any]:
        values = self._values.get(name)
        if values is None:
            column = self._table.column(name).combine_chunks()
            values = _headers(column) if name == "headers" else column.to_pylist()
            self._values[name] = values
        return values


class RecordedCase:
    """The events of one case in order, by place from 0: ``rows`` of the columns (all by default).

    ``total`` is the number of the case's recorded events. Places are contiguous; ``numbers`` are
    the places in the whole recording, which differ after omitted events.
    """

    def __init__(
        self, columns: Columns, numbers: np.ndarray[Any, Any], total: int, rows: slice = slice(None)
    ) -> None:
        self._source = columns
        self._rows = rows
        self._columns: dict[str, list[Any]] = {}
        self._fields: dict[str, list[tuple[str, list[Any]]]] = {}
        self._typed_fields: dict[str, list[tuple[str, list[Any]]]] = {}
        """The names and columns of an event's arguments, by the kind of event."""
        self.numbers = numbers
        self.total = total

    def __len__(self) -> int:
        return len(self.numbers)

    def column(self, name: str) -> list[Any]:
        """Return one column as Python values; headers become pairs of name and value."""
        values = self._columns.get(name)
        if values is None:
            values = self._columns[name] = self._source[name][self._rows]
        return values

    @cached_property
    def parts(self) -> np.ndarray[Any, Any]:
        """Return the example of each event: 0 before the first, then 1, 2, …."""
        return np.cumsum([kind == "ExampleStarted" for kind in self.column("kind")])

    def fields(self, kind: str) -> list[tuple[str, list[Any]]]:
        """Return the names and columns of the fields that events of a kind have."""
        fields = self._fields.get(kind)
        if fields is None:
            fields = self._fields[kind] = [(name, self.column(name)) for name in FIELDS[kind]]
        return fields

    def events(self, places: Iterable[int]) -> list[ev.Event]:
        kinds = self.column("kind")
        return [self._event(kinds[place], place) for place in places]

    def _event(self, kind: str, place: int) -> ev.Event:
        fields = self._typed_fields.get(kind)
        if fields is None:
            names = ("at_ns", "conn", "vantage", *FIELDS[kind])
            fields = self._typed_fields[kind] = [(name, self._typed(name)) for name in names]
        return _KINDS[kind](**{name: column[place] for name, column in fields})

    def _typed(self, name: str) -> list[Any]:
        """Return one column with its enumerations restored."""
        match name:
            case "vantage":
                return self._vantages
            case "how":
                return [None if how is None else CloseHow(how) for how in self.column(name)]
            case _:
                return self.column(name)

    @cached_property
    def _vantages(self) -> list[Vantage]:
        return [_VANTAGES[vantage] for vantage in self.column("vantage")]


def _headers(column: pa.ListArray) -> list[tuple[tuple[str, str], ...]]:
    flat = column.flatten()
    pairs = list(zip(*(flat.field(at).to_pylist() for at in (0, 1)), strict=True))
    listed, at = [], 0
    for size in column.value_lengths().to_pylist():
        listed.append(tuple(pairs[at : at + (size or 0)]))
        at += size or 0
    return listed


def cases_of(paths: Sequence[str]) -> Iterator[tuple[str, RecordedCase]]:
    """Yield the named cases in segments that belong together: a single segment, or a load's
    segments in order."""
    tables, numbers, total = _tables(paths)
    table = pa.concat_tables(tables).unify_dictionaries()
    names = table.column("case").combine_chunks()
    codes = np.asarray(names.indices)
    # The recorder writes whole cases, so the rows are mostly sorted already.
    if (np.diff(codes) < 0).any():
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
        table = table.take(order)
    edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    columns = Columns(table)
    for start, end in pairwise(edges):
        if start == end:
            continue
        name = names.dictionary[int(codes[start])].as_py()
        alone = end - start == len(codes)
        in_case = numbers if alone else np.arange(end - start)
        case_total = total if alone else end - start
        yield name, RecordedCase(columns, in_case, case_total, slice(start, end))


def _tables(paths: Sequence[str]) -> tuple[list[pa.Table], np.ndarray[Any, Any], int]:
    """Read the needed part of the segments; return the rows, their places, and the total number."""
    tables, numbers, before = [], [], 0
    for at, path in enumerate(paths):
        rows = pq.read_metadata(path).num_rows
        if before < MOST_EVENTS or at == len(paths) - 1:
            tables.append(read_segment(path))
            numbers.append(np.arange(before, before + rows))
        before += rows
    return tables, np.concatenate(numbers), before


def read_segment(path: str | Path, *columns: str) -> pa.Table:
    """Read these columns of a segment (or all), with cases as a dictionary. ``pq.read_table`` is
    avoided because it imports pyarrow.dataset, which takes longer than reading.
    """
    with pq.ParquetFile(path, read_dictionary=["case"]) as file:
        return file.read(columns=list(columns) or None)
