"""The worst verdict of any finding, by requirement and target."""

import pyarrow as pa

from brokerproof.reports.model.tables.verdicts import rank


def matrix(findings: pa.Table) -> pa.Table:
    """``requirement, run, target, verdict, rank, cases, case``, the worst first; ``case`` is one
    with the worst verdict."""
    cell = ["requirement", "run", "target"]
    ranked = findings.select([*cell, "case", "verdict"])
    ranked = ranked.append_column("rank", rank(ranked.column("verdict")))
    worst_first = ranked.sort_by([("rank", "ascending"), ("case", "ascending")])
    # With threads, the first row of a group need not be the first in this order.
    cells = worst_first.group_by(cell, use_threads=False).aggregate(
        [("verdict", "first"), ("rank", "first"), ("case", "count_distinct"), ("case", "first")]
    )
    return cells.rename_columns([*cell, "verdict", "rank", "cases", "case"])
