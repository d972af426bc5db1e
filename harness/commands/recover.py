"""``brokerproof recover``: makes segments of what a load that was killed has left on its tapes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

from brokerproof.harness.commands import errors
from brokerproof.harness.load.recovery import NotRecovered, recover, wire_logs
from brokerproof.harness.results import run_folder


@click.command("recover")
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print what came of it as JSON.")
def recover_(run: Path, as_json: bool) -> int:
    """Make segments of what a killed load left on its tapes in RUN, so that `judge` can read it."""
    try:
        run_folder.read(run, traces=False)
    except run_folder.BadRunFolder as problem:
        raise errors.Usage(str(problem)) from None
    try:
        found = [recover(run, each) for each in wire_logs(run)]
    except NotRecovered as problem:
        raise errors.SetUp(str(problem)) from None
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(each) for each in found]))
        return 0
    if not found:
        click.echo(f"{run} has no tape left: everything that was recorded is in segments")
        return 0
    for each in found:
        click.echo(
            f"driver {each.tag}: {each.events:,} events of {each.octets / 2**20:,.1f} MiB of tape,"
            f" in {each.segments} segments"
        )
    return 0
