"""The run folder: the files that a run writes besides results and traces, and how it resumes.

``run.json`` holds a header, and a ``footer`` once the run has finished: a run without a footer was
interrupted. ``cases.json`` describes every case of the run for the report."""

import dataclasses
import datetime
import fcntl
import json
import os
import platform
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from brokerproof.harness.model import strict_json
from brokerproof.harness.model.input_file import BadInput, OneSentence
from brokerproof.harness.model.strict_json import BadJson
from brokerproof.harness.model.time import Duration
from brokerproof.harness.results import records
from brokerproof.harness.results.records import Result
from brokerproof.harness.targets.target import Target, TargetFacts
from brokerproof.harness.trace.columns import FINGERPRINT
from brokerproof.harness.trace.redaction import without_passcode

FORMAT = 2
"""In format 2, each finding in ``results.ndjson`` has its verdict, which format 1 did not store."""
HEADER = "run.json"
CASES = "cases.json"


class BadRunFolder(OneSentence):
    """A folder is not a run folder, or this version cannot continue it. The message is one sentence
    with file and reason."""


def create(folder: Path, *, command: list[str], seed: int, effort: str) -> None:
    """Begin a run. Raises :class:`BadRunFolder` if the folder cannot be created or contains another
    run."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / HEADER).exists() and not _came_to_nothing(folder):
            raise BadRunFolder(
                f"{folder}: already holds a run; name another folder with --out, or continue"
                " with --resume"
            )
        header = {
            "format": FORMAT,
            "run": folder.resolve().name,
            "brokerproof": version("brokerproof"),
            "fingerprint": FINGERPRINT,
            "started": _now(),
            "command": command,
            "seed": seed,
            "effort": effort,
            "host": {
                "python": platform.python_version(),
                "platform": platform.platform(),
                "cores": os.cpu_count(),
            },
            "targets": [],
        }
        (folder / CASES).unlink(missing_ok=True)
        _write(folder / HEADER, header)
    except OSError as problem:
        raise BadRunFolder(f"{folder}: cannot be written ({problem.strerror})") from None


def _came_to_nothing(folder: Path) -> bool:
    """True if an earlier run in the folder ended before judging anything (the broker was down,
    say), so that a new run may begin."""
    if {path.name for path in folder.iterdir()} - {HEADER, CASES, "logs"} or "asked" not in read(
        folder, traces=False
    ):
        return False
    with alone(folder):
        return True


@contextmanager
def alone(folder: Path) -> Iterator[int]:
    """Lock the folder while a run writes to it; yield the lock's descriptor for children that write
    too. Raises :class:`BadRunFolder` if another process holds the lock."""
    try:
        held = os.open(folder, os.O_RDONLY)
    except OSError as problem:
        raise BadRunFolder(
            f"{folder}: cannot be opened ({problem.strerror}); it should be a run folder"
        ) from None
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadRunFolder(
                f"{folder}: a run is being written there; wait until it has ended, or name another"
                " folder with --out"
            ) from None
        yield held
    finally:
        os.close(held)


def read(folder: Path, *, traces: bool = True) -> dict[str, Any]:
    """Return the header of a run. Raises :class:`BadRunFolder` for anything but a run of this
    version.

    Without ``traces``, a run with another event schema is accepted, since its results can still be
    read."""
    path = folder / HEADER
    try:
        header = strict_json.read(path)
    except BadJson as problem:
        raise BadRunFolder(
            f"{path}: is not the header of a run ({problem}); it may have been cut off"
        ) from None
    except BadInput as problem:
        raise BadRunFolder(f"{path}: {problem}; {folder} should be a run folder") from None
    if not isinstance(header, dict) or "fingerprint" not in header:
        raise BadRunFolder(f"{path}: is not the header of a run; it may have been cut off")
    fingerprint = header["fingerprint"]
    if header.get("format") != FORMAT:
        raise BadRunFolder(f"{path}: {wrong_format(header)}")
    if problem_of_key := wrong_key(header):
        raise BadRunFolder(f"{path}: {problem_of_key}")
    if traces and fingerprint != FINGERPRINT:
        raise BadRunFolder(
            f"{path}: was recorded in another trace format ({fingerprint}, not {FINGERPRINT})"
        )
    return header


_TYPES: Mapping[str, type] = {
    "run": str,
    "brokerproof": str,
    "started": str,
    "command": list,
    "seed": int,
    "effort": str,
    "host": dict,
    "targets": list,
    "footer": dict,
}
_PROFILE = re.compile(r"[A-Za-z0-9._-]*")


def wrong_key(header: Mapping[str, Any]) -> str:
    """Return the key of a wrong value in the header, and what the value should be; empty if none is
    wrong."""
    for key, kind in _TYPES.items():
        if key in header and type(header[key]) is not kind:
            return f"{key} is {header[key]!r:.60}; it should be a {kind.__name__}"
    for number, target in enumerate(header.get("targets", ()), 1):
        if not isinstance(target, dict) or not isinstance(target.get("name"), str):
            return f"targets, entry {number}: should be an object with a name"
        profile = target.get("profile", "")
        if not isinstance(profile, str) or not _PROFILE.fullmatch(profile):
            return f"targets, entry {number}: profile is {profile!r:.60}; it should be a name"
        if not isinstance(target.get("absent", {}), dict):
            return f"targets, entry {number}: absent should be an object of reasons"
    return ""


def wrong_format(header: Mapping[str, Any]) -> str:
    """Return why a run in another format cannot be read, and what to do."""
    return (
        f"has format {header.get('format')!r} but this version reads format {FORMAT}; read it with"
        f" brokerproof {header.get('brokerproof', 'of that time')}, or run again"
    )


def add_target(folder: Path, target: Target, facts: TargetFacts) -> None:
    header = read(folder)
    entry = {
        "name": target.identity.name,
        "kind": target.identity.kind,
        "clock": target.clock.value,
        "profile": target.identity.profile.name,
        "capabilities": sorted(target.identity.capabilities),
        "absent": dict(sorted(target.identity.absent.items())),
        **dataclasses.asdict(facts),
    }
    header["targets"] = [
        target for target in header["targets"] if target["name"] != entry["name"]
    ] + [entry]
    _write(folder / HEADER, header)


def add_cases(folder: Path, cases: Mapping[str, Mapping[str, Any]], target: str = "") -> None:
    """Describe the cases that judge ``target`` or, if no name is given, every target of the run."""
    all_cases = cases_of(folder)
    for case, facts in cases.items():
        targets = {*all_cases.get(case, {}).get("targets", ()), *filter(None, [target])}
        all_cases[case] = {**facts, **({"targets": sorted(targets)} if targets else {})}
    _write(folder / CASES, all_cases)


def cases_for(folder: Path, target: str) -> set[str]:
    """Return the cases that judge ``target``; for a client, the cases for its protocol."""
    cases = cases_of(folder).items()
    return {case for case, facts in cases if target in facts.get("targets", (target,))}


def cases_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the descriptions of the run's cases by id; empty before they are collected."""
    path = folder / CASES
    if not path.exists():
        return {}
    try:
        cases = strict_json.read(path)
    except BadInput as problem:
        raise BadRunFolder(f"{path}: {problem}; remove it and run again") from None
    if not isinstance(cases, dict) or not all(
        isinstance(description, dict) for description in cases.values()
    ):
        raise BadRunFolder(f"{path}: must be an object of objects; remove it and run again")
    return cases


def write_canary(folder: Path, target: str, p99: Duration, worst: Duration) -> None:
    """Record the host's own delays during the judging of ``target``."""
    header = read(folder)
    header["host"].setdefault("canary", {})[target] = {"p99_ns": p99, "worst_ns": worst}
    header["host"]["canary_p99_ns"] = max(
        measured["p99_ns"] for measured in header["host"]["canary"].values()
    )
    _write(folder / HEADER, header)


def write_header_field(folder: Path, name: str, values: Any) -> None:
    _write(folder / HEADER, {**read(folder), name: values})


def finish(folder: Path, results: Iterable[Result], code: int, notes: list[str]) -> dict[str, Any]:
    """Add the footer that marks the run as finished, and return it."""
    counts = Counter(result.verdict.value for result in results)
    footer = {
        "finished": _now(),
        "exit_code": code,
        "cases": sum(counts.values()),
        "verdicts": dict(sorted(counts.items())),
        "notes": notes,
    }
    _write(folder / HEADER, {**read(folder), "footer": footer})
    return footer


def reopen(folder: Path) -> dict[str, Any]:
    """Prepare an interrupted or finished run to continue; return its header."""
    header = read(folder)
    for key in ("seed", "effort", "targets", "host"):
        if key not in header:
            raise BadRunFolder(f"{folder / HEADER}: {key} is missing; start another run")
    header.pop("footer", None)
    header.pop("baseline", None)
    _write(folder / HEADER, header)
    records.mend(folder)
    return header


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _write(path: Path, values: Mapping[str, Any]) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", "utf-8")
    partial.rename(path)


def default_folder() -> Path:
    return Path("brokerproof-out") / datetime.datetime.now().strftime("%Y-%m-%dT%H-%M-%S")


def command_line() -> list[str]:
    """Return the command line of this process, for the header, without passcodes in URLs."""
    return ["brokerproof", *map(without_passcode, sys.argv[1:])]
