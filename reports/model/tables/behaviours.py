"""The behaviour of each target where a specification leaves a choice."""

import json
from collections.abc import Sequence

import pyarrow as pa

from brokerproof.harness.results.behaviour_comparison import Row, side_by_side

BEHAVIOURS = pa.schema([(name, pa.string()) for name in ("run", "target", "behaviour", "value")])


def behaviours(results: pa.Table) -> pa.Table:
    """``run, target, behaviour, value``: a row for each value observed by a case."""
    columns = (results.column(name).to_pylist() for name in ("run", "target", "behaviours"))
    seen = {
        (run, target, name, value): None
        for run, target, recorded in zip(*columns, strict=True)
        for name, values in json.loads(recorded).items()
        for value in values
    }
    rows = [dict(zip(BEHAVIOURS.names, row, strict=True)) for row in seen]
    return pa.Table.from_pylist(rows, schema=BEHAVIOURS)


def compared(table: pa.Table, columns: Sequence[tuple[str, str]]) -> list[Row]:
    """Return the behaviours of the targets of these runs side by side."""
    seen: dict[tuple[str, str], dict[str, list[str]]] = {column: {} for column in columns}
    for row in table.to_pylist():
        if (column := seen.get((row["run"], row["target"]))) is not None:
            column.setdefault(row["behaviour"], []).append(row["value"])
    return side_by_side([*seen.values()])
