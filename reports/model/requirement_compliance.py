"""Compliance with a requirement, for the requirement's page: the worst verdict by target and run,
and the cases with that verdict."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokerproof.reports.model.index_model import VERDICTS, Column

ROWS = 12
"""The maximum number of cases on a target that a requirement's page lists, worst first."""
KEPT_ROWS = 6
"""The maximum number of passed or skipped cases on a page. More would add nothing."""
_UNREMARKABLE = ("PASS", "SKIP")
LONGEST_DETAIL, LONGEST_UNREMARKABLE = 400, 160
"""The maximum number of characters of an observation on a page. The page of the case shows all of
it."""
_RANK = {verdict: place for place, verdict in enumerate(VERDICTS)}


@dataclass(frozen=True, slots=True)
class Row:
    """A finding on the requirement. ``page`` is the page of its case, relative to the report's
    folder."""

    case: str
    verdict: str
    detail: str
    seen: str
    page: str | None


@dataclass(frozen=True, slots=True)
class Keeper:
    """One target in one run: the worst verdict, the number of cases, and the first few cases."""

    column: Column
    cases: int
    rows: tuple[Row, ...]

    @property
    def verdict(self) -> str:
        return self.rows[0].verdict


def keepers(
    findings: Iterable[Mapping[str, Any]],
    columns: Sequence[Column],
    pages: Mapping[tuple[str, str, str], str],
) -> dict[str, list[Keeper]]:
    """Return compliance by requirement, in the order of ``columns``. A case counts once, by its
    worst finding on the requirement."""
    worst: dict[tuple[str, str], dict[str, dict[str, Mapping[str, Any]]]] = {
        (column.run, column.target): {} for column in columns
    }
    for finding in findings:
        of_column = worst.get((finding["run"], finding["target"]))
        if of_column is not None:
            of_cases = of_column.setdefault(finding["requirement"], {})
            before = of_cases.setdefault(finding["case"], finding)
            if _RANK[finding["verdict"]] < _RANK[before["verdict"]]:
                of_cases[finding["case"]] = finding
    known: dict[str, list[Keeper]] = {}
    for column in columns:
        for requirement, of_cases in sorted(worst[column.run, column.target].items()):
            ranked = sorted(
                of_cases.values(), key=lambda finding: (_RANK[finding["verdict"]], finding["case"])
            )
            rows = tuple(
                Row(
                    finding["case"],
                    finding["verdict"],
                    _cut(finding["detail"] or "", finding["verdict"]),
                    finding["seen"].replace("_", " ").lower(),
                    pages.get((column.run, column.target, finding["case"])),
                )
                for place, finding in enumerate(ranked[:ROWS])
                if place < KEPT_ROWS or finding["verdict"] not in _UNREMARKABLE
            )
            known.setdefault(requirement, []).append(Keeper(column, len(ranked), rows))
    return known


def _cut(detail: str, verdict: str) -> str:
    longest = LONGEST_UNREMARKABLE if verdict in _UNREMARKABLE else LONGEST_DETAIL
    return detail if len(detail) <= longest else detail[: longest - 1] + "…"
