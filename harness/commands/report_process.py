"""The process that writes the report of a run.

It starts before the run has ended, because a JVM and Spark, which need nothing from the run, take
longer to start than a small report takes to write. The process waits for a line on its standard
input, and then reads the run folder; if no line arrives, it ends without a report."""

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Self

import click

_GRACE_S = 10.0
"""The time for the process to end its JVM, before the process is killed."""


def command(folder: Path, *, quiet: bool) -> list[str] | None:
    """Return the command that reports on ``folder`` when asked; None if this installation cannot
    write reports."""
    if not entry_points(group="brokerproof.commands", name="report"):
        return None
    report = [str(folder), "--out", str(folder / "report"), "--early"]
    run = [sys.executable, "-P", "-m", "brokerproof.harness.commands.cli", "report"]
    return [*run, *report, *(["--quiet"] if quiet else [])]


class ReportProcess:
    """A process that writes the report on request. Used as a context manager, it ends with the
    block."""

    def __init__(self, command: list[str] | None) -> None:
        self._command = command
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
        with process:  # closes its pipes
            pass

    def start(self) -> None:
        if self._command is not None and self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                process_group=0,  # Ctrl-C goes to the run, which ends this process
            )

    def write(self) -> None:
        """Have the report written, and print the steps on stderr. If the exit code of the process
        is not 0, raises ``click.exceptions.Exit`` with that code."""
        self.start()
        if self._process is None:
            return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # the process has ended, and its output says why
        for line in self._process.stdout:
            click.echo(line, nl=False, err=True)
        if code := self._process.wait():
            raise click.exceptions.Exit(code)
