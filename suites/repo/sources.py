"""The repository's files and what they import, for the tests beside this module."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("harness", "reference_broker", "reports", "suites", "fixtures")
FOLDERS = (*PACKAGES, "benchmarks")


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name: ``from harness.words import ms`` is ``harness.words.ms``."""

    name: str
    line: int


@cache
def modules() -> dict[str, Path]:
    """Every Python file of ours by its path in the repository, in order."""
    found = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path for path in sorted(found)}


@cache
def tree(path: str) -> ast.Module:
    """The syntax tree of one of :func:`modules`."""
    return ast.parse((ROOT / path).read_text("utf-8"), filename=path)


@cache
def calls_and_imports(parsed: ast.Module) -> tuple[ast.AST, ...]:
    """What the rules look at, in one walk for all of them: a walk takes longer than reading the file."""
    return tuple(node for node in ast.walk(parsed) if isinstance(node, (ast.Import, ast.ImportFrom, ast.Call)))


@cache
def imports(path: str, parsed: ast.Module | None = None) -> tuple[Import, ...]:
    """What a module imports, inside functions too, relative imports resolved."""
    return tuple(_imports(path, tree(path) if parsed is None else parsed))


def _imports(path: str, parsed: ast.Module) -> Iterator[Import]:
    package = path.removesuffix(".py").split("/")[:-1]
    for node in calls_and_imports(parsed):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield Import(f"{source}.{alias.name}", node.lineno)


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    """Whether a dotted name is one of ``prefixes`` or lies in one."""
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


@cache
def texts() -> dict[str, str]:
    """Every text file that is committed (outside a checkout: every one that is shipped) by its path."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        paths = [ROOT / each for each in listed.stdout.split("\0") if each]
    else:
        paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts]
    found = {}
    for path in sorted(paths):
        if path.is_file():
            data = path.read_bytes()
            if b"\0" not in data:
                found[path.relative_to(ROOT).as_posix()] = data.decode("utf-8", errors="replace")
    return found
