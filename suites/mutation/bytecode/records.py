"""The files of a run of bytecode mutants. Each is one JSON object per line, appended as soon as it
is known, so that a run can continue an earlier one."""

import dataclasses
import enum
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OWN_TESTS = "own-tests.ndjson"
"""The fates of the mutants in Artemis's own tests."""


class Fate(enum.StrEnum):
    """The fate of one mutant in one set of tests."""

    KILLED = "killed"
    """A case failed that passes without the mutant, or the broker ended."""
    NOTICED = "noticed"
    """A control failed that holds without the mutant, and no case failed: the gate of
    ``brokerproof run --baseline`` fails."""
    INCONCLUSIVE = "inconclusive"
    """A case remained undecided in another way, and none failed: the run exits with 2."""
    SURVIVED = "survived"
    NOT_EXECUTED = "not executed"
    """No case runs the line."""


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """One case on the unchanged broker: the verdict and the lines that the case executed."""

    case: str
    verdict: str
    duration_s: float
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FateRecord:
    """The fate of one mutant. ``cases`` ran on it; ``covering`` execute its line."""

    mutant: str
    area: str
    description: str
    fate: Fate
    case: str = ""
    """The case that noticed it."""
    detail: str = ""
    cases: int = 0
    covering: int = 0


def append(path: Path, record: Any) -> None:
    """Append a record to the file immediately."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(dataclasses.asdict(record), ensure_ascii=False) + "\n")


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    for line in path.read_text("utf-8").splitlines():
        yield json.loads(line)


def controls(path: Path) -> dict[str, ControlRecord]:
    """Return the records of a file of controls, by case."""
    return {
        values["case"]: ControlRecord(**values | {"lines": tuple(values["lines"])})
        for values in _objects(path)
    }


def fates(path: Path) -> dict[str, FateRecord]:
    """Return the records of a file of fates, by mutant; the last record of each mutant applies."""
    return {
        values["mutant"]: FateRecord(**values | {"fate": Fate(values["fate"])})
        for values in _objects(path)
    }
