"""Checks an installed wheel: one top-level package, no tests of ours in it, and no collision with
PyPI's package ``fixtures``. Run by ``tox -e distribution``, outside the checkout."""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import distribution


def problems() -> list[str]:
    """Return one sentence for each thing that is wrong; empty if the wheel is sound."""
    files = [path.as_posix() for path in distribution("brokerproof").files or ()]
    shipped = [path for path in files if ".dist-info/" not in path and not path.startswith("../")]
    problems = [
        f"{path} is outside brokerproof/: map its folder in [tool.hatch.build.targets.wheel]"
        for path in shipped
        if not path.startswith("brokerproof/")
    ]
    problems += [
        f"{path} is shipped: it tests this repository and stays in it"
        for path in shipped
        if path.startswith(("brokerproof/suites/units/", "brokerproof/suites/repo/"))
    ]
    if "brokerproof/py.typed" not in shipped:
        problems.append(
            "brokerproof/py.typed is missing: type checkers ignore the package without it"
        )
    theirs, ours = (
        importlib.import_module("fixtures"),
        importlib.import_module("brokerproof.fixtures"),
    )
    if not hasattr(theirs, "Fixture"):
        problems.append(f"{theirs.__file__} is not PyPI's package fixtures")
    if ours.__file__ == theirs.__file__:
        problems.append("brokerproof.fixtures and PyPI's fixtures are one module")
    return problems


if __name__ == "__main__":
    sys.exit("\n".join(problems()) or 0)
