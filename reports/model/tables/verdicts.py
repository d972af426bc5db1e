"""Verdicts in tables: the rank of a verdict, the verdict of each case, and the counts by target."""

import pyarrow as pa
import pyarrow.compute as pc

from brokerproof.harness.results.verdict import WORST_FIRST

_WORST_FIRST = pa.array([verdict.value for verdict in WORST_FIRST])


def rank(verdicts: pa.ChunkedArray) -> pa.ChunkedArray:
    """The rank: 0 for the worst verdict, then in order of severity; -1 for a word that is not a
    verdict."""
    return pc.fill_null(pc.index_in(verdicts, value_set=_WORST_FIRST), -1)


def cases(results: pa.Table) -> pa.Table:
    """The result of each case with its ``rank`` (0 is the worst verdict)."""
    return results.append_column("rank", rank(results.column("verdict")))


def counts(ranked: pa.Table) -> pa.Table:
    """``run, target, verdict, rank, cases, seconds`` of the table of cases."""
    by = ["run", "target", "verdict", "rank"]
    counted = ranked.group_by(by, use_threads=False).aggregate(
        [("case", "count"), ("duration_s", "sum")]
    )
    return counted.rename_columns([*by, "cases", "seconds"])
