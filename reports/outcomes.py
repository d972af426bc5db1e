"""Turns ``results.ndjson`` into rows: results, and findings with a verdict of their own.

The lines are read one by one and kept as Arrow batches, so a line that is no result is named by
file and number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results.finding_verdicts import LevelOf, judged
from brokerproof.harness.results.records import Result, last_of_each, read
from brokerproof.reports.runs import Run

BATCH_ROWS = 5_000

RESULTS = pa.schema(
    [
        ("run", pa.string()),
        ("target", pa.string()),
        ("case", pa.string()),
        ("verdict", pa.string()),
        ("detail", pa.string()),
        ("requirements", pa.list_(pa.string())),
        ("attempts", pa.int64()),
        ("duration_s", pa.float64()),
        ("measured", pa.string()),
        ("expected", pa.string()),
    ]
)
"""``measured`` and ``expected`` stay JSON: they are for one case's page, not for arithmetic."""

FINDINGS = pa.schema(
    [
        ("run", pa.string()),
        ("target", pa.string()),
        ("case", pa.string()),
        ("number", pa.int64()),
        ("requirement", pa.string()),
        ("seen", pa.string()),
        ("detail", pa.string()),
        ("uncertain", pa.string()),
        ("verdict", pa.string()),
    ]
)


@dataclass(frozen=True)
class Outcomes:
    """All results of some runs and their findings, as Arrow tables."""

    results: pa.Table
    findings: pa.Table


def flatten(runs: Iterable[Run], level_of: LevelOf) -> Outcomes:
    """Every result of every run; raises
    :class:`brokerproof.harness.results.records.UnreadableResults` for a line that is none."""
    results, findings = _Batches(RESULTS), _Batches(FINDINGS)
    for run in runs:
        for result in (told.result for told in last_of_each(read(run.folder))):
            results.add(_result_row(run, result))
            for number, (finding, verdict) in enumerate(judged(result, level_of)):
                findings.add(_finding_row(run, result, number, finding, verdict))
    return Outcomes(results.table(), findings.table())


def _text(value: str | None) -> str | None:
    """``value`` without lone surrogates, which JSON can carry and UTF-8 cannot."""
    return None if value is None else value.encode("utf-8", "replace").decode()


def _result_row(run: Run, result: Result) -> dict[str, Any]:
    return {
        "run": run.name,
        "target": _text(result.target),
        "case": _text(result.case),
        "verdict": result.verdict.value,
        "detail": _text(result.detail),
        "requirements": [_text(each) for each in result.requirements],
        "attempts": int(result.attempts),
        "duration_s": float(result.duration_s),
        "measured": json.dumps(result.measured),
        "expected": json.dumps(result.expected),
    }


def _finding_row(
    run: Run, result: Result, number: int, finding: Finding, verdict: Verdict
) -> dict[str, Any]:
    return {
        "run": run.name,
        "target": _text(result.target),
        "case": _text(result.case),
        "number": number,
        "requirement": _text(finding.requirement),
        "seen": finding.seen.value,
        "detail": _text(finding.detail),
        "uncertain": _text(finding.uncertain),
        "verdict": verdict.value,
    }


class _Batches:
    """Rows on their way into one Arrow table."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._rows: list[dict[str, Any]] = []
        self._batches: list[pa.RecordBatch] = []

    def add(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        if len(self._rows) >= BATCH_ROWS:
            self._close()

    def table(self) -> pa.Table:
        self._close()
        return pa.Table.from_batches(self._batches, schema=self._schema)

    def _close(self) -> None:
        if self._rows:
            self._batches.append(pa.RecordBatch.from_pylist(self._rows, schema=self._schema))
            self._rows = []
