"""Threads parse sources concurrently while garbage collections let other threads run."""

import ast
import gc
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from brokerproof.harness.cases import ast_parse_lock

SOURCE = "\n".join(
    f"def f{number}(a, b={number}): return [(a + b) * {number} for b in (lambda: a)()]"
    for number in range(60)
)


def looked(phase: str, about: dict[str, Any]) -> None:
    """Take time in each collection, as Hypothesis's own callback does: another thread may be
    scheduled meanwhile."""
    sum(range(50))


@pytest.fixture
def restless() -> Iterator[None]:
    """Collect garbage and switch threads as often as possible."""
    before, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.callbacks.append(looked)
    gc.set_threshold(5)
    sys.setswitchinterval(1e-6)
    yield
    gc.set_threshold(*before)
    sys.setswitchinterval(interval)
    gc.callbacks.remove(looked)


def test_threads_parse_one_after_the_other(restless: None) -> None:
    ast_parse_lock.one_at_a_time()
    problems: list[SystemError] = []

    def parses() -> None:
        try:
            for _ in range(3):
                ast.parse(SOURCE)
        except SystemError as problem:
            problems.append(problem)

    threads = [threading.Thread(target=parses) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
