"""Runs real-time cases concurrently in the threads of several processes: they mostly wait, but
their computations need more than one core.

Measured on two cores: in one process more than 16 threads gained nothing, because the process used
0.8 to 0.9 of a core throughout and was the bottleneck. See "What the real-time half waits for" in
``docs/reference/measurements.md``.

Most cases wait for a broker's timer or for an answer that may never arrive, so the processor's load
determines the number of places. Each process runs a fixed number of cases concurrently, and more
while the processor is partly idle. With only 32 places, a third of the processor was idle for six
seconds of a run on the reference, because every place held a waiting case.

If an attempt leaves a case undecided, because the host was late or a control failed, the case
returns to the dispatcher, since an immediate second or third attempt usually meets the same
conditions. A short case runs again after half of the remaining cases; a long case immediately, or
it would delay the end of the run. The last attempt begins when no cases remain and the host is
quiet, or at the latest when no other case is running.

The processes share one broker, which the process that collected the cases starts and stops. Each
process measures the lateness of its own threads, on which its verdicts depend, and probes the
broker's health itself. The first to find that the broker no longer serves ends the run. Harmful
cases run after all others, in the process that started the broker."""

import mmap
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection
from typing import Self

from brokerproof.harness.cases.example_runs import ATTEMPTS, Call, Run
from brokerproof.harness.cases.execution import EarlierAttempts, attempt
from brokerproof.harness.model.time import NS_PER_S, Duration, Instant
from brokerproof.harness.results.records import Result
from brokerproof.harness.session.broker_deaths import BrokerDeaths
from brokerproof.harness.session.forked_workers import GRACE_S, Keep, MakeRun, Workers
from brokerproof.harness.session.real_time_order import BUSY, durations
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.trace.events import Event
from brokerproof.harness.worlds.bounds import BrokerDied, RunStopped
from brokerproof.harness.worlds.host_clock import HOST_CLOCK
from brokerproof.harness.worlds.idle_cores import IdleCores
from brokerproof.harness.worlds.resident_memory import use_few_heaps
from brokerproof.harness.worlds.wake_up_lateness import Canary

MOST_PROCESSES = 2
"""With more processes the run would wait for its longest cases, and the broker for a core."""
LEAST_AT_ONCE = 4
"""The fewest concurrent cases for which it is worth starting a process."""
LEAST_CASES = 32
"""The fewest cases for which it is worth starting a process."""
MOST_PLACES = 3
"""A process runs at most this many times its regular number of cases concurrently."""
IDLE_SHARE = 0.25
"""The share of the processor that must be idle before cases beyond the places begin."""
LOOK_EVERY_S = 0.1
"""How often a process may begin :data:`MORE` cases beyond its places."""
MORE = 3
QUIET_SHARE, QUIET_LOOKS = 0.7, 5
"""The host counts as quiet if this many consecutive checks find at least this share of the
processor idle. The running cases then only wait for timers."""
SUSPECT_FOR: Duration = 5 * NS_PER_S
"""A case that sent a frame within this time before its broker died may be the cause, even if it has
ended."""
_CASES_END_WITHIN_S = 1.0
"""How long running cases may take to end when the run ends before them. They check four times a
second whether the run has ended."""


def processes_for(cases: int, at_once: int | None) -> int:
    """Return the number of processes for these cases, of which at most ``at_once`` run
    concurrently: one per usable core, if there are enough cases."""
    cores = len(os.sched_getaffinity(0))
    enough = MOST_PROCESSES if at_once is None else at_once // LEAST_AT_ONCE
    return max(1, min(MOST_PROCESSES, cores, enough, cases // LEAST_CASES))


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late the threads of a process woke up: the 99th percentile and the maximum."""

    p99: Duration
    worst: Duration

    @classmethod
    def of(cls, canary: Canary) -> Self:
        return cls(canary.quantile(0.99), canary.quantile(1.0))


class RealTimeWorkers(Workers):
    """``processes`` workers that together run ``at_once`` of ``calls`` concurrently, in the given
    order; with ``more``, up to :data:`MOST_PLACES` times as many while ``idle_cores`` permits.
    ``target`` belongs to the runs that ``make_run`` creates in each worker."""

    ahead = 0
    wait_s = LOOK_EVERY_S

    def __init__(
        self,
        calls: Sequence[Call],
        processes: int,
        at_once: int,
        make_run: MakeRun,
        target: SocketTarget,
        keep: Keep,
        *,
        more: bool = False,
        idle_cores: IdleCores | None = None,
        deaths: BrokerDeaths | None = None,
    ) -> None:
        self._deaths = deaths
        self._sent_at = memoryview(mmap.mmap(-1, 8 * max(1, len(calls)))).cast("q")
        """The instants at which each case last sent a frame; all processes write here."""
        self.at_once = -(-at_once // processes)
        self._most = self.at_once * (MOST_PLACES if more else 1)
        self._idle_cores = idle_cores or IdleCores()
        self._looked_at = HOST_CLOCK.now()
        self._quiet_looks = 0
        self._earlier: dict[int, EarlierAttempts] = {}
        """The earlier attempts at cases that must run again."""
        self._last: list[int] = []
        """The cases whose last attempt waits for a quiet host."""
        self._broker = target
        self._under_way: list[Future[None]] = []
        self._keeping = threading.Lock()
        self._stopping = False
        """True if no more results are kept, because the run ended before the case did."""
        self.lateness: list[Lateness] = []
        """The lateness of each process that ended normally."""
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
                with suppress(OSError, EOFError):  # the worker died: only its lateness is lost
                    worker.pipe.send(None)
                    if worker.pipe.poll(within_s):
                        self.lateness.append(worker.pipe.recv())
        super().stop(within_s)

    @property
    def idle(self) -> bool:
        return super().idle and not self._last

    def _deal(self) -> None:
        self._look_at_cores()
        if super().idle or (not self._left and self._quiet_looks >= QUIET_LOOKS):
            self._give_last_attempts()
        try:
            super()._deal()
        except RunStopped as stopped:
            if self._deaths is not None and isinstance(stopped, BrokerDied):
                self._go_on(self._deaths, stopped)
                return
            end = self._broker.process_end()  # workers do not learn how the process ended
            raise RunStopped(f"{stopped}; {end}" if end else str(stopped)) from None

    def _go_on(self, deaths: BrokerDeaths, death: BrokerDied) -> None:
        """Find the case that killed the broker, and run the interrupted cases again."""
        processes = len(self._workers)
        given = [number for worker in self._workers for number in worker.given]
        super().stop(_CASES_END_WITHIN_S)
        since = self._broker.host_clock.now() - SUSPECT_FOR
        recent = {n for n in range(len(self._calls)) if self._sent_at[n] > since}
        # A case may have passed because its connection was closed.
        suspects = sorted({*given, *recent}, key=lambda number: -self._sent_at[number])
        for result in deaths.explain(death, [self._calls[number] for number in suspects]):
            self._results[self._numbers[result.case]] = result
        self._left.extendleft(number for number in given if number not in self._results)
        for _ in range(max(1, processes)):
            self._fork()

    def _give_last_attempts(self) -> None:
        self._left.extend(self._last)
        self._last.clear()
        if not self._workers and self._left:  # the last worker died with no cases left
            self._fork()
        for worker in self._workers:
            self._give(worker)

    def _look_at_cores(self) -> None:
        """Check how idle the processor is. If it has spare capacity, give each worker more cases
        than it has places. Idle time on this host says nothing about a broker on another host."""
        now = HOST_CLOCK.now()
        if self._most == self.at_once or now - self._looked_at < LOOK_EVERY_S * NS_PER_S:
            return
        self._looked_at = now
        share = self._idle_cores.share()
        self._quiet_looks = self._quiet_looks + 1 if share >= QUIET_SHARE else 0
        if share < IDLE_SHARE:
            return
        for worker in self._workers:
            for _ in range(min(MORE, self._most - len(worker.given))):
                # Cases that keep the disk busy would slow each other down.
                at = next((at for at, n in enumerate(self._left) if not self._is_busy(n)), None)
                if at is None:
                    return
                self._give_one(worker, at)

    def _is_busy(self, number: int) -> bool:
        return bool(BUSY & self._calls[number].case.needs)

    def _order(self, number: int) -> tuple[int, EarlierAttempts]:
        return number, self._earlier.get(number, EarlierAttempts())

    def _on_outcome(self, number: int, outcome: Result | EarlierAttempts) -> None:
        if isinstance(outcome, EarlierAttempts):
            self._earlier[number] = outcome
            if len(outcome.lateness) == ATTEMPTS - 1:
                self._last.append(number)
            else:
                is_long = self._calls[number].case.name in durations()
                self._left.insert(0 if is_long else -(-len(self._left) // 2), number)
        else:
            self._results[number] = outcome

    def _split(self, given: list[int]) -> tuple[list[int], list[int]]:
        return given, []  # an extra place needs a thread too

    def _serve(self, pipe: connection.Connection, run: Run, dealer: int) -> None:
        def work(number: int, earlier: EarlierAttempts) -> None:
            call = self._calls[number]
            outcome: Result | EarlierAttempts
            events: Sequence[Event] = ()
            stop: RunStopped | None = None
            try:
                self._broker.bounds.check()
                attempted = attempt(run, call, earlier)
                if isinstance(attempted, EarlierAttempts):
                    outcome = attempted
                else:
                    outcome, events = attempted
            except RunStopped as stopped:
                stop = stopped
            # whatever the error, the dispatcher waits for an answer
            except BaseException as problem:
                outcome = self._error(call, f"{type(problem).__name__}: {problem}")
            with self._keeping:
                if self._stopping:
                    return
                if stop is None and isinstance(outcome, Result):
                    # Keep a trace only together with its result.
                    run.recorder.write(call.id, events)
                    self._keep(outcome)
                with suppress(OSError):  # the dispatcher died: the main thread ends
                    pipe.send(stop or (number, outcome))

        def note_sent(case: str, at: Instant) -> None:
            self._sent_at[self._numbers[case]] = at

        self._broker.bounds.note_sent = note_sent
        use_few_heaps()
        pool = ThreadPoolExecutor(self._most, thread_name_prefix="case")
        while os.getppid() == dealer:
            order = pipe.recv()
            if order is None:
                pipe.send(Lateness.of(self._broker.canary))
                return
            self._under_way.append(pool.submit(work, *order))

    def _wind_up(self, run: Run) -> None:
        with self._keeping:
            self._stopping = True
        self._broker.bounds.stop("the run has ended")
        for future in self._under_way:
            future.cancel()
        wait(self._under_way, _CASES_END_WITHIN_S)
