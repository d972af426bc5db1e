"""``brokerproof diff``: shows what changed between two runs, or between two brokers."""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from brokerproof.harness.commands import diff_formats, errors
from brokerproof.harness.commands.diff_inputs import Side, notes, open_side, releases
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results.behaviour_comparison import Row, by_target, side_by_side
from brokerproof.harness.results.difference import (
    Course,
    Difference,
    Kind,
    Shift,
    compare,
    exit_code,
    shifts,
)
from brokerproof.harness.results.records import LatestResult, UnreadableResults
from brokerproof.harness.results.run_folder import BadRunFolder

LISTED = 60
"""The maximum number of rows printed of a table. --json prints them all."""

_STYLES = {Course.WORSE: "red", Course.UNDECIDED: "yellow", Course.BETTER: "green"}


@click.command()
@click.argument("run_a", type=click.Path(path_type=Path))
@click.argument("run_b", type=click.Path(path_type=Path))
@click.option(
    "--between-brokers",
    "across",
    is_flag=True,
    help="Compare a target of A with a target of B even if their names differ.",
)
@click.option("--across", is_flag=True, hidden=True)
@click.option("--target-a", metavar="NAME", help="Compare only this target of RUN_A.")
@click.option("--target-b", metavar="NAME", help="Compare only this target of RUN_B.")
@click.option(
    "--judged-in-both", is_flag=True, help="Leave out cases that judged only one of the brokers."
)
@click.option("--regressions", is_flag=True, help="List only what got worse from A to B.")
@click.option(
    "--only-failing-in",
    "only",
    type=click.Choice(["A", "B"]),
    help="List only cases that fail on this side and pass on the other.",
)
@click.option("--only", type=click.Choice(["A", "B"]), hidden=True)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "markdown", "junit", "github"]),
    default="text",
    show_default=True,
    help="markdown: for a job summary; junit: for the CI's test report; github: annotations.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: every difference with both details."
)
def diff(
    run_a: Path,
    run_b: Path,
    across: bool,
    target_a: str | None,
    target_b: str | None,
    judged_in_both: bool,
    regressions: bool,
    only: str | None,
    form: str,
    as_json: bool,
) -> int:
    """Compare RUN_A with RUN_B, case by case and requirement by requirement.

    Cases left undecided because the host was late are listed as late. Display options never change
    the exit code. Exit: 0 nothing got worse · 1 something got worse · 2 undecided (a change to or
    from INCONCLUSIVE, or an interrupted run) · 4 not a run folder."""
    a, b = _sides(run_a, run_b, target_a, target_b, across)
    differences = compare(a.compared, b.compared, across=across)
    if judged_in_both:
        differences = [difference for difference in differences if difference.judged_in_both]
    moved = shifts(differences, across=across)
    code = exit_code(differences, partial=a.partial or b.partial)
    reservations = list(notes(a, b, across=across))
    shown = [difference for difference in differences if _wanted(difference, regressions, only)]
    changed = _behaviours(a, b, across)
    if regressions:
        moved = [shift for shift in moved if shift.course is Course.WORSE]
    if only or regressions:
        changed = []
    if only:
        moved = []
    if as_json or form == "json":
        facts = _json(a, b, reservations, differences, shown, moved, changed, code)
        click.echo(json.dumps(facts, indent=1))
    elif form == "markdown":
        click.echo("\n".join(diff_formats.markdown(a, b, reservations, shown)))
    elif form == "junit":
        click.echo(diff_formats.junit(differences), nl=False)
    elif form == "github":
        for annotation in diff_formats.github(shown):
            click.echo(annotation)
    else:
        _print(a, b, reservations, differences, shown, moved, only)
        for line in _changed(changed):
            click.echo(line)
    return code


def _behaviours(a: Side, b: Side, across: bool) -> list[tuple[str, Row]]:
    """Return what the targets of the two sides do differently where nothing is promised."""
    before, now = (by_target(latest.result for latest in side.compared) for side in (a, b))
    pairs = (
        {" → ".join((*before, *now)): (*before.values(), *now.values())}
        if across
        else {target: (before[target], now[target]) for target in before if target in now}
    )
    return [
        (target, row) for target, pair in pairs.items() for row in side_by_side(pair) if row.differs
    ]


def _changed(changed: Sequence[tuple[str, Row]]) -> Iterator[str]:
    """Return lines about behaviours; they name the target if there are several."""
    several = len({target for target, _ in changed}) > 1
    for target, row in changed:
        of = f" of {target}" if several else ""
        impact = f" ({row.impact})" if row.impact else ""
        yield plain(f"behaviour{of}: {row.question}: {row.words(0)} → {row.words(1)}{impact}")


def _sides(
    run_a: Path, run_b: Path, target_a: str | None, target_b: str | None, across: bool
) -> tuple[Side, Side]:
    try:
        a, b = open_side("A", run_a).only(target_a), open_side("B", run_b).only(target_b)
    except (BadRunFolder, UnreadableResults, LookupError) as problem:
        raise errors.Usage(str(problem.args[0])) from None
    except OSError as problem:
        raise errors.Usage(f"{problem.filename}: cannot be read ({problem.strerror})") from None
    if not across:
        a = a.compared_as(releases(a.targets, b.targets))
    else:
        for side in (a, b):
            if len(side.targets) != 1:
                raise errors.Usage(
                    f"--between-brokers compares one target with another, but {side.folder} has"
                    f" {', '.join(side.targets) or 'none'}; choose with"
                    f" --target-{side.letter.lower()} NAME"
                )
    if run_a.resolve() == run_b.resolve() and a.targets == b.targets:
        raise errors.Usage(
            f"{run_a} was given twice; to compare two targets of one run: --between-brokers"
            " --target-a X --target-b Y"
        )
    return a, b


def _wanted(difference: Difference, regressions: bool, only: str | None) -> bool:
    if difference.kind is Kind.UNCHANGED or (regressions and difference.course is not Course.WORSE):
        return False
    return only is None or difference.only == only


def _counts(differences: Sequence[Difference]) -> dict[str, int]:
    kinds = Counter(difference.kind for difference in differences)
    courses = Counter(difference.course for difference in differences)
    return {
        **{kind.value.lower(): kinds[kind] for kind in Kind},
        **{course.value.lower(): courses[course] for course in Course if course is not Course.SAME},
        "unsteady": sum(difference.unsteady for difference in differences),
    }


def _json(
    a: Side,
    b: Side,
    reservations: list[str],
    differences: list[Difference],
    shown: list[Difference],
    moved: list[Shift],
    changed: list[tuple[str, Row]],
    code: int,
) -> dict[str, Any]:
    return {
        **{
            side.letter.lower(): {
                "folder": str(side.folder),
                "started": side.header.get("started"),
                "finished": not side.partial,
                "targets": [
                    {"name": name, **dict(side.listed.get(name, {}))} for name in side.targets
                ],
            }
            for side in (a, b)
        },
        "notes": reservations,
        "counts": _counts(differences),
        "behaviours": [{"target": target, **dataclasses.asdict(row)} for target, row in changed],
        "cases": [
            {
                "case": difference.case,
                "target": difference.target,
                "kind": difference.kind.value,
                "course": difference.course.value,
                "impact": difference.impact,
                "unsteady": difference.unsteady,
                "only": difference.only,
                "a": _side(difference.a),
                "b": _side(difference.b),
            }
            for difference in shown
        ],
        "requirements": [
            {
                "requirement": shift.requirement,
                "target": shift.target,
                "course": shift.course.value,
                "impact": shift.impact,
                "a": shift.a,
                "b": shift.b,
                "other_cases": shift.other_cases,
            }
            for shift in moved
        ],
        "exit_code": code,
    }


def _side(latest: LatestResult | None) -> dict[str, Any] | None:
    if latest is None:
        return None
    result = latest.result
    return {
        "verdict": result.verdict.value,
        "detail": result.detail,
        "attempts": result.attempts,
        "earlier": [verdict.value for verdict in latest.earlier],
    }


def _print(
    a: Side,
    b: Side,
    reservations: list[str],
    differences: list[Difference],
    shown: list[Difference],
    moved: list[Shift],
    only: str | None,
) -> None:
    console = Console(highlight=False, markup=False, emoji=False)
    say = console.print if console.is_terminal else click.echo
    say(plain(f"A: {a.describe()}"))
    say(plain(f"B: {b.describe()}"))
    for sentence in reservations:
        say(plain(f"note: {sentence}"))
    say(_summary(_counts(differences)))
    if only:
        say(f"violated on {only} and kept on the other: {len(shown)}")
    if console.is_terminal:
        _tables(console, shown, moved)
    else:
        for line in _lines(shown, moved):
            click.echo(line)


def _summary(counts: dict[str, int]) -> str:
    kinds = ", ".join(f"{counts[kind.value.lower()]} {kind.value.lower()}" for kind in Kind)
    courses = ", ".join(
        f"{counts[course.value.lower()]} {course.value.lower()}"
        for course in Course
        if course is not Course.SAME
    )
    unsteady = f"; {counts['unsteady']} unsteady" if counts["unsteady"] else ""
    return f"cases: {kinds}; of these {courses}{unsteady}"


def _tables(console: Console, shown: list[Difference], moved: list[Shift]) -> None:
    if shown:
        table = Table(*_whole("", "case", "target", "A → B"), title="Cases", title_justify="left")
        for difference in shown[:LISTED]:
            description = Text(plain(difference.case))
            for line in _details(difference):
                description.append(f"\n{line}", style="dim")
            style = _STYLES.get(difference.course, "")
            table.add_row(
                Text(_word(difference), style=style),
                description,
                plain(difference.target),
                Text(diff_formats.way(difference), style=style),
            )
        console.print(table)
        _more(console, len(shown))
    if moved:
        table = Table(
            *_whole("", "requirement", "target", "A → B"),
            title="Requirements",
            title_justify="left",
        )
        for shift in moved[:LISTED]:
            style = _STYLES.get(shift.course, "")
            table.add_row(
                Text(_word(shift), style=style),
                plain(shift.requirement) + _others(shift),
                plain(shift.target),
                Text(diff_formats.way(shift), style=style),
            )
        console.print(table)
        _more(console, len(moved))


def _whole(*names: str) -> list[Column]:
    """Columns that are wrapped in a narrow terminal but not cut off, because half a name helps
    nobody."""
    return [Column(name, overflow="fold") for name in names]


def _more(console: Console, count: int) -> None:
    if count > LISTED:
        console.print(f"… and {count - LISTED} more; --json prints all")


def _lines(shown: list[Difference], moved: list[Shift]) -> Iterator[str]:
    for difference in shown:
        way = diff_formats.way(difference)
        yield plain(f"{_word(difference)}: {difference.target} {difference.case}: {way}")
        for line in _details(difference):
            yield f"    {line}"
    for shift in moved:
        way = diff_formats.way(shift)
        yield plain(
            f"requirement {_word(shift)}: {shift.target} {shift.requirement}: {way}{_others(shift)}"
        )


def _word(change: Difference | Shift) -> str:
    a, b = change.verdicts
    word = "neutral" if change.course is Course.SAME else change.course.value.lower()
    return "added" if a is None else "removed" if b is None else word


def _details(difference: Difference) -> Iterator[str]:
    if difference.kind is not Kind.CHANGED and set(difference.verdicts) & {
        Verdict.PASS,
        Verdict.SKIP,
    }:
        return  # a case in only one run needs a sentence only if that says more than its verdict
    for letter, side in (("A", difference.a), ("B", difference.b)):
        if side is not None and side.result.detail:
            yield plain(f"{letter}: {side.result.detail[:300]}")
    if difference.unsteady:
        yield plain("unsteady: " + "; ".join(_unsteady(difference)))


def _unsteady(difference: Difference) -> Iterator[str]:
    for letter, side in (("A", difference.a), ("B", difference.b)):
        if side is None or side.steady:
            continue
        if side.result.attempts > 1:
            yield f"{letter} needed {side.result.attempts} attempts"
        if side.earlier:
            yield f"{letter} said {', '.join(side.earlier)} before"


def _others(shift: Shift) -> str:
    return " (judged by other cases)" if shift.other_cases and None not in shift.verdicts else ""


def plain(text: str) -> str:
    """Return ``text`` on one line without control characters, since details quote brokers."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for character in " ".join(text.split())
    )
