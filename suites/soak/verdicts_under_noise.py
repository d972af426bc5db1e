"""Runs the timing suites repeatedly on a busy host and checks that no verdict ever changes.

``python -m brokerproof.suites.soak.verdicts_under_noise --runs 50 --target reference-real``. On
each core a process only burns time. A case with PASS in one run and FAIL in another reflects the
host, not the broker; then the exit code is 1. A busy host may make cases INCONCLUSIVE; the script
reports their number. The runs have different seeds."""

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import click

TIMING = (
    "connection_ttl or heart_beats or idle_timeout or (stomppy and beat) or heart_beats_come_over"
    " or silence"
)
"""The cases that judge instants and intervals (pytest's -k)."""


def burn() -> None:
    """Keep one core busy until killed."""
    while True:
        pass


def one_run(target: str, seed: int, folder: Path) -> dict[str, str]:
    """Return the verdicts of one run, by case."""
    command = [
        sys.executable,
        "-m",
        "brokerproof.harness.commands.cli",
        "run",
        "--target",
        target,
        "--case",
        TIMING,
        "--seed",
        str(seed),
    ]
    done = subprocess.run(
        [*command, "--no-report", "--out", str(folder)], capture_output=True, text=True, check=False
    )
    results = folder / "results.ndjson"
    if not results.is_file():
        raise click.ClickException(
            f"run with seed {seed} left no results (exit {done.returncode}): {done.stderr[-500:]}"
        )
    lines = [json.loads(line) for line in results.read_text("utf-8").splitlines()]
    return {line["case"]: line["verdict"] for line in lines}


@click.command()
@click.option("--target", default="reference-real", show_default=True)
@click.option("--runs", type=click.IntRange(1), default=50, show_default=True)
@click.option(
    "--seed", default=1, show_default=True, help="Seed of the first run; each later run adds 1."
)
@click.option("--burners", default=os.cpu_count() or 1, help="Processes that load the host.")
def main(target: str, runs: int, seed: int, burners: int) -> None:
    """Exit 1 if a verdict flips between PASS and FAIL, or a case ends in an internal error."""
    verdicts: dict[str, Counter[str]] = defaultdict(Counter)
    fires = [multiprocessing.Process(target=burn, daemon=True) for _ in range(burners)]
    for fire in fires:
        fire.start()
    try:
        with tempfile.TemporaryDirectory(prefix="brokerproof-noise-") as temporary:
            for number in range(runs):
                report = one_run(target, seed + number, Path(temporary) / str(number))
                for case, verdict in report.items():
                    verdicts[case][verdict] += 1
                total = Counter(report.values())
                words = ", ".join(f"{count} {verdict}" for verdict, count in sorted(total.items()))
                click.echo(f"run {number + 1} of {runs}: {words}")
    finally:
        for fire in fires:
            fire.kill()
    flips = {
        case: dict(seen)
        for case, seen in verdicts.items()
        if {"PASS", "FAIL"} <= seen.keys() or "ERROR" in seen
    }
    total = sum(verdicts.values(), Counter())
    words = ", ".join(f"{count} {verdict}" for verdict, count in sorted(total.items()))
    click.echo(
        f"{runs} runs of {len(verdicts)} cases on {target}, {burners} processes burning: {words}"
    )
    for case, seen in sorted(flips.items()):
        click.echo(f"{case}: {seen}")
    sys.exit(1 if flips else 0)


if __name__ == "__main__":
    main()
