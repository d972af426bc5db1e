"""Compares a light installation with the full one that runs this module: ``tox -e distribution``.

``pip install .`` in a fresh environment must compile nothing and stay small. It judges a small
running STOMP broker and writes the report; both must equal the full one's results.
"""

import filecmp
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from brokerproof.harness.model.extras import EXTRAS

MOST_MB = 380
BROKER = "colon-not-escaped"
"""The mini-broker that is judged: one verdict must be FAIL."""
CASES = "stomp.escapes."


def installed(root: Path, folder: Path) -> Path:
    """Install the repository at ``root`` into a new environment; return the folder of its programs.
    The installation fails if a package must be compiled."""
    venv.create(folder, with_pip=False)
    programs = folder / "bin"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet", root],
        env={**os.environ, "CC": "false", "CXX": "false"},
        check=True,
    )
    return programs


def size_mb(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) // 10**6


@contextmanager
def mini_broker() -> Iterator[str]:
    command = [sys.executable, "-m", "brokerproof.suites.mini_brokers", BROKER, "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = json.loads(process.stdout.readline())["acceptors"]["stomp"]
            yield f"localhost:{port}"
        finally:
            process.terminate()


def verdicts(run: Path) -> dict[str, str]:
    lines = (run / "results.ndjson").read_text("utf-8").splitlines()
    return {result["case"]: result["verdict"] for result in map(json.loads, lines)}


def differences(light: Path, full: Path, folder: Path) -> Iterator[str]:
    """Judge and report with both installations; yield one sentence for each difference."""
    runs = {}
    for name, programs in (("light", light), ("full", full)):
        runs[name] = folder / f"run-{name}"
        with mini_broker() as address:
            target = ("--target", address, "--seed", "1", "--no-report")
            command = [
                programs / "brokerproof",
                "run",
                *target,
                "--case",
                CASES,
                "--out",
                runs[name],
            ]
            if (code := subprocess.run(command, cwd=folder, check=False).returncode) != 1:
                yield f"{name}: exit code {code} instead of 1, for a fault of the broker"
                return
    judged = {name: verdicts(run) for name, run in runs.items()}
    for case in sorted(judged["full"].keys() | judged["light"].keys()):
        pair = judged["light"].get(case), judged["full"].get(case)
        if pair[0] != pair[1]:
            yield f"{case}: {pair[0]} in the light installation, {pair[1]} in the full one"
    for name, programs in (("light", light), ("full", full)):
        report = [programs / "brokerproof", "report", runs["light"], "--out", folder / name]
        subprocess.run([*report, "--quiet"], cwd=folder, check=True)
    yield from different_files(folder / "light", folder / "full")


def different_files(one: Path, other: Path) -> Iterator[str]:
    """Yield one sentence for each file that differs between the folders."""
    names = {
        str(path.relative_to(folder))
        for folder in (one, other)
        for path in folder.rglob("*")
        if path.is_file()
    }
    _, changed, missing = filecmp.cmpfiles(one, other, names, shallow=False)
    for name in sorted(changed + missing):
        yield f"{name} of the report is another one in the light installation"
    if len(names) < 20:
        yield f"the report has {len(names)} files"


def main() -> None:
    full = Path(sys.executable).parent
    with tempfile.TemporaryDirectory(prefix="brokerproof-light-") as name:
        folder = Path(name)
        light = installed(Path(sys.argv[1]), folder / "environment")
        size = size_mb(folder / "environment")
        present = [name for name in EXTRAS if any(folder.glob(f"environment/lib/*/*/{name}"))]
        problems = [f"{name} is installed, which an extra brings" for name in present]
        if size > MOST_MB:
            problems.append(f"{size} MB are installed; at most {MOST_MB} are light")
        problems += differences(light, full, folder)
    if problems:
        sys.exit("\n".join(problems))
    click.echo(f"light installation: {size} MB")


if __name__ == "__main__":
    main()
