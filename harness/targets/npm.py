"""Fetches npm packages into the cache with this machine's ``npm``, and nowhere else."""

import shutil
import subprocess
from pathlib import Path

from brokerproof.harness.targets.failure import SetUpFailed

WITHIN_S = 120
"""Seconds that one call of npm may take."""


def call(arguments: list[str], folder: Path, what: str) -> None:
    """Run ``npm ARGUMENTS`` in ``folder``. Raises :class:`SetUpFailed`, which says that ``what`` is
    unavailable."""
    npm = shutil.which("npm")
    if npm is None:
        raise SetUpFailed(f"{what} needs npm on the PATH; install npm")
    command = [npm, *arguments, "--loglevel=error"]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise SetUpFailed(f"{' '.join(command)} took longer than {WITHIN_S} s; try again") from None
    if done.returncode != 0:
        words = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise SetUpFailed(
            f"{' '.join(command)} failed ({words[0] if words else 'npm printed nothing'})"
        )
