"""``brokerproof mutants --wire TARGET``: which faults on a broker's wire the suites detect, and by
which requirement."""

import json
import tempfile
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from brokerproof.harness.cases.calls import all_calls
from brokerproof.harness.commands import errors
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.suites.mutation.judging import Status
from brokerproof.suites.mutation.matrix import Fate, Plan
from brokerproof.suites.mutation.wire import matrix
from brokerproof.suites.mutation.wire.target import WIRE_MUTANTS, named


def judge(name: str, names: tuple[str, ...], plan: Plan, *, only_list: bool, as_json: bool) -> int:
    """Run the named faults (by default all) on the target ``name``. Return 1 if a fault is not
    caught."""
    try:
        chosen = [named(name) for name in names] or list(WIRE_MUTANTS.values())
        target = target_file.load(name)
    except (ValueError, target_file.BadTarget) as problem:
        raise errors.Usage(str(problem)) from None
    if only_list:
        for mutant in chosen:
            click.echo(f"{mutant.name}: {mutant.fault}")
        return 0
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="brokerproof-wire-") as logs:
        try:
            fates = matrix.judge_all(
                target, chosen, all_calls(), plan, Path(logs), lambda fate: _tell(console, fate)
            )
        except SetUpFailed as problem:
            raise errors.SetUp(str(problem)) from None
        finally:
            target.stop()
    if as_json:
        click.echo(
            json.dumps(
                [asdict(fate) | {"status": fate.status.value} for fate in fates], ensure_ascii=False
            )
        )
    else:
        Console().print(_table(name, fates))
    return 1 if any(fate.status is not Status.KILLED for fate in fates if _could_be(fate)) else 0


def _could_be(fate: Fate) -> bool:
    """True if the target has the capabilities that this fault's cases need."""
    return fate.cases > 0


def _tell(console: Console, fate: Fate) -> None:
    if fate.status is not Status.KILLED:
        console.print(f"{fate.mutant}: {fate.status}{_why(fate)}", highlight=False, markup=False)


def _why(fate: Fate) -> str:
    if not fate.cases:
        return " (no case that looks for it can be run on this target)"
    if fate.beside:
        return f" ({fate.beside[0].case} failed, through {fate.beside[0].requirement})"
    return "".join(f" ({sentence})" for sentence in [*fate.noticed_by, *fate.errors][:1])


def _table(name: str, fates: list[Fate]) -> Table:
    killed = sum(fate.status is Status.KILLED for fate in fates)
    tried = sum(_could_be(fate) for fate in fates)
    table = Table(
        title=f"Faults on the wire of {name}: {killed} of {tried} caught", title_justify="left"
    )
    for column in ("fault", "status", "caught by", "through"):
        table.add_column(column, overflow="fold")
    for fate in fates:
        kill = fate.killed_by[0] if fate.killed_by else None
        table.add_row(
            fate.mutant,
            fate.status.value,
            kill.case if kill else "",
            kill.requirement if kill else _why(fate),
        )
    return table
