"""``brokerproof report``: turns run folders into a report to read and to publish.

``report RUN… --out DIR [--master URL] [--infer [TARGET=]FILE] [--tables] [--json] [--quiet]``.
Exit: 0 the report was written, whatever its verdicts; 3 no usable Java or Spark; 4 a path without a
readable run, or an ``--out`` that cannot be written; 5 internal error."""

from pathlib import Path

import click

from brokerproof.reports.assembly.refusals import Refusal


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Report folder; for one run RUN/report by default.",
)
@click.option(
    "--master", metavar="URL", help="Spark master; local[*] by default if Spark is installed."
)
@click.option(
    "--infer",
    "inferred",
    multiple=True,
    metavar="[TARGET=]FILE",
    help="Output of `brokerproof infer --json`, shown on the target's page; repeat for several.",
)
@click.option(
    "--tables",
    "trace_tables",
    is_flag=True,
    help="Also write the trace as tables: frames, deliveries, credit and latencies.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
@click.option("--quiet", is_flag=True, help="Print nothing on success.")
@click.option("--early", is_flag=True, hidden=True)
def report(
    runs: tuple[Path, ...],
    out: Path | None,
    master: str | None,
    inferred: tuple[str, ...],
    trace_tables: bool,
    as_json: bool,
    quiet: bool,
    early: bool,
) -> None:
    """Write the conformance report on one or more run folders.

    Exit: 0 written · 3 no usable Java or Spark · 4 a path that is not a readable run, or an --out
    that cannot be written."""
    if not runs:
        raise Refusal("name at least one run folder, such as brokerproof-out/2026-11-21T12-00-00")
    if out is None and len(runs) > 1:
        raise Refusal("several runs need --out DIR, the folder for their report")
    # This imports Arrow and the oracles, which takes longer than all of --help.
    from brokerproof.harness.trace.without_pandas import leave_pandas_out

    leave_pandas_out()
    from brokerproof.reports.assembly import report_writing

    report_writing.command(
        runs,
        out if out is not None else runs[0] / "report",
        master,
        inferred,
        trace_tables=trace_tables,
        as_json=as_json,
        quiet=quiet,
        early=early,
    )
