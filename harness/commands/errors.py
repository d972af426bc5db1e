"""The errors of commands: each gives one sentence on stderr and an exit code
(docs/reference/commands.md)."""

from typing import IO, Any

import click


class SetUp(click.ClickException):
    """The target is unreachable, or the set-up failed."""

    exit_code = 3


class Usage(click.ClickException):
    """The arguments make no sense."""

    exit_code = 4


class Ours(click.ClickException):
    exit_code = 5


class Interrupted(click.ClickException):
    """Ctrl-C or SIGTERM interrupted the command; the message says how to continue."""

    exit_code = 130

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"interrupted; {self.message}", file=file, err=file is None)
