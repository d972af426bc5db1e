"""``brokerproof atlas``: the harness judges releases, and this package writes the pages."""

from pathlib import Path

import click

from brokerproof.harness.catalogue import releases
from brokerproof.harness.commands.atlas_run import LIST, run_


@click.group()
def atlas() -> None:
    """Judge many releases of brokers, and write pages on what changed between them."""


atlas.add_command(run_)


@atlas.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@LIST
def build(folder: Path, listed: Path | None) -> None:
    """Write the pages and the data of the atlas in FOLDER to FOLDER/site."""
    from brokerproof.harness.trace.without_pandas import leave_pandas_out

    leave_pandas_out()
    from brokerproof.reports.assembly.atlas import build as written
    from brokerproof.reports.assembly.failures import in_one_sentence

    with in_one_sentence():
        click.echo(f"atlas: {written(folder, releases.load(listed), _say)}")


def _say(what: str) -> None:
    click.echo(f"atlas: {what}", err=True)
