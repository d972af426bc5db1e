"""Judges each mini-broker: its planted fault must be the first cause that a run prints.

A few cases that find each fault quickly run here. With the environment variable
BROKERPROOF_MINI_BROKERS=all every case of the suites runs, and BROKERPROOF_MINI_BROKERS_SEED draws
other examples. These tests have their own environment (``tox -e mini-brokers``), because concurrent
tests would take the processor time that heartbeats need.
"""

import asyncio
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from brokerproof.harness.cases.calls import all_calls
from brokerproof.harness.catalogue import requirements
from brokerproof.harness.commands import summary
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import causes
from brokerproof.harness.results.records import Result
from brokerproof.suites.mini_brokers.__main__ import obey
from brokerproof.suites.mini_brokers.broker import Broker
from brokerproof.suites.mini_brokers.faults import BROKERS
from brokerproof.suites.mini_brokers.judging import judge, write_target

WHOLE = os.environ.get("BROKERPROOF_MINI_BROKERS") == "all"
SUITES = ("stomp", "flow", "delivery")
SEED = int(os.environ.get("BROKERPROOF_MINI_BROKERS_SEED", "1"))
AT_ONCE = 4
"""The number of brokers that are judged at the same time: their cases mostly wait."""


def test_limits_that_arrive_together_are_all_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.new_event_loop()
    broker = Broker(loop, BROKERS["honest"].parts)
    read, write = os.pipe()
    with os.fdopen(read) as control, os.fdopen(write, "wb", 0) as harness:
        monkeypatch.setattr(sys, "stdin", control)
        harness.write(b'{"memory": 0}\n{"disk": 9000000000000000}\n')
        obey(broker)
        assert broker.shortages == {"memory", "disk"}
        harness.write(b'{"memory": 0.9}\n{"disk": 1000000}\n')
        obey(broker)
        assert broker.shortages == set()
    loop.close()


def results_of(name: str, folder: Path) -> list[Result]:
    chosen = "" if WHOLE else BROKERS[name].cases
    calls = [
        call
        for call in all_calls()
        if call.case.suite in SUITES and re.search(chosen, call.id) is not None
    ]
    folder.mkdir()
    return judge(str(write_target(name, folder)), calls, folder, SEED)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Result]]:
    folder = tmp_path_factory.mktemp("mini-brokers")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        judged = pool.map(lambda name: results_of(name, folder / name), BROKERS)
        return dict(zip(BROKERS, judged, strict=True))


@pytest.mark.parametrize("name", [name for name in BROKERS if BROKERS[name].first])
def test_the_planted_fault_is_the_first_cause_that_is_printed(
    name: str, results: dict[str, list[Result]]
) -> None:
    broker = BROKERS[name]
    failed = causes.group(results[name], Verdict.FAIL)
    assert failed, f"no case failed: {[result.detail for result in results[name]]}"
    printed = " ".join(
        " ".join(
            line.plain for line in summary.described(failed[0], requirements.load(), {}, 200)
        ).split()
    )
    assert re.search(broker.first, printed), printed
    blamed = {cause.finding.requirement for cause in failed if cause.finding is not None}
    wrong = {requirement for requirement in blamed if not re.search(broker.breaks, requirement)}
    assert not wrong, f"{wrong} are no matter of the planted fault"


def test_the_honest_broker_breaks_nothing(results: dict[str, list[Result]]) -> None:
    wrong = {
        result.case: result.detail
        for result in results["honest"]
        if result.verdict in (Verdict.FAIL, Verdict.ERROR)
    }
    assert not wrong
    assert sum(result.verdict is Verdict.PASS for result in results["honest"]) >= 20


def test_no_fault_is_an_error_of_ours(results: dict[str, list[Result]]) -> None:
    errors = {
        f"{name}: {result.case}": result.detail
        for name in BROKERS
        for result in results[name]
        if result.verdict is Verdict.ERROR
    }
    assert not errors
