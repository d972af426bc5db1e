"""Reads recorded segments back into events. For whole runs use the PySpark pipeline; this is for
single cases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from brokerproof.harness.model.enums import CloseHow, Vantage
from brokerproof.harness.trace import events
from brokerproof.harness.trace.columns import FIELDS, SCHEMA

_KINDS = {kind.__name__: kind for kind in events.ALL}


class UnreadableTrace(Exception):
    """A segment is not a trace of this version: the sentence says which file and why."""


def segments(run: Path, target: str) -> list[Path]:
    """The segments of one target in a run folder, in the order they were written."""
    return sorted((run / "trace" / f"target={target}").glob("part-*.parquet"))


def rows(segment: Path) -> Iterator[dict[str, Any]]:
    """The rows of one segment as plain dictionaries.

    Raises :class:`UnreadableTrace` for a file that is no Parquet or has other columns than this
    version's table.
    """
    try:
        # The file alone: its folder's name must not become a column of a second type.
        table = pq.ParquetFile(segment).read()
    except (OSError, pa.ArrowException) as problem:
        raise UnreadableTrace(
            f"{segment}: not a readable Parquet segment ({problem}); delete it or record again"
        ) from None
    if not table.schema.equals(SCHEMA):
        raise UnreadableTrace(
            f"{segment}: has other columns than this version of brokerproof records; record again"
        )
    yield from table.to_pylist()


def event(row: dict[str, Any]) -> events.Event:
    """One row as the event it was."""
    kind = _KINDS[row["kind"]]
    values: dict[str, Any] = {name: row[name] for name in FIELDS[row["kind"]]}
    if "headers" in values:
        values["headers"] = tuple((each["name"], each["value"]) for each in values["headers"])
    if "how" in values:
        values["how"] = CloseHow(values["how"])
    return kind(at_ns=row["at_ns"], conn=row["conn"], vantage=Vantage(row["vantage"]), **values)


def case(run: Path, target: str, name: str) -> list[events.Event]:
    """Every event of one case, in order; empty when the run has none."""
    return [
        event(row)
        for segment in segments(run, target)
        for row in rows(segment)
        if row["case"] == name
    ]
