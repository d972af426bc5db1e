"""Reasons why a command in this folder wrote or judged nothing."""

from typing import IO, Any

import click


class Refusal(click.ClickException):
    """Why no report was written, in one sentence: the input is not a run, or the folder is not
    writable."""

    exit_code = 4

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.ctx = click.get_current_context(silent=True)

    def show(self, file: IO[Any] | None = None) -> None:
        name = self.ctx.info_name if self.ctx is not None else "report"
        click.echo(f"brokerproof {name}: {self.message}", file=file, err=file is None)


class SetUpFailed(Refusal):
    """This machine has no usable Java or Spark."""

    exit_code = 3


class OurError(Refusal):
    """An error of our own: the run may be fine, but the report is not."""

    exit_code = 5
