"""The columns of a trace, derived from the event classes, and their fingerprint.

The recorder writes this schema and every reader checks it, so a run with another version of the
schema is rejected with one sentence instead of misread."""

import dataclasses
import hashlib
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from brokerproof.harness.model.enums import CloseHow, Vantage
from brokerproof.harness.trace import events
from brokerproof.harness.trace.events import Event

HEADER = pa.struct(
    [pa.field("name", pa.string(), nullable=False), pa.field("value", pa.string(), nullable=False)]
)
HEADERS = pa.list_(pa.field("element", HEADER, nullable=False))

_ARROW: dict[object, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    bytes: pa.binary(),
    CloseHow: pa.string(),
    Vantage: pa.string(),
    events.Headers: HEADERS,
}

ENVELOPE: tuple[tuple[str, pa.DataType], ...] = (
    ("run", pa.string()),
    ("target", pa.string()),
    ("case", pa.string()),
    ("seq", pa.int64()),
    ("at_ns", pa.int64()),
    ("clock", pa.string()),
    ("vantage", pa.string()),
    ("conn", pa.int64()),
    ("kind", pa.string()),
)
_NULLABLE_IN_ENVELOPE = {"conn"}


def _arrow_type(annotation: object) -> pa.DataType:
    if isinstance(annotation, types.UnionType):
        (annotation,) = [
            argument for argument in typing.get_args(annotation) if argument is not type(None)
        ]
    return _ARROW[annotation]


def _payload() -> dict[str, pa.DataType]:
    """Return payload columns by name. Raises ``TypeError`` if two events use a field name with
    different types."""
    envelope = {name for name, _ in ENVELOPE}
    columns: dict[str, pa.DataType] = {}
    for kind in events.ALL:
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            if field.name in envelope:
                continue
            arrow = _arrow_type(hints[field.name])
            if columns.setdefault(field.name, arrow) != arrow:
                raise TypeError(
                    f"{kind.__name__}.{field.name} is {arrow} here and {columns[field.name]}"
                    " elsewhere"
                )
    return dict(sorted(columns.items()))


PAYLOAD: dict[str, pa.DataType] = _payload()

FIELDS: dict[str, tuple[str, ...]] = {
    kind.__name__: tuple(field.name for field in dataclasses.fields(kind) if field.name in PAYLOAD)
    for kind in events.ALL
}
"""The payload fields of each kind of event, by the name of the kind."""

SCHEMA: pa.Schema = pa.schema(
    [pa.field(name, kind, nullable=name in _NULLABLE_IN_ENVELOPE) for name, kind in ENVELOPE]
    + [pa.field(name, kind) for name, kind in PAYLOAD.items()]
)


def fingerprint() -> str:
    """Return a short digest of the columns, their types, and the kinds of event with their
    fields."""
    text = "\n".join(f"{field.name} {field.type} {field.nullable}" for field in SCHEMA)
    text += "\n" + "\n".join(f"{kind} {' '.join(names)}" for kind, names in sorted(FIELDS.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


FINGERPRINT = fingerprint()


def batch(rows: Sequence[Event], envelope: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Return the events ``rows`` as a batch of :data:`SCHEMA`; ``envelope`` has the columns that
    events do not have: run, target, case, seq and clock."""
    size = len(rows)
    columns: dict[str, list[Any]] = {}
    kinds = [type(event).__name__ for event in rows]
    for row, (event, kind) in enumerate(zip(rows, kinds, strict=True)):
        for name in FIELDS[kind]:
            value = getattr(event, name)
            if name == "headers":
                value = [{"name": item, "value": text} for item, text in value]
            if name not in columns:
                columns[name] = [None] * size
            columns[name][row] = value
    known: dict[str, Any] = {
        "at_ns": [event.at_ns for event in rows],
        "conn": [event.conn for event in rows],
        "vantage": [event.vantage for event in rows],
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
