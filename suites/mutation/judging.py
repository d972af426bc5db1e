"""How mutants are judged: kills by single cases, and the fate of a mutant.

The rule: a mutant is killed by a case in which

1. its mutated code was reached, and
2. the verdict is not ERROR, and
3. a finding is certainly VIOLATED, for a requirement that the mutant declares as violated, and that
   requirement is a MUST, a statement of the vendor's document (DOC), or a SHOULD.

Only a SHOULD causes a WARN, so a WARN kills only mutants that violate that SHOULD. A MAY or a
READING kills nothing. Nor does a failed control, but a control that fails on a mutant and on no
correct broker has noticed the mutant.
"""

import enum
from dataclasses import dataclass

from brokerproof.harness.catalogue.requirements import Catalogue
from brokerproof.harness.model.finding import JudgedFinding
from brokerproof.harness.model.verdicts import Level, Verdict
from brokerproof.harness.results.records import Result
from brokerproof.suites.mutation.mutant import Fault

NOTED = (Level.MAY, Level.READING)
"""Levels whose violation is a NOTE and kills nothing."""


class Status(enum.StrEnum):
    """The status of a mutant after all its cases."""

    KILLED = "killed"
    WRONG_REASON = "killed for the wrong reason"
    """A case that reached its code failed, but only by requirements that it does not declare."""
    NOTICED = "noticed"
    """No case failed, but at least one control failed that holds without the mutant: the gate of
    ``brokerproof run --baseline`` fails."""
    ERROR = "error"
    """No case and no control failed, and at least one case ended in an error of ours."""
    SURVIVED = "survived"
    NOT_REACHED = "not reached"


@dataclass(frozen=True)
class Kill:
    """One case that killed a mutant by one requirement. ``detail`` is the finding's sentence."""

    case: str
    requirement: str
    level: str
    detail: str


def violated(result: Result) -> list[JudgedFinding]:
    """Return the findings that are violations. If a SHOULD stopped the case, unreached findings
    make the case inconclusive, but the violation remains."""
    if result.verdict is Verdict.ERROR:
        return []
    return [
        finding for finding in result.findings if finding.verdict in (Verdict.FAIL, Verdict.WARN)
    ]


def kills(mutant: Fault, result: Result, reached: int, catalogue: Catalogue) -> list[Kill]:
    """Return the requirements by which this result kills the mutant; empty if there are none."""
    if not reached:
        return []
    killed = []
    for finding in violated(result):
        level = catalogue.find(finding.requirement).level
        if finding.requirement in mutant.breaks and level not in NOTED:
            killed.append(Kill(result.case, finding.requirement, level.value, finding.detail[:300]))
    return killed


def beside_the_point(
    mutant: Fault, result: Result, reached: int, catalogue: Catalogue
) -> list[Kill]:
    """Return the result's violations of requirements that the mutant does not break."""
    if not reached:
        return []
    return [
        Kill(result.case, finding.requirement, level.value, finding.detail[:300])
        for finding in violated(result)
        if (level := catalogue.find(finding.requirement).level) not in NOTED
        and finding.requirement not in mutant.breaks
    ]
