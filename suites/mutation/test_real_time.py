"""Faults of timers, in real time: the mutated broker is a process, and its clients use sockets.

A host that is too late for a measurement makes a case INCONCLUSIVE, which proves nothing about the
mutant: such a case is run again.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from brokerproof.harness.cases.calls import all_calls
from brokerproof.harness.cases.execution import Run, execute
from brokerproof.harness.catalogue import requirements
from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results.records import Result
from brokerproof.harness.targets import target_file
from brokerproof.harness.trace.recorder import Recorder
from brokerproof.suites.mutation import all_mutants
from brokerproof.suites.mutation.judging import violated

BROKERS = Path(str(files("brokerproof.fixtures"))) / "brokers"
TIMERS = "flow.connection_ttl.a_broker_with_timers_of_its_own_is_held_to_them"
BEATS = "stomp.heart_beats.the_server_beats_as_agreed[1.2]"
IDLE = "amqp10.idle_timeout.a_silent_client_is_closed_in_time_and_not_before"
SHOWN_BY = {
    "ttl.exact-and-a-tenth-late": TIMERS,
    "ttl.exact-and-a-fifth-early": TIMERS,
    "beats.late-by-a-tenth": BEATS,
    "amqp-connections.announces-a-quarter-too-much": IDLE,
}
"""The case that notices each fault."""
ATTEMPTS = 8


def judged(folder: Path, module: str, case: str) -> Result:
    """The case's result on the broker that ``module`` starts in real time, conclusive if the host
    allows it."""
    shipped = BROKERS / "reference" / "reference-real.target.toml"
    text = shipped.read_text().replace('"brokerproof.reference_broker"', module)
    file = folder / shipped.name
    file.write_text(text.replace("../artemis/", f"{BROKERS}/artemis/"))
    target = target_file.load(str(file))
    [call] = [call for call in all_calls() if call.id == case]
    facts = target.start(folder)
    try:
        recorder = Recorder(None, run="", target=target.identity.name, clock=Clock.REAL)
        run = Run(target, facts, requirements.load(), (), recorder, effort="smoke", seed=1)
        for _ in range(ATTEMPTS):
            result = execute(run, call)
            if result.verdict is not Verdict.INCONCLUSIVE:
                break
        return result
    finally:
        target.stop()


@pytest.mark.parametrize("name", sorted(SHOWN_BY))
def test_a_timer_that_is_off_is_noticed_in_real_time(tmp_path: Path, name: str) -> None:
    module = f'"brokerproof.suites.mutation.real_broker", "{name}"'
    result = judged(tmp_path, module, SHOWN_BY[name])
    broken = {finding.requirement for finding in violated(result)}
    assert broken & set(all_mutants.named(name).breaks), result


@pytest.mark.parametrize("case", sorted(set(SHOWN_BY.values())))
def test_timers_that_are_right_pass_in_real_time(tmp_path: Path, case: str) -> None:
    result = judged(tmp_path, '"brokerproof.reference_broker"', case)
    assert result.verdict is Verdict.PASS, result
