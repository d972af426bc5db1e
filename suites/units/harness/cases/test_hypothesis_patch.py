"""Hypothesis shares a random generator among threads: drawing in many costs what it does in one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from hypothesis import strategies as st
from hypothesis.internal import entropy

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import Over
from brokerproof.harness.cases.execution import execute
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.targets import target_file
from brokerproof.suites.units.harness.cases.test_execution import MUST, made, run_of


def test_threads_that_draw_add_no_generator_to_those_that_each_example_seeds() -> None:
    def holds(target: Bench, number: int) -> None:
        target.record_finding(MUST, True, "seen")

    run = run_of(target_file.load("reference"))
    call = made(holds, MUST, over=Over({"number": st.integers()}, 5))
    execute(run, call)
    managed = len(entropy.RANDOMS_TO_MANAGE)
    with ThreadPoolExecutor(1) as other:
        assert other.submit(execute, run, call).result().verdict is Verdict.PASS
        assert other.submit(lambda: len(entropy.RANDOMS_TO_MANAGE)).result() == managed
