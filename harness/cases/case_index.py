"""The index of all cases (with versions and parameters) and requirements. ``brokerproof cases`` and
``brokerproof requirements`` list it.

Collecting the suites takes seconds, so pytest does it once in a separate process. Reading the
catalogue's TOML files takes longer than the rest of a command. So the index is cached until a file
of the suites, the harness or the catalogue changes."""

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from brokerproof.harness.catalogue import extensions, requirements
from brokerproof.harness.catalogue.areas import Area, area_of
from brokerproof.harness.catalogue.cases import CONFORMANCE, SUITE_ALIASES, CaseInfo
from brokerproof.harness.catalogue.requirements import Catalogue
from brokerproof.harness.catalogue.tables import BadData
from brokerproof.harness.targets.cache import cache_folder

KEPT = 8
"""The maximum number of indexes in the cache folder: one for each recent installation or
checkout."""


class NoIndex(Exception):
    """The suites could not be collected. The message is one sentence."""


@dataclass(frozen=True)
class IndexedCase:
    id: str
    name: str
    """The id of the case without version and parameters."""
    suite: str
    function: str
    version: str | None
    requirements: tuple[str, ...]
    needs: tuple[str, ...]
    doc: str
    source: str
    levels: tuple[str, ...] = ()
    """The levels of ``requirements``, in the same order; empty in a selection, which needs none."""

    @property
    def areas(self) -> tuple[Area, ...]:
        cited = {area_of(requirement) for requirement in self.requirements}
        return tuple(area for area in Area if area in cited)


@dataclass(frozen=True)
class Index:
    """All cases, in suite order, and all requirements."""

    cases: list[IndexedCase]
    catalogue: Catalogue


def load() -> Index:
    """Return the index, from the cache if no source has changed. Raises :class:`NoIndex`, or
    :class:`~brokerproof.harness.catalogue.tables.BadData` for an invalid requirement file."""
    key = _key()
    path = cache_folder() / "cases" / f"{key}.json"
    try:
        return _read(path)
    except (OSError, ValueError, TypeError, KeyError):
        index = Index(_collect(), requirements.load())
    _keep(path, index)
    return index


def described(cases: Iterable[IndexedCase]) -> dict[str, CaseInfo]:
    """Return the facts about each case that the catalogue needs, sorted by name."""
    by_name: dict[str, list[IndexedCase]] = {}
    for case in cases:
        by_name.setdefault(case.name, []).append(case)
    return {
        name: CaseInfo(
            id=name,
            suite=variants[0].suite,
            function=variants[0].function,
            requirements=tuple(
                dict.fromkeys(cited for case in variants for cited in case.requirements)
            ),
            versions=tuple(dict.fromkeys(case.version for case in variants if case.version)),
            needs=frozenset.intersection(*(frozenset(variant.needs) for variant in variants)),
            doc=variants[0].doc,
            source=variants[0].source,
        )
        for name, variants in sorted(by_name.items())
    }


def suites_folder() -> Path:
    spec = find_spec("brokerproof.suites")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations)))


def suite_folders() -> dict[str, Path]:
    """Return the folders of all suites: our own and those of installed packages. Raises
    :class:`NoIndex` for a suite that is not installed or whose name is taken."""
    shipped = {suite: suites_folder() / suite for suite in CONFORMANCE}
    others = _folders_of(extensions.SUITES)
    if taken := sorted(others.keys() & {*CONFORMANCE, *SUITE_ALIASES}):
        raise NoIndex(
            f"suite {taken[0]} is built in; rename the suite in the package that declares it again"
        )
    return shipped | others


def _folders_of(group: str) -> dict[str, Path]:
    try:
        return extensions.folders(group)
    except BadData as problem:
        raise NoIndex(str(problem)) from None


def pytest_command() -> list[str]:
    """Return the command that collects conformance cases; the caller adds the suites.

    ``-P`` prevents imports from the current folder, which may be a checkout."""
    home = suites_folder()
    return [
        *(sys.executable, "-P", "-m", "pytest", "-c", str(home / "conformance.ini")),
        *("--rootdir", str(home), "-q", "--no-header", "--tb=no"),
        # Cases report through findings. Their asserts only narrow types and need no rewriting.
        *("--assert=plain", "-p", "no:cacheprovider"),
        *("-p", "brokerproof.harness.cases.process_of_a_run"),
    ]


def write_cases(path: Path, cases: Iterable[IndexedCase]) -> None:
    """Write the cases that pytest has collected. Raises ``OSError``."""
    path.write_text(json.dumps(_case_rows(cases), ensure_ascii=False), "utf-8")


def _case_rows(cases: Iterable[IndexedCase]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(case) for case in cases]


def _read(path: Path) -> Index:
    values = json.loads(path.read_text("utf-8"))
    return Index(_cases(values["cases"]), Catalogue.from_json(values["catalogue"]))


def _cases(rows: Iterable[dict[str, Any]]) -> list[IndexedCase]:
    return [
        IndexedCase(
            **{
                **row,
                "requirements": tuple(row["requirements"]),
                "needs": tuple(row["needs"]),
                "levels": tuple(row["levels"]),
            }
        )
        for row in rows
    ]


def _key() -> str:
    """Return a digest of the names, sizes and times of all files that define cases."""
    digest = hashlib.sha256(sys.version.encode())
    home = suites_folder()
    others = [
        folder
        for group in (extensions.SUITES, extensions.REQUIREMENTS)
        for folder in _folders_of(group).values()
    ]
    shipped = [home, home.parent / "harness", home.parent / "fixtures" / "requirements"]
    for folder in (*shipped, *others):
        for entry in sorted(_sources(folder), key=lambda source: source.path):
            facts = entry.stat()
            digest.update(f"{entry.path}\0{facts.st_size}\0{facts.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:24]


def digest() -> str:
    """Return a digest of everything that affects verdicts, the same on every machine."""
    home, digest = suites_folder(), hashlib.sha256()
    others = (
        home / "steps",
        home.parent / "harness/oracles",
        home.parent / "fixtures/requirements",
    )
    for folder in (*suite_folders().values(), *others):
        for entry in sorted(_sources(folder), key=lambda source: source.path):
            digest.update(entry.path.removeprefix(str(folder)).encode())
            digest.update(Path(entry.path).read_bytes())
    return digest.hexdigest()[:24]


def _sources(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name not in ("__pycache__", "units", "repo", "mutation", "soak", "fuzz"):
                    yield from _sources(Path(entry.path))
            elif entry.name.endswith((".py", ".toml")):
                yield entry


def _collect() -> list[IndexedCase]:
    if sys.stderr.isatty():
        sys.stderr.write("collecting the cases (once after each change of brokerproof)\n")
    with tempfile.TemporaryDirectory(prefix="brokerproof-cases-") as folder:
        path = Path(folder) / "cases.json"
        collected = subprocess.run(
            [
                *pytest_command(),
                *("--collect-only", "--tb=line", f"--brokerproof-index={path}"),
                *map(str, suite_folders().values()),
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
        )
        if collected.returncode == 0 and path.exists():
            return _cases(json.loads(path.read_text("utf-8")))
    lines = (collected.stdout + collected.stderr).strip().splitlines() or ["nothing"]
    failed = [line.split()[-2] for line in lines if " ERROR collecting " in line]
    causes = [line.removeprefix("E ").strip() for line in lines if line.startswith("E ")]
    printed = f"{failed[0]}: {causes[0]}" if failed and causes else lines[-1]
    raise NoIndex(f"the suites cannot be collected; pytest printed: {printed}")


def _keep(path: Path, index: Index) -> None:
    """Cache the index. Without a writable cache folder, it is rebuilt each time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        values = {"cases": _case_rows(index.cases), "catalogue": index.catalogue.to_json()}
        partial.write_text(json.dumps(values, ensure_ascii=False), "utf-8")
        partial.rename(path)
        newest_first = sorted(path.parent.glob("*.json"), key=_modified, reverse=True)
        for former in newest_first[KEPT:]:
            former.unlink(missing_ok=True)
    except OSError:
        return


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:  # another process removed it
        return 0
