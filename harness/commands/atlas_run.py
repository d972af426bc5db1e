"""``brokerproof atlas run``: judges many releases, each in its own ``brokerproof run``."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import click

from brokerproof.harness.cases import case_index
from brokerproof.harness.catalogue import releases
from brokerproof.harness.catalogue.releases import Release
from brokerproof.harness.catalogue.tables import BadData
from brokerproof.harness.commands import errors
from brokerproof.harness.commands.judging import interruptible
from brokerproof.harness.commands.load_options import lasting
from brokerproof.harness.model.time import NS_PER_S
from brokerproof.harness.results import records
from brokerproof.harness.targets import strangers
from brokerproof.harness.targets.failure import SetUpFailed

_RUN = (sys.executable, "-P", "-m", "brokerproof.harness.commands.cli", "run", "--no-report")
_NEW = ("--effort", "smoke", "--seed", "3")
_JUDGED = (0, 1, 2)
"""The exit codes of a completed run."""
_PATH = click.Path(path_type=Path)
LIST = click.option(
    "--releases",
    "listed",
    type=_PATH,
    help="A file that lists releases; default: the built-in list.",
)


@click.command("run")
@click.option("--out", required=True, type=_PATH, help="The folder of the atlas.")
@click.option("--only", metavar="PATTERN", default="", help="Only these releases: 'artemis 2.3*'.")
@click.option("--for", "text", metavar="DURATION", help="Stop after this time, such as 2h.")
@LIST
def run_(out: Path, only: str, text: str | None, listed: Path | None) -> None:
    """Judge the releases that have no result from these suites yet.

    Run it again after an interrupt to continue. If a release cannot be judged completely, the atlas
    says why, and the next run tries it again."""
    limit = (lasting(text) or 0) / NS_PER_S
    try:
        known, pattern = releases.load(listed), f"*{only.lower()}*"
    except BadData as problem:
        raise errors.Usage(str(problem)) from None
    chosen = [release for release in known if fnmatchcase(release.name.lower(), pattern)]
    suites = case_index.digest()
    due = [release for release in chosen if _is_due(release, release.outcome(out), suites)]
    click.echo(f"{len(chosen)} releases chosen, {len(due)} to judge")
    signal.signal(signal.SIGALRM, signal.default_int_handler)  # as Ctrl-C
    try:
        with interruptible():
            signal.setitimer(signal.ITIMER_REAL, limit)
            for release in due:
                click.echo(f"{release.name}: {_judge(out, release, suites) or 'judged'}")
    except KeyboardInterrupt:
        raise errors.Interrupted("repeat the command to continue") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _begun(release: Release, suites: str) -> dict[str, object]:
    return {"suites": suites, "target": release.target, "arguments": list(release.arguments)}


def _is_due(release: Release, former: dict[str, object], suites: str) -> bool:
    same = former | _begun(release, suites) == former
    return not (release.unfit or (same and former["code"] in _JUDGED))


def _judge(out: Path, release: Release, suites: str) -> str:
    """Judge a release, or resume judging it; return what prevented completion."""
    begun, former = _begun(release, suites), release.outcome(out)
    folder = out / "runs" / release.slug
    folder.parent.mkdir(parents=True, exist_ok=True)
    log, outcome = (folder.with_name(f"{release.slug}.{kind}") for kind in ("log", "json"))
    outcome.write_text(json.dumps(begun | {"code": None, "sentence": "was interrupted"}), "utf-8")
    is_new = former | begun != former or not (folder / records.NAME).exists()
    try:
        # Such a broker gets a different address each time.
        with strangers.options_for(
            release.target, folder.with_name(f"{release.slug}.out")
        ) as named:
            words = ["--resume"]
            if is_new or named[1] != release.target:
                shutil.rmtree(folder, ignore_errors=True)
                words = [*_NEW, *named, *release.arguments]
            code = _run([*_RUN, "--out", str(folder), *words], log)
    except SetUpFailed as problem:
        code = 3
        log.write_text(f"Error: {problem}", "utf-8")
    lines = log.read_text("utf-8", "replace").strip().splitlines()
    said = [line.removeprefix("Error: ") for line in lines if line.startswith("Error: ")]
    sentence = "" if code in _JUDGED else (said or lines or [f"ended with {code}"])[-1]
    outcome.write_text(json.dumps(begun | {"code": code, "sentence": sentence}), "utf-8")
    return sentence


def _run(command: Sequence[str], log: Path) -> int:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            return process.wait()
        finally:
            process.terminate()
            process.wait()
