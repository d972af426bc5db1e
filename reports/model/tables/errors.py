"""Our own errors, and unreadable bytes."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from brokerproof.reports.model.index_model import CaseRow

ERRORS = pa.schema([(name, pa.string()) for name in ("run", "target", "case", "what", "detail")])


def errors_of(
    cases: Sequence[CaseRow], unreadable: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """``run, target, case, what, detail``, by case: ``what`` is ``case`` (verdict ERROR) or
    ``octets`` (unreadable bytes)."""
    broken = [
        {"run": row.run, "target": row.target, "case": row.case}
        | {"what": "case", "detail": row.detail}
        for row in cases
        if row.verdict == "ERROR"
    ]
    return broken + sorted(unreadable, key=lambda row: (row["run"], row["target"], row["case"]))
