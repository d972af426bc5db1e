"""The ``brokerproof`` command. Commands in other packages are found as entry points, and never
imported here."""

import ast
import functools
import re
import sys
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

import click

from brokerproof.harness.model import extras

GROUP = "brokerproof.commands"

OWN = {
    "run": "brokerproof.harness.commands.run:run",
    "load": "brokerproof.harness.commands.load:load",
    "recover": "brokerproof.harness.commands.load:recover_",
    "replay": "brokerproof.harness.commands.replay:replay",
    "infer": "brokerproof.harness.commands.infer:infer",
    "diff": "brokerproof.harness.commands.diff:diff",
    "behaviours": "brokerproof.harness.commands.behaviours:behaviours",
    "targets": "brokerproof.harness.commands.targets:targets",
    "init-suite": "brokerproof.harness.commands.init_suite:init_suite",
    "init-target": "brokerproof.harness.commands.init_target:init_target",
    "capabilities": "brokerproof.harness.commands.targets:capabilities",
    "cases": "brokerproof.harness.commands.cases:cases",
    "requirements": "brokerproof.harness.commands.requirements:requirements_",
    "list": "brokerproof.harness.commands.requirements:requirements_",
    "explain": "brokerproof.harness.commands.requirements:explain",
    "doctor": "brokerproof.harness.commands.doctor:doctor",
    "brokers": "brokerproof.harness.commands.brokers:brokers",
}

ALIASES = frozenset({"list", "explain", "recover"})
"""Older names of ``requirements``, ``requirements ID`` and ``load recover``: they still work, but
the help text omits them."""


class _Commands(click.Group):
    """Commands by entry point. A command is imported when it runs, not when it is listed:
    ``broker`` must not wait for the imports of ``run``, nor ``--help`` for any import."""

    @functools.cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        own = {name: EntryPoint(name, value, GROUP) for name, value in OWN.items()}
        return own | {entry_point.name: entry_point for entry_point in entry_points(group=GROUP)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._entry_points.keys() - ALIASES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry_point = self._entry_points.get(cmd_name)
        if entry_point is None:
            return None
        command = entry_point.load()
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        listed = {name: self._entry_points[name] for name in self.list_commands(ctx)}
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, _first_sentence(docstring(listed[name]))) for name in listed]
            )


def docstring(entry_point: EntryPoint) -> str:
    """Return the docstring of the function that ``entry_point`` names, read from its source because
    importing it would take seconds; empty if the source is not found."""
    spec = find_spec(entry_point.module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return ""
    source = Path(spec.origin).read_text("utf-8")
    # Only the function is parsed: parsing whole modules would take most of the time of --help.
    function = re.search(rf"^def {entry_point.attr}\(.*?(?=^[^\s)]|\Z)", source, re.S | re.M)
    for node in ast.parse(function[0]).body if function else ():
        if isinstance(node, ast.FunctionDef):
            return ast.get_docstring(node) or ""
    return ""


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="brokerproof")
def cli() -> None:
    """Test whether a message broker keeps its promises about flow control and liveness.

    Exit codes: 0 no violation; 1 a violation, or a listed deviation that no longer occurs; 2
    nothing worse than inconclusive; 3 target unreachable or set-up failed; 4 usage error; 5
    internal error."""


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=\.) ", paragraph, maxsplit=1)[0]


def main() -> None:
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except click.UsageError as problem:
        problem.show()
        sys.exit(4)
    except click.ClickException as problem:
        problem.show()
        sys.exit(problem.exit_code)
    except click.exceptions.Exit as leaving:
        sys.exit(leaving.exit_code)
    except ModuleNotFoundError as problem:
        if not (missing := extras.sentence(problem.name or "")):
            raise
        click.echo(f"Error: {missing}", err=True)
        sys.exit(3)
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
