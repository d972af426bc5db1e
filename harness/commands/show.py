"""``brokerproof list`` and ``brokerproof explain``: the requirements, and the cases that cite
them."""

from __future__ import annotations

import json

import click

from brokerproof.harness.cases import case
from brokerproof.harness.catalogue import cases, coverage, requirements, show
from brokerproof.harness.commands import errors

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _described() -> dict[str, cases.CaseInfo]:
    cases.import_suites()
    return cases.describe(case.registry().values())


@click.command("list")
@click.option(
    "--source",
    metavar="FILE-OR-SPEC",
    help='For example stomp12, "STOMP 1.2", artemis-stomp or seeds.',
)
@click.option("--uncovered", is_flag=True, help="Only requirements that owe a case and have none.")
@_JSON
def list_(source: str | None, uncovered: bool, as_json: bool) -> None:
    """List requirements with their level and the cases that cite them."""
    try:
        found = show.rows(
            requirements.load(),
            _described(),
            coverage.load_listed(),
            source=source,
            uncovered=uncovered,
        )
    except show.UnknownSource as problem:
        raise errors.Usage(str(problem)) from None
    width = click.get_current_context().terminal_width or 110
    click.echo(
        json.dumps(show.rows_json(found)) if as_json else show.rows_text(found, width), nl=as_json
    )


@click.command()
@click.argument("requirement")
@_JSON
def explain(requirement: str, as_json: bool) -> None:
    """Explain one REQUIREMENT: its words, its source, its cases, and how to contest it."""
    try:
        facts = show.explanation(
            requirements.load(), _described(), requirement, coverage.load_listed()
        )
    except requirements.UnknownRequirement as problem:
        raise errors.Usage(str(problem)) from None
    click.echo(json.dumps(facts) if as_json else show.explanation_text(facts), nl=as_json)
