"""The repository's files and their imports, used by the tests in this folder."""

import ast
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("harness", "reference_broker", "reports", "suites", "fixtures")
FOLDERS = (*PACKAGES, "benchmarks")


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name: ``from brokerproof.harness.model import ms`` is
    ``brokerproof.harness.model.ms``."""

    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Call:
    """One call: ``name(…)`` if ``bare``, otherwise ``anything.name(…)``."""

    name: str
    line: int
    bare: bool


@dataclass(frozen=True, slots=True)
class Module:
    """The facts about a module that the rules need. Syntax trees are not kept: together they have
    millions of objects."""

    imports: tuple[Import, ...]
    """Includes those inside functions, with relative ones resolved."""
    calls: tuple[Call, ...]
    docstring: str | None
    is_empty: bool


@cache
def modules() -> dict[str, Path]:
    """Return every Python file of ours by its path in the repository, in order."""
    paths = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path for path in sorted(paths)}


@cache
def module(path: str) -> Module:
    """Return one of :func:`modules`, which is read once for all rules."""
    return read(path, (ROOT / path).read_text("utf-8"))


def read(path: str, source: str) -> Module:
    parsed = ast.parse(source, filename=path)
    package = ["brokerproof", *path.removesuffix(".py").split("/")[:-1]]
    imports: list[Import] = []
    calls: list[Call] = []
    for node in ast.walk(parsed):
        if isinstance(node, ast.Import):
            imports += (Import(alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            imports += (Import(f"{origin}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            calls.append(Call(node.func.id, node.lineno, bare=True))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            calls.append(Call(node.func.attr, node.lineno, bare=False))
    return Module(tuple(imports), tuple(calls), ast.get_docstring(parsed), is_empty=not parsed.body)


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    """True if a dotted name is one of ``prefixes`` or is below one."""
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


@cache
def texts() -> dict[str, str]:
    """Return every committed text file (outside a checkout, every shipped one), by its path."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=False
    )
    if listed.returncode == 0 and listed.stdout:
        paths = [ROOT / part for part in listed.stdout.split("\0") if part]
    else:
        paths = [
            path
            for folder in FOLDERS
            for path in (ROOT / folder).rglob("*")
            if "__pycache__" not in path.parts
        ]
    texts = {}
    for path in sorted(paths):
        if path.is_file():
            data = path.read_bytes()
            if b"\0" not in data:
                texts[path.relative_to(ROOT).as_posix()] = data.decode("utf-8", errors="replace")
    return texts
