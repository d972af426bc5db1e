"""``brokerproof load``: many connections, producers and consumers against one target, recorded.

It judges nothing; use ``brokerproof judge RUN`` afterwards, or ``brokerproof soak`` instead. Exit:
0 every message sent was confirmed and received · 2 some were not, or the broker closed a connection
· 3 target unreachable or set-up failed · 4 usage error · 5 internal error."""

import dataclasses
import json
import shlex
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from brokerproof.harness.commands import errors
from brokerproof.harness.commands.load_options import lasting, load_options, socket_target, wishes
from brokerproof.harness.inference import discovery
from brokerproof.harness.load import summary
from brokerproof.harness.load.conductor import Drivers, LoadFailed, LoadOutcome, Progress
from brokerproof.harness.load.local_drivers import LocalDrivers
from brokerproof.harness.load.plan import BadPlan, byte_count
from brokerproof.harness.load.recovery import NotRecovered, recover, wire_logs
from brokerproof.harness.load.session import BACKLOG, Session
from brokerproof.harness.model.time import NS_PER_S, Instant
from brokerproof.harness.results import records, run_folder
from brokerproof.harness.targets.failure import SetUpFailed

CREWS = "brokerproof.crews"
"""Entry points of drivers that are not processes on this machine, by the kind of ``--master``."""
TELL_EVERY = 2 * NS_PER_S


@click.command("recover")
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def recover_(run: Path, as_json: bool) -> int:
    """Convert the wire logs of an interrupted load in RUN to segments.

    `brokerproof judge RUN` can then read them."""
    try:
        run_folder.read(run, traces=False)
    except run_folder.BadRunFolder as problem:
        raise errors.Usage(str(problem)) from None
    try:
        recovered_logs = [recover(run, log) for log in wire_logs(run)]
    except NotRecovered as problem:
        raise errors.SetUp(str(problem)) from None
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(recovered) for recovered in recovered_logs]))
        return 0
    if not recovered_logs:
        click.echo(f"{run} needs no recovery: everything recorded is in segments")
        return 0
    for recovered in recovered_logs:
        click.echo(
            f"driver {recovered.tag}: {recovered.events:,} events of"
            f" {recovered.size / 2**20:,.1f} MiB of wire log, in {recovered.segments} segments"
        )
    return 0


class _Load(click.Command):
    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Pass ``recover`` to its own command before the options of a load are required."""
        if args[:1] == [recover_.name]:
            return recover_.make_context(f"{info_name} recover", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that :meth:`make_context` chose."""
        return recover_.invoke(ctx) if ctx.command is recover_ else super().invoke(ctx)


@click.command(cls=_Load)
@load_options
@click.option(
    "--duration",
    "lasts",
    metavar="TIME",
    help="How long to send, such as 30s; default: 10s without --messages.",
)
@click.option("--messages", type=click.IntRange(1), help="How many messages to send in total.")
@click.option(
    "--record/--no-record", default=True, help="Whether to record the traffic. Default: yes."
)
@click.option(
    "--backlog",
    default=f"{BACKLOG // 1024**3}g",
    show_default=True,
    metavar="2g",
    help="Bytes a driver may record before their conversion begins; 0: it begins at once.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def load(lasts: str | None, record: bool, backlog: str, as_json: bool, **options: Any) -> int:
    """Drive a target with many producers and consumers, and record it.

    `brokerproof load recover RUN` makes the recording of an interrupted load readable."""
    wished = wishes(options)
    target = socket_target(options["target"])
    time = lasting(lasts or (None if wished.messages else "10s"))
    folder = options["out"] or run_folder.default_folder()
    console = Console(stderr=True, emoji=False)
    session = Session(
        target,
        wished,
        crew(options["master"]),
        folder,
        begin=discovery.begin,
        record=record,
        backlog=_byte_count(backlog),
    )
    begin(folder, wished.seed)
    line = _Lines(console)
    outcome = in_one_sentence(lambda: session.run(time, line.watch), folder)
    report = summary.data(session, outcome)
    code = 0 if summary.complete(report) else 2
    keep(session, outcome, report, code)
    if as_json:
        click.echo(json.dumps({"run": str(folder), **report}, ensure_ascii=False))
    else:
        console.print(summary.table(target.identity.name, report))
        click.echo(str(folder))
    return code


def _byte_count(text: str) -> int:
    try:
        return byte_count(text)
    except BadPlan as problem:
        raise errors.Usage(f"--backlog: {problem}") from None


def begin(folder: Path, seed: int) -> None:
    """Create the run folder. Raises :class:`errors.Usage`."""
    try:
        run_folder.create(folder, command=run_folder.command_line(), seed=seed, effort="load")
    except run_folder.BadRunFolder as problem:
        raise errors.Usage(str(problem)) from None


def keep(session: Session, outcome: LoadOutcome, report: dict[str, Any], code: int) -> None:
    """Write the summary and the report of the load."""
    plan = dataclasses.asdict(session.wishes)
    summary.keep(session, outcome, report, plan)
    run_folder.finish(session.folder, records.read(session.folder), code, [])


def in_one_sentence(run: Callable[[], LoadOutcome], folder: Path) -> LoadOutcome:
    """Call ``run`` and convert its failures to the command's exit codes. ``folder`` is the run
    folder."""
    try:
        return run()
    except BadPlan as problem:
        raise errors.Usage(str(problem)) from None
    except (SetUpFailed, LoadFailed) as problem:
        raise errors.SetUp(f"{problem}{_left(folder, '; ')}") from None
    except KeyboardInterrupt:
        raise errors.Interrupted(_left(folder) or _recorded(folder)) from None


def _recorded(folder: Path) -> str:
    has_segments = any((folder / "trace").rglob("part-*.parquet"))
    return (
        f"the recording is in {folder}, for brokerproof judge"
        if has_segments
        else "nothing was recorded"
    )


def _left(folder: Path, before: str = "") -> str:
    """Return advice on the wire logs that were left in the folder; empty if there are none."""
    has_wire_logs = wire_logs(folder)
    return (
        f"{before}brokerproof load recover {shlex.quote(str(folder))} saves the recording"
        if has_wire_logs
        else ""
    )


def crew(master: str | None) -> Drivers:
    """Return the drivers of a load. Raises :class:`errors.Usage` for an unknown master."""
    if master is None:
        return LocalDrivers()
    for entry_point in entry_points(group=CREWS):
        if entry_point.name == "spark":
            drivers: Drivers = entry_point.load()(master)
            return drivers
    raise errors.Usage("--master needs the Spark support of brokerproof, which is not installed")


class _Lines:
    """Prints the progress of a load periodically."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last: Instant = 0

    def watch(self, progress: Progress) -> bool:
        """Print the progress. Return False, because the load must not end here."""
        if (progress.at - self._last >= TELL_EVERY or progress.ending) and progress.at:
            self._last = progress.at
            numbers, lasted = progress.numbers, max(0, progress.at - progress.since) / NS_PER_S
            what = "" if progress.producing else ", waiting for the rest"
            if progress.ending:
                what = ", converting the recording"
            self._console.print(
                f"{lasted:5.0f} s: {numbers['sent']} sent, {numbers['confirmed']} confirmed,"
                f" {numbers['received']} received, {numbers['up']} connections{what}",
                highlight=False,
                soft_wrap=True,
            )
        return False
