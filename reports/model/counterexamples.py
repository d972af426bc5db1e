"""The counterexample of a case. It is part of the data of the case's page, so that a copied report
is complete."""

import json
import shlex
from dataclasses import dataclass

from brokerproof.harness.counterexamples import case_file
from brokerproof.reports.model.index_model import CaseRow
from brokerproof.reports.sources.runs import Run

MOST_BYTES = 256 * 1024
"""The maximum size in bytes of a file that is included. Larger files are only named."""

_KINDS = {
    case_file.SUFFIX: "the conversation, byte for byte",
    "_raw.py": "plays it and judges it again, with nothing but Python",
    "_stompy.py": "plays it and judges it again, with stomp.py",
}


@dataclass(frozen=True)
class Kept:
    """One file: its name, purpose and text (empty if the file is too large)."""

    name: str
    what: str
    text: str


def kept(run: Run, case: CaseRow) -> list[Kept]:
    """Return the run's files about this failure; none for a case that did not fail."""
    if case.verdict != "FAIL":
        return []
    main = case_file.path_of(run.folder, case.target, case.case)
    stem = main.name.removesuffix(case_file.SUFFIX)
    files = []
    for suffix, what in _KINDS.items():
        path = main.with_name(stem + suffix)
        if path.is_file():
            data = path.read_bytes() if path.stat().st_size <= MOST_BYTES else b""
            files.append(Kept(path.name, what, data.decode("utf-8", "replace")))
    return files


def violation_of(run: Run, case: CaseRow) -> list[str]:
    """Return the drawn arguments and the violation of the counterexample, which may be smaller than
    the recorded examples; empty if the file lacks them."""
    path = case_file.path_of(run.folder, case.target, case.case)
    try:
        with path.open(encoding="utf-8") as file:
            header = json.loads(file.readline(MOST_BYTES))
        return [str(header["drawn"]), str(header["detail"])]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def replay(run: Run, case: CaseRow) -> str:
    """Return the command that replays the counterexample on the target as given to the run."""
    name = f"{case_file.slug(case.target, case.case)}{case_file.SUFFIX}"
    return shlex.join(["brokerproof", "replay", name, "--target", run.asked_for(case.target)])


def repeat_command(run: Run, target: str, case: str) -> str:
    """Return the command that judges a case again with the same examples."""
    function = case.partition("[")[0].rpartition(".")[2]
    header = run.header
    chosen = ("--effort", str(header.get("effort", "normal")), "--seed", str(header.get("seed", 0)))
    target = run.asked_for(target)
    return shlex.join(["brokerproof", "run", "--target", target, "--case", function, *chosen])
