"""The conclusion of a judgement: a verdict for each kind of anomaly, the first witness of each, and
how many groups were judged."""

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
"""Up to so many anomalies are listed one by one. All are counted."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """One kind of anomaly: how many there are, and the first. ``requirement`` is empty where no
    document of the profile has one; then the verdict is WARN."""

    kind: str
    requirement: str
    verdict: Verdict
    count: int
    first: Mapping[str, Any]


@dataclass(frozen=True)
class Conclusion:
    """All kinds of anomalies, and the first of them one by one. ``groups`` is
    :attr:`brokerproof.reports.judging.judge.Judgement.groups`."""

    wrong: Sequence[Wrong]
    listed: Sequence[Mapping[str, Any]]
    groups: Mapping[str, tuple[int, int]]

    @property
    def verdict(self) -> Verdict:
        """The worst; INCONCLUSIVE when there was nothing to judge."""
        if self.wrong:
            return merge(wrong.verdict for wrong in self.wrong)
        judged = any(number for number, _ in self.groups.values())
        return Verdict.PASS if judged else Verdict.INCONCLUSIVE


def conclude(
    judgement: Judgement, level_of: Callable[[str], Level | None], listed: int = LISTED
) -> Conclusion:
    """Give the anomalies their verdicts. A bounded part of them leaves Spark."""
    identity = F.struct(
        "run", "target", "case", "example", "witness", "conn", "queue", "subscription", "what"
    )
    counted = judgement.anomalies.groupBy("kind", "requirement", "uncertain").agg(
        F.count("*").alias("count"), F.min(identity).alias("first")
    )
    wrong = []
    # As many rows as there are kinds, twice.
    for row in counted.orderBy("kind", "uncertain").collect():
        uncertain = "the recording leaves it open" if row.uncertain else None
        finding = Finding(row.requirement, Seen.VIOLATED, uncertain=uncertain)
        level = level_of(row.requirement) if row.requirement else Level.SHOULD
        verdict = verdict_for(level or Level.SHOULD, finding)
        first = row["first"].asDict(recursive=True)
        wrong.append(Wrong(row.kind, row.requirement, verdict, row["count"], first))
    if not wrong:
        return Conclusion((), (), judgement.groups)
    ordered = judgement.anomalies.orderBy("kind", "run", "target", "case", "example", "witness")
    rows = [row.asDict(recursive=True) for row in ordered.limit(listed).collect()]
    return Conclusion(wrong, rows, judgement.groups)


def witness(first: Mapping[str, Any]) -> str:
    """Return the places of the recording that show an anomaly, in words."""
    return ", ".join(
        f"{place['at_ns'] / 10**6:.3f} ms"
        + ("" if place["seq"] is None else f" (event {place['seq']})")
        for place in first["witness"]
    )
