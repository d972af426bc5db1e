"""What a result says of each requirement that it cites: a finding has a verdict of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.verdicts import Level, Seen, Verdict
from brokerproof.harness.results.records import Result
from brokerproof.harness.results.verdict import WORST_FIRST, verdict_for

LevelOf = Callable[[str], Level | None]
"""The level of a requirement; None for one that the catalogue does not know."""


def judged(result: Result, level_of: LevelOf) -> Iterator[tuple[Finding, Verdict]]:
    """Each finding of ``result`` with its own verdict, cited requirements without a finding
    included.

    A case that ended in ERROR or SKIP says nothing about the broker, so all its findings carry that
    verdict. In a KNOWN result the violations are known. A finding is never worse than its case's
    verdict, which has seen more (repetition, known deviations). A requirement that the catalogue
    does not know is judged as a MUST within that bound.
    """
    spoken = {finding.requirement for finding in result.findings}
    silent = [
        Finding(each, Seen.NEVER_REACHED) for each in result.requirements if each not in spoken
    ]
    for finding in (*result.findings, *silent):
        yield (
            finding,
            _verdict(result.verdict, finding, level_of(finding.requirement) or Level.MUST),
        )


def _verdict(whole: Verdict, finding: Finding, level: Level) -> Verdict:
    if whole in (Verdict.ERROR, Verdict.SKIP):
        return whole
    own = verdict_for(level, finding)
    if own in (Verdict.FAIL, Verdict.WARN) and whole is Verdict.KNOWN:
        return Verdict.KNOWN
    if own is Verdict.FAIL:
        return max(own, whole, key=WORST_FIRST.index)
    return own
