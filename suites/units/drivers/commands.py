"""Commands in processes of their own, written as in a shell."""

import shlex
import sys


def command(line: str) -> list[str]:
    """Return what starts ``line``, a command of brokerproof's."""
    return [sys.executable, "-m", "brokerproof.harness.commands.cli", *shlex.split(line)]
