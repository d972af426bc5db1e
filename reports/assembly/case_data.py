"""The data of case pages. The worker that reads a recording judges its cases again, makes excerpts
and packs them.

The browser draws a page (``view/case.js``) from the case's events. One task reads a segment, judges
each case in it again, and keeps a bounded excerpt of the case. The cases are then packed into
chunks, which are scripts of compressed JSON, because a page opened from disk may load only scripts.
The chunk of a case follows from the case's target and name, so links need neither an index nor a
number that changes with the run."""

import base64
import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.oracles.expectations import NOTHING, Expectations
from brokerproof.reports.assembly.tasks import Tasks
from brokerproof.reports.judging.recorded_verdicts import anomalies
from brokerproof.reports.model.certainty import Sighting, sighting
from brokerproof.reports.model.curves import Settings
from brokerproof.reports.model.excerpts import chosen_parts, excerpt, violations
from brokerproof.reports.model.index_model import CaseRow
from brokerproof.reports.sources.dataframes import LOAD
from brokerproof.reports.sources.recorded_cases import RecordedCase, cases_of, read_segment
from brokerproof.reports.sources.runs import Run
from brokerproof.reports.view.case_page import CasePages, worst_first

CASES_IN_CHUNK = 50
UNRECORDED_IN_TASK = 2_000
"""The number of unrecorded cases per task."""
EXAMPLES = 3
"""The number of failed examples that the page of a case shows."""
EXAMPLES_OF_PASS = 1
"""The number of passed examples that the page shows. They are those nearest to a bound."""
MOST_DISPUTED = 5
"""The maximum number of sentences of the second judge that a page shows for one example."""
MOST_ANOMALIES = 20_000
MOST_UNREADABLE = 1_000


Place = tuple[str, str, str]
"""The run, the target and the case."""


@dataclass(frozen=True)
class Page:
    """The row and the findings of a case, for its page."""

    row: CaseRow
    findings: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Work:
    """The input of one task: related segments (possibly none), and the cases for which the task
    makes pages.

    ``superseded`` are the cases of these segments that a later segment records again."""

    run: str
    target: str
    paths: tuple[str, ...]
    pages: Mapping[tuple[str, str], Page]
    """Pages by target and case."""
    superseded: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Packed:
    """One case for a chunk: its page as compressed JSON, the requirements that the page names, and
    the result of judging its recording again."""

    page: bytes
    requirements: tuple[str, ...]
    anomalies: Sequence[Mapping[str, Any]] = ()
    unreadable: Sequence[Mapping[str, Any]] = ()
    sightings: Mapping[Place, Sighting] = field(default_factory=dict)


@dataclass
class CaseData:
    """What the driver knows once the pages are written."""

    pages: int = 0
    anomalies: list[Mapping[str, Any]] = field(default_factory=list)
    unreadable: list[Mapping[str, Any]] = field(default_factory=list)
    sightings: dict[Place, Sighting] = field(default_factory=dict)


def chunk_of(target: str, case: str, chunks: int) -> int:
    """Return the number of the chunk that contains a case's page. It is the same in every run;
    ``case.js`` computes it too."""
    return zlib.crc32(f"{target}\0{case}".encode("utf-8", "replace")) % chunks


def ready(_: int) -> None:
    """Do nothing. Calling this function makes a worker import the module."""


def write(
    tasks: Tasks,
    cases: Sequence[CaseRow],
    findings: Iterable[Mapping[str, Any]],
    runs: Sequence[Run],
    pages: CasePages,
    grounds: Mapping[tuple[str, str], Expectations],
    folder: Path,
) -> tuple[CaseData, int]:
    """Write the chunks with all cases into ``folder``, replacing older chunks; return the results
    of the recordings and the number of chunks."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("[0-9]*.js"):
        old.unlink()
    chunks = max(-(-len(cases) // CASES_IN_CHUNK), 1)
    work = plan(cases, findings, runs)
    written = CaseData()
    if not work:
        return written, chunks
    settings: dict[tuple[str, str], Settings] = {
        (run.name, str(target["name"])): target.get("addresses") or ()
        for run in runs
        for target in run.targets
    }
    packed = partial(_packed, pages, grounds, settings, chunks)
    for chunk, script, count, data in tasks.by_key(packed, work, partial(_chunk, pages), chunks):
        if count:
            (folder / f"{chunk:05}.js").write_text(script, "ascii")
        written.pages += count
        written.anomalies += data.anomalies
        written.unreadable += data.unreadable
        written.sightings |= data.sightings
    return written, chunks


def plan(
    cases: Sequence[CaseRow], findings: Iterable[Mapping[str, Any]], runs: Sequence[Run]
) -> list[Work]:
    """Return the tasks: one per segment, one for all segments of a load, and some for unrecorded
    cases. The largest tasks come first, so that no worker starts a large one at the end."""
    of_case: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for finding in findings:
        key = (finding["run"], finding["target"], finding["case"])
        of_case.setdefault(key, []).append(finding)
    pages: dict[str, dict[tuple[str, str], Page]] = {run.name: {} for run in runs}
    for row in cases:
        found = of_case.get((row.run, row.target, row.case), ())
        pages[row.run][row.target, row.case] = Page(row, found)
    work = []
    for run in runs:
        left = pages[run.name]
        for target, segments in _by_target(run).items():
            names = {path: _cases_in(path) for path in segments}
            latest = {case: path for path in segments for case in names[path]}
            groups = [segments] if LOAD in run.header else [[path] for path in segments]
            for group in groups:
                last = group[-1]
                own = {(target, case) for case in names[last] if latest[case] == last}
                work.append(
                    Work(
                        run.name,
                        target,
                        tuple(map(str, group)),
                        {key: left.pop(key) for key in own if key in left},
                        frozenset(case for case in names[last] if latest[case] != last),
                    )
                )
        rest = list(left.items())
        for start in range(0, len(rest), UNRECORDED_IN_TASK):
            some = dict(rest[start : start + UNRECORDED_IN_TASK])
            work.append(Work(run.name, "", (), some))
    return sorted(work, key=_size, reverse=True)


def _size(work: Work) -> int:
    return sum(Path(path).stat().st_size for path in work.paths)


def _by_target(run: Run) -> dict[str, list[Path]]:
    """Return the segments of each target, in the order in which they were written."""
    found: dict[str, list[Path]] = {}
    for path in sorted(run.segments(), key=lambda path: (path.stat().st_mtime_ns, str(path))):
        target = read_segment(path, "target").column(0)
        found.setdefault(target[0].as_py() if len(target) else "", []).append(path)
    return found


def _cases_in(path: Path) -> list[str]:
    names: list[str] = read_segment(path, "case").column(0).unique().to_pylist()
    return names


def _packed(
    pages: CasePages,
    grounds: Mapping[tuple[str, str], Expectations],
    settings: Mapping[tuple[str, str], Settings],
    chunks: int,
    work: Work,
) -> Iterator[tuple[int, Packed]]:
    seen = set()
    for case, recorded in cases_of(work.paths) if work.paths else ():
        if case in work.superseded:
            continue
        key = (work.target, case)
        seen.add(key)
        scope = {"run": work.run, "target": work.target, "case": case}
        ground = grounds.get((work.run, work.target), NOTHING)
        wrong = [{**scope, **anomaly} for anomaly in anomalies(recorded, ground)]
        unreadable = [
            {**scope, "what": "octets", "detail": detail}
            for kind, detail in zip(recorded.column("kind"), recorded.column("detail"), strict=True)
            if kind == "OctetsRefused"
        ]
        page = b""
        named: tuple[str, ...] = ()
        seen_failing: dict[Place, Sighting] = {}
        if key in work.pages:
            if failing := _first_failing(work.pages[key]):
                left_out = work.pages[key].row.unrecorded_examples
                seen_failing[work.run, *key] = sighting(recorded, {failing}, left_out)
            own = settings.get((work.run, work.target), ())
            page, named = _page(pages, work.pages[key], recorded, own, wrong)
        shown = wrong[:MOST_ANOMALIES], unreadable[:MOST_UNREADABLE]
        yield chunk_of(*key, chunks), Packed(page, named, *shown, seen_failing)
    for key, unrecorded in work.pages.items():
        if key not in seen:
            page, named = _page(pages, unrecorded, None, ())
            yield chunk_of(*key, chunks), Packed(page, named)


def _first_failing(page: Page) -> str:
    """Return the requirement for which a case failed; empty if it did not fail."""
    if page.row.verdict != Verdict.FAIL:
        return ""
    failing = (row["requirement"] for row in page.findings if row["verdict"] == Verdict.FAIL)
    return next(failing, "")


def _page(
    pages: CasePages,
    page: Page,
    recorded: RecordedCase | None,
    settings: Settings,
    anomalies: Sequence[Mapping[str, Any]] = (),
) -> tuple[bytes, tuple[str, ...]]:
    parts: list[dict[str, Any]] = []
    examples = failing = 0
    if recorded is not None:
        passed = page.row.verdict == "PASS"
        most = EXAMPLES_OF_PASS if passed else EXAMPLES
        examples = int(recorded.parts[-1])
        failing = len(violations(recorded))
        disputed = _disputed(anomalies)
        quoted = [
            (finding["requirement"], finding["detail"] or "")
            for finding in worst_first(page.findings)
        ]
        parts = [
            excerpt(recorded, places, settings, passed=passed)
            for places in chosen_parts(recorded, most, quoted, disputed)
        ]
        for part in parts:
            if part["part"] in disputed:
                part["again"] = disputed[part["part"]][:MOST_DISPUTED]
    data = pages.data(page.row, page.findings, parts, examples, failing)
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    named = tuple(finding["requirement"] for finding in page.findings)
    return zlib.compress(text.encode("utf-8", "replace"), 1), named


def _disputed(anomalies: Iterable[Mapping[str, Any]]) -> dict[int, list[tuple[str, str]]]:
    """Return the examples in which the second judge is certain of a violation, each with the
    requirements and sentences."""
    found: dict[int, list[tuple[str, str]]] = {}
    for anomaly in anomalies:
        if not anomaly["uncertain"] and anomaly["requirement"]:
            sentence = anomaly["requirement"], anomaly["what"]
            found.setdefault(anomaly["part"], []).append(sentence)
    return found


def _chunk(
    pages: CasePages, grouped: tuple[int, Iterable[Packed]]
) -> tuple[int, str, int, CaseData]:
    """Return the number of the chunk, its script, the number of cases in it, and their results."""
    chunk, packed = grouped
    data = CaseData()
    texts: list[str] = []
    named: set[str] = set()
    for case in packed:
        data.anomalies += case.anomalies
        data.unreadable += case.unreadable
        data.sightings |= case.sightings
        if case.page:
            texts.append(zlib.decompress(case.page).decode())
            named.update(case.requirements)
    words = json.dumps({name: pages.words(name) for name in sorted(named)}, ensure_ascii=False)
    whole = f'{{"words":{words},"cases":[{",".join(sorted(texts))}]}}'
    compressed = gzip.compress(whole.encode("utf-8", "replace"), 9, mtime=0)
    script = f'brokerproof_cases({chunk},"{base64.b64encode(compressed).decode()}");\n'
    return chunk, script, len(texts), data
