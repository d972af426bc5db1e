"""Processes that make the pages of cases: Spark's, or local ones.

Both run the same two steps: ``first`` turns each item into values with keys, and ``second``
combines all values of a key."""

import gc
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from brokerproof.harness.trace.without_pandas import leave_pandas_out

if TYPE_CHECKING:
    from pyspark import SparkContext

Item = TypeVar("Item")
Value = TypeVar("Value")
Made = TypeVar("Made")
First = Callable[[Item], Iterable[tuple[int, Value]]]
Second = Callable[[tuple[int, Iterable[Value]]], Made]

COLLECT_AT = 100_000
"""A worker's garbage collector runs after this many surviving new objects; Python's default is 700.
Tasks create few reference cycles but many objects that live as long as a segment, and garbage
collection took a twelfth of the time."""


class Tasks(Protocol):
    def by_key(
        self,
        first: First[Item, Value],
        items: Sequence[Item],
        second: Second[Value, Made],
        keys: int,
    ) -> Iterator[Made]:
        """Yield the results of ``second`` for each of at most ``keys`` keys."""
        ...

    def cancel(self) -> None:
        """Make running steps end soon, with an error."""
        ...


@dataclass(frozen=True)
class SparkTasks:
    """Tasks on Spark, which groups the values on its executors."""

    context: "SparkContext"

    def by_key(
        self,
        first: First[Item, Value],
        items: Sequence[Item],
        second: Second[Value, Made],
        keys: int,
    ) -> Iterator[Made]:
        tasks = min(max(self.context.defaultParallelism, keys // 20), keys)
        made = self.context.parallelize(items, len(items)).flatMap(first)
        grouped = made.groupByKey(tasks).map(second)
        yield from grouped.toLocalIterator(prefetchPartitions=True)

    def cancel(self) -> None:
        self.context.cancelAllJobs()

    def warm_up(self, work: Callable[[int], None]) -> None:
        """Have every worker call ``work`` in advance, so that it imports the module."""
        tasks = self.context.defaultParallelism
        self.context.parallelize(range(tasks), tasks).foreach(work)


class LocalTasks:
    """Tasks in local processes. The values of all keys pass through this process."""

    def __init__(self, pool: ProcessPoolExecutor, workers: int) -> None:
        self._pool = pool
        self._workers = workers

    def by_key(
        self,
        first: First[Item, Value],
        items: Sequence[Item],
        second: Second[Value, Made],
        keys: int,
    ) -> Iterator[Made]:
        of_key: dict[int, list[Value]] = {}
        for found in self._pool.map(partial(_listed, pickle.dumps(first)), items):
            for key, value in found:
                of_key.setdefault(key, []).append(value)
        at_once = max(1, min(20, keys // (4 * self._workers)))
        made = partial(_made, pickle.dumps(second))
        yield from self._pool.map(made, of_key.items(), chunksize=at_once)

    def cancel(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def warm_up(self, work: Callable[[int], None]) -> None:
        """Start every worker in advance."""
        for worker in range(self._workers):
            self._pool.submit(work, worker)


@contextmanager
def local_tasks(*modules: str) -> Iterator[LocalTasks]:
    """Provide processes for the block. They are forked from a process that has imported
    ``modules``."""
    methods = multiprocessing.get_context("forkserver")
    methods.set_forkserver_preload(list(modules))
    workers = len(os.sched_getaffinity(0))
    pool = ProcessPoolExecutor(workers, mp_context=methods, initializer=_begin)
    try:
        yield LocalTasks(pool, workers)
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    leave_pandas_out()
    gc.freeze()
    gc.set_threshold(COLLECT_AT)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Exit when the parent dies, because a worker that waits for its next task would not notice."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _listed(first: bytes, item: Any) -> list[Any]:
    return list(_unpickled(first)(item))


def _made(second: bytes, group: Any) -> Any:
    return _unpickled(second)(group)


@lru_cache(maxsize=2)
def _unpickled(step: bytes) -> Callable[[Any], Any]:
    """Return a step. A step contains all requirements, so a worker unpickles it only once, not for
    each item."""
    step_of_report: Callable[[Any], Any] = pickle.loads(step)  # written by our own process
    return step_of_report
