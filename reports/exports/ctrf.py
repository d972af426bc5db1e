"""ctrf.json: the Common Test Report Format, written row by row.

FAIL and ERROR are ``failed``; SKIP is ``skipped``; INCONCLUSIVE and KNOWN are ``other``; the rest
is ``passed``. A test's ``rawStatus`` is the verdict itself. With several runs, each test names its
run."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from brokerproof.reports.model.index_model import VERDICTS, Bar, CaseRow
from brokerproof.reports.sources.runs import Run

SPECIFICATION = "1.0.0"
STATUS = {
    "FAIL": "failed",
    "ERROR": "failed",
    "SKIP": "skipped",
    "INCONCLUSIVE": "other",
    "KNOWN": "other",
}


def write(path: Path, runs: Sequence[Run], bars: Sequence[Bar], cases: Iterable[CaseRow]) -> None:
    head = {"reportFormat": "CTRF", "specVersion": SPECIFICATION, "generatedBy": "brokerproof"}
    results = {
        "tool": {"name": "brokerproof", "version": str(runs[0].header.get("brokerproof", ""))}
        if runs
        else {"name": "brokerproof"},
        "summary": summary(runs, bars),
    }
    with path.open("w", encoding="utf-8") as file:
        file.write(
            json.dumps(head)[:-1]
            + ', "results": '
            + json.dumps(results, ensure_ascii=False)[:-1]
            + ', "tests": ['
        )
        for number, case in enumerate(cases):
            file.write(
                ("" if number == 0 else ",")
                + "\n"
                + json.dumps(
                    _test(case, several=len(runs) > 1), ensure_ascii=False, separators=(",", ":")
                )
            )
        file.write("\n]}}\n")


def summary(runs: Sequence[Run], bars: Sequence[Bar]) -> dict[str, Any]:
    """The summary in CTRF; instants are in milliseconds since 1970, 0 if not recorded."""
    numbers = {"tests": 0, "passed": 0, "failed": 0, "pending": 0, "skipped": 0, "other": 0}
    by_verdict = dict.fromkeys(VERDICTS, 0)
    for bar in bars:
        for verdict, count in bar.counts:
            numbers["tests"] += count
            numbers[STATUS.get(verdict, "passed")] += count
            by_verdict[verdict] += count
    starts = [_milliseconds(run.header.get("started")) for run in runs]
    stops = [_milliseconds((run.footer or {}).get("finished")) for run in runs]
    start = min(starts, default=0)
    verdicts = {verdict: count for verdict, count in by_verdict.items() if count}
    return {
        **numbers,
        "suites": len(bars),
        "start": start,
        "stop": max([*stops, start]),
        "extra": {"runs": [run.name for run in runs], "verdicts": verdicts},
    }


def _test(case: CaseRow, *, several: bool) -> dict[str, Any]:
    test: dict[str, Any] = {
        "name": case.named,
        "status": STATUS.get(case.verdict, "passed"),
        "duration": round(case.duration_s * 1000),
        "suite": [case.target],
        "rawStatus": case.verdict,
        "tags": list(case.requirements),
    }
    if several:
        test["extra"] = {"run": case.run}
    if case.attempts > 1:
        test["retries"] = case.attempts - 1
    if case.detail:
        test["message"] = case.detail
    path, colon, line = case.source.rpartition(":")
    if colon:
        test["filePath"] = path
        if line.isdigit():
            test["line"] = int(line)
    return test


def _milliseconds(text: object) -> int:
    try:
        return int(datetime.fromisoformat(str(text)).timestamp() * 1000)
    except ValueError:
        return 0
