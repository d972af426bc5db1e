"""Findings: what was seen of each requirement that a case cites, with the evidence.

An oracle or a case reports a :class:`Finding`. When the case ends, each finding is given its
verdict once, as a :class:`JudgedFinding`, and keeps it in ``results.ndjson``.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokerproof.harness.model.verdicts import Seen, Verdict


@dataclass(frozen=True, slots=True)
class Finding:
    """One requirement, what was seen of it, and the evidence in one sentence.

    ``uncertain`` is a reason why a violation is no evidence against the broker (the canary was
    late, the measurement lay in the margin); it makes the verdict INCONCLUSIVE at every level.
    """

    requirement: str
    seen: Seen
    detail: str = ""
    uncertain: str | None = None


@dataclass(frozen=True, slots=True)
class ListedDeviation:
    """The entry of ``known_deviations.toml`` that explains a violation.

    ``case`` and ``requirement`` identify it as written there; empty where the entry names none.
    """

    case: str
    requirement: str
    reason: str
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedFinding(Finding):
    """A finding with its verdict, and the listed deviation that it matched."""

    verdict: Verdict
    deviation: ListedDeviation | None = None

    @property
    def sentence(self) -> str:
        """The requirement and the evidence, with what makes it uncertain or known."""
        text = f"{self.requirement}: {self.detail}"
        if self.uncertain:
            text += f" ({self.uncertain})"
        return text if self.deviation is None else f"{text} (known: {self.deviation.reason})"


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measured quantity and the interval it should be in; None is no bound.

    ``margin`` is how far outside the interval a value may be without being evidence.
    """

    value: int
    unit: str
    low: int | None = None
    high: int | None = None
    margin: int = 0

    @property
    def distance_to_bound(self) -> int | None:
        """Distance of the value to the nearest bound: negative outside, None without bounds."""
        distances = [] if self.low is None else [self.value - self.low]
        if self.high is not None:
            distances.append(self.high - self.value)
        return min(distances, default=None)


def combine(findings: list[Finding]) -> list[Finding]:
    """One finding per requirement, in order of first mention.

    A violation outweighs everything, an uncertain one everything but a certain one, and HELD
    outweighs NOT_APPLICABLE and NEVER_REACHED, uncertain or not: a requirement that held in one
    example and was not reached in another held.
    """
    rank = {
        Seen.VIOLATED: 0,
        Seen.HELD: 2,
        Seen.NOT_APPLICABLE: 3,
        Seen.NEVER_REACHED: 4,
        Seen.UNMET: 5,
    }

    def weight(finding: Finding) -> int:
        is_uncertain = finding.uncertain is not None and finding.seen is Seen.VIOLATED
        return 1 if is_uncertain else rank[finding.seen]

    best: dict[str, Finding] = {}
    for finding in findings:
        if finding.requirement not in best or weight(finding) < weight(best[finding.requirement]):
            best[finding.requirement] = finding
    return list(best.values())
