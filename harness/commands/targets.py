"""``brokerproof targets``: what ``--target`` can be called by name."""

from __future__ import annotations

import json

import click

from brokerproof.harness.targets import target_file


@click.command("targets")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def targets(as_json: bool) -> None:
    """List the targets that have a name, and what each is.

    What else --target takes: HOST:PORT, a stomp:// URL, or a target file of yours
    (docs/how-to/judge-a-running-broker.md).
    """
    rows = [
        {"name": name, **target_file.about(path)} for name, path in target_file.shipped().items()
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


def _width() -> int:
    return click.formatting.HelpFormatter().width
