"""The kill matrix of a run folder, ``mutants.json``: which seeded faults the suites detected, and
by which requirements."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokerproof.harness.model import strict_json
from brokerproof.harness.model.input_file import BadInput
from brokerproof.reports.sources.runs import UnreadableRun

NAME = "mutants.json"
FORMAT = 1
KILLED = "killed"
NOTICED = "noticed"


@dataclass(frozen=True, slots=True)
class Caught:
    group: str
    mutants: int
    killed: int


@dataclass(frozen=True, slots=True)
class Row:
    """One requirement. ``marks`` has the name, mark and fault of each mutant that violates it."""

    requirement: str
    marks: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Matrix:
    killed: int
    mutants: int
    effort: str
    extent: str
    seed: int
    groups: tuple[Caught, ...]
    rows: tuple[Row, ...]
    left: tuple[Mapping[str, Any], ...]
    """Mutants that survived, as in ``mutants.json``."""
    controls: Mapping[str, Mapping[str, int]]

    @property
    def noticed(self) -> int:
        """The number of mutants that survived but made a control fail."""
        return sum(mutant["status"] == NOTICED for mutant in self.left)

    @property
    def rate(self) -> str:
        """The percentage of killed mutants."""
        return f"{self.killed / self.mutants:.1%}" if self.mutants else "none"


def read(folder: Path) -> Matrix | None:
    """Return the kill matrix in ``folder``; None if there is none. Raises :class:`UnreadableRun`
    for another format."""
    path = folder / NAME
    try:
        data = strict_json.read(path) if path.exists() else None
    except BadInput as problem:
        raise UnreadableRun(
            f"{path}: is not a kill matrix ({problem}); brokerproof mutants --out writes one"
        ) from None
    if data is None:
        return None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise UnreadableRun(
            f"{path}: is a kill matrix of another version; recreate it with brokerproof mutants"
            " --out"
        )
    try:
        return _matrix(data)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UnreadableRun(
            f"{path}: is an incomplete kill matrix; run brokerproof mutants --out again"
        ) from None


def _matrix(data: Mapping[str, Any]) -> Matrix:
    mutants: list[Mapping[str, Any]] = data["mutants"]
    faults = {mutant["name"]: str(mutant["fault"]) for mutant in mutants}
    every = Counter(mutant["group"] for mutant in mutants)
    killed = Counter(mutant["group"] for mutant in mutants if mutant["status"] == KILLED)
    return Matrix(
        killed=int(data["killed"]),
        mutants=len(mutants),
        effort=str(data["effort"]),
        extent=str(data["extent"]),
        seed=int(data["seed"]),
        groups=tuple(Caught(group, count, killed[group]) for group, count in every.items()),
        rows=tuple(
            Row(
                requirement,
                tuple((name, mark, faults.get(name, "")) for name, mark in marks.items()),
            )
            for requirement, marks in data["requirements"].items()
        ),
        left=tuple(mutant for mutant in mutants if mutant["status"] != KILLED),
        controls=data["controls"],
    )
