"""``brokerproof run``: the options of a run. :mod:`brokerproof.harness.commands.judging`, which
does the judging, is imported only when a run begins, so ``run --help`` does not wait for it."""

from pathlib import Path

import click

from brokerproof.harness.cases.selection import Selection
from brokerproof.harness.commands.cases import selection_options
from brokerproof.harness.model import cost_limits
from brokerproof.harness.model.verdicts import Impact


def _rule(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    rule, _, named = (value or "never").partition("=")
    if rule not in ("worse", "fail", "never") and not (
        rule == "impact" and set(named.split(",")) <= set(Impact)
    ):
        raise click.BadParameter(
            f"{value!r} should be worse, fail, never, or impact= with some of {','.join(Impact)}"
        )
    return value


@click.command()
@click.argument("named", nargs=-1, metavar="[TARGET]...")
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="NAME|FILE|HOST:PORT|URL",
    help="The same as TARGET; `brokerproof targets` lists names.",
)
@click.option(
    "--endpoint",
    "endpoints",
    multiple=True,
    metavar="[NAME=]URL",
    help="Another endpoint of a --target given as HOST:PORT or URL; repeat for several.",
)
@click.option(
    "--like",
    metavar="NAME",
    help="Judge --target as this family (artemis, rabbitmq, activemq or another built-in target),"
    " or by the specifications alone (none). Default: the family that the broker reports.",
)
@selection_options
@click.option(
    "--last-failed",
    metavar="[RUN]",
    is_flag=False,
    flag_value="",
    help="Only cases that failed, crashed or were inconclusive in RUN; default: the newest run in"
    " brokerproof-out.",
)
@click.option("--dry-run", is_flag=True, help="List the selected cases, and judge nothing.")
@click.option("-x", "stop_at_first", is_flag=True, help="Stop at the first FAIL or ERROR.")
@click.option(
    "--effort",
    type=click.Choice(["smoke", "normal", "deep"]),
    default="normal",
    show_default=True,
    help="How many examples each property draws.",
)
@click.option(
    "--seed",
    type=int,
    help="Seed of examples and simulated links; default: random, stored in run.json.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Run folder; default: brokerproof-out/<timestamp>.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Continue the run in --out with its original options; skip cases with a result.",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1, 256),
    help=(
        "Concurrent cases; default: in virtual time one per core, in real time 16 in each of up to"
        " two processes, and more while the processor is idle."
    ),
)
@click.option("-n", "jobs", type=click.IntRange(1, 256), hidden=True)
@click.option(
    "--limit",
    "limit_words",
    multiple=True,
    metavar="NAME=NUMBER",
    help="Change a limit on a target in real time; repeat for several."
    f" Names: {', '.join(cost_limits.NAMES)}.",
)
@click.option(
    "--allow-harm",
    is_flag=True,
    help="Also run cases that may leave a broker unusable on brokers that brokerproof did not"
    " start; on those that it starts, they always run.",
)
@click.option(
    "--restart",
    metavar="COMMAND",
    default="",
    help="A command that restarts a broker killed by a case. The run names the case and continues;"
    " without a command it can continue only if the broker restarts by itself.",
)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="RUN",
    help="Compare with this run folder and print what changed.",
)
@click.option(
    "--fail-on",
    metavar="worse|fail|never|impact=…",
    callback=_rule,
    help="When to exit with 1. worse: something is worse than in --baseline (default with"
    " --baseline); fail: any violation (default otherwise); impact=…: a violation with one of"
    " these impacts; never.",
)
@click.option(
    "--inconclusive-ok", is_flag=True, help="Exit 0 instead of 2, for CI hosts too noisy to judge."
)
@click.option("--no-report", is_flag=True, help="Write no report (later: brokerproof report RUN).")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def run(
    named: tuple[str, ...],
    targets: tuple[str, ...],
    endpoints: tuple[str, ...],
    like: str | None,
    suites: tuple[str, ...],
    cases: tuple[str, ...],
    exclude: tuple[str, ...],
    requirements: tuple[str, ...],
    areas: tuple[str, ...],
    last_failed: str | None,
    dry_run: bool,
    stop_at_first: bool,
    effort: str,
    seed: int | None,
    out: Path | None,
    resume: bool,
    jobs: int | None,
    limit_words: tuple[str, ...],
    allow_harm: bool,
    restart: str,
    baseline: Path | None,
    fail_on: str | None,
    inconclusive_ok: bool,
    no_report: bool,
    as_json: bool,
) -> int:
    """Judge each TARGET. Without arguments, run every suite on the embedded reference broker, in
    virtual and in real time."""
    from brokerproof.harness.commands import judging

    targets += named

    if endpoints or like is not None:
        targets = (judging.with_endpoints(targets, endpoints, like),)
    asked = judging.Asked(targets, suites, Selection(cases, exclude, requirements, areas))
    if last_failed is not None:
        asked = judging.only_failed(asked, last_failed)
    if dry_run:
        return judging.dry_run(asked, as_json=as_json)
    return judging.judge(
        asked,
        judging.Options(
            effort=effort,
            seed=seed,
            out=out,
            resume=resume,
            jobs=jobs,
            limit_words=limit_words,
            allow_harm=allow_harm,
            restart=restart,
            stop_at_first=stop_at_first,
            baseline=baseline,
            fail_on=fail_on,
            inconclusive_ok=inconclusive_ok,
            report=not no_report,
            as_json=as_json,
        ),
    )
