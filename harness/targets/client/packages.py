"""Client libraries from their registries, in the cache, by the registries' own tools: nothing is
installed anywhere else.

A target file names one as ``pip:NAME``, ``npm:NAME`` or ``go:MODULE``, and a ``version``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from brokerproof.harness.targets import npm
from brokerproof.harness.targets.cache import cache_folder, once
from brokerproof.harness.targets.failure import SetUpFailed

WITHIN_S = 300


def fetch(package: str, version: str, driver: Path) -> tuple[Path, Mapping[str, str]]:
    """The folder of a release, fetched if it is not in the cache, and the environment in which a
    driver finds it. A driver in Go, the file ``driver``, is built with the release: the program is
    ``driver`` in that folder. Raises :class:`SetUpFailed`."""
    registry, _, name = package.partition(":")
    make = _MAKERS[registry]
    label = f"{registry}-{name.replace('/', '-')}-{version}"
    if registry == "go":
        # A driver that changed is built again.
        label += f"-{max(source.stat().st_mtime_ns for source in _sources(driver)):x}"

    def made(folder: Path) -> Path:
        make(name, version, folder, driver)
        return folder / "made"

    home = once(cache_folder() / "clients" / label, made)
    variable = {"pip": "PYTHONPATH", "npm": "NODE_PATH"}.get(registry)
    return home, {} if variable is None else {variable: str(home)}


def _sources(driver: Path) -> list[Path]:
    """A driver in Go, and what the drivers beside it share."""
    return [driver, *driver.parent.glob("driver_lines.go")]


def _pip(name: str, version: str, folder: Path, driver: Path) -> None:
    uv = shutil.which("uv")
    tool = [uv, "pip"] if uv else [sys.executable, "-m", "pip"]
    chosen = ["--python", sys.executable] if uv else []
    target = ["--target", str(folder / "made")]
    _run([*tool, "install", "--quiet", *chosen, *target, f"{name}=={version}"], folder)


def _npm(name: str, version: str, folder: Path, driver: Path) -> None:
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-save"]
    install = ["install", "--prefix", str(folder), *options, f"{name}@{version}"]
    npm.call(install, folder, f"{name} {version}")
    (folder / "node_modules").rename(folder / "made")


def _go(name: str, version: str, folder: Path, driver: Path) -> None:
    made = folder / "made"
    made.mkdir()
    for source in _sources(driver):
        shutil.copy(source, made)
    _run(["go", "mod", "init", "driver"], made)
    _run(["go", "get", f"{name}@v{version}"], made)
    _run(["go", "build", "-o", "driver", "."], made)


_MAKERS: Mapping[str, Callable[[str, str, Path, Path], None]] = {
    "pip": _pip,
    "npm": _npm,
    "go": _go,
}


def _run(command: list[str], folder: Path) -> None:
    shown = " ".join(command)
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=WITHIN_S, check=False
        )
    except FileNotFoundError:
        raise SetUpFailed(f"{shown} cannot be run: there is no {command[0]} on the PATH") from None
    except subprocess.TimeoutExpired:
        raise SetUpFailed(f"{shown} took longer than {WITHIN_S} s; try again") from None
    if done.returncode != 0:
        words = [line for line in done.stderr.splitlines() if line.strip()]
        raise SetUpFailed(f"{shown} failed ({words[-1] if words else 'it said nothing'})")
