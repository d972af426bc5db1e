"""``brokerproof targets`` and ``capabilities``: the built-in targets, and what targets can do."""

import json

import click

from brokerproof.harness.catalogue import capabilities as catalogue
from brokerproof.harness.commands import errors
from brokerproof.harness.targets import shipped_targets


@click.command("targets")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def targets(as_json: bool) -> None:
    """List the built-in targets with their descriptions.

    --target also accepts HOST:PORT, a stomp:// URL, or your own target file
    (docs/how-to/judge-a-running-broker.md)."""
    rows = [
        {"name": name, **shipped_targets.facts(path)}
        for name, path in shipped_targets.paths().items()
    ]
    if as_json:
        click.echo(json.dumps(rows))
        return
    for row in rows:
        click.echo(click.style(row["name"], bold=True))
        click.echo(
            click.wrap_text(
                row["description"], initial_indent="    ", subsequent_indent="    ", width=_width()
            )
        )


@click.command("capabilities")
@click.option(
    "--target",
    "name",
    metavar="NAME|FILE|HOST:PORT|URL",
    help="Show which capabilities this target has.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def capabilities(name: str | None, as_json: bool) -> None:
    """List the capabilities that cases need, and how a target gets them or why it lacks them.

    --target does not connect to the broker; a run may find that the broker has fewer."""
    identity = None
    if name is not None:
        from brokerproof.harness.targets import target_file  # imports every kind of target

        try:
            identity = target_file.load(name).identity
        except target_file.BadTarget as problem:
            raise errors.Usage(str(problem)) from None
    rows = [
        {
            "name": capability.name,
            "meaning": capability.meaning,
            "configure": capability.advice(identity.profile.name if identity else ""),
            **(
                {}
                if identity is None
                else {
                    "has": capability.name in identity.capabilities,
                    "reason": identity.absent.get(capability.name, ""),
                }
            ),
        }
        for capability in catalogue.listed().values()
    ]
    if as_json:
        click.echo(json.dumps(rows))
        return
    for row in rows:
        mark = {True: " (has it)", False: " (lacks it)", None: ""}[row.get("has")]  # type: ignore[index]
        click.echo(click.style(str(row["name"]), bold=True) + mark)
        reason = row.get("reason")
        last = f"It is {reason}." if reason else f"So that its cases run: {row['configure']}."
        for words in (f"{row['meaning']}.", last):
            click.echo(
                click.wrap_text(
                    words, initial_indent="    ", subsequent_indent="    ", width=_width()
                )
            )


def _width() -> int:
    return click.formatting.HelpFormatter().width
