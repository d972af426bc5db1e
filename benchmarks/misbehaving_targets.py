"""How a run ends on a target that misbehaves: ``python benchmarks/misbehaving_targets.py``.

Each target is a process of ``python -m brokerproof.suites.units.drivers.misbehaving``, or a
reference broker that is killed after 60 results. A line has the time from the start of the command
(and from the signal) to its end, the resident memory of all its processes, sampled four times a
second, the exit code and the sentence. Exit 1 if a run takes 60 s or 500 MB, or ends with another
exit code than 3.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click

MOST_S, MOST_MB = 60, 500
RESULTS = 60
"""Results after which a broker is killed."""
BROKERPROOF = (sys.executable, "-m", "brokerproof.harness.commands.cli")
SERVER = (sys.executable, "-m", "brokerproof.suites.units.drivers.misbehaving")
SERVERS = ("floods_after_login", "silent_after_login", "spinning")
RELAY = "ClosingAtRandom"
SENTENCE = re.compile(r"floods|is silent|is gone|is unstable|does not speak|did not answer")


@contextlib.contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command until the end of the block."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


@contextlib.contextmanager
def misbehaving(behaviour: str, *broker: str) -> Iterator[int]:
    """Run a server that misbehaves, or a relay to ``broker``; yield its port."""
    with process(*SERVER, behaviour, "0", *broker) as running:
        assert running.stdout is not None
        yield int(running.stdout.readline())


@contextlib.contextmanager
def broker() -> Iterator[tuple[int, Callable[[], None]]]:
    """Run a reference broker; yield its port and what kills it."""
    with process(*BROKERPROOF, "broker", "--any-port") as running:
        assert running.stdout is not None
        yield json.loads(running.stdout.readline())["acceptors"]["stomp"], running.kill


def resident(pid: int) -> float:
    """Return the resident memory of a process and of all below it, in MB."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    family, total = [pid], 0
    for member in family:
        family += children.get(member, [])
        with contextlib.suppress(OSError):
            total += int(Path(f"/proc/{member}/statm").read_text().split()[1])
    return total * os.sysconf("SC_PAGE_SIZE") / 1e6


def judge(name: str, port: int, after_results: Callable[[], None] | None = None) -> bool:
    """Run all suites against ``port`` and print how that ended; True if within the bounds."""
    with tempfile.TemporaryDirectory(prefix="brokerproof-misbehaving-") as scratch:
        out = Path(scratch) / "run"
        target = f"stomp://127.0.0.1:{port}?profile=artemis"
        options = ("--seed", "1", "--no-report", "--out", str(out))
        log = (Path(scratch) / "log").open("w+")
        began = time.monotonic()
        signalled: float | None = None
        most = 0.0
        with log, subprocess.Popen(
            [*BROKERPROOF, "run", "--target", target, *options], stdout=log, stderr=log
        ) as run:  # fmt: skip
            while run.poll() is None:
                most = max(most, resident(run.pid))
                results = out / "results.ndjson"
                if (
                    after_results is not None
                    and signalled is None
                    and results.exists()
                    and results.read_bytes().count(b"\n") >= RESULTS
                ):
                    after_results()
                    signalled = time.monotonic()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    run.wait(0.25)
            ended = time.monotonic()
            log.seek(0)
            lines = [line.strip() for line in log if SENTENCE.search(line)]
    after = "" if signalled is None else f", {ended - signalled:.0f} s after the signal"
    sentence = lines[0] if lines else "no sentence"
    print(
        f"{name}: {ended - began:.0f} s{after}, {most:.0f} MB, exit code {run.returncode},"
        f" load {os.getloadavg()[0]:.0f}: {sentence}",
        flush=True,
    )
    return bool(lines) and run.returncode == 3 and ended - began < MOST_S and most < MOST_MB


@click.command(help=(__doc__ or "").partition("\n\n")[2])
def main() -> None:
    kept = []
    for behaviour in SERVERS:
        with misbehaving(behaviour) as port:
            kept.append(judge(behaviour, port))
    with broker() as (port, kill):
        kept.append(judge("killed", port, kill))
    with broker() as (port, _), misbehaving(RELAY, str(port)) as relay:
        kept.append(judge(RELAY, relay))
    sys.exit(not all(kept))


if __name__ == "__main__":
    main()
