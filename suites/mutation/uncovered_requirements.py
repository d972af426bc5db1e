"""Requirements that cases cite and no mutant violates, so that nothing shows that a case would
detect a violation. MAY requirements are left out, because no reaction to one is a kill."""

from collections import Counter
from dataclasses import dataclass

from brokerproof.harness.cases.calls import all_calls
from brokerproof.harness.catalogue.requirements import Catalogue
from brokerproof.harness.model.verdicts import Level
from brokerproof.suites.mutation import all_mutants
from brokerproof.suites.mutation.judging import NOTED


@dataclass(frozen=True)
class Unbroken:
    """A requirement, and the cases that cite it, without their versions and arguments."""

    requirement: str
    level: Level
    statement: str
    cases: tuple[str, ...]


def unbroken(catalogue: Catalogue) -> list[Unbroken]:
    cases: dict[str, dict[str, None]] = {}
    for call in all_calls():
        for requirement in call.cited:
            cases.setdefault(requirement, {})[call.case.name] = None
    broken = {
        requirement for mutant in all_mutants.MUTANTS.values() for requirement in mutant.breaks
    }
    uncovered = []
    for name in sorted(cases.keys() - broken):
        requirement = catalogue.find(name)
        if requirement.level not in NOTED:
            uncovered.append(
                Unbroken(name, requirement.level, requirement.statement, tuple(cases[name]))
            )
    return uncovered


def summary(uncovered: list[Unbroken]) -> str:
    levels = Counter(requirement.level.value for requirement in uncovered)
    counts = ", ".join(f"{count} {level}" for level, count in sorted(levels.items()))
    return (
        f"cases cite {len(uncovered)} requirements that no mutant breaks ({counts}):"
        " --unbroken names them"
    )
