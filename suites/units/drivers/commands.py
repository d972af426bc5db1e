"""Commands for separate processes, written as in a shell."""

import shlex
import sys


def command(line: str) -> list[str]:
    """Return the words that begin ``line``, a command of brokerproof."""
    return [sys.executable, "-m", "brokerproof.harness.commands.cli", *shlex.split(line)]
