"""Hypothesis in many threads: drawing costs as much as in one thread, because they share a random
generator, and a thread may import a module without making another fail."""

import math
import sys
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.internal import entropy, lambda_sources

from brokerproof.harness.cases import hypothesis_constants_patch as hypothesis_patch
from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import Over
from brokerproof.harness.cases.execution import execute
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.targets import target_file
from brokerproof.suites.units.drivers.executed_case import MUST, made, run_of


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


def test_a_module_may_be_imported_while_a_lambda_is_described(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hypothesis_patch.by_seed_alone()
    read: Any = lambda_sources
    seen = iter(read.sys.modules.items())
    next(seen)
    monkeypatch.setitem(sys.modules, "imported_meanwhile", ModuleType("imported_meanwhile"))
    assert len(list(seen)) > 100
    described = repr(st.integers().map(lambda number: math.floor(number)))
    assert described == "integers().map(lambda number: math.floor(number))"
