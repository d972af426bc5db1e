"""What a result means for an application: the impact of the requirements that it breaks."""

from __future__ import annotations

from functools import cache

from brokerproof.harness.catalogue import requirements
from brokerproof.harness.model.finding import JudgedFinding
from brokerproof.harness.model.verdicts import Impact, Seen, Verdict
from brokerproof.harness.results.records import Result

_BROKEN = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.KNOWN, Verdict.WARN)
_WORST_FIRST = (*Impact, None)


@cache
def _catalogue() -> requirements.Catalogue:
    return requirements.load()


def of_requirement(requirement: str) -> Impact | None:
    """Return the impact that the catalogue names; None where it names none."""
    known = _catalogue().get(requirement)
    return known.impact if known is not None else None


def severity(impact: Impact | str | None) -> int:
    """Return a number to sort by, worst first."""
    return _WORST_FIRST.index(Impact(impact) if impact else None)


def worst_finding(result: Result) -> JudgedFinding | None:
    """Return the finding with the result's verdict and, of several, the worst impact. An ERROR has
    none: it is not a requirement's fault."""
    if result.verdict is Verdict.ERROR:
        return None
    return min(
        (finding for finding in result.findings if finding.verdict is result.verdict),
        key=lambda finding: severity(of_requirement(finding.requirement)),
        default=None,
    )


def of_result(result: Result) -> Impact | None:
    """Return the worst impact of what the result shows broken, or leaves undecided; None if it is
    nothing."""
    finding = worst_finding(result)
    if finding is None or finding.verdict not in _BROKEN or finding.seen is Seen.UNMET:
        return None
    return of_requirement(finding.requirement)
