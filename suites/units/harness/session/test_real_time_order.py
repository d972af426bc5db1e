"""The order in which real-time cases begin, and the table from which it is computed."""

from dataclasses import replace

import pytest

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.example_runs import Call
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results.records import Result
from brokerproof.harness.session import real_time_order
from brokerproof.suites.repo.long_cases import HEAD, table
from brokerproof.suites.units.drivers.executed_case import MUST, made


def nothing(target: Bench) -> None: ...


def call(name: str, *needs: str) -> Call:
    declared = made(nothing, MUST, needs=frozenset(needs)).case
    return Call(replace(declared, name=name), "1.2", {}, f"{name}[1.2]")


def test_long_cases_begin_first_and_long_busy_ones_when_half_of_the_others_have_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = {
        "flow.long": 20,
        "flow.longer": 30,
        "flow.deep": 8,
        "flow.deeper": 99,
        "flow.full": 4,
    }
    monkeypatch.setattr(real_time_order, "durations", lambda: seconds)
    calls = [
        call("flow.deep", "paging"),
        call("flow.short"),
        call("flow.full", "address-full"),
        call("flow.long"),
        call("flow.shorter"),
        call("flow.deeper", "address-full"),
        call("flow.longer", "connection-ttl"),
    ]
    names = [ordered.case.name for ordered in real_time_order.beginning_order(calls)]
    assert names == [
        *("flow.longer", "flow.long"),
        *("flow.deeper", "flow.deep"),
        *("flow.short", "flow.shorter"),
        "flow.full",
    ]


def result(case: str, duration_s: float, attempts: int = 1) -> Result:
    return Result(case, "t", (MUST,), Verdict.PASS, "", attempts=attempts, duration_s=duration_s)


def test_a_case_is_as_long_as_its_second_longest_attempt_in_any_run() -> None:
    runs = [
        [result("flow.a[1.0]", 4.2), result("flow.a[1.2]", 9.5), result("flow.b", 2.9)],
        [result("flow.a[1.2]", 40.0), result("flow.b", 70.0), result("flow.c", 30.0, attempts=3)],
        [result("flow.a[1.2]", 5.0), result("flow.b", 0.0, attempts=0)],
    ]
    assert table(runs) == HEAD + '"flow.c" = 10\n"flow.a" = 9\n'
