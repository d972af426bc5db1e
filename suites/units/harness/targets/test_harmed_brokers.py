"""A broker harmed by a case is killed without waiting for an orderly shutdown."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.process import ProcessTarget


@pytest.fixture
def target(tmp_path: Path) -> Iterator[ProcessTarget]:
    target = target_file.load("reference-real")
    assert isinstance(target, ProcessTarget)
    target.start(tmp_path)
    yield target
    target.stop()


def test_a_broker_that_was_started_here_is_killed(target: ProcessTarget) -> None:
    assert target._process is not None
    target.kill()
    target._process.wait(10)
    assert target.process_end() == "its process ended with SIGKILL"
    target.kill()
    target.stop()


def test_a_broker_of_somebody_else_goes_on(target: ProcessTarget) -> None:
    target.identity = replace(target.identity, kind="address")
    target.kill()
    assert _goes_on(target)


def test_a_later_process_of_the_same_number_goes_on(target: ProcessTarget) -> None:
    target._watched_since = "0"
    target.kill()
    assert _goes_on(target)


def _goes_on(target: ProcessTarget) -> bool:
    assert target._process is not None
    with pytest.raises(subprocess.TimeoutExpired):
        target._process.wait(0.5)
    return not target.process_end()
