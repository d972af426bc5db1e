"""The last lines of a run: verdicts, failures by cause, each area, and what to do next."""

import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from brokerproof.harness.catalogue import capabilities, cases, requirements
from brokerproof.harness.catalogue.requirements import Catalogue
from brokerproof.harness.commands.diff import plain
from brokerproof.harness.commands.gate import Gated
from brokerproof.harness.counterexamples import case_file
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import area_summary, causes, records, run_folder
from brokerproof.harness.results.area_summary import AreaState, State
from brokerproof.harness.results.causes import Cause
from brokerproof.harness.results.records import Result
from brokerproof.harness.results.verdict import WORST_FIRST

MOST_CAUSES = 12
"""The maximum number of causes printed for each verdict. The report lists them all."""
_MOST_CASES = 4
_MOST_OBSERVED = 2
_NARROWEST = 40
_MOST_ABSENT = 4
_MOST_CHARACTERS = 400
"""The maximum number of characters of an observation, because a case may quote a whole frame."""
_STYLES = {
    Verdict.FAIL: "bold red",
    Verdict.ERROR: "bold magenta",
    Verdict.INCONCLUSIVE: "bold yellow",
    Verdict.WARN: "bold cyan",
}
"""The verdicts whose causes are printed, in order, each with its style."""
_STATES = {
    State.BROKEN: "bold red",
    State.UNDECIDED: "yellow",
    State.DEVIATES: "magenta",
    State.KEPT: "green",
    State.PARTLY: "cyan",
    State.NOT_JUDGED: "dim",
}


def show(
    console: Console,
    folder: Path,
    results: Sequence[Result],
    targets: Mapping[str, str],
    passing: Sequence[str],
    gated: Gated | None,
) -> None:
    """Print the summary. ``targets`` holds the argument that named each target; ``passing`` holds a
    sentence for each known deviation that did not occur."""
    latest = [last.result for last in records.last_of_each(results)]
    catalogue = requirements.load()
    titles = {
        case.partition("[")[0]: cases.title(str(facts.get("doc", "")))
        for case, facts in run_folder.cases_of(folder).items()
    }
    if gated is not None:
        _print(console, compared(gated, console.width))
    for verdict in _STYLES:
        grouped = causes.group(latest, verdict)
        for cause in grouped[:MOST_CAUSES]:
            _print(console, described(cause, catalogue, titles, console.width))
        if len(grouped) > MOST_CAUSES:
            more = sum(len(cause.cases) for cause in grouped[MOST_CAUSES:])
            words = f"and {len(grouped) - MOST_CAUSES} more causes of {verdict} ({more} cases)"
            _print(console, [Text(words)])
        if verdict is Verdict.FAIL:
            for sentence in passing:
                _print(console, [Text(f"KNOWN deviation passes: {sentence}")])
    for target, areas in area_summary.summarise(latest).items():
        counts = Counter(result.verdict for result in latest if result.target == target)
        listed = ", ".join(
            f"{counts[verdict]} {verdict}" for verdict in WORST_FIRST if counts[verdict]
        )
        heading = Text(f"{target}, {counts.total()} cases: {listed}", style="bold")
        lines = [area_line(area, console.width) for area in areas]
        lines += absent(latest, target, console.width)
        _print(console, [heading, *lines])
    for line in next_steps(folder, latest, targets):
        # People copy commands, so they are not broken at the margin.
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def _print(console: Console, lines: Iterable[Text]) -> None:
    for line in lines:
        console.print(line, highlight=False, markup=False, overflow="fold")
    console.print()


def described(
    cause: Cause, catalogue: Catalogue, titles: Mapping[str, str], width: int
) -> Iterator[Text]:
    """Yield the lines of a cause: its requirement, the violation's impact, the observation, and the
    ``titles`` of the cases that made it."""
    head = Text(cause.verdict.value, style=_STYLES[cause.verdict])
    requirement = None
    if cause.finding is None or cause.is_unmet:
        unmet = "A precondition was not met · " * cause.is_unmet
        yield head.append(f"  {unmet}{cause.target}", style="default not bold")
    else:
        place = f"{', '.join(cause.versions)} · {cause.target} · {cause.area.label}"
        requirement = catalogue.get(cause.finding.requirement)
        heading = place if requirement is None else requirement.heading
        wrapped = _wrapped(heading, width, " " * (len(head) + 2), "  ").plain
        yield head.append(wrapped[len(head) :], style="default not bold")
        if requirement is not None:
            yield _wrapped(place, width, "  ", "    ")
    if cause.impact is not None and cause.verdict is Verdict.FAIL:
        yield _labelled("at worst", cause.impact.words, width)
    for observed in cause.observed[:_MOST_OBSERVED]:
        yield _labelled("observed", _shortened(observed) or "nothing", width)
    if requirement is not None:
        required = f"{requirement.required} ({requirement.source}, {requirement.level.words})"
        yield _labelled("required", required, width)
    for name, case in _cases(cause):
        if titles.get(name):
            yield _labelled("case", titles[name], width)
            yield _wrapped(case, width, " " * (11 if len(name) + 11 <= width else 2), " " * 13)
        else:
            yield _labelled("case", case, width)
    if len(cause.names) > _MOST_CASES:
        yield Text(f"  and {len(cause.names) - _MOST_CASES} more")


def _cases(cause: Cause) -> Iterator[tuple[str, str]]:
    names = cause.names
    for name, variants in list(names.items())[:_MOST_CASES]:
        shown = [variant for variant in variants[:_MOST_CASES] if variant]
        more = [f"{len(variants) - _MOST_CASES} more"] if len(variants) > _MOST_CASES else []
        yield name, name + (f" [{', '.join([*shown, *more])}]" if shown else "")


def area_line(area: AreaState, width: int) -> Text:
    """Return the area, its state, and the reason, on one line unless the reason is long."""
    line = Text(f"  {area.area.label:<22}")
    line.append(f"{area.state.value:<14}", style=_STATES[area.state])
    indent = " " * len(line)
    line.append(_wrapped(area.why, width, indent, indent).plain.removeprefix(indent))
    return line


def absent(results: Iterable[Result], target: str, width: int) -> Iterator[Text]:
    """Yield the capabilities that the skipped cases of ``target`` most often need; nothing if they
    need none."""
    skips = (
        result.detail
        for result in results
        if result.target == target and result.verdict is Verdict.SKIP
    )
    reasons, others = capabilities.main_reasons(skips, _MOST_ABSENT)
    needed = [f"{reason[3:]} ({count})" for reason, count in reasons if reason.startswith("no ")]
    if needed:
        more = " and others" if others or len(needed) < len(reasons) else ""
        yield _wrapped(
            f"SKIP: cases that need {', '.join(needed)}{more}; `brokerproof capabilities` explains"
            " these names",
            width,
            "  ",
            "    ",
        )


def compared(gated: Gated, width: int) -> Iterator[Text]:
    counts = gated.counts()
    courses = [course for course in ("worse", "undecided", "better") if counts[course]]
    changed = ", ".join(f"{counts[course]} {course}" for course in courses)
    yield Text(
        f"Compared with {gated.baseline.folder}: {changed or 'nothing changed'}",
        style="bold red" if gated.worse else "bold",
    )
    for before, now in gated.renamed.items():
        yield Text(f"  {before} (baseline) is compared with {now} (now)")
    for lost in gated.lost_services[:MOST_CAUSES]:
        count = len(lost.cases)
        cases = f"{count} cases rely" if count > 1 else "1 case relies"
        observed = _shortened(lost.observed[0])
        sentence = f"{lost.target} no longer offers a service that {cases} on: {observed}"
        yield _wrapped(sentence, width, "  ", "    ")
    for change in gated.worse[:MOST_CAUSES]:
        was, now_is = change.verdicts
        yield _wrapped(f"{was} → {now_is} in {change.case}", width, "  ", "    ")
        if change.b is not None:
            yield _labelled("now", _shortened(change.b.result.detail), width)
    if len(gated.worse) > MOST_CAUSES:
        yield Text(f"  and {len(gated.worse) - MOST_CAUSES} more: brokerproof diff lists them")


def next_steps(
    folder: Path, results: Sequence[Result], targets: Mapping[str, str]
) -> Iterator[str]:
    """Yield the commands to try next; none if every case passed."""
    failed = [cause for cause in causes.group(results, Verdict.FAIL) if cause.finding is not None]
    retry = f"  brokerproof run --last-failed {shlex.quote(str(folder))}"
    if not failed:
        if causes.group(results, Verdict.INCONCLUSIVE):
            yield from ("To repeat the undecided cases, on a quiet host:", retry)
        return
    first = failed[0]
    assert first.finding is not None
    yield "Read the requirement and how to contest it:"
    yield f"  brokerproof requirements {first.finding.requirement}"
    kept = folder / case_file.FOLDER
    for case in first.cases:
        path = kept / f"{case_file.slug(first.target, case)}{case_file.SUFFIX}"
        if path.exists():
            target = targets.get(first.target, first.target)
            yield "Play the smallest failing conversation again:"
            yield f"  brokerproof replay --target {shlex.quote(target)} \\"
            yield f"    {shlex.quote(str(path))}"
            break
    yield from ("After a repair, repeat the failed and undecided cases:", retry)


def _shortened(text: str) -> str:
    text = plain(text)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]} …"


def _labelled(label: str, text: str, width: int) -> Text:
    """Return ``text`` after a label, with wrapped lines aligned."""
    return _wrapped(text, width, f"  {label:<9}", " " * 11)


def _wrapped(text: str, width: int, first: str, others: str) -> Text:
    lines = textwrap.wrap(
        text,
        max(width, _NARROWEST),
        initial_indent=first,
        subsequent_indent=others,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return Text("\n".join(lines))
