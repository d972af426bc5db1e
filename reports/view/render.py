"""Fills the templates that the driver uses: the index, and a page for each target and
requirement."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from brokerproof.harness.results.behaviour_comparison import Row
from brokerproof.reports.model.baseline_comparison import baseline_of
from brokerproof.reports.model.index_model import CaseRow, Model
from brokerproof.reports.model.overview import MOST_REASONS, Overview
from brokerproof.reports.model.quantities import duration, rounded_up
from brokerproof.reports.model.requirement_compliance import Keeper
from brokerproof.reports.model.requirements import Requirements
from brokerproof.reports.model.target_summaries import Broker
from brokerproof.reports.sources import mutants
from brokerproof.reports.sources.runs import Run
from brokerproof.reports.view.packed_cases import choices, listing
from brokerproof.reports.view.templates import STYLE, THEME, of_target, templates

BEGUN = 60
"""The maximum number of cases in the index for readers without JavaScript."""
_SHEET_CAUSES = {1: 8, 2: 6, 3: 4}
"""The number of causes that fit on one sheet, for each number of targets."""


class Pages:
    """The pages of a report, other than those of cases. Only ``judged`` requirements have a
    page."""

    def __init__(self, requirements: Requirements, judged: Collection[str]) -> None:
        self._requirements = requirements
        self._judged = judged

    def index(self, model: Model, first: Overview) -> str:
        return (
            templates()
            .get_template("index.html.j2")
            .render(
                model=model,
                overview=first,
                most_reasons=MOST_REASONS,
                judged=self._judged,
                begun=model.cases[:BEGUN],
                listing=listing(model, self._requirements, self._judged),
                choices=choices(model, self._requirements),
                facts=[facts(run) for run in model.runs],
                mutants=[
                    matrix for run in model.runs if (matrix := mutants.read(run.folder)) is not None
                ],
            )
        )

    def summary(self, model: Model, first: Overview) -> str:
        """Return the page to print on one sheet: the areas and causes in each target's last run."""
        targets = min(max(_SHEET_CAUSES), len(model.latest))
        return (
            templates()
            .get_template("summary.html.j2")
            .render(
                model=model,
                overview=first,
                facts=[facts(run) for run in model.runs[-1:]],
                most_targets=targets,
                most_causes=_SHEET_CAUSES[max(targets, 1)],
            )
        )

    def case(self, facts: Mapping[str, Any]) -> str:
        """Return the page that draws the case named in the page's address, from the runs' ``facts``
        and the chunks of cases."""
        text = json.dumps(facts, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
        return templates().get_template("case.html.j2").render(facts=Markup(text))

    def moved(self, row: CaseRow) -> str:
        """Return a redirect from the address of a case's page in older reports."""
        return templates().get_template("moved.html.j2").render(page=row.page, case=row.case)

    def findings(self, model: Model, findings: Iterable[Mapping[str, Any]], most: int) -> str:
        """Return the page without scripts: the ``most`` worst cases that did not pass, with
        requirements and observations, and the skipped cases by reason."""
        named = [row for row in model.cases if row.verdict not in ("PASS", "SKIP")]
        listed: dict[tuple[str, str, str], tuple[CaseRow, list[Any]]] = {
            (row.run, row.target, row.case): (row, []) for row in named[:most]
        }
        for finding in findings:
            key = (finding["run"], finding["target"], finding["case"])
            if key in listed and finding["verdict"] not in ("PASS", "SKIP"):
                listed[key][1].append(
                    {
                        **finding,
                        "words": self._requirements.find(finding["requirement"]),
                        "reason": finding["deviation_reason"],
                    }
                )
        skipped: dict[str, list[str]] = {}
        for row in model.cases:
            if row.verdict == "SKIP":
                skipped.setdefault(row.detail, []).append(row.case)
        return (
            templates()
            .get_template("findings.html.j2")
            .render(
                listed=list(listed.values()),
                left_out=len(named) - len(listed),
                skipped=sorted(skipped.items(), key=lambda entry: -len(entry[1])),
                several=len(model.runs) > 1,
            )
        )

    def target(self, broker: Broker) -> str:
        return templates().get_template("target.html.j2").render(broker=broker)

    def behaviours(self, model: Model, rows: Sequence[Row]) -> str:
        """Return the page that compares the targets where specifications leave a choice."""
        return (
            templates()
            .get_template("behaviours.html.j2")
            .render(
                rows=rows,
                columns=[(bar.column.target, of_target(bar.column.target)) for bar in model.latest],
                place="conformance report",
                back="All cases",
            )
        )

    def shared(self) -> dict[str, str]:
        loaded = templates().globals
        return {STYLE: str(loaded["style"]), THEME: str(loaded["theme"])}

    def requirement(self, requirement: str, keepers: Sequence[Keeper]) -> str:
        words = self._requirements.find(requirement)
        return templates().get_template("requirement.html.j2").render(words=words, keepers=keepers)


def facts(run: Run) -> dict[str, str]:
    """Return the facts about a run for the index, by label, omitting those missing from the
    header."""
    head, host = run.header, run.header.get("host")
    host = host if isinstance(host, dict) else {}
    command = head.get("command")
    canary = host.get("canary_p99_ns")
    baseline = baseline_of(head)
    texts = {
        "run": run.name,
        "started": str(head.get("started", "")),
        "ended": str((run.footer or {}).get("finished", "")) or "cut off",
        "brokerproof": str(head.get("brokerproof", "")),
        "command": " ".join(map(str, command)) if isinstance(command, list) else "",
        "seed": str(head.get("seed", "")),
        "effort": str(head.get("effort", "")),
        "host": " · ".join(
            part
            for part in (
                str(host.get("platform", "")),
                f"Python {host['python']}" if "python" in host else "",
                f"{host['cores']} cores" if "cores" in host else "",
                _lateness(canary) if isinstance(canary, int) else "",
            )
            if part
        ),
        "exit code": str((run.footer or {}).get("exit_code", "")),
        "baseline": "none" if baseline is None else baseline.facts,
    }
    return {label: text for label, text in texts.items() if text}


def _lateness(usual: int) -> str:
    return f"woke threads at most {duration(rounded_up(usual))} late in 99 of 100 measurements"
