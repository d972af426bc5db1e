"""``brokerproof cases``: the conformance cases, with the ids that ``--case`` accepts."""

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from brokerproof.harness.cases import case_index
from brokerproof.harness.cases.case_index import IndexedCase
from brokerproof.harness.cases.selection import BadSelection, Selection
from brokerproof.harness.catalogue.areas import Area
from brokerproof.harness.catalogue.cases import CONFORMANCE, SUITE_ALIASES
from brokerproof.harness.commands import errors

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--suite",
        "suites",
        multiple=True,
        metavar="SUITE",
        help=f"Only this suite; repeat for several. Suites: {', '.join(CONFORMANCE)}, and those of"
        " installed packages.",
    ),
    click.option(
        "--case",
        "cases",
        multiple=True,
        metavar="ID|WORDS",
        help="A case id as printed (brackets optional), or words of ids joined by and, or, not;"
        " repeat for several.",
    ),
    click.option(
        "--exclude", multiple=True, metavar="ID|WORDS", help="Omit these cases; repeat for several."
    ),
    click.option(
        "--requirement",
        "requirements",
        multiple=True,
        metavar="ID",
        help="Only cases that cite this requirement, or one whose id begins with it (STOMP12-HB);"
        " repeat for several.",
    ),
    click.option(
        "--area",
        "areas",
        multiple=True,
        type=click.Choice([area.value for area in Area]),
        help="Only cases of this area; repeat for several.",
    ),
)


def selection_options(command: Command) -> Command:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command("cases")
@selection_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def cases(
    suites: tuple[str, ...],
    cases: tuple[str, ...],
    exclude: tuple[str, ...],
    requirements: tuple[str, ...],
    areas: tuple[str, ...],
    as_json: bool,
) -> None:
    """List conformance cases: id, areas, requirements with their levels, and what they need.

    `brokerproof run` accepts the same options, and ids as printed here."""
    chosen = choose(suites, Selection(cases, exclude, requirements, areas))
    if as_json:
        rows = [{**dataclasses.asdict(case), "areas": case.areas} for case in chosen]
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    width = click.formatting.HelpFormatter().width
    click.echo("\n".join(line for case in chosen for line in _lines(case, width)))
    click.echo(totals(chosen))


def _lines(case: IndexedCase, width: int) -> Iterator[str]:
    yield click.style(case.id, bold=True)
    cited = ", ".join(
        f"{requirement} ({level})"
        for requirement, level in zip(case.requirements, case.levels, strict=True)
    )
    facts = [f"{', '.join(case.areas)}: {cited}"]
    facts += [f"needs {', '.join(case.needs)}"] if case.needs else []
    for fact in facts:
        yield click.wrap_text(fact, width, initial_indent="    ", subsequent_indent="    ")


def choose(suites: Sequence[str], selection: Selection) -> list[IndexedCase]:
    """Return the cases in ``suites`` (none: all) that match ``selection``. Raises ``Usage`` if a
    name is misspelled or nothing matches."""
    try:
        every = case_index.load().cases
        asked = set(suites_named(suites))
        of_suites = [case for case in every if case.suite in asked]
        for text in selection.unused(of_suites):
            raise errors.Usage(f"no case matches {text!r}{_near(text, every)}")
        chosen = [case for case in of_suites if selection.chooses(case)]
    except (BadSelection, case_index.NoIndex) as problem:
        raise errors.Usage(str(problem)) from None
    if not chosen:
        raise errors.Usage("no case of the chosen suites matches all of these options")
    return chosen


def suites_named(names: Iterable[str]) -> dict[str, Path]:
    """Return the folders of the suites with these names (none: all). Raises ``Usage``."""
    try:
        folders = case_index.suite_folders()
    except case_index.NoIndex as problem:
        raise errors.Usage(str(problem)) from None
    chosen = [SUITE_ALIASES.get(name, name) for name in names]
    if unknown := [name for name in chosen if name not in folders]:
        known = ", ".join(folders)
        raise errors.Usage(f"--suite {unknown[0]}: there is no such suite; the suites are {known}")
    return {name: folders[name] for name in chosen or folders}


def totals(chosen: Iterable[IndexedCase]) -> str:
    """Return one line with the number of cases, in total and per area (a case may belong to
    several)."""
    listed = list(chosen)
    counts = Counter(area for case in listed for area in case.areas)
    return f"{len(listed)} cases: " + ", ".join(
        f"{counts[area]} {area}" for area in Area if counts[area]
    )


def _near(text: str, every: Iterable[IndexedCase]) -> str:
    import difflib  # imported only for a misspelled id

    names = {name for case in every for name in (case.id, case.name, *case.requirements)}
    near = difflib.get_close_matches(text, names, n=1)
    return f"; did you mean {near[0]}?" if near else "; `brokerproof cases` lists them"
