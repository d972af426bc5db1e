"""The conclusion of a judgement: for each kind of anomaly a verdict and a first witness, and the
number of groups judged."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokerproof.harness.model.finding import Finding, JudgedFinding
from brokerproof.harness.model.verdicts import Level, Seen, Verdict
from brokerproof.harness.results.verdict import merge, verdict_for
from brokerproof.reports.judging.executors import Row, comparable
from brokerproof.reports.judging.judge import Judgement
from brokerproof.reports.judging.small_recordings import SmallJudgement
from brokerproof.reports.spark.on_demand import F

LISTED = 1_000
"""The maximum number of anomalies that are listed individually. All anomalies are counted."""
_IDENTITY = ("run", "target", "case", "example", "witness", "conn", "queue", "subscription", "what")
_ORDER = ("kind", "run", "target", "case", "example", "witness")


@dataclass(frozen=True, slots=True)
class Wrong:
    """One kind of anomaly: the number of anomalies, and the first of them. ``requirement`` is empty
    if no document of the profile states one; the verdict is then WARN."""

    kind: str
    requirement: str
    verdict: Verdict
    count: int
    first: Mapping[str, Any]


@dataclass(frozen=True)
class Conclusion:
    """All kinds of anomalies, and the first individual ones. ``groups`` is
    :attr:`brokerproof.reports.judging.judge.Judgement.groups`."""

    wrong: Sequence[Wrong]
    listed: Sequence[Mapping[str, Any]]
    groups: Mapping[str, tuple[int, int]]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict; INCONCLUSIVE if nothing could be judged."""
        if self.wrong:
            return merge(wrong.verdict for wrong in self.wrong)
        judged = any(number for number, _ in self.groups.values())
        return Verdict.PASS if judged else Verdict.INCONCLUSIVE

    @property
    def findings(self) -> tuple[JudgedFinding, ...]:
        """The findings for results, where a document states a requirement."""
        return tuple(
            JudgedFinding(
                wrong.requirement,
                Seen.VIOLATED,
                f"{wrong.kind}: {wrong.first['what']}",
                verdict=wrong.verdict,
            )
            for wrong in self.wrong
            if wrong.requirement
        )

    @property
    def detail(self) -> str:
        """All violations, in words."""
        return "; ".join(
            f"{wrong.kind} ×{wrong.count}: {wrong.first['what']}" for wrong in self.wrong
        )


def conclude(
    judgement: Judgement, level_of: Callable[[str], Level | None], listed: int = LISTED
) -> Conclusion:
    """Decide the verdicts of anomalies. Only a limited number of anomalies leaves Spark."""
    identity = F.struct(*_IDENTITY)
    counted = judgement.anomalies.groupBy("kind", "requirement", "uncertain").agg(
        F.count("*").alias("count"), F.min(identity).alias("first")
    )
    # There are at most two rows per kind.
    wrong = [
        _wrong(
            (row.kind, row.requirement, row.uncertain),
            row["count"],
            row["first"].asDict(recursive=True),
            level_of,
        )
        for row in counted.orderBy("kind", "uncertain", "requirement").collect()
    ]
    if not wrong:
        return Conclusion((), (), judgement.groups)
    ordered = judgement.anomalies.orderBy(*_ORDER)
    rows = [row.asDict(recursive=True) for row in ordered.limit(listed).collect()]
    return Conclusion(wrong, rows, judgement.groups)


def conclude_small(
    judgement: SmallJudgement, level_of: Callable[[str], Level | None], listed: int = LISTED
) -> Conclusion:
    """Decide the verdicts of a small recording's anomalies."""
    of_class: dict[tuple[str, str, bool], list[Row]] = defaultdict(list)
    for row in judgement.anomalies:
        of_class[row["kind"], row["requirement"], bool(row["uncertain"])].append(row)
    wrong = []
    for sort in sorted(of_class, key=lambda sort: (sort[0], sort[2], sort[1])):
        rows = of_class[sort]
        first = min(rows, key=lambda row: [comparable(row[name]) for name in _IDENTITY])
        identity = {name: first[name] for name in _IDENTITY}
        wrong.append(_wrong(sort, len(rows), identity, level_of))
    ordered = sorted(
        judgement.anomalies, key=lambda row: [comparable(row[name]) for name in _ORDER]
    )
    return Conclusion(wrong, ordered[:listed], judgement.groups)


def _wrong(
    sort: tuple[str, str, bool],
    count: int,
    first: Mapping[str, Any],
    level_of: Callable[[str], Level | None],
) -> Wrong:
    """Return the anomalies of one kind, requirement and certainty, with their verdict."""
    kind, requirement, uncertain = sort
    doubt = "the recording does not decide it" if uncertain else None
    finding = Finding(requirement, Seen.VIOLATED, uncertain=doubt)
    level = level_of(requirement) if requirement else Level.SHOULD
    return Wrong(kind, requirement, verdict_for(level or Level.SHOULD, finding), count, first)


def witness(first: Mapping[str, Any]) -> str:
    """Return the places of the recording that show an anomaly, in words."""
    return ", ".join(
        f"{place['at_ns'] / 10**6:.3f} ms"
        + ("" if place["seq"] is None else f" (event {place['seq']})")
        for place in first["witness"]
    )
