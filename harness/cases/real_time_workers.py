"""Cases in real time, side by side in threads of several processes: they wait most of the time, and
what they compute is more than one core's work.

Measured on two cores: in one process more than 16 threads gained nothing, because it had 0.8 to 0.9
of a core from the first case to the last, which was what the run waited for. See "What the
real-time half waits for" in ``docs/reference/measurements.md``.

The processes share one broker, which the process that collected the cases starts and stops. Each
measures the lateness of its own threads, because that is what its verdicts depend on, and probes
the broker's health by itself. The first that finds a broker which serves nobody ends the run. A
case that harms a broker runs after all of these, in the process that started it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection

from brokerproof.harness.cases.example_runs import Call, Run
from brokerproof.harness.cases.execution import execute_unrecorded
from brokerproof.harness.cases.forked_workers import GRACE_S, Keep, MakeRun, Workers
from brokerproof.harness.model.time import Duration
from brokerproof.harness.results.records import Result
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.trace.events import Event
from brokerproof.harness.worlds.bounds import RunStopped
from brokerproof.harness.worlds.wake_up_lateness import Canary

MOST_PROCESSES = 2
"""With more the run would wait for its longest cases, and the broker for a core."""
LEAST_AT_ONCE = 4
"""Cases at the same time in a process, or it is not worth its start."""
LEAST_CASES = 32
"""Cases for a process."""
_CASES_END_WITHIN_S = 1.0
"""Time for cases under way when the run ends before them. They look for its end four times a
second."""


def processes_for(cases: int, at_once: int | None) -> int:
    """Return the number of processes for so many cases, at most ``at_once`` of them at the same
    time: one for each core that this process may use, as far as there are cases for them."""
    cores = len(os.sched_getaffinity(0))
    enough = MOST_PROCESSES if at_once is None else at_once // LEAST_AT_ONCE
    return max(1, min(MOST_PROCESSES, cores, enough, cases // LEAST_CASES))


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late a process' threads were woken: the 99th percentile of its readings and the worst."""

    p99: Duration
    worst: Duration

    @classmethod
    def of(cls, canary: Canary) -> Lateness:
        """Return what ``canary`` has measured."""
        return cls(canary.quantile(0.99), canary.quantile(1.0))


class RealTimeWorkers(Workers):
    """``processes`` workers that run ``at_once`` of ``calls`` at the same time together, in the
    order given. ``target`` is the one of the runs that ``make_run`` returns in each of them."""

    ahead = 0

    def __init__(
        self,
        calls: Sequence[Call],
        processes: int,
        at_once: int,
        make_run: MakeRun,
        target: SocketTarget,
        keep: Keep,
    ) -> None:
        self.at_once = -(-at_once // processes)
        self._broker = target
        self._under_way: list[Future[None]] = []
        self._keeping = threading.Lock()
        self._stopping = False
        """True if no more results are kept: the run has ended before the case did."""
        self.lateness: list[Lateness] = []
        """Of each process that has ended in order."""
        super().__init__(calls, processes, make_run, target.identity.name, keep)

    def finish(self) -> None:
        """Wait for every case, and end the workers. Raises
        :class:`brokerproof.harness.worlds.bounds.RunStopped`."""
        while not self.idle:
            self._deal()
        self.stop()

    def stop(self, within_s: float = GRACE_S) -> None:
        if self.idle:
            for worker in self._workers:
                with suppress(OSError, EOFError):  # it died: its lateness is lost, nothing else
                    worker.pipe.send(None)
                    if worker.pipe.poll(within_s):
                        self.lateness.append(worker.pipe.recv())
        super().stop(within_s)

    def _deal(self) -> None:
        try:
            super()._deal()
        except RunStopped as stopped:  # a worker is not told how the broker's process ended
            end = self._broker.process_end()
            raise RunStopped(f"{stopped}; {end}" if end else str(stopped)) from None

    def _serve(self, pipe: connection.Connection, run: Run, dealer: int) -> None:
        def work(number: int) -> None:
            call = self._calls[number]
            answer: RunStopped | tuple[int, Result]
            events: Sequence[Event] = ()
            try:
                self._broker.bounds.check()
                result, events = execute_unrecorded(run, call)
                answer = (number, result)
            except RunStopped as stopped:
                answer = stopped
            except BaseException as problem:  # whatever it is, the dispatcher waits for an answer
                result = self._error(call, f"{type(problem).__name__}: {problem}")
                answer = (number, result)
            with self._keeping:
                if self._stopping:
                    return
                if isinstance(answer, tuple):  # a trace is kept with its result, or neither is
                    run.recorder.write(call.id, events)
                    self._keep(result)
                with suppress(OSError):  # the dispatcher is gone: the main thread ends
                    pipe.send(answer)

        pool = ThreadPoolExecutor(self.at_once, thread_name_prefix="case")
        while os.getppid() == dealer:
            number = pipe.recv()
            if number is None:
                pipe.send(Lateness.of(self._broker.canary))
                return
            self._under_way.append(pool.submit(work, number))

    def _wind_up(self, run: Run) -> None:
        with self._keeping:
            self._stopping = True
        self._broker.bounds.stop("the run has ended")
        for future in self._under_way:
            future.cancel()
        wait(self._under_way, _CASES_END_WITHIN_S)
