"""``results.ndjson``: one line per case and target, flushed immediately, so that a run can be
resumed from it."""

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from brokerproof.harness.model import input_file, strict_json
from brokerproof.harness.model.finding import JudgedFinding, ListedDeviation, Measurement
from brokerproof.harness.model.input_file import BadInput, OneSentence
from brokerproof.harness.model.time import NS_PER_MS, Duration
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.results.verdict import is_unmet

NAME = "results.ndjson"
MOST_BYTES = 1 << 30
"""The most bytes of the file that are read. The results of 100,000 cases take 68 MB."""
MOST_ATTEMPTS = 1_000_000
"""The maximum number of attempts at a case. A line with more attempts is not a result."""
HOST_LATENESS = "lateness of the host"
"""The measurement in an INCONCLUSIVE case: the host's worst delay during the case."""
LATE_HOST: Duration = 50 * NS_PER_MS
"""If the host was at least this late, it may have left a case open. A quiet host is late by a few
milliseconds."""
MOST_COUNTED = 2**63 - 1
"""The largest count, because the tables of reports hold 64-bit numbers."""


class UnreadableResults(OneSentence):
    """A line of results.ndjson is not a result. The message names the file and the line."""


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """Passing examples of a property that were judged as they ran, but whose events were not
    recorded (:mod:`brokerproof.harness.cases.recording_budget`)."""

    examples: int = 0
    events: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """One case on one target: its verdict, and each finding with its verdict.

    ``measurements`` are by label; of several examples, the value nearest to a bound is kept."""

    case: str
    target: str
    requirements: tuple[str, ...]
    verdict: Verdict
    detail: str
    findings: tuple[JudgedFinding, ...] = ()
    measurements: Mapping[str, Measurement] = field(default_factory=dict)
    attempts: int = 1
    duration_s: float = 0.0
    trace_ref: str = ""
    situations: Mapping[str, int] = field(default_factory=dict)
    """The number of examples that reached each situation that the property declares."""
    amounts: Mapping[str, int] = field(default_factory=dict)
    """The largest amount that an example used of each kind, such as waiting messages."""
    behaviours: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The values observed for each behaviour listed in ``fixtures/behaviours.toml``."""
    unrecorded: Unrecorded = field(default_factory=Unrecorded)

    @property
    def left_open_by_host(self) -> bool:
        """True if there is no verdict, possibly because the host was late rather than because of a
        refusal."""
        late = self.measurements.get(HOST_LATENESS)
        return late is not None and late.value >= LATE_HOST and not is_unmet(self.findings)

    def line(self) -> str:
        """The result as one line of JSON, without the end of line."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def parse(cls, line: str) -> Self:
        """Return the result in ``line``. Raises ``ValueError``, ``KeyError`` or ``TypeError`` for
        anything else."""
        values = _object(strict_json.loads(line))
        values["verdict"] = Verdict(values["verdict"])
        values["requirements"] = tuple(_list(values["requirements"]))
        values["findings"] = tuple(_finding(finding) for finding in _list(values["findings"]))
        values["measurements"] = measurements_of(values.get("measurements", {}))
        values["situations"] = _object(values.get("situations", {}))
        values["amounts"] = _object(values.get("amounts", {}))
        values["behaviours"] = {
            name: tuple(_list(seen)) for name, seen in _object(values.get("behaviours", {})).items()
        }
        values["unrecorded"] = Unrecorded(**_object(values.get("unrecorded", {})))
        result = cls(**values)
        if not result._well_formed():
            raise TypeError("a field has the wrong type, or a number is out of range")
        return result

    def _well_formed(self) -> bool:
        """True if every field has the right type. This is checked because the JSON is untrusted."""
        texts = [self.case, self.target, self.detail, self.trace_ref, *self.requirements]
        texts += [value for seen in self.behaviours.values() for value in seen]
        for finding in self.findings:
            texts += [finding.requirement, finding.detail]
            texts += [] if finding.uncertain is None else [finding.uncertain]
            if finding.deviation is not None:
                *listed, sometimes = dataclasses.astuple(finding.deviation)
                texts += [*listed] if type(sometimes) is bool else [sometimes]
        return (
            all(isinstance(text, str) for text in texts)
            and type(self.attempts) is int
            and 0 <= self.attempts <= MOST_ATTEMPTS
            and type(self.duration_s) in (int, float)
            and all(
                type(count) is int and 0 <= count <= MOST_COUNTED
                for count in (
                    *self.situations.values(),
                    *self.amounts.values(),
                    *dataclasses.astuple(self.unrecorded),
                )
            )
        )


def _object(values: Any) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise TypeError(f"a {type(values).__name__} is not an object")
    return values


def _list(values: Any) -> list[Any]:
    if not isinstance(values, list):
        raise TypeError(f"a {type(values).__name__} is not a list")
    return values


def _finding(values: Any) -> JudgedFinding:
    deviation = _object(values).get("deviation")
    return JudgedFinding(
        **{
            **values,
            "seen": Seen(values["seen"]),
            "verdict": Verdict(values["verdict"]),
            "deviation": None if deviation is None else ListedDeviation(**deviation),
        }
    )


def measurements_of(values: Any) -> dict[str, Measurement]:
    """Return measurements by label from JSON. Raises ``TypeError`` for malformed measurements."""
    if not isinstance(values, dict):
        raise TypeError("measurements are not an object")
    measurements = {label: Measurement(**_object(fields)) for label, fields in values.items()}
    for measurement in measurements.values():
        numbers = [measurement.value, measurement.margin]
        numbers += [bound for bound in (measurement.low, measurement.high) if bound is not None]
        if not all(type(number) is int for number in numbers) or type(measurement.unit) is not str:
            raise TypeError("a measurement has the wrong type")
    return measurements


@dataclass(frozen=True, slots=True)
class LatestResult:
    """The last result of a case on a target in a run, and the earlier verdicts in order. A resumed
    run may have judged a case more than once. The last result counts; if an earlier verdict
    differs, the outcome is unsteady."""

    result: Result
    earlier: tuple[Verdict, ...] = ()

    @property
    def steady(self) -> bool:
        """True if one attempt sufficed and every result has the same verdict."""
        return self.result.attempts <= 1 and all(
            verdict is self.result.verdict for verdict in self.earlier
        )


def last_of_each(results: Iterable[Result]) -> Iterable[LatestResult]:
    """Return the last result of each target and case, in the order of the first results."""
    kept: dict[tuple[str, str], LatestResult] = {}
    for result in results:
        before = kept.get((result.target, result.case))
        earlier = () if before is None else (*before.earlier, before.result.verdict)
        kept[result.target, result.case] = LatestResult(result, earlier)
    return kept.values()


def append(folder: Path, result: Result) -> None:
    """Append one line and sync it to disk. A single write prevents parallel writers from mixing
    lines."""
    handle = os.open(folder / NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, (result.line() + "\n").encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def mend(folder: Path) -> None:
    """Remove an incomplete last line left by a kill, so that the next result starts a new line."""
    path = folder / NAME
    if path.exists():
        data = _read_bytes(path)
        if not data.endswith(b"\n"):
            path.write_bytes(data[: data.rfind(b"\n") + 1])


def read(folder: Path, *, forgive_torn_tail: bool = True) -> Iterator[Result]:
    """Return the results in a run folder, in the order written. With ``forgive_torn_tail`` an
    incomplete last line, left by a kill, is skipped. Raises :class:`UnreadableResults` for any
    other invalid line; a missing file has no results."""
    path = folder / NAME
    if not path.exists():
        return
    lines = _read_bytes(path).split(b"\n")
    last = lines.pop()
    if last and not forgive_torn_tail:
        raise UnreadableResults(
            f"{path}, line {len(lines) + 1}: is cut off; run again with --resume"
        )
    for number, line in enumerate(lines, 1):
        yield _parsed(path, number, line)


class Tail:
    """Follows the results in a run folder while they are being written."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._read = 0
        self._lines = 0

    def new(self) -> list[Result]:
        """Return the results added since the last call, in the order written.

        An incomplete last line is left for the next call. Raises :class:`UnreadableResults` for an
        invalid line."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        results = []
        for line in whole.split(b"\n")[:-1]:
            self._lines += 1
            results.append(_parsed(self._path, self._lines, line))
        return results


def _read_bytes(path: Path) -> bytes:
    try:
        return input_file.read_bytes(path, MOST_BYTES)
    except BadInput as problem:
        raise UnreadableResults(f"{path}: {problem}") from None


def _parsed(path: Path, number: int, line: bytes) -> Result:
    try:
        return Result.parse(line.decode("utf-8"))
    except UnicodeDecodeError as problem:
        reason = f"byte {problem.start} is not UTF-8"
    except KeyError as problem:
        reason = f"{problem} is missing"
    except (ValueError, TypeError) as problem:
        reason = str(problem)
    raise UnreadableResults(f"{path}, line {number}: is not a result ({reason}); remove the line")
