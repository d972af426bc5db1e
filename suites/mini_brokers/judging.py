"""Judges a mini-broker within this process, as ``brokerproof run`` does."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from brokerproof.harness.cases.ast_parse_lock import one_at_a_time
from brokerproof.harness.cases.example_runs import Call, Run
from brokerproof.harness.cases.execution import execute
from brokerproof.harness.cases.target_health import TargetHealth
from brokerproof.harness.catalogue import requirements
from brokerproof.harness.counterexamples import writer
from brokerproof.harness.inference import discovery
from brokerproof.harness.results.records import Result
from brokerproof.harness.targets import target_file
from brokerproof.harness.trace.recorder import Recorder

TARGET = "claims.target.toml"
AT_ONCE = 16


def write_target(name: str, folder: Path) -> Path:
    """Write the target file of a mini-broker, including its author's promises."""
    text = Path(__file__).with_name(TARGET).read_text("utf-8")
    path = folder / f"{name}.target.toml"
    path.write_text(text.replace('"honest"', f'"{name}"'), "utf-8")
    return path


def judge(
    target_name: str,
    calls: Sequence[Call],
    folder: Path,
    seed: int = 1,
    counterexamples: Path | None = None,
) -> list[Result]:
    """Return the results of ``calls`` on a target, given as a file or an address. Calls with alarms
    run last, one by one. If ``counterexamples`` is given, failures leave files in it."""
    target = target_file.load(target_name)
    facts = discovery.begin(target, folder, seed)
    one_at_a_time()
    try:
        recorder = Recorder(None, run="", target=target.identity.name, clock=target.clock)
        health = TargetHealth(target, seed)
        run = Run(
            target,
            facts,
            requirements.load(),
            (),
            recorder,
            "smoke",
            seed,
            keep_counterexample=None
            if counterexamples is None
            else partial(writer.keep, counterexamples),
            health=health,
        )
        alone = [call for call in calls if "alarms" in call.case.needs]
        together = [call for call in calls if "alarms" not in call.case.needs]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            results = list(pool.map(partial(execute, run), together))
        return results + [execute(run, call) for call in alone]
    finally:
        target.stop()
