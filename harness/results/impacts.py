"""The impact on applications of the requirements that a result violates."""

import re
from functools import cache

from brokerproof.harness.catalogue import requirements
from brokerproof.harness.model.finding import JudgedFinding
from brokerproof.harness.model.verdicts import Impact, Seen, Verdict
from brokerproof.harness.results.records import Result

_BROKEN = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.KNOWN, Verdict.WARN)
_VERSION = re.compile(r"^STOMP1[012]$")
_WORST_FIRST = (*Impact, None)


@cache
def _catalogue() -> requirements.Catalogue:
    return requirements.load()


def of_requirement(requirement: str) -> Impact | None:
    known = _catalogue().get(requirement)
    return known.impact if known is not None else None


def rule_of(requirement: str) -> str:
    """Return a key that is the same for a rule in all versions of a protocol: the protocol and the
    title or, if the catalogue lacks the id, the rest of the id."""
    document, _, rest = requirement.partition("-")
    known = _catalogue().get(requirement)
    return f"{_VERSION.sub('STOMP', document)} {rest if known is None else known.heading}"


def severity(impact: Impact | str | None) -> int:
    """Return a sort key that puts the worst impact first."""
    return _WORST_FIRST.index(Impact(impact) if impact else None)


def worst_finding(result: Result) -> JudgedFinding | None:
    """Return the finding that has the result's verdict; of several, the one with the worst impact.
    For an ERROR, which does not come from a requirement, return None."""
    if result.verdict is Verdict.ERROR:
        return None
    return min(
        (finding for finding in result.findings if finding.verdict is result.verdict),
        key=lambda finding: severity(of_requirement(finding.requirement)),
        default=None,
    )


def of_result(result: Result) -> Impact | None:
    """Return the worst impact of the requirements that the result shows violated or leaves
    undecided; None if there is none."""
    finding = worst_finding(result)
    if finding is None or finding.verdict not in _BROKEN or finding.seen is Seen.UNMET:
        return None
    return of_requirement(finding.requirement)
