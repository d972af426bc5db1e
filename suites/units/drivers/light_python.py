"""brokerproof in a Python that lacks the modules of its extras, workers included."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from brokerproof.harness.model.extras import EXTRAS

Light: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]
"""Runs brokerproof with these arguments and an empty line as its input."""


def light_python(folder: Path) -> Light:
    """Return a function that runs brokerproof without the extras: a file in ``folder`` hides
    them."""
    hide = f"import sys\nsys.modules.update(dict.fromkeys({tuple(EXTRAS)}))\n"
    (folder / "sitecustomize.py").write_text(hide)
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])

    def brokerproof(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "brokerproof.harness.commands.cli"]
        return subprocess.run(
            [*command, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            input="\n",
            check=False,
        )

    return brokerproof
