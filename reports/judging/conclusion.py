"""What a judgement comes to: a verdict for each kind of irregularity, the first witness of each,
and what was looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F

from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.verdicts import Level, Seen, Verdict
from brokerproof.harness.results.verdict import merge, verdict_for
from brokerproof.reports.judging.judge import Judgement

LISTED = 1_000
"""Irregularities that are told one by one, at most; all are counted."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """One kind of irregularity: how many there are, and the first. ``requirement`` is empty where
    no document of the profile says it; then the verdict is WARN."""

    kind: str
    requirement: str
    verdict: Verdict
    count: int
    first: Mapping[str, Any]


@dataclass(frozen=True)
class Conclusion:
    """The whole of it. ``looked_at``: groups of each kind of summary, and how many were looked at
    again."""

    wrong: Sequence[Wrong]
    listed: Sequence[Mapping[str, Any]]
    looked_at: Mapping[str, tuple[int, int]]

    @property
    def verdict(self) -> Verdict:
        """The worst; INCONCLUSIVE when there was nothing to judge."""
        if self.wrong:
            return merge(each.verdict for each in self.wrong)
        return (
            Verdict.PASS
            if any(groups for groups, _ in self.looked_at.values())
            else Verdict.INCONCLUSIVE
        )


def conclude(
    judgement: Judgement, level_of: Callable[[str], Level | None], listed: int = LISTED
) -> Conclusion:
    """Computes what there is to tell; a bounded part of it leaves Spark."""
    place = F.struct(
        "run", "target", "case", "example", "witness", "conn", "queue", "subscription", "what"
    )
    counted = judgement.found.groupBy("kind", "requirement", "uncertain").agg(
        F.count("*").alias("count"), F.min(place).alias("first")
    )
    wrong = []
    for row in counted.orderBy(
        "kind", "uncertain"
    ).collect():  # as many rows as there are kinds, twice
        finding = Finding(
            row.requirement,
            Seen.VIOLATED,
            uncertain="the recording leaves it open" if row.uncertain else None,
        )
        level = level_of(row.requirement) if row.requirement else Level.SHOULD
        verdict = verdict_for(level or Level.SHOULD, finding)
        wrong.append(
            Wrong(
                row.kind,
                row.requirement,
                verdict,
                row["count"],
                row["first"].asDict(recursive=True),
            )
        )
    some = (
        judgement.found.orderBy("kind", "run", "target", "case", "example", "witness")
        .limit(listed)
        .collect()
        if wrong
        else []
    )
    return Conclusion(wrong, [row.asDict(recursive=True) for row in some], judgement.looked_at)


def witness(first: Mapping[str, Any]) -> str:
    """The places of the recording that show an irregularity, in words."""
    return ", ".join(
        f"{each['at_ns'] / 10**6:.3f} ms"
        + ("" if each["seq"] is None else f" (event {each['seq']})")
        for each in first["witness"]
    )
