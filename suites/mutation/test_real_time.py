"""Faults of timers in real time: the mutated broker is a process, and its clients use sockets.

If the host is too late for a measurement, the case is INCONCLUSIVE and proves nothing about the
mutant, so it runs again. Even on a busy host, no mutant may pass a case.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
TIMERS = "a_broker_with_timers_of_its_own_is_held_to_them"
ARTEMIS, RABBITMQ, ACTIVEMQ = "reference-real", "reference-rabbitmq-real", "reference-activemq-real"
SHOWN_BY = {
    "ttl.exact-and-a-tenth-late": (ARTEMIS, f"flow.connection_ttl.{TIMERS}"),
    "ttl.exact-and-a-fifth-early": (ARTEMIS, f"flow.connection_ttl.{TIMERS}"),
    "beats.late-by-a-tenth": (ARTEMIS, "stomp.heart_beats.the_server_beats_as_agreed[1.2]"),
    "amqp-connections.silence-noticed-a-tenth-late": (ARTEMIS, f"amqp10.idle_timeout.{TIMERS}"),
    "amqp-connections.announces-a-quarter-too-much": (
        ARTEMIS,
        "amqp10.idle_timeout.a_silent_client_is_closed_in_time_and_not_before",
    ),
    "amqp-connections.beats-late-by-a-tenth": (
        ARTEMIS,
        "amqp10.idle_timeout.the_broker_gives_the_signs_of_life_that_the_client_asked_for",
    ),
    "core-liveness.exact-and-a-tenth-late": (ARTEMIS, f"flow.core_ttl.{TIMERS}"),
    "core-liveness.exact-and-a-fifth-early": (ARTEMIS, f"flow.core_ttl.{TIMERS}"),
    "amqp091.beats-late-by-a-tenth": (RABBITMQ, "amqp091.heart_beats.the_server_beats"),
    "amqp091.given-up-a-tenth-late": (RABBITMQ, "amqp091.heart_beats.a_silent_client_is_given_up"),
    "amqp091.given-up-a-fifth-early": (RABBITMQ, "amqp091.heart_beats.a_silent_client_is_given_up"),
    "whole-seconds.beats-late-by-a-tenth": (
        RABBITMQ,
        "flow.rabbitmq_heart_beats.the_server_beats_every_half_of_its_interval",
    ),
    "whole-seconds.given-up-a-tenth-late": (
        RABBITMQ,
        "flow.rabbitmq_heart_beats.a_client_that_misses_two_beats_is_given_up",
    ),
    "whole-seconds.given-up-a-fifth-early": (
        RABBITMQ,
        "flow.rabbitmq_heart_beats.a_client_that_misses_two_beats_is_given_up",
    ),
    "looks.given-up-a-fifth-early": (
        ACTIVEMQ,
        "flow.activemq_heart_beats.a_silent_client_is_given_up_in_time_and_not_before",
    ),
    "openwire.exact-and-a-fifth-early": (ACTIVEMQ, "openwire.silence.a_silent_connection_ends"),
    "openwire.signs-of-life-are-late-by-a-tenth": (
        ACTIVEMQ,
        "openwire.silence.the_broker_is_never_silent_for_so_long",
    ),
}
"""The target whose broker gets each fault, and the case that detects it."""
ATTEMPTS = 8
BUSY = 2
"""Processes that compute while a case runs, to keep the host busy."""


def judged(folder: Path, name: str, module: str, case: str, *, attempts: int = ATTEMPTS) -> Result:
    """Return the case's result on the target ``name``, the broker that ``module`` starts in real
    time. The result is conclusive if the host allows it."""
    shipped = BROKERS / "reference" / f"{name}.target.toml"
    text = shipped.read_text().replace('"brokerproof.reference_broker"', module)
    file = folder / shipped.name
    file.write_text(text.replace('"../', f'"{BROKERS}/'))
    target = target_file.load(str(file))
    [call] = [call for call in all_calls() if call.id == case]
    facts = target.start(folder)
    try:
        recorder = Recorder(None, run="", target=target.identity.name, clock=Clock.REAL)
        run = Run(target, facts, requirements.load(), (), recorder, effort="smoke", seed=1)
        for _ in range(attempts):
            result = execute(run, call)
            if result.verdict is not Verdict.INCONCLUSIVE:
                break
        return result
    finally:
        target.stop()


def mutated(folder: Path, name: str, *, attempts: int = ATTEMPTS) -> Result:
    """Return the result of the case that detects the mutant ``name``."""
    target, case = SHOWN_BY[name]
    module = f'"brokerproof.suites.mutation.real_broker", "{name}"'
    return judged(folder, target, module, case, attempts=attempts)


@contextmanager
def busy_host() -> Iterator[None]:
    """Keep this machine's cores busy."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@pytest.mark.parametrize("name", sorted(SHOWN_BY))
def test_a_timer_that_is_off_is_noticed_in_real_time(tmp_path: Path, name: str) -> None:
    result = mutated(tmp_path, name)
    broken = {finding.requirement for finding in violated(result)}
    assert broken & set(all_mutants.named(name).breaks), result


@pytest.mark.parametrize("name", sorted(SHOWN_BY))
def test_a_timer_that_is_off_does_not_pass_on_a_busy_host(tmp_path: Path, name: str) -> None:
    with busy_host():
        result = mutated(tmp_path, name, attempts=1)
    assert result.verdict in (Verdict.FAIL, Verdict.WARN, Verdict.INCONCLUSIVE), result


@pytest.mark.parametrize(("target", "case"), sorted(set(SHOWN_BY.values())))
def test_timers_that_are_right_pass_in_real_time(tmp_path: Path, target: str, case: str) -> None:
    result = judged(tmp_path, target, '"brokerproof.reference_broker"', case)
    assert result.verdict is Verdict.PASS, result
