"""Findings: what was seen of each requirement that a case cites, with the evidence."""

from __future__ import annotations

from dataclasses import dataclass

from brokerproof.harness.model.verdicts import Seen


@dataclass(frozen=True, slots=True)
class Finding:
    """One requirement, what was seen of it, and the evidence in one sentence.

    ``uncertain`` is a reason why a violation must not be held against the broker (the canary was
    late, the measurement lay in the margin); it turns the verdict into INCONCLUSIVE, whatever the
    level.
    """

    requirement: str
    seen: Seen
    detail: str = ""
    uncertain: str | None = None


def combine(findings: list[Finding]) -> list[Finding]:
    """One finding per requirement, in order of first mention.

    A violation outweighs everything, an uncertain one everything but a certain one, and HELD
    outweighs NEVER_REACHED: a requirement that held in one example and was not reached in another
    held.
    """
    rank = {Seen.VIOLATED: 0, Seen.HELD: 2, Seen.NEVER_REACHED: 3}

    def weight(finding: Finding) -> int:
        return 1 if finding.uncertain is not None else rank[finding.seen]

    best: dict[str, Finding] = {}
    for finding in findings:
        if finding.requirement not in best or weight(finding) < weight(best[finding.requirement]):
            best[finding.requirement] = finding
    return list(best.values())
