"""The targets of a report, each with verdicts, documented and measured parameters, and known
deviations."""

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from brokerproof.harness.catalogue import deviations, profiles
from brokerproof.harness.model import strict_json
from brokerproof.harness.model.finding import ListedDeviation
from brokerproof.harness.model.input_file import BadInput
from brokerproof.harness.results import impacts
from brokerproof.reports.model.index_model import SHOWN, Bar, CaseRow, Column, Group
from brokerproof.reports.model.requirements import Requirements
from brokerproof.reports.sources.runs import Run, UnreadableRun

SKIPPED = 40
"""The maximum number of reasons for skips that are listed."""
INFERRED = "inferred"
"""The folder inside a run folder with the measured parameters of its targets, ``TARGET.json``."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter as documented and as measured. ``agrees`` is None if undecided."""

    name: str
    documented: str = ""
    measured: str = ""
    agrees: bool | None = None
    how: str = ""


@dataclass(frozen=True, slots=True)
class Deviating:
    """A listed deviation, and the number of findings in the last run that matched it."""

    name: str
    versions: str
    reason: str
    link: str
    shown: int
    title: str
    impact: str


@dataclass(frozen=True)
class Broker:
    """One target over all runs. ``facts`` is the target's entry in the header of the last run,
    capabilities included."""

    target: str
    asked_for: str
    """The value of ``--target`` that named this target, quoted for a shell."""
    facts: Mapping[str, Any]
    bars: tuple[Bar, ...]
    sources: Mapping[str, Mapping[str, int]]
    described: str = ""
    parameters: tuple[Parameter, ...] = ()
    inferred: bool = False
    deviations: tuple[Deviating, ...] = ()
    skipped: tuple[tuple[str, int], ...] = ()
    verdicts: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def of_sources(self) -> list[str]:
        return [
            verdict
            for verdict in SHOWN
            if any(verdict in counts for counts in self.sources.values())
        ]


Measured = Mapping[str, Sequence[Mapping[str, Any]]]
"""The output of ``brokerproof infer --json`` by target; ``*`` stands for any target."""


def brokers(
    runs: Sequence[Run],
    bars: Sequence[Bar],
    groups: Sequence[Group],
    columns: Sequence[Column],
    cases: Iterable[CaseRow],
    findings: Iterable[Mapping[str, Any]],
    measured: Measured,
    requirements: Requirements,
) -> list[Broker]:
    """Return a broker for each target, in the order of the bars."""
    by_name = {run.name: run for run in runs}
    skips = _skips(cases)
    known = _known(findings)
    brokers_of_targets = []
    for bar in (bar for bar in bars if bar.column.latest):
        target = bar.column.target
        own = tuple(other for other in bars if other.column.target == target)
        run = by_name[bar.column.run]
        listed = next((facts for facts in run.targets if facts["name"] == target), {"name": target})
        inferred = measured.get(target) or measured.get("*") or _kept(run, target)
        described, parameters = _parameters(str(listed.get("profile", "")), inferred)
        brokers_of_targets.append(
            Broker(
                target=target,
                asked_for=shlex.quote(run.asked_for(target)),
                facts=listed,
                bars=own,
                sources=_sources(groups, columns, bar.column),
                described=described,
                parameters=parameters,
                inferred=bool(inferred),
                deviations=_deviations(listed, known.get((run.name, target), {}), requirements),
                skipped=tuple(skips.get((run.name, target), ())),
                verdicts=tuple(
                    verdict for verdict in SHOWN if any(verdict in dict(row.counts) for row in own)
                ),
            )
        )
    return brokers_of_targets


def read_measured(given: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """Read the files of ``--infer``, each ``[TARGET=]FILE``. Raises :class:`UnreadableRun`."""
    measured = {}
    for argument in given:
        target, equals, path = argument.rpartition("=")
        measured[target if equals else "*"] = _read(Path(path))
    return measured


def _read(path: Path) -> list[dict[str, Any]]:
    right = "what `brokerproof infer --json` prints"
    try:
        parameters = strict_json.read(path)
    except BadInput as problem:
        raise UnreadableRun(
            f"{path}: is not readable JSON ({problem}); it should be {right}"
        ) from None
    if not isinstance(parameters, list) or not all(
        isinstance(parameter, dict) and "parameter" in parameter for parameter in parameters
    ):
        raise UnreadableRun(f"{path}: is not a list of parameters; it should be {right}")
    return parameters


def _kept(run: Run, target: str) -> list[dict[str, Any]]:
    path = run.folder / INFERRED / f"{target}.json"
    # A target's name from elsewhere must not point to a file outside the run folder.
    return _read(path) if path.name == f"{target}.json" and path.is_file() else []


def _parameters(
    profile: str, inferred: Sequence[Mapping[str, Any]]
) -> tuple[str, tuple[Parameter, ...]]:
    described, documented = "", {}
    if profile in profiles.names():
        known = profiles.load(profile)
        described, documented = f"{known.description.rstrip('.')}.", dict(known.parameters)
    rows = {name: Parameter(name, _in_words(value)) for name, value in documented.items()}
    for measured in inferred:
        name = str(measured["parameter"])
        stated = measured.get("documented")
        unit = str(measured.get("unit") or "")
        rows[name] = Parameter(
            name,
            _in_words(stated) if stated is not None else rows.get(name, Parameter(name)).documented,
            f"{_bounds(measured)} {unit}".strip(),
            measured.get("agrees") if isinstance(measured.get("agrees"), bool) else None,
            str(measured.get("how") or ""),
        )

    # Measured parameters come first, then quantities, then words. Words come last because a name
    # that clients use promises nothing.
    def place(row: Parameter) -> tuple[bool, bool]:
        return not row.measured, isinstance(documented.get(row.name), str)

    return described, tuple(sorted(rows.values(), key=place))


def _bounds(measured: Mapping[str, Any]) -> str:
    if measured.get("choice") is not None:
        return str(measured["choice"])
    low, high = measured.get("low"), measured.get("high")
    if low is None and high is None:
        return "not measured"
    if low == high:
        return _in_words(low)
    if high is None:
        return f"{_in_words(low)} or more"
    return f"at most {_in_words(high)}" if low is None else f"{_in_words(low)} … {_in_words(high)}"


def _in_words(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _deviations(
    facts: Mapping[str, Any], shown: Mapping[ListedDeviation, int], requirements: Requirements
) -> tuple[Deviating, ...]:
    """Return the family's deviations that apply to this target and version: first those that
    occurred, with the worst impact first."""
    profile = str(facts.get("profile") or "-")
    path = Path(str(files("brokerproof.fixtures"))) / "brokers" / profile / "known_deviations.toml"
    if Path(profile).name != profile:
        return ()
    version = str(facts.get("version", ""))
    listed = [
        entry
        for entry in deviations.of_target(
            path if path.is_file() else None, profile, str(facts["name"])
        )
        if deviations.covers(replace(entry, case=""), "", entry.requirement, version)
    ]
    deviating = [
        Deviating(
            entry.name,
            entry.versions,
            entry.reason,
            entry.link,
            shown.get(entry.listed, 0),
            words.title,
            words.impact,
        )
        for entry in listed
        for words in [requirements.find(entry.requirement or "")]
    ]
    return tuple(
        sorted(deviating, key=lambda entry: (entry.shown == 0, impacts.severity(entry.impact)))
    )


def _sources(
    groups: Sequence[Group], columns: Sequence[Column], of: Column
) -> dict[str, dict[str, int]]:
    place = next((at for at, column in enumerate(columns) if column is of or column == of), None)
    by_source: dict[str, Counter[str]] = {}
    for group in groups if place is not None else ():
        for row in group.rows:
            cell = row.cells[place] if place is not None else None
            if cell is not None:
                by_source.setdefault(group.source, Counter())[cell.verdict] += 1
    sources = {
        source: {verdict: counts[verdict] for verdict in SHOWN if verdict in counts}
        for source, counts in by_source.items()
    }
    # A document whose requirements were all skipped says nothing about the target.
    return dict(sorted(sources.items(), key=lambda item: item[1].keys() == {"SKIP"}))


def _skips(cases: Iterable[CaseRow]) -> dict[tuple[str, str], list[tuple[str, int]]]:
    """Return the reasons for skips, the most frequent first, by run and target."""
    counted: dict[tuple[str, str], Counter[str]] = {}
    for case in cases:
        if case.verdict == "SKIP":
            counted.setdefault((case.run, case.target), Counter())[case.detail] += 1
    return {
        place: sorted(reasons.items(), key=lambda reason: (-reason[1], reason[0]))[:SKIPPED]
        for place, reasons in counted.items()
    }


def _known(
    findings: Iterable[Mapping[str, Any]],
) -> dict[tuple[str, str], Counter[ListedDeviation]]:
    """Return, by run and target, the listed deviations that findings matched, each with the number
    of findings."""
    known: dict[tuple[str, str], Counter[ListedDeviation]] = {}
    for finding in findings:
        if finding["verdict"] == "KNOWN":
            entry = ("case", "requirement", "reason", "link")
            case, requirement, reason, link = (finding[f"deviation_{name}"] or "" for name in entry)
            deviation = ListedDeviation(case, requirement, reason, link)
            known.setdefault((finding["run"], finding["target"]), Counter())[deviation] += 1
    return known
