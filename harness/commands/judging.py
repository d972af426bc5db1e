"""Judges the targets of ``brokerproof run`` one after the other.

Each target is judged in its own pytest process, so that a crash affects no other target. This
process watches ``results.ndjson`` grow and shows it."""

import dataclasses
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Self

import click
from rich.console import Console

from brokerproof.harness.cases import case_index
from brokerproof.harness.cases.selection import Selection
from brokerproof.harness.catalogue import deviations
from brokerproof.harness.commands import errors, gate, progress, report_process, summary
from brokerproof.harness.commands.cases import choose, suites_named, totals
from brokerproof.harness.commands.progress import Ended
from brokerproof.harness.commands.report_process import ReportProcess
from brokerproof.harness.model import cost_limits
from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.results import records, run_folder
from brokerproof.harness.results.records import Result
from brokerproof.harness.results.verdict import exit_code, is_unmet
from brokerproof.harness.targets import shipped_targets, target_file, target_url
from brokerproof.harness.targets.external.target import AddressTarget
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.target import Target
from brokerproof.harness.trace.redaction import IN_URL, without_passcode

DEFAULT_TARGETS = ("reference", "reference-real")
_PYTEST_SET_UP, _PYTEST_USAGE, _PYTEST_NO_TESTS = 3, 4, 5
"""Pytest also returns the first of these for errors of its own or of a plugin. In that case, the
log contains no sentence of ours."""
INCONCLUSIVE = 2
_GRACE_S = 30.0
"""The time for a pytest process to end after SIGTERM, before it is killed."""
_NO_ROOM = 2**20
"""A disk with fewer free bytes than this, the size of a segment, counts as full."""
_FAILED = frozenset({Verdict.FAIL, Verdict.ERROR, Verdict.INCONCLUSIVE})
"""Verdicts that ``--last-failed`` judges again."""


@dataclass(frozen=True)
class Asked:
    """The selection of a run. The header keeps the selection, so that an interrupted run can be
    resumed."""

    targets: tuple[str, ...]
    suites: tuple[str, ...]
    selection: Selection = dataclasses.field(default_factory=Selection)

    def __bool__(self) -> bool:
        return bool(self.targets or self.suites or self.selection)

    def recorded(self) -> Self:
        """Return the selection as the header stores it, without the passcodes of URLs."""
        return dataclasses.replace(self, targets=tuple(map(without_passcode, self.targets)))


@dataclass(frozen=True, kw_only=True)
class Options:
    effort: str
    seed: int | None
    out: Path | None
    resume: bool
    jobs: int | None
    limit_words: tuple[str, ...]
    allow_harm: bool
    restart: str
    stop_at_first: bool
    baseline: Path | None
    fail_on: str | None
    inconclusive_ok: bool
    report: bool
    as_json: bool


class _StoppedAtFirst(Exception):
    """A case failed, and the run was asked to stop at its first failure."""


class _EndedEarly(errors.SetUp):
    """The target could not be judged completely. The summary and the report cover everything judged
    so far."""


def with_endpoints(targets: tuple[str, ...], endpoints: tuple[str, ...], like: str | None) -> str:
    """Return the only target in ``targets``, an address, with further endpoints and its family
    added."""
    if len(targets) != 1 or targets[0].endswith(".toml") or targets[0] in shipped_targets.paths():
        raise errors.Usage(
            "--endpoint and --like need exactly one --target, given as HOST:PORT or a URL; in a"
            " target file, set the keys endpoints and like instead"
        )
    return target_url.joined(targets[0], endpoints, like)


def judge(asked: Asked, options: Options) -> int:
    """Judge the targets, print the verdicts, write the report; return the exit code."""
    folder = options.out or run_folder.default_folder()
    console = Console(stderr=True, emoji=False, highlight=False)
    try:
        if options.resume:
            asked = _as_before(options.out, asked)
        else:
            asked = dataclasses.replace(asked, targets=asked.targets or DEFAULT_TARGETS)
        baseline = gate.open_baseline(options.baseline, options.fail_on)
        suites_named(asked.suites)
        loaded = [target_file.load(name, _limits(options.limit_words)) for name in asked.targets]
        if asked.selection:
            choose(asked.suites, asked.selection)  # find a misspelled case early
        _check_named_cases(loaded)
        _discover(console, loaded)
        seed, effort = options.seed, options.effort
        if not options.resume:
            seed = _begin(folder, asked, seed, effort)
        reporting = report_process.command(folder, quiet=options.as_json)
        with (
            run_folder.alone(folder) as held,
            ReportProcess(reporting if options.report else None) as report,
        ):
            if options.resume:
                seed, effort = _reopen(folder, seed)
            assert seed is not None
            chosen = (seed, effort)
            early = None
            try:
                whole = _judge_all(console, asked, loaded, options, chosen, folder, held, report)
            except _EndedEarly as ended:
                whole, early = False, ended
            results = list(records.read(folder))
            passing = _known_that_pass(loaded, folder, results) if whole else []
            gated = None if baseline is None else gate.compare_with(baseline, folder)
            if gated is not None:
                run_folder.write_header_field(folder, "baseline", gated.recorded())
            code = _exit_code(results, passing, gated, options)
            if early is not None and code != 1:
                code = early.exit_code
            footer = run_folder.finish(folder, results, code, passing)
            if not options.as_json:
                summary.show(console, folder, results, _names(asked, loaded), passing, gated)
            report.write()
    except (target_file.BadTarget, run_folder.BadRunFolder, records.UnreadableResults) as problem:
        raise errors.Usage(str(problem)) from None
    except KeyboardInterrupt:
        with suppress(KeyboardInterrupt):  # a second Ctrl-C skips the verdicts so far
            _show_what_was_judged(console, folder, options)
        how = f"brokerproof run --resume --out {shlex.quote(str(folder))} continues it"
        raise errors.Interrupted(how) from None
    if options.as_json:
        changed = {} if gated is None else {"baseline": gated.counts()}
        click.echo(json.dumps({"run": str(folder), **footer, **changed}, ensure_ascii=False))
    else:
        click.echo(str(folder / "report" / "index.html" if options.report else folder))
    if early is not None:
        early.show()
    return code


def _exit_code(
    results: list[Result], passing: list[str], gated: gate.Gated | None, options: Options
) -> int:
    code = exit_code((result.verdict for result in results), known_that_passed=bool(passing))
    code = gate.decide(code, gated, options.fail_on, results)
    unmet = any(is_unmet(result.findings) for result in results)
    return 0 if code == INCONCLUSIVE and options.inconclusive_ok and not unmet else code


def _discover(console: Console, targets: list[Target]) -> None:
    """For each broker that is given by its address, find out what it is, and print the rules by
    which it is judged. Raises ``SetUp`` if a broker does not answer."""
    for target in targets:
        if isinstance(target, AddressTarget):
            try:
                found = target.discover()
            except SetUpFailed as problem:
                raise errors.SetUp(target.identity.redaction.text(str(problem))) from None
            if found.judged_as:
                console.print(f"{target.identity.name}: {found.judged_as}", markup=False)


def _check_named_cases(targets: list[Target]) -> None:
    """Raise ``Usage`` if the file of a target names a case that does not exist."""
    named = [target for target in targets if target.identity.cases]
    known = {case.id for case in choose((), Selection())} if named else set()
    for target in named:
        if unknown := target.identity.cases - known:
            raise errors.Usage(
                f"target {target.identity.name}: cases has {min(unknown)!r}, which is not a case;"
                " `brokerproof cases` lists their ids"
            )


def _judge_all(
    console: Console,
    asked: Asked,
    loaded: list[Target],
    options: Options,
    seed_and_effort: tuple[int, str],
    folder: Path,
    held: int,
    report: ReportProcess,
) -> bool:
    """Judge one target after the other; return False if the run stopped at its first failure. The
    process that writes the report starts while the last target is judged."""
    seed, effort = seed_and_effort
    for number, (name, target) in enumerate(zip(asked.targets, loaded, strict=True), 1):
        if number == len(loaded):
            report.start()
        at_once = options.jobs or (
            len(os.sched_getaffinity(0)) if target.clock is Clock.VIRTUAL else None
        )
        arguments = [
            *_arguments(name, asked, effort, seed, folder, options.resume, at_once),
            *(f"--brokerproof-limit={limit}" for limit in options.limit_words),
            *(["--brokerproof-allow-harm"] if options.allow_harm else []),
            *([f"--brokerproof-restart={options.restart}"] if options.restart else []),
        ]
        title = target.identity.name
        if len(loaded) > 1:
            title += f" ({number} of {len(loaded)})"
        try:
            _judge(console, target, arguments, folder, held, title, options.stop_at_first)
        except _StoppedAtFirst:
            return False
        if not options.resume or asked.recorded() == _before(folder):
            _complete(target, folder)
    return True


def _show_what_was_judged(console: Console, folder: Path, options: Options) -> None:
    """Print the verdicts of an interrupted run."""
    try:
        results = list(records.read(folder))
    except records.UnreadableResults:
        return
    if results and not options.as_json:
        summary.show(console, folder, results, {}, [], None)


def _names(asked: Asked, loaded: list[Target]) -> dict[str, str]:
    """Return the ``--target`` of each target, by its name in the results."""
    recorded = asked.recorded().targets
    return {target.identity.name: name for name, target in zip(recorded, loaded, strict=True)}


def only_failed(asked: Asked, run: str) -> Asked:
    """Return the selection reduced to the cases that did not pass in ``run`` (empty: the newest
    run), on its targets unless others are named. Raises ``Usage`` if there are none."""
    folder = Path(run) if run else _newest_run()
    try:
        header = run_folder.read(folder, traces=False)
        latest = [last.result for last in records.last_of_each(records.read(folder))]
    except (run_folder.BadRunFolder, records.UnreadableResults) as problem:
        raise errors.Usage(f"--last-failed: {problem}") from None
    failed = [result for result in latest if result.verdict in _FAILED]
    if asked.selection or asked.suites:
        chosen = {case.id for case in choose(asked.suites, asked.selection)}
        failed = [result for result in failed if result.case in chosen]
    if not failed:
        raise errors.Usage(f"--last-failed: no such case failed in {folder}")
    targets = asked.targets or tuple(header.get("asked", {}).get("targets", ()))
    return Asked(
        targets, (), Selection(cases=tuple(dict.fromkeys(result.case for result in failed)))
    )


def _newest_run() -> Path:
    runs = run_folder.default_folder().parent.glob(f"*/{run_folder.HEADER}")
    newest = max((path.parent for path in runs), key=lambda folder: folder.name, default=None)
    if newest is None:
        raise errors.Usage("--last-failed: brokerproof-out contains no run; name a run folder")
    return newest


def dry_run(asked: Asked, *, as_json: bool) -> int:
    """Print the cases that would be judged and, for each target, those that it would skip."""
    try:
        loaded = [target_file.load(name) for name in asked.targets or DEFAULT_TARGETS]
    except target_file.BadTarget as problem:
        raise errors.Usage(str(problem)) from None
    _check_named_cases(loaded)
    try:
        _discover(Console(stderr=True, emoji=False, highlight=False), loaded)
    except errors.SetUp as problem:
        click.echo(f"listed as for an unknown broker: {problem.message}", err=True)
    chosen = choose(asked.suites, asked.selection)
    plans = []
    for target in loaded:
        identity = target.identity
        lacks = {case.id: sorted(set(case.needs) - identity.capabilities) for case in chosen}
        skipped = {case: lack for case, lack in lacks.items() if lack}
        others = [
            case.id
            for case in chosen
            if case.id not in skipped and identity.is_out_of_scope(frozenset(case.needs), case.id)
        ]
        plans.append((identity, skipped, others))
    if as_json:
        rows = [
            {
                "target": identity.name,
                "judged": [case.id for case in chosen if case.id not in {*skipped, *others}],
                "skipped": skipped,
                "judged_on": dict.fromkeys(others, identity.others_judged_on),
            }
            for identity, skipped, others in plans
        ]
        click.echo(json.dumps(rows, ensure_ascii=False))
        return 0
    for case in chosen:
        click.echo(case.id)
    click.echo(totals(chosen))
    for identity, skipped, others in plans:
        left_out = len(skipped) + len(others)
        click.echo(f"{identity.name}: {len(chosen) - left_out} judged, {left_out} skipped")
        if others:
            click.echo(f"    {len(others)} judged on the target {identity.others_judged_on}")
        reasons = Counter(", ".join(lack) for lack in skipped.values())
        for lack, count in reasons.most_common():
            click.echo(
                click.wrap_text(
                    f"{count} skipped: the target has no {lack}",
                    click.formatting.HelpFormatter().width,
                    initial_indent="    ",
                    subsequent_indent="    ",
                )
            )
    return 0


def _as_before(folder: Path | None, asked: Asked) -> Asked:
    """Return the selection of a resumed run: that in its folder, unless a new one is given."""
    if folder is None:
        raise errors.Usage("--resume needs --out, the folder of the run to continue")
    before = _before(folder)
    if before is None or asked:
        return dataclasses.replace(asked, targets=asked.targets or DEFAULT_TARGETS)
    for target in before.targets:
        if f":{IN_URL}@" in target:
            raise errors.Usage(
                f"--resume: the passcode of {target} was not stored; name the target again with its"
                " passcode or ?passcode_env=NAME"
            )
    return before


def _before(folder: Path) -> Asked | None:
    """Return the selection in the header of a run."""
    before = run_folder.read(folder).get("asked")
    if before is None:
        return None
    try:
        selection = Selection(
            **{
                field.name: tuple(map(str, before["selection"][field.name]))
                for field in dataclasses.fields(Selection)
            }
        )
        return Asked(
            tuple(map(str, before["targets"])), tuple(map(str, before["suites"])), selection
        )
    except (KeyError, TypeError):
        raise run_folder.BadRunFolder(
            f"{folder / run_folder.HEADER}: asked is damaged; start another run"
        ) from None


def _limits(words: tuple[str, ...]) -> dict[str, int]:
    try:
        return cost_limits.parse(words)
    except ValueError as problem:
        raise errors.Usage(f"--limit: {problem}") from None


def _begin(folder: Path, asked: Asked, seed: int | None, effort: str) -> int:
    chosen = random.SystemRandom().randrange(2**32) if seed is None else seed
    run_folder.create(folder, command=run_folder.command_line(), seed=chosen, effort=effort)
    run_folder.write_header_field(folder, "asked", dataclasses.asdict(asked.recorded()))
    return chosen


def _reopen(folder: Path, seed: int | None) -> tuple[int, str]:
    header = run_folder.reopen(folder)
    if seed not in (None, header["seed"]):
        raise errors.Usage(
            f"--seed: the run in {folder} has seed {header['seed']}; omit --seed to continue"
            " with it"
        )
    list(records.read(folder))  # find a garbled line now, not after an hour of judging
    return header["seed"], header["effort"]


def _arguments(
    target: str,
    asked: Asked,
    effort: str,
    seed: int,
    folder: Path,
    resume: bool,
    at_once: int | None,
) -> list[str]:
    selection = asked.selection
    return [
        *case_index.pytest_command(),
        *("--brokerproof-target", target),
        *("--brokerproof-effort", effort, "--brokerproof-seed", str(seed)),
        *("--brokerproof-record", str(folder.resolve())),
        *([] if at_once is None else ["--brokerproof-cases-in-parallel", str(at_once)]),
        *(["--brokerproof-resume"] if resume else []),
        *(f"--brokerproof-case={case}" for case in selection.cases),
        *(f"--brokerproof-exclude={case}" for case in selection.exclude),
        *(f"--brokerproof-requirement={requirement}" for requirement in selection.requirements),
        *(f"--brokerproof-area={area}" for area in selection.areas),
        *map(str, suites_named(asked.suites).values()),
    ]


def _judge(
    console: Console,
    target: Target,
    arguments: list[str],
    folder: Path,
    held: int,
    title: str,
    stop_at_first: bool,
) -> None:
    """Run pytest for one target and follow the run. ``held`` keeps other processes from using the
    folder until pytest has ended, even if this process is killed. If there are no verdicts, raises
    the error that prevented them."""
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
            with interruptible():
                ended = progress.follow(
                    console,
                    process,
                    folder,
                    name,
                    target.identity.limits.run_seconds,
                    title=title,
                    stop_at_first=stop_at_first,
                )
        finally:
            _end(process)
    if ended is Ended.FAILED:
        raise _StoppedAtFirst
    if ended is Ended.LATE:
        within = f"within {target.identity.limits.run_seconds} s (limit run_seconds)"
        raise _EndedEarly(f"{name} was not judged {within}; {_how_to_go_on(folder)}")
    _raise_for_exit(process.returncode, log, folder, name, "--brokerproof-resume" in arguments)


def _raise_for_exit(code: int, log: Path, folder: Path, name: str, resumed: bool) -> None:
    """Raise the error for a pytest process that ended with ``code`` and without verdicts."""
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
    if code == _PYTEST_SET_UP and last is not None:
        sentence = reason if reason.startswith(name) else f"target {name}: {reason}"
        kept = _has_results(folder, name)
        if kept:
            raise _EndedEarly(f"{sentence}; {_how_to_go_on(folder)}")
        raise errors.SetUp(sentence)
    if code == _PYTEST_USAGE:
        raise errors.Usage(reason.removeprefix("ERROR: "))
    if code == 5 and resumed and _has_results(folder, name):
        return  # pytest was cut off after its last case
    if code == 5:
        raise errors.Usage(f"no case of the chosen suites matches; {log} lists the collected ones")
    if code not in (0, 1):
        raise _broke_off(folder, f"judging {name} ended early (exit {code}: {reason}); see {log}")


@contextmanager
def interruptible() -> Iterator[None]:
    """Make SIGTERM end this command and its children as Ctrl-C does, so that recordings are
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
    return f"the results so far are kept, and {again} continues it"


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
    """Raise the error from :func:`_broke_off` unless every case of the run has a result: a verdict
    on only some cases would mislead."""
    name = target.identity.name
    judged = {result.case for result in records.read(folder) if result.target == name}
    missing = sorted(run_folder.cases_for(folder, name) - judged)
    if missing:
        log = folder / "logs" / f"pytest-{name}.log"
        raise _broke_off(
            folder,
            f"judging {name} ended early: {len(missing)} cases have no result, {missing[0]} first;"
            f" see {log}",
        )


def _broke_off(folder: Path, how: str) -> errors.Ours | errors.SetUp:
    """Return an error that says why judging was not completed, and whose fault that is."""
    if shutil.disk_usage(folder).free < _NO_ROOM:
        again = (
            f"make room, then continue: brokerproof run --resume --out {shlex.quote(str(folder))}"
        )
        return errors.SetUp(f"{folder}: its disk is full; {again}")
    return errors.Ours(how)


def _known_that_pass(loaded: list[Target], folder: Path, results: list[Result]) -> list[str]:
    """Return the listed deviations that did not occur in any case to which they apply. The list is
    then out of date, so the run fails."""
    versions = {entry["name"]: entry["version"] for entry in run_folder.read(folder)["targets"]}
    passing = []
    for target in loaded:
        identity = target.identity
        listed = deviations.of_target(identity.deviations, identity.profile.name, identity.name)
        if not listed:
            continue
        held = [
            (result.case, finding.requirement, finding.seen is Seen.HELD)
            for result in results
            if result.target == identity.name and result.verdict is not Verdict.SKIP
            for finding in result.findings
        ]
        passing += [
            f"{identity.name}: the known deviation {deviation.name} did not occur; remove it from"
            f" {deviation.where}"
            for deviation in deviations.not_shown(listed, held, versions[identity.name])
        ]
    return passing
