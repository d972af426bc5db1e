"""Events as a batch of the trace's columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from brokerproof.harness.trace.columns import FIELDS, SCHEMA
from brokerproof.harness.trace.events import Event


def batch(events: Sequence[Event], envelope: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """``events`` in the types of :data:`brokerproof.harness.trace.columns.SCHEMA`; ``envelope`` has
    what is not in the events themselves: run, target, case, seq and clock."""
    size = len(events)
    columns: dict[str, list[Any]] = {}
    kinds = [type(event).__name__ for event in events]
    for row, (event, kind) in enumerate(zip(events, kinds, strict=True)):
        for name in FIELDS[kind]:
            value = getattr(event, name)
            if name == "headers":
                value = [{"name": item, "value": text} for item, text in value]
            if name not in columns:
                columns[name] = [None] * size
            columns[name][row] = value
    known: dict[str, Any] = {
        "at_ns": [event.at_ns for event in events],
        "conn": [event.conn for event in events],
        "vantage": [event.vantage for event in events],
        "kind": kinds,
    }
    known |= columns
    arrays = [
        envelope[field.name]
        if field.name in envelope
        else pa.array(known[field.name], type=field.type)
        if field.name in known
        else pa.nulls(size, field.type)
        for field in SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
