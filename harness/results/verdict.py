"""Decides the verdict of a finding and of requirements that were never judged, and merges
verdicts."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from brokerproof.harness.model.finding import Finding, JudgedFinding, ListedDeviation
from brokerproof.harness.model.verdicts import Level, Seen, Verdict

WORST_FIRST: tuple[Verdict, ...] = tuple(Verdict)
"""Merge order: the definition order of :class:`~brokerproof.harness.model.verdicts.Verdict`."""
LISTED: tuple[Verdict, ...] = (
    Verdict.FAIL,
    Verdict.ERROR,
    Verdict.INCONCLUSIVE,
    Verdict.KNOWN,
    Verdict.WARN,
    Verdict.NOTE,
    Verdict.PASS,
    Verdict.SKIP,
)
"""The order in which people read verdicts: violations before our own errors, and missing
capabilities last."""

NEVER_JUDGED = "the case never checked this requirement"
_ON_THE_BROKER = frozenset({Verdict.FAIL, Verdict.KNOWN, Verdict.WARN, Verdict.NOTE, Verdict.PASS})
_QUIET = frozenset({Verdict.SKIP, Verdict.NOTE, Verdict.PASS})
_ENDS = {
    Verdict.KNOWN: "the case ended early, at a known deviation",
    Verdict.WARN: "the case ended early, at a recommendation that was not followed",
}
_VIOLATED = {
    Level.MUST: Verdict.FAIL,
    Level.DOC: Verdict.FAIL,
    Level.SHOULD: Verdict.WARN,
    Level.MAY: Verdict.NOTE,
    Level.READING: Verdict.NOTE,
}


def verdict_for(level: Level, finding: Finding) -> Verdict:
    """Return the verdict on a finding about a requirement of ``level``, before known deviations are
    applied.

    A requirement whose situation never arose is INCONCLUSIVE, never PASS. So is an uncertain
    violation at a level that counts against a broker. A requirement that does not apply to this
    broker is a NOTE."""
    if finding.seen is Seen.VIOLATED and _VIOLATED[level] is Verdict.NOTE:
        return Verdict.NOTE
    if finding.uncertain is not None or finding.seen in (Seen.NEVER_REACHED, Seen.UNMET):
        return Verdict.INCONCLUSIVE
    if finding.seen is Seen.HELD:
        return Verdict.PASS
    if finding.seen is Seen.NOT_APPLICABLE:
        return Verdict.NOTE
    return _VIOLATED[level]


def with_verdict(
    finding: Finding, verdict: Verdict, deviation: ListedDeviation | None = None
) -> JudgedFinding:
    return JudgedFinding(
        finding.requirement,
        finding.seen,
        finding.detail,
        finding.uncertain,
        verdict=verdict,
        deviation=deviation,
    )


def behind_violation(judged: Sequence[JudgedFinding]) -> tuple[JudgedFinding, ...]:
    """Return ``judged``, with unreached requirements as SKIP if a known deviation or an unmet
    recommendation may have ended the case early. The case then gets the verdict of that
    violation."""
    violated = {finding.verdict for finding in judged if finding.seen is Seen.VIOLATED}
    ended = next((words for verdict, words in _ENDS.items() if verdict in violated), None)
    return tuple(
        replace(finding, verdict=Verdict.SKIP, detail=ended)
        if ended and finding.detail == NEVER_JUDGED
        else finding
        for finding in judged
    )


def never_reached(cited: Iterable[str], verdict: Verdict, detail: str) -> tuple[JudgedFinding, ...]:
    """Return findings for a case that ended before judging anything: a SKIP or ERROR for each cited
    requirement."""
    return tuple(
        JudgedFinding(requirement, Seen.NEVER_REACHED, detail, verdict=verdict)
        for requirement in cited
    )


def merge(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of ``verdicts``; INCONCLUSIVE if there are none, because nothing was
    checked."""
    return min(verdicts, key=WORST_FIRST.index, default=Verdict.INCONCLUSIVE)


def is_unmet(findings: Iterable[Finding]) -> bool:
    """Return True if a precondition of the case was not met. A noisy host alone never has this
    result."""
    return any(finding.seen is Seen.UNMET for finding in findings)


def is_met(findings: Iterable[JudgedFinding]) -> bool:
    """True if the case reached a verdict on the broker, so its preconditions were met."""
    found = list(findings)
    return not is_unmet(found) and any(
        finding.seen is not Seen.NEVER_REACHED and finding.verdict in _ON_THE_BROKER
        for finding in found
    )


def is_race(findings: Iterable[JudgedFinding]) -> bool:
    """True if every verdict worse than NOTE or SKIP is a known deviation that need not occur."""
    worse = [finding for finding in findings if finding.verdict not in _QUIET]
    return bool(worse) and all(
        finding.deviation is not None and finding.deviation.sometimes for finding in worse
    )


def exit_code(verdicts: Iterable[Verdict], *, known_that_passed: bool = False) -> int:
    """Return the command's exit code: 0 for no violation, 1 for a violation (or a known deviation
    that did not occur), 2 for inconclusive, 5 for our error. A violation takes precedence over our
    errors."""
    seen = set(verdicts)
    if Verdict.FAIL in seen or known_that_passed:
        return 1
    if Verdict.ERROR in seen:
        return 5
    if Verdict.INCONCLUSIVE in seen or not seen:
        return 2
    return 0
