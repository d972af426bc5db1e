"""``brokerproof behaviours RUN…``: what brokers do where a specification leaves a choice."""

import json
from collections.abc import Sequence
from pathlib import Path

import click

from brokerproof.harness.commands import errors
from brokerproof.harness.commands.diff import plain
from brokerproof.harness.results import records
from brokerproof.harness.results.behaviour_comparison import Row, by_target, side_by_side


@click.command()
@click.argument(
    "runs",
    metavar="RUN...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@click.option("--differing", is_flag=True, help="List only behaviours in which the targets differ.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def behaviours(runs: Sequence[Path], differing: bool, as_json: bool) -> None:
    """Compare what the targets of these runs do where specifications leave a choice.

    A behaviour is not a promise and gets no verdict. Differences that hurt applications most come
    first."""
    columns: dict[str, dict[str, set[str]]] = {}
    for run in runs:
        try:
            results = [latest.result for latest in records.last_of_each(records.read(run))]
        except (records.UnreadableResults, OSError) as problem:
            raise errors.Usage(str(problem)) from None
        for target, seen in by_target(results).items():
            columns[target if target not in columns else f"{target} ({run})"] = seen
    rows = [row for row in side_by_side([*columns.values()]) if row.differs or not differing]
    if as_json:
        click.echo(json.dumps([_json(row, [*columns]) for row in rows]))
    else:
        _print(rows, [*columns])


def _json(row: Row, targets: Sequence[str]) -> dict[str, object]:
    return {
        "behaviour": row.name,
        "question": row.question,
        "impact": row.impact,
        "differs": row.differs,
        "values": dict(zip(targets, row.values, strict=True)),
    }


def _print(rows: Sequence[Row], targets: Sequence[str]) -> None:
    if not rows:
        click.echo("No recorded behaviour differs between these runs.")
    for row in rows:
        impact = f" ({row.impact})" if row.impact else ""
        click.echo(f"{row.question}{impact}")
        named: dict[str, list[str]] = {}
        for place, target in enumerate(targets):
            if row.values[place]:
                named.setdefault(row.words(place), []).append(target)
        for value, of in named.items():
            words = value if len(targets) == 1 else f"{value}: {', '.join(of)}"
            click.echo(f"    {plain(words)}")
