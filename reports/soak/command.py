"""``brokerproof soak``: drives a target as ``brokerproof load`` does, judges it while it runs, and
stops at the first violation.

Exit: 0 no violation · 1 a violation, with its witness · 2 inconclusive · 3 target unreachable,
set-up failed, or no usable Java or Spark · 4 usage error · 5 internal error."""

import dataclasses
import json
from typing import Any

import click
from rich.console import Console

from brokerproof.harness.catalogue.requirements import load as load_requirements
from brokerproof.harness.commands import errors
from brokerproof.harness.commands.load import begin, in_one_sentence
from brokerproof.harness.commands.load_options import lasting, load_options, socket_target, wishes
from brokerproof.harness.inference import discovery
from brokerproof.harness.load import summary
from brokerproof.harness.load.conductor import LoadOutcome, Progress
from brokerproof.harness.load.local_drivers import LocalDrivers
from brokerproof.harness.load.session import CASE, Session
from brokerproof.harness.model.time import NS_PER_S
from brokerproof.harness.results import records, run_folder
from brokerproof.harness.results.records import Result
from brokerproof.harness.results.verdict import exit_code
from brokerproof.harness.worlds.real import RealWorld
from brokerproof.harness.worlds.wake_up_lateness import Canary
from brokerproof.reports.assembly.failures import in_one_sentence as report_sentences
from brokerproof.reports.assembly.recording_judgement import HEAP, as_data, ground_of, text
from brokerproof.reports.judging.conclusion import Conclusion
from brokerproof.reports.model.requirements import Requirements
from brokerproof.reports.soak.dashboard import Dashboard
from brokerproof.reports.soak.preflight import NotFound
from brokerproof.reports.soak.stream import Stream
from brokerproof.reports.spark.load import SparkCrew
from brokerproof.reports.spark.session import session

VIOLATION = "violation.json"
"""The file in the run folder that states why a soak ended."""
SEGMENT_S = 2


@click.command()
@load_options
@click.option(
    "--for", "lasts", metavar="TIME", default="1h", show_default=True, help="How long to send."
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def soak(lasts: str, as_json: bool, **options: Any) -> int:
    """Drive a target for a long time and judge it as it runs; stop at the first violation and show
    the evidence.

    Exit: 0 nothing violated · 1 a violation · 2 inconclusive · 3 set-up failed · 4 usage error."""
    wished = wishes(options)
    target = socket_target(options["target"])
    time = lasting(lasts)
    folder = options["out"] or run_folder.default_folder()
    profile = target.identity.profile
    console = Console(stderr=True, emoji=False)
    begin(folder, wished.seed)
    world = RealWorld({}, Canary())
    level_of = Requirements(load_requirements().values()).level
    master = options["master"]
    with report_sentences(), session(master, brief=True, heap=HEAP) as spark:
        who = LocalDrivers() if master is None else SparkCrew(master, spark, spare=1)
        load = Session(
            target, wished, who, folder, begin=discovery.begin, backlog=0, segment_s=SEGMENT_S
        )
        # The trace does not contain the broker's configuration.
        judged = ground_of(profile.name, guessed=True)
        stream = Stream(spark, folder, judged, wished.drivers, level_of, world.now)
        try:
            stream.start()
        except NotFound as problem:
            raise errors.Ours(str(problem)) from None
        with Dashboard(console, f"Soak of {target.identity.name}") as dashboard:

            def watch(progress: Progress) -> bool:
                dashboard.show(progress, stream.seen)
                if stream.seen.problem is not None:
                    raise errors.Ours(f"judging failed: {stream.seen.problem}")
                return stream.seen.conclusion is not None

            outcome = in_one_sentence(lambda: load.run(time, watch), folder)
        stream.stop()
        conclusion = stream.seen.conclusion or stream.look()
    code = exit_code([conclusion.verdict])
    results = _keep(load, outcome, conclusion, profile.name, code)
    results["judges"] = {
        **{name: getattr(stream.seen, name) for name in ("segments", "batches", "looks")},
        "longest_batch_s": stream.seen.longest / NS_PER_S,
    }
    if as_json:
        click.echo(
            json.dumps(
                {"run": str(folder), **results, "judged": as_data(conclusion, profile.name)},
                ensure_ascii=False,
            )
        )
        return code
    console.print(summary.table(target.identity.name, results))
    click.echo(text(conclusion, profile.name))
    if code == 1:
        click.echo(f"witness: {folder / VIOLATION}; to judge it again: brokerproof judge {folder}")
    click.echo(str(folder))
    return code


def _keep(
    load: Session, outcome: LoadOutcome, conclusion: Conclusion, profile: str, code: int
) -> dict[str, Any]:
    results = summary.data(load, outcome)
    folder = load.folder
    if code == 1:
        (folder / VIOLATION).write_text(
            json.dumps(as_data(conclusion, profile), indent=1) + "\n", "utf-8"
        )
    findings = conclusion.findings
    summary.write_header(load, outcome, results, dataclasses.asdict(load.wishes))
    detail = summary.sentence(results)
    if conclusion.wrong:
        detail += f"; {conclusion.detail}"
    result = Result(
        CASE,
        load.target.identity.name,
        tuple(finding.requirement for finding in findings),
        conclusion.verdict,
        detail,
        findings,
        measurements=summary.measurements(results),
        duration_s=results["seconds"],
        trace_ref=f"trace/target={load.target.identity.name}#case={CASE}",
    )
    records.append(folder, result)
    run_folder.finish(folder, records.read(folder), code, [])
    return results
