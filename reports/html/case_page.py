"""The page of one case. Made in Spark's workers, so everything here can be pickled and reads no
file of the run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from brokerproof.reports.counterexamples import kept, replay
from brokerproof.reports.excerpts import Excerpt
from brokerproof.reports.html.examples import example
from brokerproof.reports.html.gauges import gauges
from brokerproof.reports.html.templates import templates
from brokerproof.reports.html.times import duration
from brokerproof.reports.index_model import CaseRow
from brokerproof.reports.requirements import Requirements, Words
from brokerproof.reports.runs import Run


@dataclass(frozen=True)
class Judgement:
    """One finding on a case's page."""

    words: Words
    verdict: str
    seen: str
    detail: str
    uncertain: str
    reason: str = ""
    """Why the broker deviates, by its listed deviation; empty where none matched."""
    link: str = ""


class CasePages:
    """Pages of the cases of some runs."""

    def __init__(self, requirements: Requirements, runs: Iterable[Run]) -> None:
        self._requirements = requirements
        self._runs = {run.name: replace(run, cases={}) for run in runs}

    def case(
        self,
        case: CaseRow,
        findings: Sequence[Mapping[str, Any]],
        parts: Sequence[Excerpt],
        curves: Mapping[int, str],
        *,
        alone: bool = True,
    ) -> str:
        """The page of one case; ``alone`` is a whole page, else what goes into the page that shows
        packed ones. ``curves`` are what :mod:`brokerproof.reports.curves.sample` found, by
        example."""
        run = self._runs[case.run]
        host = run.header.get("host")
        canary = host.get("canary_p99_ns") if isinstance(host, dict) else None
        judgements = [self._judgement(finding) for finding in findings]
        return (
            templates()
            .get_template("case.html.j2" if alone else "case_body.html.j2")
            .render(
                case=case,
                run=run,
                target=next(
                    (target for target in run.targets if target["name"] == case.target), {}
                ),
                judgements=judgements,
                gauges=gauges(case),
                examples=[example(part, curves.get(part.part)) for part in parts if part.rows],
                examples_total=parts[0].examples if parts else 0,
                again=_again(run, case),
                entry=entry(case, judgements),
                canary=duration(canary) if isinstance(canary, int) else "",
            )
        )

    def kept(self, run: Run, case: CaseRow) -> str:
        """The part of a page that holds the counterexample which the run kept; empty where it kept
        none."""
        return (
            templates()
            .get_template("kept.html.j2")
            .render(kept=kept(run, case), replay=replay(case))
        )

    def more(self, example: int, first: int) -> str:
        """The page that shows packed ones: ``each`` of them in a chunk, from number ``first``
        on."""
        return templates().get_template("more.html.j2").render(each=example, first=first)

    def _judgement(self, finding: Mapping[str, Any]) -> Judgement:
        return Judgement(
            words=self._requirements.find(finding["requirement"]),
            verdict=finding["verdict"],
            seen=finding["seen"].replace("_", " ").lower(),
            detail=finding["detail"],
            uncertain=finding["uncertain"] or "",
            reason=finding["deviation_reason"] or "",
            link=_web_address(finding["deviation_link"] or ""),
        )


def _web_address(link: str) -> str:
    """``link``, or nothing for another scheme: a page must not run what a result holds."""
    return link if link.startswith(("https://", "http://")) else ""


def _again(run: Run, case: CaseRow) -> str:
    """The command that judges this case again with the same examples."""
    function = case.case.partition("[")[0].rpartition(".")[2]
    header = run.header
    chosen = ("--effort", str(header.get("effort", "normal")), "--seed", str(header.get("seed", 0)))
    return shlex.join(["brokerproof", "run", "--target", case.target, "--case", function, *chosen])


def entry(case: CaseRow, judgements: Sequence[Judgement]) -> str:
    """An entry for a list of known deviations, filled in as far as the page knows it."""
    violated = next(
        (judgement for judgement in judgements if judgement.seen == "violated"),
        judgements[0] if judgements else None,
    )
    detail = violated.detail if violated else ""
    expected = re.escape(detail).replace("\\ ", " ")
    lines = [
        "[[deviation]]",
        *([f"requirement = {_quoted(violated.words.id)}"] if violated else []),
        f"case = {_quoted(case.case)}",
        'versions = ""  # of the broker, such as ">=2.56"; leave the line out for every version',
        f"expected = {_quoted(expected)}"
        "  # a regular expression of the whole finding; put what varies into parentheses",
        f"example = {_quoted(detail)}",
        'reason = ""  # why the broker does it, in a sentence',
        'link = ""  # where that can be read: a line of its source, its documentation, its tracker',
    ]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # a basic string of TOML escapes as JSON does
