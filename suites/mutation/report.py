"""The kill matrix as data (``mutants.json``) and as a table for a terminal."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from brokerproof.harness.catalogue.requirements import Catalogue
from brokerproof.suites.mutation import all_mutants
from brokerproof.suites.mutation.judging import Status
from brokerproof.suites.mutation.matrix import Fate, Plan

NAME = "mutants.json"
FORMAT = 1

THROUGH, OTHERWISE, NOT_KILLED = "●", "○", "×"
LEGEND = (
    f"{THROUGH} killed by a case on this requirement, {OTHERWISE} killed only by others,"
    f" {NOT_KILLED} not killed"
)


def as_data(
    fates: Sequence[Fate],
    plan: Plan,
    *,
    cases: int,
    version: str,
    controls: Mapping[str, Mapping[str, int]],
    listed: Mapping[str, str],
    unbroken: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the whole matrix as plain data.

    ``controls`` are the verdict counts by control; ``listed`` are the reasons in survivors.txt;
    ``unbroken`` are the requirements that cases cite and no mutant violates.
    """
    killed = sum(fate.status is Status.KILLED for fate in fates)
    return {
        "format": FORMAT,
        "version": version,
        "effort": plan.effort,
        "seed": plan.seed,
        "extent": plan.extent.value,
        "cases": cases,
        "mutants": [_one(fate, listed) for fate in fates],
        "killed": killed,
        "noticed": sum(fate.status is Status.NOTICED for fate in fates),
        "kill_rate": round(killed / len(fates), 4) if fates else None,
        "requirements": _requirements(fates),
        "unbroken": list(unbroken),
        "controls": {name: dict(counts) for name, counts in controls.items()},
    }


def _one(fate: Fate, listed: Mapping[str, str]) -> dict[str, Any]:
    mutant = all_mutants.named(fate.mutant)
    return {
        "name": mutant.name,
        "group": mutant.group,
        "fault": mutant.fault,
        "breaks": list(mutant.breaks),
        "recreates": mutant.recreates,
        "status": fate.status.value,
        "reason": listed.get(mutant.name, ""),
        "reached": fate.reached,
        "cases_run": fate.cases,
        "killed_by": [asdict(kill) for kill in fate.killed_by],
        "beside": [asdict(kill) for kill in fate.beside],
        "noticed_by": fate.noticed_by,
        "errors": fate.errors,
        "verdicts": fate.verdicts,
    }


def _requirements(fates: Iterable[Fate]) -> dict[str, dict[str, str]]:
    """Return, by requirement, the mutants that violate it, each with its mark."""
    rows: dict[str, dict[str, str]] = {}
    for fate in fates:
        through = {kill.requirement for kill in fate.killed_by}
        for requirement in all_mutants.named(fate.mutant).breaks:
            killed = OTHERWISE if fate.status is Status.KILLED else NOT_KILLED
            rows.setdefault(requirement, {})[fate.mutant] = (
                THROUGH if requirement in through else killed
            )
    return dict(sorted(rows.items()))


def write(folder: Path, data: Mapping[str, Any]) -> Path:
    """Write ``mutants.json`` into ``folder``, and create the folder if necessary."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    path.write_text(json.dumps(data, ensure_ascii=False, indent=1), "utf-8")
    return path


def show(
    console: Console, fates: Sequence[Fate], catalogue: Catalogue, listed: Mapping[str, str]
) -> None:
    """Print the matrix by requirement, the counts by group, and everything that was not killed."""
    console.print(_matrix(fates, catalogue))
    console.print(LEGEND, style="dim")
    console.print(_by_group(fates))
    for fate in fates:
        if fate.status is Status.KILLED:
            continue
        mutant = all_mutants.named(fate.mutant)
        console.print(f"[bold]{fate.status}[/] {fate.mutant}: {mutant.fault}", highlight=False)
        for kill in fate.beside[:3]:
            console.print(
                f"    {kill.case} {kill.requirement}: {kill.detail}", highlight=False, markup=False
            )
        for sentence in [*fate.noticed_by, *fate.errors][:3]:
            console.print(f"    {sentence}", highlight=False, markup=False)
        if fate.mutant in listed:
            console.print(f"    listed: {listed[fate.mutant]}", highlight=False, markup=False)


def _matrix(fates: Sequence[Fate], catalogue: Catalogue) -> Table:
    table = Table("requirement", "level", "mutants that break it", box=None, pad_edge=False)
    for requirement, marks in _requirements(fates).items():
        counts = Counter(marks.values())
        cells = "".join(mark * counts[mark] for mark in (THROUGH, OTHERWISE, NOT_KILLED))
        table.add_row(requirement, catalogue.find(requirement).level.value, cells)
    return table


def _by_group(fates: Sequence[Fate]) -> Table:
    others = [
        status.value.removeprefix("killed for the ")
        for status in Status
        if status is not Status.KILLED
    ]
    table = Table("group", "mutants", "killed", *others, "rate", box=None, pad_edge=False)
    of: dict[str, Counter[Status]] = {}
    for fate in fates:
        of.setdefault(all_mutants.named(fate.mutant).group, Counter())[fate.status] += 1
    for name, counts in of.items():
        table.add_row(name, *_cells(counts))
    table.add_section()
    table.add_row("all", *_cells(sum(of.values(), Counter())))
    return table


def _cells(counts: Counter[Status]) -> list[str]:
    total = counts.total()
    others = [str(counts[status] or "") for status in Status if status is not Status.KILLED]
    return [str(total), str(counts[Status.KILLED]), *others, f"{counts[Status.KILLED] / total:.1%}"]
