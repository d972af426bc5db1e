"""Compliance with a requirement: for each of its pages, the worst verdict by target and run, and
the cases behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from brokerproof.reports.index_model import VERDICTS, Column
from brokerproof.reports.tables.verdicts import rank

ROWS = 12
"""Cases of a requirement on a target that its page lists, the worst first."""


@dataclass(frozen=True, slots=True)
class Row:
    """A finding on the requirement; ``page`` is its case's, from the report's folder."""

    case: str
    verdict: str
    detail: str
    seen: str
    page: str | None


@dataclass(frozen=True, slots=True)
class Keeper:
    """One target in one run: the worst verdict, over how many cases, and the first of them."""

    column: Column
    cases: int
    rows: tuple[Row, ...]

    @property
    def verdict(self) -> str:
        """The worst."""
        return self.rows[0].verdict


def keepers(
    findings: DataFrame, columns: Sequence[Column], pages: Mapping[tuple[str, str, str], str]
) -> dict[str, list[Keeper]]:
    """By requirement, in the order of ``columns``. A case counts once, by its worst finding on the
    requirement."""
    cell = ("requirement", "run", "target")
    worst = F.min(F.struct("rank", "number", "detail", "seen"))
    ranked = Window.partitionBy(*cell).orderBy("rank", "case")
    rows = (
        findings.withColumns(
            {"rank": rank(F.col("verdict")), "detail": F.substring("detail", 1, 400)}
        )
        .groupBy(*cell, "case")
        .agg(worst.alias("worst"))
        .select(*cell, "case", "worst.*")
        .withColumns(
            {
                "place": F.row_number().over(ranked),
                "cases": F.count("*").over(Window.partitionBy(*cell)),
            }
        )
        .where(F.col("place") <= ROWS)
        .orderBy("requirement", "run", "target", "place")
    )
    pages_of: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for batch in rows.toArrow().to_batches():
        for row in batch.to_pylist():
            pages_of.setdefault((row["requirement"], row["run"], row["target"]), []).append(row)
    known: dict[str, list[Keeper]] = {}
    for column in columns:
        for requirement in dict.fromkeys(
            judged
            for judged, run, target in pages_of
            if (run, target) == (column.run, column.target)
        ):
            own = pages_of[requirement, column.run, column.target]
            known.setdefault(requirement, []).append(
                Keeper(
                    column,
                    own[0]["cases"],
                    tuple(
                        Row(
                            row["case"],
                            VERDICTS[row["rank"]],
                            row["detail"] or "",
                            row["seen"].replace("_", " ").lower(),
                            pages.get((column.run, column.target, row["case"])),
                        )
                        for row in own
                    ),
                )
            )
    return known
