"""The comparison of a run with a baseline, and the resulting exit code."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from brokerproof.harness.commands import errors
from brokerproof.harness.commands.diff_inputs import Side, open_side, releases
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.results import causes, difference, impacts, run_folder, verdict
from brokerproof.harness.results.causes import Cause
from brokerproof.harness.results.difference import Course, Difference
from brokerproof.harness.results.records import Result

IMPACT = "impact="
"""Prefix of the ``--fail-on`` rule that names impacts."""
MOST_RECORDED = 100
"""The maximum number of changes that a run's header keeps for the report."""


_KEPT_FACTS = ("broker", "version", "configuration")
"""The facts about a target of the baseline that the run's header keeps."""


@dataclass(frozen=True)
class Gated:
    """A run compared with its baseline."""

    baseline: Side
    differences: Sequence[Difference]
    renamed: Mapping[str, str]
    """Targets of the baseline, each with the target of this run that is another release of it."""

    @property
    def worse(self) -> list[Difference]:
        return [change for change in self.differences if change.course is Course.WORSE]

    @property
    def lost_services(self) -> list[Cause]:
        """The services that the broker offered in the baseline but no longer offers, each with the
        cases that need it."""
        lost = [change.b for change in self.worse if change.lost_service and change.b is not None]
        return causes.group((latest.result for latest in lost), Verdict.INCONCLUSIVE)

    @property
    def exit_code(self) -> int:
        """1 if a case got worse, 2 if this is undecided, otherwise 0."""
        return difference.exit_code(self.differences, partial=self.baseline.partial)

    def counts(self) -> dict[str, int]:
        """The number of cases by course; the keys are in lower case."""
        courses = Counter(change.course for change in self.differences)
        return {course.value.lower(): courses[course] for course in Course}

    def recorded(self) -> dict[str, Any]:
        """Return the comparison as the run's header stores it, with the cases that got worse first.
        The report is written without the baseline's folder, so the header also keeps facts about
        the baseline."""
        header = self.baseline.header
        changes = [change for change in self.differences if change.course is not Course.SAME]
        return {
            "run": str(header.get("run", self.baseline.folder.name)),
            **{key: header[key] for key in ("started", "brokerproof", "seed") if key in header},
            "targets": [
                {"name": name, **{key: target[key] for key in _KEPT_FACTS if key in target}}
                for name, target in self.baseline.compared_as(self.renamed).listed.items()
            ],
            "counts": self.counts(),
            "changes": [
                {
                    "course": change.course.value,
                    "target": change.target,
                    "case": change.case,
                    "verdicts": [verdict and verdict.value for verdict in change.verdicts],
                }
                for change in changes[:MOST_RECORDED]
            ],
            "lost": [
                {"target": lost.target, "observed": lost.observed[0], "cases": len(lost.cases)}
                for lost in self.lost_services[:MOST_RECORDED]
            ],
        }


def open_baseline(folder: Path | None, fail_on: str | None) -> Side | None:
    """Read the baseline, if any. Raises ``Usage`` if there is none but ``fail_on`` needs one, and
    the errors of :func:`open_side`."""
    if folder is None:
        if fail_on == "worse":
            raise errors.Usage("--fail-on worse needs --baseline, the run to compare with")
        return None
    return open_side("A", folder)


def compare_with(baseline: Side, folder: Path) -> Gated:
    """Compare the run in ``folder`` with ``baseline``, case by case.

    Only cases that this run selected are compared: omitted cases are not a loss. Another release of
    a target (``artemis@2.44.0`` and ``artemis``) is the same target. If a violation has since been
    listed as known, or is listed for only one of the releases, the broker has not changed."""
    run = open_side("B", folder)
    renamed = _renamed(baseline.targets, run.targets)
    asked = run_folder.cases_of(folder).keys()
    before = [
        latest
        for latest in baseline.compared_as(renamed).compared
        if latest.result.case in asked and latest.result.target in run.targets
    ]
    changes = [replace(case, strict=True) for case in difference.compare(before, run.results)]
    return Gated(baseline, [change for change in changes if not _listed_otherwise(change)], renamed)


def decide(
    code: int, gated: Gated | None, fail_on: str | None, results: Iterable[Result] = ()
) -> int:
    """Return the exit code of a run; ``code`` is the code that follows from the verdicts alone."""
    if fail_on == "never":
        return 0
    if fail_on is not None and fail_on.startswith(IMPACT):
        chosen = fail_on.removeprefix(IMPACT).split(",")
        return verdict.exit_code(
            Verdict.NOTE if _spared(result, chosen) else result.verdict for result in results
        )
    if gated is None or fail_on == "fail":
        return code
    return gated.exit_code


def _spared(result: Result, chosen: Sequence[str]) -> bool:
    """True if no violation has a chosen or an unknown impact."""
    return result.verdict is Verdict.FAIL and not any(
        impacts.of_requirement(finding.requirement) in (*chosen, None)
        for finding in result.findings
        if finding.verdict is Verdict.FAIL
    )


def _listed_otherwise(change: Difference) -> bool:
    """True if only the list of known deviations changed the verdict, as both sides violate the same
    requirements."""
    if change.a is None or change.b is None or Verdict.KNOWN not in change.verdicts:
        return False
    before, now = (_violated(side.result) for side in (change.a, change.b))
    return before == now and bool(before)


def _violated(result: Result) -> set[str]:
    return {
        finding.requirement
        for finding in result.findings
        if finding.seen is Seen.VIOLATED and finding.uncertain is None
    }


def _renamed(before: Sequence[str], now: Sequence[str]) -> dict[str, str]:
    """For targets whose names differ, map the baseline's to those of this run: by the name before
    the ``@``, or because each run has only one target."""
    renamed = releases(before, now)
    if not renamed and len(before) == len(now) == 1 and before != now:
        renamed[before[0]] = now[0]
    return renamed
