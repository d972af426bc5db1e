"""Groups the cases that did not pass by cause, so that each fault is listed once.

Cases share a cause if they are versions or variants of one case, failed the same requirement, or
made the same observation. An unmet precondition is itself the cause."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

from brokerproof.harness.catalogue.areas import Area, area_of
from brokerproof.harness.model.finding import JudgedFinding
from brokerproof.harness.model.verdicts import Impact, Seen, Verdict
from brokerproof.harness.results import impacts
from brokerproof.harness.results.records import Result

_Rank = tuple[bool, int, int, int]
_VARYING = re.compile(r"'[^']*'|\"[^\"]*\"|\d+(?:\.\d+)?")


@dataclass
class Cause:
    """Cases of one target that have the same verdict, presumably for the same reason."""

    target: str
    verdict: Verdict
    finding: JudgedFinding | None
    """The finding with the worst impact; None for an ERROR, which does not come from a
    requirement."""
    requirements: list[str] = field(default_factory=list)
    """The requirements of the cases' findings."""
    observed: list[str] = field(default_factory=list)
    """The distinct observations, in order of recording."""
    cases: list[str] = field(default_factory=list)
    cited: list[frozenset[str]] = field(default_factory=list)
    """The rules that each case cites, whatever the version."""

    @property
    def is_unmet(self) -> bool:
        """True if the cases stopped before judging anything, so no requirement is the cause."""
        return self.finding is not None and self.finding.seen is Seen.UNMET

    @property
    def versions(self) -> list[str]:
        """The finding's requirement, and the same rule of other versions in which cases found it
        violated."""
        first = impacts.rule_of(self.requirements[0])
        return sorted(each for each in self.requirements if impacts.rule_of(each) == first)

    @property
    def area(self) -> Area:
        return Area.PROTOCOL if self.finding is None else area_of(self.finding.requirement)

    @property
    def impact(self) -> Impact | None:
        """The impact of the violation; None if there is none or it is unknown."""
        if self.finding is None or self.is_unmet:
            return None
        return impacts.of_requirement(self.finding.requirement)

    def explains(self, other: Self) -> bool:
        """True if ``other`` presumably follows from this cause: each case of ``other`` cites more
        requirements than some case here, and shares some of these."""
        return (
            self.target == other.target
            and not self.is_unmet
            and min(map(len, self.cited)) < min(map(len, other.cited))
            and not frozenset().union(*self.cited).isdisjoint(frozenset().union(*other.cited))
        )

    @property
    def names(self) -> dict[str, list[str]]:
        """The variants of each case (the part of its id in brackets), by case name."""
        names: dict[str, list[str]] = {}
        for case in self.cases:
            name, _, variant = case.partition("[")
            names.setdefault(name, []).append(variant.removesuffix("]"))
        return names


def group(results: Iterable[Result], verdict: Verdict) -> list[Cause]:
    """Return the causes of ``verdict``: worst impact first, then by area and number of cases. A
    cause that explains another precedes it."""
    causes: list[Cause] = []
    by_key: dict[tuple[str, ...], Cause] = {}
    matching = [result for result in results if result.verdict is verdict]
    for result in sorted(
        matching,
        key=lambda each: (impacts.severity(impacts.of_result(each)), len(each.requirements)),
    ):
        finding = impacts.worst_finding(result)
        keys = _keys(result, finding)
        cause = next((by_key[key] for key in keys if key in by_key), None)
        if cause is None:
            cause = Cause(result.target, verdict, finding)
            causes.append(cause)
        observed = result.detail if finding is None else _observed(finding)
        if keys[-1] not in by_key:
            cause.observed.append(observed)
        cause.cases.append(result.case)
        if finding is not None and finding.requirement not in cause.requirements:
            cause.requirements.append(finding.requirement)
        cause.cited.append(frozenset(map(impacts.rule_of, result.requirements)))
        for key in keys:
            by_key.setdefault(key, cause)
    ranks = {id(cause): _rank(cause) for cause in causes}

    def place(cause: Cause) -> tuple[_Rank, int]:
        own = ranks[id(cause)]
        explained = [ranks[id(other)] for other in causes if cause.explains(other)]
        return min([own, *explained]), min(map(len, cause.cited))

    return sorted(causes, key=place)


def _rank(cause: Cause) -> _Rank:
    areas = list(Area)
    return (
        not cause.is_unmet,
        impacts.severity(cause.impact),
        areas.index(cause.area),
        -len(cause.cases),
    )


def _keys(result: Result, finding: JudgedFinding | None) -> Sequence[tuple[str, ...]]:
    """The keys that assign a result to a cause: its case, requirement and observation."""
    observed = ("observed", _VARYING.sub("N", result.detail if finding is None else finding.detail))
    keys = [("case", result.case.partition("[")[0]), observed]
    if finding is not None and finding.seen is Seen.UNMET:
        keys = [observed]
    elif finding is not None:
        keys.insert(1, ("requirement", impacts.rule_of(finding.requirement)))
    return [(result.target, *key) for key in keys]


def _observed(finding: JudgedFinding) -> str:
    return f"{finding.detail} ({finding.uncertain})" if finding.uncertain else finding.detail
