"""Fetches client libraries into the cache with their registries' own tools, and installs nothing
anywhere else.

A target file names a library as ``pip:NAME``, ``npm:NAME``, ``go:MODULE``, ``maven:GROUP:ARTIFACT``
or ``crates:NAME``, and a ``version``. More Maven artifacts may follow after commas, with the same
version or versions of their own.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from brokerproof.harness.targets import maven, npm
from brokerproof.harness.targets.cache import cache_folder, once
from brokerproof.harness.targets.failure import SetUpFailed

WITHIN_S = 900
SHARED = {"go": "driver_lines.go", "maven": "DriverLines.java", "crates": "driver_lines.rs"}
"""The file that a registry's drivers share, for drivers that are built with the release."""
CARGO = """[package]
name = "driver"
version = "0.1.0"
edition = "2021"
[dependencies]
serde_json = "1"
tokio = {{ version = "1", features = ["full"] }}
{name} = "={version}"
"""


def fetch(package: str, version: str, driver: Path) -> tuple[Path, Mapping[str, str]]:
    """Return the folder of a release, fetched unless the cache has it, and the environment in which
    a driver finds the release. A driver in Go, Java or Rust (the file ``driver``) is built with the
    release; the folder then contains the program ``driver`` or the driver's classes. Raises
    :class:`SetUpFailed`."""
    registry, _, name = package.partition(":")
    make = _MAKERS[registry]
    label = f"{registry}-{re.sub(r'[^A-Za-z0-9_.@-]+', '-', name)}-{version}"
    if registry in SHARED:
        # Build a changed driver again.
        label += f"-{max(source.stat().st_mtime_ns for source in _sources(driver)):x}"

    def made(folder: Path) -> Path:
        make(name, version, folder, driver)
        return folder / "made"

    home = once(cache_folder() / "clients" / label, made)
    variable = {"pip": "PYTHONPATH", "npm": "NODE_PATH"}.get(registry)
    return home, {} if variable is None else {variable: str(home)}


def _sources(driver: Path) -> list[Path]:
    """Return the source of a driver to build, and the file that drivers in its language share."""
    shared = [driver.parent / name for name in SHARED.values() if name.endswith(driver.suffix)]
    return [driver, *filter(Path.exists, shared)]


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


def _maven(name: str, version: str, folder: Path, driver: Path) -> None:
    artifacts = [word if word.count(":") > 1 else f"{word}:{version}" for word in name.split(", ")]
    jars = maven.collect(maven.project(artifacts), f"{name} {version}", folder / "made")
    sources = [str(source) for source in _sources(driver)]
    _run(["javac", "--release", "17", "-cp", f"{jars}/*", "-d", str(jars), *sources], folder)


def _crates(name: str, version: str, folder: Path, driver: Path) -> None:
    project = folder / "project"
    (project / "src").mkdir(parents=True)
    (project / "Cargo.toml").write_text(CARGO.format(name=name, version=version), "utf-8")
    program, *shared = _sources(driver)
    shutil.copy(program, project / "src/main.rs")
    for source in shared:
        shutil.copy(source, project / "src")
    _run(["cargo", "build", "--quiet"], project)
    (folder / "made").mkdir()
    (project / "target/debug/driver").rename(folder / "made/driver")


_MAKERS: Mapping[str, Callable[[str, str, Path, Path], None]] = {
    "pip": _pip,
    "npm": _npm,
    "go": _go,
    "maven": _maven,
    "crates": _crates,
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
        raise SetUpFailed(f"{shown} failed ({words[-1] if words else 'it printed nothing'})")
