"""Each target over time, as plain data: verdict counts per run in order of start, and the cases
that changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results.verdict import WORST_FIRST
from brokerproof.reports.runs import Run

WORDS: Mapping[str, str] = {
    "WORSE": "worse",
    "UNDECIDED": "undecided",
    "BETTER": "better",
    "SAME": "there and back",
}
"""What became of a case between the first and the last run that judged it, by course."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One target in one run of several: the counts are worst first."""

    run: str
    started: str
    facts: str
    counts: Mapping[str, int]
    cut_off: bool

    @property
    def cases(self) -> int:
        """All of them."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Step:
    """The verdict of a case in one run, and its page if it has one."""

    run: str
    verdict: str
    page: str | None


@dataclass(frozen=True, slots=True)
class Changed:
    """A case whose verdict was not always the same: a step per stage, None where it was not
    judged."""

    case: str
    went: str
    steps: tuple[Step | None, ...]


@dataclass(frozen=True)
class Past:
    """One target over time. ``changed`` may list only the first; ``ways`` counts all, by course."""

    target: str
    stages: tuple[Stage, ...]
    changed: tuple[Changed, ...]
    ways: Mapping[str, int]

    @property
    def changed_total(self) -> int:
        """How many cases changed."""
        return sum(self.ways.values())

    @property
    def verdicts(self) -> list[str]:
        """Every verdict of any stage, worst first."""
        found: dict[str, None] = {}
        for stage in self.stages:
            found |= dict.fromkeys(stage.counts)
        return sorted(found, key=lambda each: WORST_FIRST.index(Verdict(each)))


def in_order(runs: Sequence[Run]) -> list[Run]:
    """The runs in order of start; runs that began in the same second, or do not say, in the order
    given."""
    return sorted(runs, key=lambda run: str(run.header.get("started", "")))


def facts_of(run: Run, target: str) -> str:
    """Version and profile of a target in a run, as the header says them."""
    about = next((each for each in run.targets if each["name"] == target), {})
    profile = about.get("profile")
    return " · ".join(
        str(each)
        for each in (about.get("version"), f"profile {profile}" if profile else "")
        if each
    )


def pasts(
    runs: Sequence[Run],
    counts: Mapping[tuple[str, str], Mapping[str, int]],
    changes: Iterable[Mapping[str, Any]],
    ways: Iterable[Mapping[str, Any]],
    pages: Mapping[tuple[str, str, str], str],
) -> list[Past]:
    """The targets that more than one run judged, in order of first mention.

    ``counts`` are cases by verdict, by run and target; ``changes`` rows of the table of history;
    ``ways`` how many cases changed, by target and course.
    """
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
        said = {each["run"]: each["verdict"] for each in row["runs"]}
        steps = tuple(
            Step(each.run, said[each.run], pages.get((each.run, target, row["case"])))
            if each.run in said
            else None
            for each in stages.get(target, [])
        )
        listed.setdefault(target, []).append(Changed(row["case"], row["course"], steps))
    by_way: dict[str, dict[str, int]] = {}
    for row in ways:
        by_way.setdefault(row["target"], {})[row["course"]] = row["cases"]
    return [
        Past(
            target,
            tuple(each),
            tuple(listed.get(target, ())),
            {way: by_way.get(target, {})[way] for way in WORDS if way in by_way.get(target, {})},
        )
        for target, each in stages.items()
        if len(each) > 1
    ]
