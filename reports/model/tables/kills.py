"""The kill matrix as a table: a row for each pair of a seeded fault and a requirement that it
violates."""

from collections.abc import Iterable

import pyarrow as pa

from brokerproof.reports.sources import mutants
from brokerproof.reports.sources.runs import Run

KILLS = pa.schema(
    [(name, pa.string()) for name in ("run", "requirement", "mutant", "mark", "fault")]
)


def kills(runs: Iterable[Run]) -> pa.Table:
    """``run, requirement, mutant, mark, fault`` for the runs whose folder has a kill matrix;
    ``mark`` is as in the report."""
    rows = [
        {
            "run": run.name,
            "requirement": row.requirement,
            "mutant": mutant,
            "mark": mark,
            "fault": fault,
        }
        for run in runs
        if (matrix := mutants.read(run.folder)) is not None
        for row in matrix.rows
        for mutant, mark, fault in row.marks
    ]
    return pa.Table.from_pylist(rows, schema=KILLS)
