"""Turns ``results.ndjson`` into rows: results, and findings with their verdicts.

Lines are read one by one, so that the error for an unreadable line names the file and the line
number; rows are kept as Arrow batches.
"""

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from brokerproof.harness.model.finding import JudgedFinding
from brokerproof.harness.results import impacts
from brokerproof.harness.results.records import Result, last_of_each, read
from brokerproof.reports.sources.runs import Run

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
        ("measurements", pa.string()),
        ("unrecorded_examples", pa.int64()),
        ("impact", pa.string()),
        ("behaviours", pa.string()),
    ]
)
"""``measurements`` and ``behaviours`` are JSON. ``unrecorded_examples`` counts examples that were
judged but not recorded."""

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
        ("deviation_case", pa.string()),
        ("deviation_requirement", pa.string()),
        ("deviation_reason", pa.string()),
        ("deviation_link", pa.string()),
    ]
)
"""The ``deviation_`` columns are null unless the finding matched a listed deviation."""


@dataclass(frozen=True)
class Outcomes:
    """The results and findings of some runs, as Arrow tables."""

    results: pa.Table
    findings: pa.Table


def flatten(runs: Iterable[Run]) -> Outcomes:
    """Read every result of every run.

    Raises :class:`brokerproof.harness.results.records.UnreadableResults` for a line that is not a
    result.
    """
    results, findings = _Batches(RESULTS), _Batches(FINDINGS)
    for run in runs:
        for result in (latest.result for latest in last_of_each(read(run.folder))):
            results.add(_result_row(run, result))
            for number, finding in enumerate(result.findings):
                findings.add(_finding_row(run, result, number, finding))
    return Outcomes(results.table(), findings.table())


def _text(value: str | None) -> str | None:
    """Return ``value`` without lone surrogates, which JSON can represent and UTF-8 cannot."""
    return None if value is None else value.encode("utf-8", "replace").decode()


def _result_row(run: Run, result: Result) -> dict[str, Any]:
    return {
        "run": run.name,
        "target": _text(result.target),
        "case": _text(result.case),
        "verdict": result.verdict.value,
        "detail": _text(result.detail),
        "requirements": [_text(requirement) for requirement in result.requirements],
        "attempts": int(result.attempts),
        "duration_s": float(result.duration_s),
        "measurements": json.dumps(
            {label: dataclasses.asdict(value) for label, value in result.measurements.items()}
        ),
        "unrecorded_examples": result.unrecorded.examples,
        "impact": impacts.of_result(result) or "",
        "behaviours": json.dumps(result.behaviours),
    }


def _finding_row(run: Run, result: Result, number: int, finding: JudgedFinding) -> dict[str, Any]:
    deviation = finding.deviation
    return {
        "run": run.name,
        "target": _text(result.target),
        "case": _text(result.case),
        "number": number,
        "requirement": _text(finding.requirement),
        "seen": finding.seen.value,
        "detail": _text(finding.detail),
        "uncertain": _text(finding.uncertain),
        "verdict": finding.verdict.value,
        "deviation_case": None if deviation is None else _text(deviation.case),
        "deviation_requirement": None if deviation is None else _text(deviation.requirement),
        "deviation_reason": None if deviation is None else _text(deviation.reason),
        "deviation_link": None if deviation is None else _text(deviation.link),
    }


class _Batches:
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
