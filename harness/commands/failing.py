"""How commands fail: one sentence on stderr and the exit code that DESIGN gives it."""

from __future__ import annotations

import click


class SetUp(click.ClickException):
    """Target unreachable or set-up failed."""

    exit_code = 3


class Usage(click.ClickException):
    """What was asked for makes no sense."""

    exit_code = 4


class Ours(click.ClickException):
    """Our own error."""

    exit_code = 5
