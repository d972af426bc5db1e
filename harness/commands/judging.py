"""Judges targets one after the other, as ``brokerproof run`` is asked.

Each target is judged by a pytest process of its own, so that one that crashes takes nothing with it
and the next starts clean. This process watches ``results.ndjson`` grow and shows it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import FrameType

import click
from rich.console import Console

from brokerproof.harness.cases import case_index
from brokerproof.harness.cases.selection import Selection
from brokerproof.harness.catalogue import deviations
from brokerproof.harness.catalogue.cases import CONFORMANCE, SUITE_ALIASES
from brokerproof.harness.commands import errors, progress
from brokerproof.harness.model import limits
from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.results import records, run_folder
from brokerproof.harness.results.records import Result
from brokerproof.harness.results.verdict import exit_code
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.target import Target
from brokerproof.harness.trace.redaction import IN_URL, without_passcode

@dataclass(frozen=True)
class _Asked:
    """The selection of a run. It is kept in the header, so that a run that was cut off can be
    resumed with the same."""

    targets: tuple[str, ...]
    suites: tuple[str, ...]
    case: str | None

    def recorded(self) -> _Asked:
        """Return it as the header has it: without the passcodes of URLs."""
        return dataclasses.replace(self, targets=tuple(map(without_passcode, self.targets)))


def _as_before(folder: Path | None, asked: _Asked) -> _Asked:
    """Return the selection of a resumed run: the one in its folder, unless another is named now."""
    if folder is None:
        raise errors.Usage("--resume needs --out, the folder of the run to go on with")
    before = _before(folder)
    if before is None or asked.targets or asked.suites or asked.case:
        return dataclasses.replace(asked, targets=asked.targets or DEFAULT_TARGETS)
    for target in before.targets:
        if f":{IN_URL}@" in target:
            raise errors.Usage(
                f"--resume: the passcode of {target} is not kept; name the target again, with its"
                " passcode or ?passcode_env=NAME"
            )
    return before


def _before(folder: Path) -> _Asked | None:
    """The selection in the header of a run."""
    before = run_folder.read(folder).get("asked")
    if before is None:
        return None
    try:
        case = before["case"]
        return _Asked(tuple(map(str, before["targets"])), tuple(map(str, before["suites"])), case)
    except (KeyError, TypeError):
        raise run_folder.BadRunFolder(
            f"{folder / run_folder.HEADER}: asked is damaged; begin another run"
        ) from None


def _limits(words: tuple[str, ...]) -> dict[str, int]:
    try:
        return limits.parse(words)
    except ValueError as problem:
        raise errors.Usage(f"--limit: {problem}") from None


def _begin(folder: Path, asked: _Asked, seed: int | None, effort: str) -> int:
    chosen = random.SystemRandom().randrange(2**32) if seed is None else seed
    run_folder.create(folder, command=run_folder.command_line(), seed=chosen, effort=effort)
    run_folder.write_header_field(folder, "asked", dataclasses.asdict(asked.recorded()))
    return chosen


def _reopen(folder: Path, seed: int | None) -> tuple[int, str]:
    header = run_folder.reopen(folder)
    if seed not in (None, header["seed"]):
        raise errors.Usage(
            f"--seed: the run in {folder} has seed {header['seed']}; leave --seed out to go on"
            " with it"
        )
    list(records.read(folder))  # a garbled line is better found before an hour of judging
    return header["seed"], header["effort"]


def _arguments(
    target: str,
    asked: _Asked,
    effort: str,
    seed: int,
    folder: Path,
    resume: bool,
    at_once: int | None,
) -> list[str]:
    spec = find_spec("brokerproof.suites")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    home = Path(next(iter(spec.submodule_search_locations)))
    settings = home / "conformance.ini"
    return [
        *(
            sys.executable,
            "-m",
            "pytest",
            "-c",
            str(settings),
            "--rootdir",
            str(home),
            "-q",
            "--no-header",
            "--tb=no",
        ),
        # What a case finds it judges; its asserts only say what is there, and need not be rewritten
        # to tell more.
        *("--assert=plain", "-p", "no:cacheprovider", "--brokerproof-target", target),
        *("--brokerproof-effort", effort, "--brokerproof-seed", str(seed)),
        *("--brokerproof-record", str(folder.resolve())),
        *([] if at_once is None else ["--brokerproof-cases-in-parallel", str(at_once)]),
        *(["--brokerproof-resume"] if resume else []),
        *(["-k", asked.case] if asked.case else []),
        *(str(home / SUITE_ALIASES.get(suite, suite)) for suite in asked.suites or CONFORMANCE),
    ]


def _judge(console: Console, target: Target, arguments: list[str], folder: Path, held: int) -> None:
    """Run pytest for one target and follow it; ``held`` keeps others from the folder until it has
    ended, even where this process was killed. Raises for what is no verdict."""
    name = target.identity.name
    log = folder / "logs" / f"pytest-{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            arguments,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            pass_fds=(held,),
        )
        try:
            with _interruptible():
                in_time = progress.follow(
                    console, process, folder, name, target.identity.limits.run_seconds
                )
        finally:
            _end(process)
    if not in_time:
        within = f"within {target.identity.limits.run_seconds} s (limit run_seconds)"
        raise errors.SetUp(f"{name} was not judged {within}; {_how_to_go_on(folder)}")
    lines = log.read_text(errors="replace").strip().splitlines()
    last = next(
        (
            line.removeprefix("!!!").strip(" !")
            for line in lines
            if "_pytest.outcomes.Exit: " in line
        ),
        None,
    )
    reason = last.partition("Exit: ")[2] if last else (lines[-1] if lines else "it printed nothing")
    if process.returncode == _PYTEST_SET_UP:
        sentence = reason if reason.startswith(name) else f"target {name}: {reason}"
        kept = _has_results(folder, name)
        raise errors.SetUp(f"{sentence}; {_how_to_go_on(folder)}" if kept else sentence)
    if process.returncode == _PYTEST_USAGE:
        raise errors.Usage(reason.removeprefix("ERROR: "))
    if (
        process.returncode == 5
        and "--brokerproof-resume" in arguments
        and _has_results(folder, name)
    ):
        return  # it was cut off after its last case
    if process.returncode == 5:
        raise errors.Usage(f"no case of the chosen suites fits; what was collected is in {log}")
    if process.returncode not in (0, 1):
        raise _broke_off(
            folder, f"judging {name} broke off (exit {process.returncode}: {reason}); see {log}"
        )


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM ends this command as Ctrl-C does: its children with it, and what they recorded is
    kept."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _how_to_go_on(folder: Path) -> str:
    again = f"brokerproof run --resume --out {shlex.quote(str(folder))}"
    return f"the results so far are kept, and {again} goes on with it"


def _has_results(folder: Path, name: str) -> bool:
    return any(result.target == name for result in records.read(folder))


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _complete(target: Target, folder: Path) -> None:
    """Raise what :func:`_broke_off` gives unless every case of the run has a result: a verdict on
    the others would mislead."""
    name = target.identity.name
    judged = {result.case for result in records.read(folder) if result.target == name}
    missing = sorted(run_folder.cases_of(folder).keys() - judged)
    if missing:
        log = folder / "logs" / f"pytest-{name}.log"
        raise _broke_off(
            folder,
            f"judging {name} broke off: {len(missing)} cases have no result, {missing[0]} first;"
            f" see {log}",
        )


def _broke_off(folder: Path, how: str) -> errors.Ours | errors.SetUp:
    """Whose fault it is that judging did not come to its end."""
    if shutil.disk_usage(folder).free < _NO_ROOM:
        again = (
            f"make room, and brokerproof run --resume --out {shlex.quote(str(folder))} goes on"
            " with it"
        )
        return errors.SetUp(f"{folder}: there is no room left on its disk; {again}")
    return errors.Ours(how)


def _known_that_pass(loaded: list[Target], folder: Path, results: list[Result]) -> list[str]:
    """Listed deviations that every case in their scope saw held: the list is out of date, and that
    fails the run."""
    versions = {entry["name"]: entry["version"] for entry in run_folder.read(folder)["targets"]}
    passing = []
    for target in loaded:
        identity = target.identity
        if identity.deviations is None:
            continue
        held = [
            (result.case, finding.requirement, finding.seen is Seen.HELD)
            for result in results
            if result.target == identity.name and result.verdict is not Verdict.SKIP
            for finding in result.findings
        ]
        passing += [
            f"{identity.name}: the known deviation {deviation.name} did not show; remove it from"
            f" {deviation.where}"
            for deviation in deviations.not_shown(
                deviations.load(identity.deviations, identity.name), held, versions[identity.name]
            )
        ]
    return passing


def _report(folder: Path) -> None:
    """The report command of whichever part has one, run on this folder."""
    for entry_point in entry_points(group="brokerproof.commands"):
        if entry_point.name == "report":
            command = entry_point.load()
            command.main(
                [str(folder), "--out", str(folder / "report"), "--quiet"], standalone_mode=False
            )


def _summary(
    console: Console,
    folder: Path,
    results: list[Result],
    passing: list[str],
    footer: dict[str, Any],
    as_json: bool,
    *,
    reported: bool,
) -> None:
    if as_json:
        click.echo(json.dumps({"run": str(folder), **footer}, ensure_ascii=False))
        return
    shown = [
        verdict for verdict in WORST_FIRST if any(result.verdict is verdict for result in results)
    ]
    table = Table(
        "target", *(verdict.value for verdict in shown), title="Verdicts", title_justify="left"
    )
    for name in dict.fromkeys(result.target for result in results):
        counts = Counter(result.verdict for result in results if result.target == name)
        table.add_row(name, *(str(counts[verdict] or "") for verdict in shown))
    console.print(table)
    bad = [
        result
        for result in results
        if result.verdict in (Verdict.ERROR, Verdict.FAIL, Verdict.INCONCLUSIVE)
    ]
    for result in bad[:20]:
        console.print(
            f"{result.verdict} {result.target} {result.case}",
            style="bold",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        console.print(f"    {result.detail[:300]}", highlight=False, markup=False, soft_wrap=True)
    if len(bad) > 20:
        console.print(f"… and {len(bad) - 20} more in the report")
    for sentence in passing:
        console.print(
            f"KNOWN deviation passes: {sentence}", highlight=False, markup=False, soft_wrap=True
        )
    click.echo(str(folder / "report" / "index.html" if reported else folder))
