"""``brokerproof requirements [ID]``: the requirement catalogue, and the cases that cite it.

``brokerproof list`` and ``brokerproof explain ID`` are its older names."""

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from brokerproof.harness.cases import case_index
from brokerproof.harness.catalogue import coverage, requirement_texts, requirements
from brokerproof.harness.commands import errors

if TYPE_CHECKING:
    from brokerproof.harness.results.records import Result

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command("requirements")
@click.argument("requirement", metavar="[ID]", required=False)
@click.option(
    "--source",
    metavar="FILE-OR-SPEC",
    help='For example stomp12, "STOMP 1.2", artemis-stomp or seeds.',
)
@click.option(
    "--uncovered", is_flag=True, help="Only requirements that should have a case but have none."
)
@click.option(
    "--reached",
    metavar="RUN",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Show how many examples of this run reached each situation that its case declares.",
)
@click.option(
    "--amounts",
    metavar="RUN",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The largest amounts that cases of this run used: messages, consumers, links.",
)
@_JSON
def requirements_(
    requirement: str | None,
    source: str | None,
    uncovered: bool,
    reached: Path | None,
    amounts: Path | None,
    as_json: bool,
) -> None:
    """List requirements with their level and cases, or explain the one with this ID.

    An explanation shows the statement, its source, the cases that cite it, and how to contest it.
    """
    for option, folder, show in (("reached", reached, _reached), ("amounts", amounts, _amounts)):
        if folder is not None:
            if source is not None or uncovered:
                raise errors.Usage(f"--{option} describes one run: use it alone or with an ID")
            show(folder, requirement, as_json)
            return
    if requirement is None:
        _list(source, uncovered, as_json)
        return
    if source is not None or uncovered:
        raise errors.Usage("--source and --uncovered filter the list: use them or an ID")
    _explain(requirement, as_json)


@click.command("explain", hidden=True)
@click.argument("requirement", metavar="ID")
@_JSON
def explain(requirement: str, as_json: bool) -> None:
    """Explain one requirement; the same as ``brokerproof requirements ID``."""
    _explain(requirement, as_json)


def _list(source: str | None, uncovered: bool, as_json: bool) -> None:
    index = _index()
    try:
        rows = requirement_texts.rows(
            index.catalogue,
            case_index.described(index.cases),
            coverage.load_listed(),
            source=source,
            uncovered=uncovered,
        )
    except requirement_texts.UnknownSource as problem:
        raise errors.Usage(str(problem)) from None
    if as_json:
        click.echo(json.dumps(requirement_texts.rows_json(rows)))
    else:
        click.echo(requirement_texts.rows_text(rows, _width()), nl=False)


def _explain(requirement: str, as_json: bool) -> None:
    index = _index()
    try:
        facts = requirement_texts.explanation(
            index.catalogue, case_index.described(index.cases), requirement, coverage.load_listed()
        )
    except requirements.UnknownRequirement as problem:
        raise errors.Usage(str(problem)) from None
    if as_json:
        click.echo(json.dumps(facts))
    else:
        click.echo(requirement_texts.explanation_text(facts, _width()), nl=False)


def _results(folder: Path, requirement: str | None) -> "list[Result]":
    """Return the results of the run in ``folder`` (if ``requirement`` is given, only of the cases
    that cite it)."""
    from brokerproof.harness.results import records  # imported only for options about a run

    try:
        return [
            latest.result
            for latest in records.last_of_each(records.read(folder))
            if requirement is None or requirement in latest.result.requirements
        ]
    except records.UnreadableResults as problem:
        raise errors.Usage(str(problem)) from None


def _amounts(folder: Path, requirement: str | None, as_json: bool) -> None:
    """Print the largest amounts that the cases of the run in ``folder`` used."""
    results = [result for result in _results(folder, requirement) if result.amounts]
    if as_json:
        fields = [
            {"case": result.case, "target": result.target, "amounts": result.amounts}
            for result in results
        ]
        click.echo(json.dumps(fields))
        return
    for result in results:
        click.echo(f"{result.case} on {result.target}")
        for what, amount in result.amounts.items():
            click.echo(f"{amount:>8}  {what}")


def _reached(folder: Path, requirement: str | None, as_json: bool) -> None:
    """Print the situations that the run in ``folder`` reached (if ``requirement`` is given, only in
    the cases that cite it)."""
    results = [result for result in _results(folder, requirement) if result.situations]
    if as_json:
        fields = [
            {
                "case": result.case,
                "target": result.target,
                "requirements": result.requirements,
                "situations": result.situations,
            }
            for result in results
        ]
        click.echo(json.dumps(fields))
        return
    for result in results:
        click.echo(f"{result.case} on {result.target} ({', '.join(result.requirements)})")
        for situation, examples in result.situations.items():
            click.echo(f"{examples:>8}  {situation}")
    counts = [examples for result in results for examples in result.situations.values()]
    click.echo(f"{len(counts)} situations of {len(results)} cases, {counts.count(0)} never reached")


def _width() -> int:
    """The width of the terminal, but at most a readable length of lines."""
    return min(shutil.get_terminal_size().columns, 100)


def _index() -> case_index.Index:
    try:
        return case_index.load()
    except case_index.NoIndex as problem:
        raise errors.Ours(str(problem)) from None
