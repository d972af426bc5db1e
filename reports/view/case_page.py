"""The data from which ``case.js`` draws a case's page. Spark's workers produce the data, so
everything here is picklable."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from brokerproof.harness.model.time import NS_PER_MS
from brokerproof.harness.model.verdicts import Impact
from brokerproof.harness.results.records import measurements_of
from brokerproof.reports.model.counterexamples import kept, repeat_command, replay, violation_of
from brokerproof.reports.model.index_model import MEANINGS, CaseRow
from brokerproof.reports.model.requirements import Requirements
from brokerproof.reports.model.slugs import plain_slug
from brokerproof.reports.sources.runs import Run
from brokerproof.reports.view.templates import paragraphs


class CasePages:
    def __init__(
        self, requirements: Requirements, runs: Iterable[Run], judged: Collection[str]
    ) -> None:
        self._requirements = requirements
        self._judged = judged
        self._runs = {run.name: replace(run, cases={}) for run in runs}

    def facts(self, order: Sequence[str], chunks: int) -> dict[str, Any]:
        """Return the data common to all pages: runs, targets, the meanings of verdicts, the names
        of runs in ``order`` of start, and the number of chunks."""
        runs = {}
        targets = {}
        for name, run in self._runs.items():
            runs[name] = {
                "brokerproof": str(run.header.get("brokerproof", "")),
                "load": "load" in run.header,
            }
            for target in run.targets:
                targets[f"{name}\0{target['name']}"] = {
                    "facts": target_facts(target),
                    "configuration": target.get("configuration") or "",
                    "page": plain_slug(str(target["name"])),
                    "clock": str(target.get("clock", "")),
                    "late": _lateness(run, str(target["name"])),
                }
        return {
            "chunks": chunks,
            "several": len(runs) > 1,
            "order": list(order),
            "meanings": dict(MEANINGS),
            "runs": runs,
            "targets": targets,
        }

    def words(self, requirement: str) -> list[str]:
        """Return a requirement's words, level, source, section, link, page (empty if no case judged
        it), title and impact."""
        words = self._requirements.find(requirement)
        facts = [words.required, words.level, words.source, words.section, words.link]
        page = plain_slug(requirement) if requirement in self._judged else ""
        return [*facts, page, words.title, Impact(words.impact).words if words.impact else ""]

    def data(
        self,
        case: CaseRow,
        findings: Sequence[Mapping[str, Any]],
        parts: Sequence[Mapping[str, Any]],
        examples: int,
        failing: int = 0,
    ) -> dict[str, Any]:
        """Return the data of one case's page; ``parts`` are the excerpts of its ``examples``
        (:func:`brokerproof.reports.model.excerpts.excerpt`), of which ``failing`` had violations.
        """
        run = self._runs[case.run]
        values: dict[str, Any] = {
            "case": case.case,
            "title": case.title,
            "target": case.target,
            "run": case.run,
            "verdict": case.verdict,
            "detail": case.detail,
            "doc": paragraphs(case.doc),
            "source": case.source,
            "took": round(case.duration_s * 1000) * NS_PER_MS,
            "attempts": case.attempts,
            "findings": [_finding(finding) for finding in worst_first(findings)],
            "gauges": _gauges(case),
            "examples": examples,
            "parts": list(parts),
            "again": repeat_command(run, case.target, case.case),
            "entry": entry(case, findings),
        }
        if case.unrecorded_examples:
            values["unrecorded"] = case.unrecorded_examples
        if case.verdict != "PASS" and case.drawn:
            values["arguments"] = list(case.drawn)
        if failing:
            values["failing"] = failing
        if case.verdict != "PASS" and (before := _before(run, case)):
            values["baseline"] = before
        if files := kept(run, case):
            values["kept"] = [vars(file) for file in files]
            values["replay"] = replay(run, case)
            values["counterexample"] = violation_of(run, case)
        return values


def target_facts(target: Mapping[str, Any]) -> str:
    broker = f"{target.get('broker') or ''} {target.get('version') or ''}".strip()
    promises = target.get("profile") or "its specifications alone"
    return f"{broker} · {target.get('kind') or ''} · judged by what {promises} promises"


def worst_first(findings: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return a case's findings by verdict, the worst first; within a verdict, violations come
    first."""
    order = list(MEANINGS)
    return sorted(
        findings,
        key=lambda finding: (order.index(finding["verdict"]), finding["seen"] != "VIOLATED"),
    )


def _lateness(run: Run, target: str) -> list[int]:
    """Return the lateness of the host's timer in nanoseconds (99th percentile and maximum); empty
    if it was not measured."""
    try:
        canary = run.header["host"]["canary"][target]
        return [int(canary["p99_ns"]), int(canary["worst_ns"])]
    except (KeyError, TypeError, ValueError):
        return []


def _before(run: Run, case: CaseRow) -> list[str]:
    """Return the run's baseline, the baseline's start, and the case's verdict there (empty if the
    case was missing); empty if the header has no baseline."""
    try:
        recorded = run.header["baseline"]
        baseline = [str(recorded["run"]), str(recorded.get("started") or "")]
        changes = recorded["changes"]
        for change in changes:
            if (change["target"], change["case"]) == (case.target, case.case):
                return [*baseline, str(change["verdicts"][0] or "")]
        counts = recorded["counts"]
        changed = sum(int(counts[way]) for way in ("worse", "undecided", "better"))
    except (KeyError, TypeError, ValueError):
        return []
    # The header lists only some changes. An unlisted case with one of these verdicts may still have
    # changed.
    is_same = changed == len(changes) and case.verdict in ("FAIL", "WARN", "INCONCLUSIVE", "ERROR")
    return [*baseline, case.verdict] if is_same else []


def _finding(finding: Mapping[str, Any]) -> list[str]:
    values = [
        finding["requirement"],
        finding["verdict"],
        finding["seen"].replace("_", " ").lower(),
        finding["detail"],
        finding["uncertain"],
        finding["deviation_reason"],
        _web_address(finding["deviation_link"] or ""),
    ]
    return [value or "" for value in values]


def _gauges(case: CaseRow) -> list[list[Any]]:
    """Return the measured quantities: label, value, unit, bounds and margin."""
    return [
        [label, found.value, found.unit, found.low, found.high, found.margin]
        for label, found in measurements_of(json.loads(case.measurements)).items()
    ]


def _web_address(link: str) -> str:
    """Return ``link`` if it is http or https, otherwise nothing: a page must not execute the
    content of a result."""
    return link if link.startswith(("https://", "http://")) else ""


def entry(case: CaseRow, findings: Sequence[Mapping[str, Any]]) -> str:
    """Return an entry for a list of known deviations, filled in as far as possible."""
    violated = next(
        (finding for finding in findings if finding["seen"] == "VIOLATED"),
        findings[0] if findings else None,
    )
    detail = (violated["detail"] or "") if violated else ""
    expected = re.escape(detail).replace("\\ ", " ")
    lines = [
        "[[deviation]]",
        *([f"requirement = {_quoted(violated['requirement'])}"] if violated else []),
        f"case = {_quoted(case.case)}",
        'versions = ""  # of the broker, such as ">=2.56"; omit the line for every version',
        f"expected = {_quoted(expected)}"
        "  # a regular expression for the whole finding; put variable parts into parentheses",
        f"example = {_quoted(detail)}",
        'reason = ""  # why the broker does this, in one sentence',
        'link = ""  # the evidence: a line of its source, its documentation, its tracker',
    ]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # a basic string in TOML is escaped as in JSON
