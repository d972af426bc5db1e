"""The comparison of a run with its baseline, as stored in the run's header."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results.difference import Course
from brokerproof.reports.model.quantities import counted, minute
from brokerproof.reports.model.slugs import case_link
from brokerproof.reports.sources.runs import Run

MOST_BROKERS = 2
"""The maximum number of brokers in a baseline that a sentence names."""
_CHANGED = (Course.WORSE, Course.UNDECIDED, Course.BETTER)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The run with which another run was compared. Strings that the header lacks are empty.
    ``brokers`` are the distinct brokers of its targets, with versions."""

    run: str
    started: str = ""
    seed: str = ""
    brokerproof: str = ""
    brokers: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Return the baseline's name, broker and start, or say that these are unknown."""
        named = ", ".join(self.brokers[:MOST_BROKERS])
        if len(self.brokers) > MOST_BROKERS:
            named += f" and {len(self.brokers) - MOST_BROKERS} more"
        match bool(named), bool(self.started):
            case True, True:
                return f"{self.run}, {named} of {minute(self.started)}"
            case True, False:
                return f"{self.run}, {named}, at a time that was not recorded"
            case False, True:
                return f"{self.run} of {minute(self.started)}, whose version was not recorded"
        return f"{self.run}, whose date and version were not recorded"

    @property
    def facts(self) -> str:
        """Return everything that is known about the baseline, and name what is unknown."""
        known = {
            "broker": ", ".join(self.brokers),
            "start": self.started and f"started {self.started}",
            "seed": self.seed and f"seed {self.seed}",
            "brokerproof's version": self.brokerproof and f"brokerproof {self.brokerproof}",
        }
        parts = [text for text in known.values() if text]
        if unknown := [name for name, text in known.items() if not text]:
            parts.append(f"not recorded: {', '.join(unknown)}")
        return " · ".join([self.run, *parts])


@dataclass(frozen=True, slots=True)
class ChangedCase:
    """A case whose verdict differs from that in the baseline (None: the case is missing)."""

    course: str
    target: str
    case: str
    before: str | None
    now: str | None
    page: str


@dataclass(frozen=True, slots=True)
class LostService:
    """A service that the broker no longer offers: the control that failed, and the number of cases
    that need the service."""

    target: str
    observed: str
    cases: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run compared with its baseline: the numbers of cases by course, and the first changed
    cases."""

    run: str
    baseline: Baseline
    counts: Mapping[str, int]
    changes: tuple[ChangedCase, ...]
    seed: str = ""
    """The run's own seed; empty if unknown."""
    lost: tuple[LostService, ...] = ()

    @property
    def has_other_examples(self) -> bool:
        """True if the baseline is known to have used another seed. Then a new FAIL may come from a
        new example, not a new fault."""
        return bool(self.seed and self.baseline.seed) and self.seed != self.baseline.seed

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def since(self, target: str, cases: Iterable[str]) -> str:
        """Return, in words, which of these failing cases passed in the baseline."""
        changed = {change.case: change.before for change in self.changes if change.target == target}
        failing = set(cases)
        new = {case for case in failing if changed.get(case) is not None}
        unjudged = {case for case in failing if case in changed and changed[case] is None}
        left = len(failing) - len(new) - len(unjudged)
        if left and self.total > len(self.changes):
            return "possibly new: the run recorded only some of the changes since the baseline"
        parts = [
            (
                len(new),
                "new since the baseline"
                + (" (which used another seed)" if self.has_other_examples else ""),
            ),
            (len(unjudged), "not judged in the baseline"),
            (left, "already in the baseline"),
        ]
        said = [(count, words) for count, words in parts if count]
        if len(said) == 1:
            return said[0][1]
        return ", ".join(f"{counted(count, 'case')} {words}" for count, words in said)


def baseline_of(header: Mapping[str, Any]) -> Baseline | None:
    """Return the baseline that the header of a run names; None if it names none."""
    recorded = header.get("baseline")
    if not isinstance(recorded, Mapping) or "run" not in recorded:
        return None
    targets = recorded.get("targets")
    brokers = [
        f"{target.get('broker') or ''} {target.get('version') or ''}".strip()
        for target in (targets if isinstance(targets, list) else [])
        if isinstance(target, Mapping)
    ]
    texts = {key: str(recorded.get(key, "")) for key in ("started", "seed", "brokerproof")}
    return Baseline(
        str(recorded["run"]), **texts, brokers=tuple(filter(None, dict.fromkeys(brokers)))
    )


def comparison_of(run: Run, *, several: bool) -> Comparison | None:
    """Return the comparison in a run's header; None if there is no readable one. ``several`` means
    that the report has several runs."""
    baseline = baseline_of(run.header)
    if baseline is None:
        return None
    try:
        recorded = run.header["baseline"]
        counts = {way.value: int(recorded["counts"][way.value.lower()]) for way in _CHANGED}
        changes = tuple(
            _changed_case(run.name, change, several=several) for change in recorded["changes"]
        )
        lost = tuple(
            LostService(str(row["target"]), str(row["observed"]), int(row["cases"]))
            for row in recorded.get("lost", ())
        )
    except (KeyError, TypeError, ValueError):
        return None
    return Comparison(run.name, baseline, counts, changes, str(run.header.get("seed", "")), lost)


def _changed_case(run: str, change: Mapping[str, Any], *, several: bool) -> ChangedCase:
    target, case = str(change["target"]), str(change["case"])
    before, now = (None if verdict is None else Verdict(verdict) for verdict in change["verdicts"])
    page = "" if now is None else case_link(run, target, case, several=several)
    return ChangedCase(Course(change["course"]).value, target, case, before, now, page)
