"""``brokerproof replay``: runs a saved counterexample again, on any target."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import click

from brokerproof.harness.cases.example_runs import Run
from brokerproof.harness.catalogue import requirements
from brokerproof.harness.catalogue.tables import BadData
from brokerproof.harness.commands import errors
from brokerproof.harness.counterexamples import case_file
from brokerproof.harness.counterexamples import replay as counterexamples_replay
from brokerproof.harness.counterexamples.replay import ERROR, FAILED, FIXED, Answer
from brokerproof.harness.inference import discovery
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.trace.recorder import Recorder

EXIT = {FIXED: 0, FAILED: 1, ERROR: 5}


@click.command()
@click.argument("case", type=click.Path(path_type=Path), metavar="CASE.case.jsonl")
@click.option(
    "--target",
    "name",
    required=True,
    metavar="NAME|FILE|HOST:PORT|URL",
    help="The broker to run it on.",
)
@click.option(
    "--bytes",
    "--octets",
    "as_bytes",
    is_flag=True,
    help="Play the recorded bytes even if the case can run.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def replay(case: Path, name: str, as_bytes: bool, as_json: bool) -> int:
    """Run a counterexample again and print every step: FIXED (exit 0), FAILED (1) or ERROR (5).

    Runs the case itself with the recorded arguments. If the case has changed since, it plays
    the recorded bytes and judges the answers by the old expectation."""
    try:
        file = case_file.read(case)
        target = target_file.load(name)
        catalogue = requirements.load()
    except (case_file.BadCaseFile, target_file.BadTarget, BadData) as problem:
        raise errors.Usage(str(problem)) from None
    steps: list[str] = []

    def say(text: str) -> None:
        steps.append(text)
        if not as_json:
            click.echo(text)

    with tempfile.TemporaryDirectory(prefix="brokerproof-replay-") as logs:
        try:
            facts = discovery.begin(target, Path(logs), file.header["seed"])
            recorder = Recorder(None, run="", target=target.identity.name, clock=target.clock)
            run = Run(
                target, facts, catalogue, (), recorder, effort="normal", seed=file.header["seed"]
            )
            answer = _answer(run, file, as_bytes, say)
        except SetUpFailed as problem:
            raise errors.SetUp(str(problem)) from None
        finally:
            target.stop()
    _tell(answer, file, target.identity.name, steps, as_json)
    return EXIT[answer.answer]


def _answer(
    run: Run, file: case_file.CaseFile, as_bytes: bool, say: Callable[[str], None]
) -> Answer:
    try:
        counterexamples_replay.import_home(str(file.header.get("name")))
        if as_bytes:
            raise counterexamples_replay.Changed("--bytes was given")
        call, plan = counterexamples_replay.restored(file)
    except counterexamples_replay.Changed as problem:
        say(f"Playing the recorded bytes instead of the case: {problem}.")
        return counterexamples_replay.run_bytes(run, file, str(problem), say)
    return counterexamples_replay.run_case(run, file, call, plan, say)


def _tell(
    answer: Answer, file: case_file.CaseFile, target: str, steps: list[str], as_json: bool
) -> None:
    if as_json:
        report = {
            "case": file.header["case"],
            "target": target,
            "answer": answer.answer,
            "detail": answer.detail,
            "how": answer.how,
            "why": answer.why,
            "recorded": {
                key: file.header.get(key)
                for key in ("target", "broker", "broker_version", "detail")
            },
            "steps": steps,
        }
        click.echo(json.dumps(report, ensure_ascii=False))
        return
    click.echo(f"{answer.answer} {file.header['case']} on {target}: {answer.detail}")
    click.echo(f"    when recorded: {file.header['detail']}")
