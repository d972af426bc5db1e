"""An atlas of releases: when each difference appeared, disappeared or returned, and what changed
between two releases."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from brokerproof.harness.catalogue.areas import Area
from brokerproof.harness.catalogue.releases import Release
from brokerproof.harness.results import area_summary, impacts, records
from brokerproof.harness.results.area_summary import AreaState
from brokerproof.harness.results.behaviour_comparison import Row, by_target, side_by_side
from brokerproof.harness.results.verdict import LISTED
from brokerproof.reports.model.slugs import case_link, plain_slug
from brokerproof.reports.model.tables.matrix import matrix
from brokerproof.reports.sources.result_rows import flatten
from brokerproof.reports.sources.runs import Run, open_run

_STATES = dict.fromkeys(("FAIL", "KNOWN", "WARN"), "broken") | {"PASS": "kept", "NOTE": "kept"}


@dataclass(frozen=True)
class Judged:
    """A release and its results. ``sentence`` says why these are incomplete."""

    release: Release
    sentence: str
    run: Run
    counts: Sequence[tuple[str, int]]
    areas: Mapping[Area, AreaState]
    behaviours: Mapping[str, set[str]]
    said: Mapping[str, Mapping[str, str]]
    """The worst verdict on each requirement, and the link to a case with that verdict."""

    @property
    def report(self) -> str:
        return f"releases/{self.release.slug}"


class Phase(NamedTuple):
    """Consecutive releases with the same result."""

    value: str
    first: Judged
    last: Judged


class Past(NamedTuple):
    """The history of a requirement, or of a behaviour with a ``question``, over the releases of a
    broker."""

    name: str
    question: str
    impact: str
    phases: Sequence[Phase]

    @property
    def is_steady(self) -> bool:
        return len(self.phases) == 1


class Change(NamedTuple):
    """The changes for an application from ``a`` to ``b``: requirements and behaviours, the worst
    first. A requirement is ``undecided`` if only one of the two releases is known to break it."""

    a: Judged
    b: Judged
    worse: Sequence[str]
    better: Sequence[str]
    undecided: Sequence[str]
    behaviours: Sequence[Row]
    page: str


class Broker(NamedTuple):
    """A broker's releases. ``pasts`` are the broken requirements and changed behaviours, the worst
    first, unchanged ones last."""

    name: str
    judged: Sequence[Judged]
    newest: Judged
    pasts: Sequence[Past]
    page: str


class Atlas(NamedTuple):
    """``others`` are releases without a result, each with the reason. ``changes`` compares
    consecutive releases with each other, each release with the newest, and brokers with one
    another."""

    brokers: Sequence[Broker]
    others: Sequence[tuple[Release, str]]
    changes: Mapping[tuple[Release, Release], Change]


def read(folder: Path, releases: Iterable[Release]) -> Atlas:
    """Read an atlas. Raises :class:`~brokerproof.reports.sources.runs.UnreadableRun` or
    ``UnreadableResults``."""
    by_broker: dict[str, list[Judged]] = {}
    others = []
    for release in releases:
        run, said = folder / "runs" / release.slug, str(release.outcome(folder).get("sentence", ""))
        if release.unfit or not (run / records.NAME).exists():
            others.append((release, release.unfit or said or "not judged yet"))
        else:
            by_broker.setdefault(release.broker, []).append(_judged(release, said, open_run(run)))
    brokers = [
        Broker(name, judged, judged[-1], _pasts(judged), f"broker-{plain_slug(name)}.html")
        for name, judged in by_broker.items()
    ]
    pairs = [
        *(pair for broker in brokers for pair in pairwise(broker.judged)),
        *((one, broker.newest) for broker in brokers for one in broker.judged[:-1]),
        *((a.newest, b.newest) for a in brokers for b in brokers if a is not b),
    ]
    return Atlas(brokers, others, {(a.release, b.release): _change(a, b) for a, b in pairs})


def _judged(release: Release, sentence: str, run: Run) -> Judged:
    # A release has only one target, whatever its name.
    latest = records.last_of_each(records.read(run.folder))
    results = [replace(one.result, target="") for one in latest]
    counts = Counter(result.verdict for result in results)
    said = {}
    for row in matrix(flatten([run]).findings).to_pylist():
        link = case_link(run.name, row["target"], row["case"], several=False)
        link = f"releases/{release.slug}/{link}"
        said[row["requirement"]] = {"verdict": row["verdict"], "link": link}
    areas = {state.area: state for state in area_summary.summarise(results).get("", ())}
    shown = [(verdict.value, counts[verdict]) for verdict in LISTED if counts[verdict]]
    seen = by_target(results).get("", {})
    return Judged(release, sentence, run, shown, areas, seen, said)


def _pasts(of_broker: Sequence[Judged]) -> list[Past]:
    found = []
    for name in dict.fromkeys(name for judged in of_broker for name in judged.said):
        phases = _phases(of_broker, [_state(judged, name) for judged in of_broker])
        if any(phase.value == "broken" for phase in phases):
            found.append(Past(name, "", impacts.of_requirement(name) or "", phases))
    for row in side_by_side([judged.behaviours for judged in of_broker]):
        phases = _phases(of_broker, [", ".join(values) for values in row.values])
        if len(phases) > 1:
            found.append(Past(row.name, row.question, row.impact or "", phases))
    worst = {past.name: impacts.severity(past.impact or None) for past in found}
    return sorted(found, key=lambda past: (past.is_steady, worst[past.name]))


def _phases(of_broker: Sequence[Judged], values: Sequence[str | None]) -> list[Phase]:
    """Return the results by range of releases, omitting releases without results."""
    phases: list[Phase] = []
    for judged, value in zip(of_broker, values, strict=True):
        if phases and phases[-1].value == value:
            phases[-1] = phases[-1]._replace(last=judged)
        elif value:
            phases.append(Phase(value, judged, judged))
    return phases


def _state(judged: Judged, requirement: str) -> str | None:
    said = judged.said.get(requirement)
    return _STATES.get(said["verdict"]) if said else None


def _change(a: Judged, b: Judged) -> Change:
    ways: dict[tuple[str | None, str | None], list[str]] = {}
    severity = {
        name: impacts.severity(impacts.of_requirement(name)) for name in {**a.said, **b.said}
    }
    for name in sorted(severity, key=lambda name: (severity[name], name)):
        ways.setdefault((_state(a, name), _state(b, name)), []).append(name)
    worse, better = (ways.get(way, []) for way in (("kept", "broken"), ("broken", "kept")))
    undecided = [*ways.get((None, "broken"), []), *ways.get(("broken", None), [])]
    rows = [row for row in side_by_side([a.behaviours, b.behaviours]) if row.differs]
    page = f"change-{a.release.slug}--{b.release.slug}.html"
    return Change(a, b, worse, better, undecided, rows, page)
