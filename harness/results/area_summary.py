"""The state of each mission area on each target: kept, broken, or why it was not judged.

A known deviation is still a violation, so its area does not count as kept. An area whose core
requirements were not judged does not count as kept either, because nothing is claimed without
evidence."""

import enum
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from brokerproof.harness.catalogue.areas import Area, area_of, core_of, rule_of, silence_of
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.results.records import Result
from brokerproof.harness.results.verdict import WORST_FIRST


class State(enum.Enum):
    BROKEN = "broken"
    UNDECIDED = "undecided"
    """No requirement is broken, but some could not be decided."""
    DEVIATES = "deviates"
    """Every violation is a known deviation or concerns a recommendation."""
    KEPT = "kept"
    PARTLY = "partly judged"
    """Every judged requirement is kept, but part of the area's core was not judged."""
    NOT_JUDGED = "not judged"


@dataclass
class AreaState:
    """One area on one target, according to the worst verdicts on its requirements."""

    target: str
    area: Area
    worst: dict[str, Verdict] = field(default_factory=dict)
    """The worst verdict of each requirement over all cases that judged it; SKIP if none did."""
    without_premise: set[str] = field(default_factory=set)
    """The requirements whose premise did not hold in some case."""
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of skipped requirements, by who states the rule (:func:`rule_of`) and the
    reason."""
    cases: set[str] = field(default_factory=set)
    """The cases that tested the target."""
    skipped: set[str] = field(default_factory=set)
    rules: set[str] = field(default_factory=set)
    """The protocols and vendors by whose rules the target was judged, whatever the area."""

    def requirements(self, *verdicts: Verdict) -> list[str]:
        """Return the requirements whose worst verdict is one of ``verdicts``."""
        return [name for name, verdict in self.worst.items() if verdict in verdicts]

    @property
    def judged(self) -> list[str]:
        """Return the requirements that a case judged or left open, omitting those that never
        applied."""
        return [name for name, verdict in self.worst.items() if verdict is not Verdict.SKIP]

    @property
    def state(self) -> State:
        if self.requirements(Verdict.FAIL):
            return State.BROKEN
        if self.requirements(Verdict.ERROR, Verdict.INCONCLUSIVE):
            return State.UNDECIDED
        if self.requirements(Verdict.KNOWN, Verdict.WARN):
            return State.DEVIATES
        if not self.requirements(Verdict.PASS):
            return State.NOT_JUDGED
        return State.PARTLY if self.missing else State.KEPT

    @property
    def missing(self) -> list[str]:
        """Describe the core requirements that were not judged."""
        kept = self.requirements(Verdict.PASS)
        return list(
            dict.fromkeys(
                core.words
                for core in core_of(self.area, self.rules)
                if not any(map(core.has, kept))
            )
        )

    @property
    def why(self) -> str:
        """Return the reason for the state, in a few words."""
        judged = len(self.judged)
        if self.state is State.NOT_JUDGED:
            return self._why_not
        if self.state is State.PARTLY:
            core = core_of(self.area, self.rules)
            kept = len(core) - sum(core_part.words in self.missing for core_part in core)
            parts = [f"{kept} of {len(core)} parts; not judged: {', '.join(self.missing)}"]
        elif self.state is State.BROKEN:
            parts = [f"{len(self.requirements(Verdict.FAIL))} of {judged} requirements"]
        else:
            parts = [f"{judged} requirement" + ("s" if judged > 1 else "")]
        counts = {
            "undecided": len(self.requirements(Verdict.ERROR, Verdict.INCONCLUSIVE)),
            "with a known deviation": len(self.requirements(Verdict.KNOWN)),
            "recommended but not followed": len(self.requirements(Verdict.WARN)),
            "did not apply": len(self.without_premise - {*self.judged}),
        }
        return ", ".join(parts + [f"{count} {words}" for words, count in counts.items() if count])

    @property
    def _why_not(self) -> str:
        """Return why nothing was judged, in words for a target on which other areas were judged."""
        asked = Counter[str]()
        for (rule, reason), count in self.reasons.items():
            if rule in self.rules or not self.rules:
                asked[reason] += count
        if asked:
            return asked.most_common(1)[0][0]
        return silence_of(self.area, self.rules) or "the cases asked nothing of this target"


def summarise(results: Iterable[Result]) -> Mapping[str, list[AreaState]]:
    """Return the states by target and area, omitting areas for which the run has no case."""
    states: dict[tuple[str, Area], AreaState] = {}
    rules: dict[str, set[str]] = {}
    for result in results:
        judged_by = rules.setdefault(result.target, set())
        for finding in result.findings:
            area = area_of(finding.requirement)
            state = states.setdefault(
                (result.target, area), AreaState(result.target, area, rules=judged_by)
            )
            rule = rule_of(finding.requirement)
            if finding.seen is Seen.NOT_APPLICABLE:
                state.without_premise.add(finding.requirement)
            else:
                former = state.worst.get(finding.requirement)
                state.worst[finding.requirement] = _worse(former, finding.verdict)
            if finding.verdict is Verdict.SKIP:
                state.reasons[rule, finding.detail] += 1
                state.skipped.add(result.case)
            else:
                judged_by.add(rule)
                state.cases.add(result.case)
    return {
        target: [states[target, area] for area in Area if (target, area) in states]
        for target in rules
    }


def _worse(former: Verdict | None, verdict: Verdict) -> Verdict:
    """Return the worse of two verdicts, where any other verdict outweighs SKIP."""
    known = [candidate for candidate in (former, verdict) if candidate not in (None, Verdict.SKIP)]
    return min(known, key=WORST_FIRST.index, default=Verdict.SKIP)
