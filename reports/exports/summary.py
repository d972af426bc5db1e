"""summary.md, for the summary page of a CI job: at most a screenful, however large the run is."""

import re

from brokerproof.reports.model.index_model import SHOWN, CaseRow, Model

LISTED = 25
_SHOWN = ("ERROR", "FAIL", "INCONCLUSIVE", "KNOWN", "WARN")


def markdown(model: Model) -> str:
    lines = ["## brokerproof", ""]
    lines += [f"> **{_cell(text)}**\n" for text in model.warnings]
    present = [verdict for verdict in SHOWN if verdict in model.totals]
    lines.append("| target | cases |" + "".join(f" {verdict} |" for verdict in present))
    lines.append("| --- | ---: |" + " ---: |" * len(present))
    for bar in model.bars:
        counts = dict(bar.counts)
        cells = "".join(f" {counts.get(verdict, 0) or '·'} |" for verdict in present)
        lines.append(f"| {_cell(bar.column.label)} | {bar.cases} |{cells}")
    lines.append("")
    listed = [case for case in model.cases if case.verdict in _SHOWN]
    total = sum(count for verdict, count in model.totals.items() if verdict in _SHOWN)
    if listed:
        lines += ["| verdict | impact | case | target | observed |", "| --- " * 5 + "|"]
        lines += [_row(case) for case in listed[:LISTED]]
        if total > LISTED:
            lines += ["", f"… and {total - LISTED} more in the report."]
        lines.append("")
    lines.append(
        f"{model.judged_total} requirements judged, {model.unjudged_total} more could have been."
    )
    return "\n".join(lines) + "\n"


def _row(case: CaseRow) -> str:
    return (
        f"| {case.verdict} | {case.impact} | {_cell(case.title)} `{_code(case.case)}` |"
        f" {_cell(case.target)} | {_cell(case.detail[:200])} |"
    )


def _cell(text: str) -> str:
    """Return ``text`` as a cell of a table: on one line and without active markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    return " ".join(text.replace("`", "'").replace("|", r"\|").split())
