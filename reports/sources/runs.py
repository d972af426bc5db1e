"""Finds run folders, reads ``run.json`` and ``cases.json``, and rejects everything but runs of this
version."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from brokerproof.harness.model import strict_json
from brokerproof.harness.model.input_file import BadInput, OneSentence
from brokerproof.harness.results.records import NAME as RESULTS
from brokerproof.harness.results.run_folder import CASES, FORMAT, HEADER, wrong_format
from brokerproof.harness.trace.columns import FINGERPRINT
from brokerproof.harness.trace.read import DAMAGED, UnreadableTrace, damaged, row_count


class UnreadableRun(OneSentence):
    """A folder contains no run to report on. The message names the file, the error and the
    remedy."""


@dataclass(frozen=True, slots=True)
class CaseFacts:
    """The description of a case: its docstring, and its place in the sources
    (``suites/stomp/test_x.py:12``)."""

    doc: str = ""
    source: str = ""
    drawn: tuple[str, ...] = ()
    """The meanings of the drawn arguments, each with the argument's name."""


@dataclass(frozen=True)
class Run:
    folder: Path
    name: str
    header: Mapping[str, Any]
    cases: Mapping[str, CaseFacts] = field(default_factory=dict)

    @property
    def footer(self) -> Mapping[str, Any] | None:
        """The run's footer; None if the run was cut off."""
        footer = self.header.get("footer")
        return footer if isinstance(footer, dict) else None

    @property
    def targets(self) -> tuple[Mapping[str, Any], ...]:
        listed = self.header.get("targets")
        listed = listed if isinstance(listed, list) else []
        return tuple(
            target
            for target in listed
            if isinstance(target, dict) and isinstance(target.get("name"), str)
        )

    def asked_for(self, target: str) -> str:
        """Return the value of ``--target`` for a target, such as a file; if that is unknown, the
        target's name."""
        asked = self.header.get("asked")
        texts = asked.get("targets") if isinstance(asked, dict) else None
        if not isinstance(texts, list) or len(texts) != len(self.targets):
            return target
        named = {
            str(listed["name"]): text for listed, text in zip(self.targets, texts, strict=True)
        }
        return str(named.get(target, target))

    @property
    def results(self) -> Path:
        """The file of results, with one line per case and target."""
        return self.folder / RESULTS

    @property
    def torn(self) -> bool:
        """True if the last line of the results was cut off by a kill."""
        if not self.results.exists() or self.results.stat().st_size == 0:
            return False
        with self.results.open("rb") as file:
            file.seek(-1, 2)
            return file.read(1) != b"\n"

    @property
    def trace(self) -> Path:
        """The folder of recorded segments, which may be missing if nothing was recorded."""
        return self.folder / "trace"

    def events(self) -> int:
        return sum(int(pq.read_metadata(segment).num_rows) for segment in self.segments())

    def segments(self) -> list[Path]:
        return sorted(self.trace.glob("target=*/part-*.parquet"))


def open_runs(folders: Iterable[Path]) -> list[Run]:
    """Return the runs in ``folders``, in that order and with unique names.

    Raises :class:`UnreadableRun` for a folder without a run. The footer of every segment is
    checked, so that a damaged segment is named before Spark reads it.
    """
    runs: list[Run] = []
    for folder in folders:
        run = open_run(folder)
        if any(other.folder.resolve() == folder.resolve() for other in runs):
            raise UnreadableRun(f"{folder} was given twice; give each run once")
        alike = sum(other.header["run"] == run.name for other in runs)
        runs.append(replace(run, name=f"{run.name} ({alike + 1})") if alike else run)
    return runs


def open_run(folder: Path) -> Run:
    """Return the run in ``folder``. Raises :class:`UnreadableRun`."""
    path = folder / HEADER
    if not path.is_file():
        raise UnreadableRun(
            f"{folder} is not a run folder: it has no {HEADER}; give a folder that"
            " `brokerproof run` wrote"
        )
    header = _json_object(path)
    if header.get("format") != FORMAT:
        raise UnreadableRun(f"{path}: {wrong_format(header)}")
    name = header.get("run")
    if not isinstance(name, str) or not name:
        raise UnreadableRun(f"{path}: run is {name!r}; it should be the name of the run")
    if header.get("fingerprint") != FINGERPRINT:
        raise UnreadableRun(
            f"{path}: the trace was recorded in format {header.get('fingerprint')!r} and"
            f" this version has {FINGERPRINT!r}; report it with brokerproof"
            f" {header.get('brokerproof', 'of that time')}, or record again"
        )
    run = Run(folder, name, header, _case_facts(folder / CASES))
    for segment in run.segments():
        _check_segment(segment)
    return run


def _json_object(path: Path) -> dict[str, Any]:
    try:
        values = strict_json.read(path)
    except BadInput as problem:
        raise UnreadableRun(f"{path}: is not readable JSON ({problem})") from None
    if not isinstance(values, dict):
        raise UnreadableRun(f"{path}: holds a {type(values).__name__}; it must be a JSON object")
    return values


def _case_facts(path: Path) -> dict[str, CaseFacts]:
    if not path.exists():
        return {}
    facts: dict[str, CaseFacts] = {}
    for case, values in _json_object(path).items():
        if not isinstance(values, dict):
            raise UnreadableRun(
                f"{path}: {case} holds a {type(values).__name__}; it must be a JSON object"
            )
        drawn = values.get("drawn")
        facts[case] = CaseFacts(
            str(values.get("doc") or ""),
            str(values.get("source") or ""),
            tuple(f"{name}: {meaning}" for name, meaning in drawn.items())
            if isinstance(drawn, dict)
            else (),
        )
    return facts


def _check_segment(segment: Path) -> None:
    try:
        row_count(segment)
    except UnreadableTrace as problem:
        raise UnreadableRun(str(problem)) from None


def check_data(runs: Iterable[Run]) -> None:
    """Read every segment to its end, one batch at a time. Raises :class:`UnreadableRun` for the
    first damaged one."""
    for run in runs:
        for segment in run.segments():
            try:
                with pq.ParquetFile(segment) as file:
                    for _ in file.iter_batches():
                        pass
            except DAMAGED as problem:
                raise UnreadableRun(damaged(segment, problem)) from None
