"""``brokerproof mutants --bytecode TARGET``: the suites against PIT's mutants of a real Artemis."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from brokerproof.harness.cases.calls import all_calls
from brokerproof.harness.cases.example_runs import Call
from brokerproof.harness.commands import errors
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.suites.mutation.bytecode import matrix, own_tests, plan, records
from brokerproof.suites.mutation.bytecode.agent import AREAS, BytecodeMutant
from brokerproof.suites.mutation.bytecode.broker import sample
from brokerproof.suites.mutation.bytecode.records import Fate, FateRecord

CONTROLS = "controls.ndjson"
FATES = "fates.ndjson"


def judge(
    name: str,
    names: Sequence[str],
    out: Path | None,
    most: int,
    seed: int,
    processes: int,
    *,
    every_case: bool,
    as_json: bool,
) -> int:
    """Judge the first ``most`` mutants of the sample. Results in ``out`` are reused, except for
    ``names``.

    With ``every_case``, all cases that execute a mutant's line run on it. Return 1 if no mutant was
    killed, else 0, because survivors are classified by hand.
    """
    if out is None:
        raise errors.Usage("--bytecode needs --out DIR, the folder for its results")
    out.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    try:
        calls = _calls(name)
        mutants = sample(name, seed)[:most]
        if unknown := set(names) - {mutant.name for mutant in mutants}:
            raise errors.Usage(f"the sample has no mutant {min(unknown)!r}")
        console.print(f"{len(mutants)} mutants, {len(calls)} cases", highlight=False)
        _record_controls(console, name, calls, mutants, out / CONTROLS, seed, processes)
        controls = records.controls(out / CONTROLS)
        known = records.fates(out / FATES)
        undecided = {name for name, fate in known.items() if fate.fate is Fate.NOT_EXECUTED}
        left = [m for m in mutants if m.name not in known or m.name in undecided]
        if names:
            left = [mutant for mutant in mutants if mutant.name in names]

        def done(fate: FateRecord) -> None:
            if fate.fate is Fate.NOT_EXECUTED and fate.mutant in undecided:
                return
            records.append(out / FATES, fate)
            console.print(_line(fate), highlight=False, markup=False)

        turn_s = math.inf if every_case else plan.TURN_S
        matrix.judge_all(name, left, controls, seed, processes, done, turn_s)
    except (SetUpFailed, target_file.BadTarget) as problem:
        raise errors.SetUp(str(problem)) from None
    chosen = {mutant.name for mutant in mutants}
    fates = [fate for fate in records.fates(out / FATES).values() if fate.mutant in chosen]
    own = own_tests.fates(out / records.OWN_TESTS)
    if as_json:
        click.echo(json.dumps([asdict(fate) for fate in fates], ensure_ascii=False))
    else:
        Console().print(table(fates, own))
    return 0 if any(fate.fate is Fate.KILLED for fate in fates) else 1


def _calls(name: str) -> list[Call]:
    """Return the calls that the target can run, in random order."""
    target = target_file.load(name)
    able = [call for call in all_calls() if call.needs <= target.identity.capabilities]
    return sorted(able, key=lambda call: hashlib.sha256(call.id.encode()).digest())


def _record_controls(
    console: Console,
    name: str,
    calls: Sequence[Call],
    mutants: Sequence[BytecodeMutant],
    path: Path,
    seed: int,
    processes: int,
) -> None:
    """Run the remaining cases on the unchanged broker."""
    known = records.controls(path)
    left = [call for call in calls if call.id not in known]
    if not left:
        return
    console.print(f"{len(left)} cases on the broker as it is", highlight=False)
    scope = sorted({mutant.class_name for mutant in mutants})
    matrix.record_controls(
        name, left, scope, seed, processes, lambda record: records.append(path, record)
    )


def _line(fate: FateRecord) -> str:
    return f"{fate.fate} {fate.mutant}: {fate.description}{f' ({fate.case})' if fate.case else ''}"


def table(fates: Sequence[FateRecord], own: Mapping[str, Fate]) -> Table:
    """Return kills by area beside those of the broker's own tests on the same mutants, if known."""
    table = Table(title=f"{len(fates)} bytecode mutants", title_justify="left")
    for column in ("area", "mutants", *(fate.value for fate in Fate), "killed by its own tests"):
        table.add_column(column, justify="left" if column == "area" else "right")
    for area in (*AREAS, "all"):
        rows = [fate for fate in fates if area in (fate.area, "all")]
        counts = Counter(fate.fate for fate in rows)
        judged = [own[fate.mutant] for fate in rows if fate.mutant in own]
        killed = f"{judged.count(Fate.KILLED)} of {len(judged)}" if judged else ""
        numbers = [str(counts[fate]) for fate in Fate]
        table.add_row(area, str(len(rows)), *numbers, killed)
    return table
