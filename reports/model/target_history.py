"""Each target over time, as plain data: verdict counts per run, in order of start, and the changed
cases."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results.verdict import LISTED
from brokerproof.reports.sources.runs import Run

WORDS: Mapping[str, str] = {
    "WORSE": "worse",
    "UNDECIDED": "undecided",
    "BETTER": "better",
    "SAME": "changed and changed back",
}
"""Words for the change of a case from its first to its last run, by course."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One target in one of several runs; the counts have the worst verdict first."""

    run: str
    started: str
    facts: str
    counts: Mapping[str, int]
    cut_off: bool

    @property
    def cases(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Step:
    """The verdict of a case in one run, and the case's page if there is one."""

    run: str
    verdict: str
    page: str | None


@dataclass(frozen=True, slots=True)
class Changed:
    """A case whose verdict was not always the same, with one step per stage (None: not judged)."""

    case: str
    went: str
    steps: tuple[Step | None, ...]


@dataclass(frozen=True)
class Past:
    """One target over time. ``changed`` may hold only the first cases; ``ways`` has the number of
    all, by course."""

    target: str
    stages: tuple[Stage, ...]
    changed: tuple[Changed, ...]
    ways: Mapping[str, int]

    @property
    def changed_total(self) -> int:
        return sum(self.ways.values())

    @property
    def verdicts(self) -> list[str]:
        verdicts = {verdict for stage in self.stages for verdict in stage.counts}
        return sorted(verdicts, key=lambda verdict: LISTED.index(Verdict(verdict)))


def in_order(runs: Sequence[Run]) -> list[Run]:
    """Return the runs in order of start; runs with equal or unknown starts keep the given order."""
    return sorted(runs, key=lambda run: str(run.header.get("started", "")))


def facts_of(run: Run, target: str) -> str:
    header = next((known for known in run.targets if known["name"] == target), {})
    profile = header.get("profile")
    facts = (header.get("version"), f"profile {profile}" if profile else "")
    return " · ".join(str(fact) for fact in facts if fact)


def pasts(
    runs: Sequence[Run],
    counts: Mapping[tuple[str, str], Mapping[str, int]],
    changes: Iterable[Mapping[str, Any]],
    ways: Mapping[tuple[str, str], int],
    pages: Mapping[tuple[str, str, str], str],
) -> list[Past]:
    """Return the targets that more than one run judged, in order of first mention.

    ``counts`` are cases by verdict, by run and target; ``changes`` rows of the table of history;
    ``ways`` the number of cases that changed, by target and course."""
    stages: dict[str, list[Stage]] = {}
    for run in in_order(runs):
        for name, target in counts:
            if name == run.name:
                stages.setdefault(target, []).append(
                    Stage(
                        run.name,
                        str(run.header.get("started", "")),
                        facts_of(run, target),
                        counts[name, target],
                        run.footer is None,
                    )
                )
    listed: dict[str, list[Changed]] = {}
    for row in changes:
        target = row["target"]
        verdicts = {run["run"]: run["verdict"] for run in row["runs"]}
        steps = tuple(
            Step(stage.run, verdicts[stage.run], pages.get((stage.run, target, row["case"])))
            if stage.run in verdicts
            else None
            for stage in stages.get(target, [])
        )
        listed.setdefault(target, []).append(Changed(row["case"], row["course"], steps))
    return [
        Past(
            target,
            tuple(of_target),
            tuple(listed.get(target, ())),
            {way: ways[target, way] for way in WORDS if (target, way) in ways},
        )
        for target, of_target in stages.items()
        if len(of_target) > 1
    ]
