"""Reads the events of single cases from recorded segments. Whole runs are read by the PySpark
pipeline."""

import os
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from brokerproof.harness.model import input_file
from brokerproof.harness.model.enums import CloseHow, Vantage
from brokerproof.harness.model.input_file import BadInput, OneSentence
from brokerproof.harness.trace import events
from brokerproof.harness.trace.columns import FIELDS, HEADERS, SCHEMA

DAMAGED = (OSError, pa.ArrowException, MemoryError, OverflowError, ValueError)
"""The exceptions that Arrow raises for a damaged file. ``ValueError`` includes text that is not
UTF-8."""
MOST_ROWS = 1 << 31
"""The most rows of a segment. The recorder closes a segment near 50,000 rows."""
_KINDS = {kind.__name__: kind for kind in events.ALL}

_LEAVES = {field.name for field in SCHEMA if field.type != HEADERS} | {
    f"headers.list.element.{name}" for name in ("name", "value")
}
"""The columns in Parquet's own metadata, which may contradict the Arrow schema stored beside it."""
_KNOWN: Mapping[str, Container[str | None]] = {
    "kind": _KINDS,
    "vantage": {vantage.value for vantage in Vantage},
    "how": {None, *(how.value for how in CloseHow)},
}


class UnreadableTrace(OneSentence):
    """A segment is not a trace of this version. The message names the file and the reason."""


def segments(run: Path, target: str) -> list[Path]:
    """Return the segments of one target in a run folder, in the order in which they were
    written."""
    return sorted((run / "trace" / f"target={target}").glob("part-*.parquet"))


def rows(segment: Path) -> Iterator[dict[str, Any]]:
    """Return the rows of one segment as plain dictionaries.

    Raises :class:`UnreadableTrace` for a file that is not Parquet or whose columns are not this
    version's."""
    row_count(segment)
    try:
        # Read only this file, because its folder's name must not become a column of another type.
        table = pq.ParquetFile(segment).read()
        table.validate(full=True)
        records = table.to_pylist()
    except DAMAGED as problem:
        raise UnreadableTrace(damaged(segment, problem)) from None
    for number, row in enumerate(records, 1):
        for column, known in _KNOWN.items():
            if row[column] not in known:
                raise UnreadableTrace(
                    f"{segment}, row {number}: {column} has the unknown value"
                    f" {row[column]!r:.60}; record again"
                )
        yield row


def row_count(segment: Path) -> int:
    """Check a segment's columns, and return the number of rows that the footer states. Raises
    :class:`UnreadableTrace`."""
    try:
        os.close(input_file.open_regular(segment))
        with pq.ParquetFile(segment) as file:
            schema, count = file.schema_arrow, int(file.metadata.num_rows)
            leaves = {file.schema.column(place).path for place in range(len(file.schema))}
            groups = sum(
                file.metadata.row_group(group).num_rows
                for group in range(file.metadata.num_row_groups)
            )
    except BadInput as problem:
        raise UnreadableTrace(f"{segment}: {problem}") from None
    except DAMAGED as problem:
        raise UnreadableTrace(damaged(segment, problem)) from None
    if not schema.equals(SCHEMA) or leaves != _LEAVES:
        raise UnreadableTrace(
            f"{segment}: its columns differ from those of this version; record again"
        )
    if count != groups or not 0 <= count <= MOST_ROWS:
        raise UnreadableTrace(
            f"{segment}: declares {count} rows and its groups {groups}; delete it or record again"
        )
    return count


def damaged(segment: Path | str, problem: BaseException) -> str:
    reason = (str(problem).splitlines() or [type(problem).__name__])[0].rstrip(".")
    return f"{segment}: is not a readable Parquet segment ({reason}); delete it or record again"


def event(row: dict[str, Any]) -> events.Event:
    kind = _KINDS[row["kind"]]
    values: dict[str, Any] = {name: row[name] for name in FIELDS[row["kind"]]}
    if "headers" in values:
        values["headers"] = tuple(
            (header["name"], header["value"]) for header in values["headers"] or ()
        )
    if values.get("how") is not None:
        values["how"] = CloseHow(values["how"])
    return kind(at_ns=row["at_ns"], conn=row["conn"], vantage=Vantage(row["vantage"]), **values)


def case(run: Path, target: str, name: str) -> list[events.Event]:
    """Return every event of one case, in order; empty if the run has none."""
    return [
        event(row)
        for segment in segments(run, target)
        for row in rows(segment)
        if row["case"] == name
    ]
