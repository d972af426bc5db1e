"""What the report says of each target: its verdicts, what is documented and measured of it, where
it is known to deviate."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerproof.harness.catalogue import deviations, profiles
from brokerproof.harness.model.finding import ListedDeviation
from brokerproof.reports.model import VERDICTS, Bar, Column, Group
from brokerproof.reports.runs import Run, UnreadableRun

SKIPPED = 40
"""Reasons for skips that are listed."""
INFERRED = "inferred"
"""A run's folder may hold what was measured of a target in ``inferred/TARGET.json``."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: as documented, and as measured if it was; ``agrees`` is None where that cannot
    be said."""

    name: str
    documented: str = ""
    measured: str = ""
    agrees: bool | None = None
    how: str = ""


@dataclass(frozen=True, slots=True)
class Deviating:
    """A listed deviation, and in how many findings of the last run it showed."""

    name: str
    versions: str
    reason: str
    link: str
    shown: int


@dataclass(frozen=True)
class Broker:
    """One target over all runs; ``about`` is what the header of its last run says, capabilities
    included."""

    target: str
    about: Mapping[str, Any]
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
        """Every verdict on a requirement, worst first."""
        return [
            each for each in VERDICTS if any(each in counts for counts in self.sources.values())
        ]


Measured = Mapping[str, Sequence[Mapping[str, Any]]]
"""What ``brokerproof infer --json`` printed, by target; of ``*`` for whatever target there is."""


def brokers(
    runs: Sequence[Run],
    bars: Sequence[Bar],
    groups: Sequence[Group],
    columns: Sequence[Column],
    cases: DataFrame,
    findings: DataFrame,
    measured: Measured,
) -> list[Broker]:
    """One per target, in the order of the bars."""
    by_name = {run.name: run for run in runs}
    skips = _skips(cases)
    known = _known(findings)
    found = []
    for bar in (each for each in bars if each.column.latest):
        target = bar.column.target
        own = tuple(each for each in bars if each.column.target == target)
        run = by_name[bar.column.run]
        about = next((each for each in run.targets if each["name"] == target), {"name": target})
        told = measured.get(target) or measured.get("*") or _kept(run, target)
        described, parameters = _parameters(str(about.get("profile", "")), told)
        found.append(
            Broker(
                target=target,
                about=about,
                bars=own,
                sources=_sources(groups, columns, bar.column),
                described=described,
                parameters=parameters,
                inferred=bool(told),
                deviations=_deviations(about, known.get((run.name, target), {})),
                skipped=tuple(skips.get((run.name, target), ())),
                verdicts=tuple(
                    each for each in VERDICTS if any(each in dict(one.counts) for one in own)
                ),
            )
        )
    return found


def read_measured(given: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """``[TARGET=]FILE`` as ``--infer`` takes it. Raises :class:`UnreadableRun` in a sentence."""
    found = {}
    for each in given:
        target, equals, path = each.rpartition("=")
        found[target if equals else "*"] = _read(Path(path))
    return found


def _read(path: Path) -> list[dict[str, Any]]:
    right = "what `brokerproof infer --json` prints"
    try:
        told = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise UnreadableRun(
            f"{path}: is no readable JSON ({problem}); it should be {right}"
        ) from None
    if not isinstance(told, list) or not all(
        isinstance(each, dict) and "parameter" in each for each in told
    ):
        raise UnreadableRun(f"{path}: is no list of parameters; it should be {right}")
    return told


def _kept(run: Run, target: str) -> list[dict[str, Any]]:
    path = run.folder / INFERRED / f"{target}.json"
    return _read(path) if path.is_file() else []


def _parameters(
    profile: str, told: Sequence[Mapping[str, Any]]
) -> tuple[str, tuple[Parameter, ...]]:
    described, documented = "", {}
    if profile in profiles.names():
        known = profiles.load(profile)
        described, documented = f"{known.description.rstrip('.')}.", dict(known.parameters)
    rows = {name: Parameter(name, _said(value)) for name, value in documented.items()}
    for each in told:
        name = str(each["parameter"])
        stated = each.get("documented")
        unit = str(each.get("unit") or "")
        rows[name] = Parameter(
            name,
            _said(stated) if stated is not None else rows.get(name, Parameter(name)).documented,
            f"{_bounds(each)} {unit}".strip(),
            each.get("agrees") if isinstance(each.get("agrees"), bool) else None,
            str(each.get("how") or ""),
        )

    # What was measured first, then quantities, then words: how a client names things is no promise.
    def place(row: Parameter) -> tuple[bool, bool]:
        return not row.measured, isinstance(documented.get(row.name), str)

    return described, tuple(sorted(rows.values(), key=place))


def _bounds(each: Mapping[str, Any]) -> str:
    if each.get("choice") is not None:
        return str(each["choice"])
    low, high = each.get("low"), each.get("high")
    if low is None and high is None:
        return "not found out"
    if low == high:
        return _said(low)
    if high is None:
        return f"{_said(low)} or more"
    return f"at most {_said(high)}" if low is None else f"{_said(low)} … {_said(high)}"


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _deviations(
    about: Mapping[str, Any], shown: Mapping[ListedDeviation, int]
) -> tuple[Deviating, ...]:
    """The family's deviations that cover this target and version, those that showed first."""
    path = (
        Path(str(files("brokerproof.fixtures")))
        / "brokers"
        / str(about.get("profile") or "-")
        / "known_deviations.toml"
    )
    if not path.is_file():
        return ()
    version = str(about.get("version", ""))
    listed = [
        each
        for each in deviations.load(path, str(about["name"]))
        if deviations.covers(replace(each, case=""), "", each.requirement, version)
    ]
    found = [
        Deviating(each.name, each.versions, each.reason, each.link, shown.get(each.listed, 0))
        for each in listed
    ]
    return tuple(sorted(found, key=lambda each: each.shown == 0))


def _sources(
    groups: Sequence[Group], columns: Sequence[Column], of: Column
) -> dict[str, dict[str, int]]:
    place = next((at for at, column in enumerate(columns) if column is of or column == of), None)
    found: dict[str, Counter[str]] = {}
    for group in groups if place is not None else ():
        for row in group.rows:
            cell = row.cells[place] if place is not None else None
            if cell is not None:
                found.setdefault(group.source, Counter())[cell.verdict] += 1
    return {
        source: {each: counts[each] for each in VERDICTS if each in counts}
        for source, counts in found.items()
    }


def _skips(cases: DataFrame) -> dict[tuple[str, str], list[tuple[str, int]]]:
    """The reasons for skips, the most frequent first, by run and target."""
    counted = (
        cases.where(F.col("verdict") == "SKIP")
        .groupBy("run", "target", "detail")
        .agg(F.count("*").alias("cases"))
    )
    found: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for row in counted.orderBy(F.desc("cases"), "detail").limit(2000).collect():
        reasons = found.setdefault((row.run, row.target), [])
        if len(reasons) < SKIPPED:
            reasons.append((row.detail, row.cases))
    return found


def _known(findings: DataFrame) -> dict[tuple[str, str], dict[ListedDeviation, int]]:
    """By run and target: the listed deviations that findings matched, and how many findings."""
    entry = [f"deviation_{name}" for name in ("case", "requirement", "reason", "link")]
    counted = findings.where(F.col("verdict") == "KNOWN").groupBy("run", "target", *entry).count()
    found: dict[tuple[str, str], dict[ListedDeviation, int]] = {}
    for row in counted.limit(20_000).collect():
        deviation = ListedDeviation(*(row[name] or "" for name in entry))
        found.setdefault((row.run, row.target), {})[deviation] = row["count"]
    return found
