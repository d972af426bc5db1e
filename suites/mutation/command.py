"""``brokerproof mutants``: which seeded faults the suites catch, and by which requirement."""

import json
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from brokerproof.harness.cases.calls import all_calls
from brokerproof.harness.catalogue import requirements
from brokerproof.harness.commands import errors
from brokerproof.suites.mutation import (
    all_mutants,
    controls,
    matrix,
    report,
    survivors,
    uncovered_requirements,
)
from brokerproof.suites.mutation.bytecode import command as bytecode_command
from brokerproof.suites.mutation.matrix import Extent, Fate, Plan
from brokerproof.suites.mutation.wire import command as wire_command

OUT = "Write mutants.json there, for example into a run folder."
UNBROKEN = "List requirements that cases cite and no mutant breaks; run nothing."
BYTECODE = "Mutate the classes of TARGET, an Artemis; needs --out, Maven and a JDK."


@click.command(context_settings={"show_default": True})
@click.option("--mutant", "names", multiple=True, metavar="NAME", help="Run this one; repeatable.")
@click.option("--all", "every_case", is_flag=True, help="Run all cases on each mutant.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help=OUT)
@click.option("--effort", type=click.Choice(["smoke", "normal", "deep"]), default="smoke")
@click.option("--seed", default=1, help="Seed of examples and simulated links.")
@click.option("-n", "processes", type=click.IntRange(1, 64), default=2, help="Concurrent mutants.")
@click.option("--list", "only_list", is_flag=True, help="List mutants and their faults; run none.")
@click.option("--unbroken", "only_unbroken", is_flag=True, help=UNBROKEN)
@click.option("--json", "as_json", is_flag=True, help="Print the matrix as JSON.")
@click.option("--bytecode", metavar="TARGET", help=BYTECODE)
@click.option(
    "--most", type=click.IntRange(1), default=300, help="How many mutants --bytecode draws."
)
@click.option("--wire", metavar="TARGET", help="Tamper with the traffic of TARGET, a real broker.")
def mutants(
    names: tuple[str, ...],
    every_case: bool,
    out: Path | None,
    effort: str,
    seed: int,
    processes: int,
    only_list: bool,
    only_unbroken: bool,
    as_json: bool,
    bytecode: str | None,
    most: int,
    wire: str | None,
) -> int:
    """Test the suites: run them against copies of the reference broker with one fault each.

    A mutant is killed when its code is reached and a case fails on a requirement that the fault
    breaks. Exit 1 if an unlisted mutant survives, a mutant on survivors.txt is killed, or a control
    fails.

    --wire leaves the broker unchanged and puts another set of faults into its traffic; the broker
    may be any target.

    --bytecode lets PIT, a tool that knows nothing of the suites, mutate the classes of a real
    Artemis. No requirement is assigned to these faults, so the table only counts killed mutants;
    classify survivors by hand. A second run continues in DIR.
    """
    if bytecode is not None:
        return bytecode_command.judge(
            bytecode, names, out, most, seed, processes, every_case=every_case, as_json=as_json
        )
    if wire is not None:
        return wire_command.judge(
            wire, names, Plan(effort, seed, Extent.FIRST), only_list=only_list, as_json=as_json
        )
    try:
        chosen = [all_mutants.named(name).name for name in names] or list(all_mutants.MUTANTS)
        listed = survivors.load()
    except (ValueError, survivors.BadList) as problem:
        raise errors.Usage(str(problem)) from None
    if only_list:
        _list(chosen, as_json)
        return 0
    if only_unbroken:
        _unbroken(as_json)
        return 0
    plan = Plan(effort, seed, Extent.EVERY if every_case else Extent.CITING)
    console = Console(stderr=True)
    fates = _judge(
        console, [name for name in chosen if name in all_mutants.MUTANTS], plan, processes
    )
    tried = {name: matrix.verdicts(name, plan) for name in _controls(chosen, names)}
    left = [] if names else uncovered_requirements.unbroken(requirements.load())
    data = report.as_data(
        fates,
        plan,
        cases=len(all_calls()),
        version=version("brokerproof"),
        controls=tried,
        listed=listed,
        unbroken=[row.requirement for row in left],
    )
    if out is not None:
        report.write(out, data)
    wrong = survivors.complaints(fates, listed, all_mutants.MUTANTS) + controls.complaints(tried)
    if as_json:
        click.echo(json.dumps(data, ensure_ascii=False))
    else:
        report.show(Console(), fates, requirements.load(), listed)
        for name, counts in tried.items():
            click.echo(
                f"{name}:"
                f" {', '.join(f'{count} {verdict}' for verdict, count in sorted(counts.items()))}"
            )
        if left:
            click.echo(uncovered_requirements.summary(left))
    for sentence in wrong:
        console.print(sentence, highlight=False, markup=False)
    return 1 if wrong else 0


def _controls(chosen: list[str], names: tuple[str, ...]) -> list[str]:
    """Return all controls for a whole matrix; for single mutants, only the requested ones."""
    return [name for name in all_mutants.CONTROLS if not names or name in chosen]


def _judge(console: Console, names: list[str], plan: Plan, processes: int) -> list[Fate]:
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    ) as bar:
        task = bar.add_task("mutants", total=len(names))
        if not console.is_terminal:
            console.print(f"{len(names)} mutants", highlight=False)
        return matrix.judge_all(
            names, plan, processes=processes, done=lambda fate: bar.advance(task)
        )


def _list(chosen: list[str], as_json: bool) -> None:
    every = [all_mutants.named(name) for name in chosen]
    if as_json:
        rows = [
            {"name": x.name, "fault": x.fault, "breaks": list(x.breaks), "recreates": x.recreates}
            for x in every
        ]
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    for mutant in every:
        click.echo(
            f"{mutant.name}: {mutant.fault}{f' ({mutant.recreates})' if mutant.recreates else ''}"
        )


def _unbroken(as_json: bool) -> None:
    unbroken = uncovered_requirements.unbroken(requirements.load())
    if as_json:
        click.echo(json.dumps([asdict(row) for row in unbroken], ensure_ascii=False))
        return
    for row in unbroken:
        click.echo(f"{row.requirement} {row.level.value}: {row.statement} ({', '.join(row.cases)})")
