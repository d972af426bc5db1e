"""Runs each bug's case on a release with the bug and on one without it, and checks that the results
differ.

``python -m brokerproof.suites.mutation.history.command`` tries all pairs or, with ``--bug
ARTEMIS-4649``, one of them. Each release is downloaded once, started once and judged by every case
for which it is listed. The exit code is 1 if the results do not distinguish a pair, that is, if the
case does not fail on the first release for the listed reason or does not pass on the second.
"""

import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from brokerproof.harness.cases.calls import all_calls
from brokerproof.harness.cases.example_runs import Call, Run
from brokerproof.harness.cases.execution import execute
from brokerproof.harness.catalogue import requirements
from brokerproof.harness.catalogue.tables import BadData
from brokerproof.harness.commands import errors
from brokerproof.harness.results.records import Result
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.trace.recorder import Recorder
from brokerproof.suites.mutation.history import pairs
from brokerproof.suites.mutation.history.pairs import Pair


def judge(target_name: str, calls: Iterable[Call], seed: int, logs: Path) -> dict[str, Result]:
    """Return the result of each call on a target, by the call's id. Raises :class:`SetUpFailed`.

    Known deviations are ignored, so that a bug of a release is a FAIL here even if it is listed.
    """
    target = target_file.load(target_name)
    try:
        facts = target.start(logs)
        recorder = Recorder(None, run="", target=target.identity.name, clock=target.clock)
        run = Run(target, facts, requirements.load(), (), recorder, "normal", seed, shrink=False)
        return {call.id: execute(run, call) for call in calls}
    finally:
        target.stop()


def told_apart(pair: Pair, results: dict[str, dict[str, Result]]) -> list[str]:
    """Return complaints about a pair, given the results by target and case; empty if the case
    distinguishes the two releases."""
    before, after = results[pair.before][pair.case], results[pair.after][pair.case]
    texts = {pair.before: pair.complaint_before(before), pair.after: pair.complaint_after(after)}
    return [
        f"{pair.bug}, {version}: {complaint}" for version, complaint in texts.items() if complaint
    ]


@click.command()
@click.option(
    "--bug",
    "bugs",
    multiple=True,
    metavar="TEXT",
    help="Only bugs whose name contains TEXT. Repeat for several.",
)
@click.option("--seed", type=int, default=1, show_default=True)
def main(bugs: tuple[str, ...], seed: int) -> None:
    """Exit 1 if the results do not distinguish a pair of releases, 3 if a release cannot be
    installed or started."""
    chosen = _chosen(bugs)
    known = {call.id: call for call in all_calls()}
    if unknown := [pair for pair in chosen if pair.case not in known]:
        raise errors.Ours(
            f"{unknown[0].bug}: there is no case {unknown[0].case}; `brokerproof requirements` has"
            " their names"
        )
    results: dict[str, dict[str, Result]] = {}
    with tempfile.TemporaryDirectory(prefix="brokerproof-history-") as logs:
        for target, cases in pairs.wanted(chosen).items():
            try:
                results[target] = judge(target, [known[name] for name in cases], seed, Path(logs))
            except SetUpFailed as problem:
                raise errors.SetUp(str(problem)) from None
            words = ", ".join(
                f"{result.verdict.value} {case}" for case, result in results[target].items()
            )
            click.echo(f"{target}: {words}")
    complaints = {pair: told_apart(pair, results) for pair in chosen}
    for pair in chosen:
        apart = "not distinguished" if complaints[pair] else "distinguished"
        click.echo(
            f"{pair.bug}: {pair.before} and {pair.after} are {apart} by {pair.case}"
            f" ({pair.requirement})"
        )
        for complaint in complaints[pair]:
            click.echo(f"    {complaint}")
    click.echo(f"{list(complaints.values()).count([])} of {len(chosen)} pairs distinguished")
    sys.exit(1 if any(complaints.values()) else 0)


def _chosen(bugs: Sequence[str]) -> list[Pair]:
    try:
        every = [pair for path in pairs.shipped() for pair in pairs.load(path)]
    except BadData as problem:
        raise errors.Ours(str(problem)) from None
    if strange := [bug for bug in bugs if not any(bug in pair.bug for pair in every)]:
        raise errors.Usage(
            f"--bug {strange[0]!r} is unknown; the bugs are {', '.join(pair.bug for pair in every)}"
        )
    return [pair for pair in every if not bugs or any(bug in pair.bug for bug in bugs)]


if __name__ == "__main__":
    main()
