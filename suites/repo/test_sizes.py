"""Classes, functions and modules of broker and harness are small; exceptions may only shrink."""

import ast
from collections.abc import Iterator

from brokerproof.suites.repo.sources import modules

METHODS, FUNCTION_LINES, MODULE_LINES = 30, 60, 600

EXCEPTIONS: dict[str, int] = {"harness/cases/pytest_options.py pytest_addoption()": 68}
"""Exceptions and their sizes. Command options are a list, so they may be long. A number may only go
down."""


def _sizes(path: str, source: str) -> Iterator[tuple[str, int, int]]:
    """Yield names with their size and the size that each may have."""
    yield path, len(source.splitlines()), MODULE_LINES
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            methods = [part for part in node.body if isinstance(part, _FUNCTIONS)]
            yield f"{path} {node.name}", len(methods), METHODS
        elif isinstance(node, _FUNCTIONS):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            yield f"{path} {node.name}()", lines, FUNCTION_LINES


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _large(path: str, source: str) -> dict[str, int]:
    return {name: size for name, size, most in _sizes(path, source) if size > most}


def test_only_the_listed_exceptions_are_large_and_none_grows() -> None:
    large: dict[str, int] = {}
    for path, file in modules().items():
        if path.startswith(("reference_broker/", "harness/")):
            large |= _large(path, file.read_text("utf-8"))
    grown = {name: size for name, size in large.items() if size > EXCEPTIONS.get(name, 0)}
    assert not grown, "divide these at their seams"
    shrunk = {name: large.get(name) for name, size in EXCEPTIONS.items() if large.get(name) != size}
    assert not shrunk, "write the smaller number down, or remove the exception"


def test_each_kind_of_size_is_measured() -> None:
    methods = "".join(f"    def f{number}(self): ...\n" for number in range(METHODS + 1))
    assert _large("m", f"class C:\n{methods}") == {"m C": METHODS + 1}
    assert _large("m", "def f():\n" + "    x = 1\n" * FUNCTION_LINES) == {"m f()": 61}
    assert _large("m", "\n" * (MODULE_LINES + 1)) == {"m": MODULE_LINES + 1}
