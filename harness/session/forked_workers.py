"""Runs cases concurrently in forked processes. Virtual-time cases only compute, so threads would
not help. Real-time cases also wait (see ``harness/session/real_time_workers.py``).

Workers are forked from the process that collected the cases, after the target has started, so
nothing is imported, collected or configured twice. That process becomes the dispatcher. Each worker
holds its current case and one more, so it never waits for the dispatcher. The worker records the
trace and the result, and sends the outcome. A case depends on nothing but the seed, so any worker
can run it.

If a worker dies (from a crash in C code or for lack of memory), its current case is lost and
reported as our error, and another worker takes over the rest. If the dispatcher dies, the kernel
ends its workers. On SIGTERM a worker keeps the traces of finished cases.

pytest-xdist does much of this, but each of its workers is a new process that imports and collects
everything again, which is a quarter of the whole work here. Also, with pytest-xdist, a case whose
worker dies is reported only to pytest, not in results.ndjson."""

import ctypes
import gc
import os
import signal
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import connection, get_context
from multiprocessing.context import ForkProcess
from types import FrameType
from typing import Any

from brokerproof.harness.cases.example_runs import Call, Run, count
from brokerproof.harness.cases.execution import execute_unrecorded
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results.records import Result
from brokerproof.harness.results.verdict import never_reached
from brokerproof.harness.worlds.bounds import RunStopped

AHEAD = 2
"""The number of cases that each worker holds, so that it need not wait while the dispatcher is
busy."""
GRACE_S = 20.0
"""The time for a worker to end after SIGTERM, before it is killed."""
_PR_SET_PDEATHSIG = 1

MakeRun = Callable[[str], Run]
"""Makes the run of the named worker, with a recorder whose segments carry that name."""
Keep = Callable[[Result], None]


class _Ended(BaseException):
    """The worker received SIGTERM. Not an ``Exception``, so that no case handles it."""


@dataclass
class _Worker:
    process: ForkProcess
    pipe: connection.Connection
    given: deque[int] = field(default_factory=deque)
    """The cases that the worker has; it runs the first ones now."""


class Workers:
    """``processes`` workers for ``calls``; each runs one case at a time. ``keep`` is called once
    per result: in the worker, or here if the worker died."""

    at_once = 1
    """The number of cases that a worker runs concurrently."""
    ahead = AHEAD - 1
    """The number of cases that wait in a worker besides the running ones."""
    wait_s: float | None = None
    """The longest wait for an answer, in seconds (default: unlimited)."""

    def __init__(
        self, calls: Sequence[Call], processes: int, make_run: MakeRun, target: str, keep: Keep
    ) -> None:
        self._calls, self._make_run, self._target, self._keep = calls, make_run, target, keep
        self._left: deque[int] = deque(range(len(calls)))
        self._numbers = {call.id: number for number, call in enumerate(calls)}
        self._results: dict[int, Result] = {}
        self._born = 0
        self._ended = False
        self._workers: list[_Worker] = []
        for _ in range(min(processes, len(calls))):
            self._fork()

    def result(self, call: Call) -> Result:
        """Wait for the outcome of ``call``, and dispatch other cases until then. Raises
        ``KeyError`` for an unknown call, and :class:`brokerproof.harness.worlds.bounds.RunStopped`
        once a worker finds that the run cannot continue."""
        number = self._numbers[call.id]
        while number not in self._results:
            self._deal()
        return self._results[number]

    @property
    def idle(self) -> bool:
        return not self._left and not any(worker.given for worker in self._workers)

    @property
    def ended(self) -> bool:
        return not self._workers

    def stop(self, within_s: float = GRACE_S) -> None:
        """End all workers: idle ones immediately, busy ones in the middle of a case, whose trace is
        lost. A worker still alive after ``within_s`` seconds is killed."""
        idle = self.idle
        for worker in self._workers:
            if not idle:
                worker.process.terminate()
            worker.pipe.close()  # no more cases
        for worker in self._workers:
            worker.process.join(within_s)
            worker.process.kill()
            worker.process.join()
        self._workers.clear()

    def _fork(self) -> None:
        context = get_context("fork")
        ours, theirs = context.Pipe()
        others = [*(worker.pipe for worker in self._workers), ours]
        name = f"w{self._born}"
        self._born += 1
        gc.freeze()  # these objects stay: exempt them from garbage collection
        process = context.Process(
            target=self._work, args=(theirs, others, name, os.getpid()), name=name, daemon=True
        )
        with warnings.catch_warnings():
            # Python warns that a thread that is missing after the fork may hold a lock. The only
            # threads here belong to numpy's linear algebra, which is never called.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self._workers.append(worker)
        self._give(worker)

    def _give(self, worker: _Worker) -> None:
        """Give ``worker`` cases up to its minimum number."""
        while self._left and len(worker.given) < self.at_once + self.ahead:
            if not self._give_one(worker):
                return

    def _give_one(self, worker: _Worker, at: int = 0) -> bool:
        """Give ``worker`` the remaining case at that index. Return False if the worker is dead,
        which is handled later."""
        number = self._left[at]
        try:
            worker.pipe.send(self._order(number))
        except OSError:
            return False
        worker.given.append(number)
        del self._left[at]
        return True

    def _order(self, number: int) -> object:
        """Return the message that tells a worker to run that case."""
        return number

    def _deal(self) -> None:
        """Wait until a worker answers or dies, but at most this long."""
        assert self._workers, "nobody is left to run what is asked for"
        by_pipe = {worker.pipe: worker for worker in self._workers}
        for pipe in connection.wait(list(by_pipe), self.wait_s):
            assert isinstance(pipe, connection.Connection)
            worker = by_pipe[pipe]
            try:
                received = pipe.recv()
            except (EOFError, OSError):
                self._bury(worker)
                continue
            if isinstance(received, RunStopped):
                raise received
            number, outcome = received
            worker.given.remove(number)
            self._on_outcome(number, outcome)
        for worker in self._workers:
            self._give(worker)

    def _on_outcome(self, number: int, outcome: Any) -> None:
        self._results[number] = outcome

    def _bury(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.pipe.close()
        worker.process.join()
        under_way, waiting = self._split(list(worker.given))
        self._left.extendleft(reversed(waiting))
        for number in under_way:
            self._results[number] = died = self._died(self._calls[number], worker.process.exitcode)
            self._keep(died)
        if self._left:
            self._fork()

    def _split(self, given: list[int]) -> tuple[list[int], list[int]]:
        """Return the cases that a worker is running, and those waiting in it."""
        return given[: self.at_once], given[self.at_once :]

    def _died(self, call: Call, code: int | None) -> Result:
        if code is not None and code < 0:
            how = (
                f"by {signal.Signals(-code).name}"
                if -code in set(signal.Signals)
                else f"by signal {-code}"
            )
        else:
            how = f"with exit code {code}"
        return self._error(
            call,
            f"the process that ran the case ended {how}; to run the case alone, use --case and"
            " --jobs 1",
        )

    def _error(self, call: Call, detail: str) -> Result:
        return Result(
            case=call.id,
            target=self._target,
            requirements=call.cited,
            verdict=Verdict.ERROR,
            detail=detail,
            findings=never_reached(call.cited, Verdict.ERROR, detail),
        )

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._ended = True
        raise _Ended

    def _work(
        self,
        pipe: connection.Connection,
        others: Sequence[connection.Connection],
        name: str,
        dealer: int,
    ) -> None:
        """Run cases until the dispatcher has no more for this worker, or has died."""
        # At a terminal the dispatcher receives SIGINT too, and ends its workers.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._end)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        # Close the dispatcher's ends of pipes. If they stayed open here, they would hide the
        # dispatcher's death.
        for pipe_end in others:
            pipe_end.close()
        run = self._make_run(name)
        try:
            self._serve(pipe, run, dealer)
        except (_Ended, EOFError, BrokenPipeError, ConnectionResetError):
            pass
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self._wind_up(run)
            run.recorder.flush()

    def _serve(self, pipe: connection.Connection, run: Run, dealer: int) -> None:
        """Run the cases received through ``pipe`` while the process ``dealer`` is alive."""
        warnings.simplefilter("error")  # as pytest does around cases that it runs itself
        while os.getppid() == dealer:
            number = pipe.recv()
            call = self._calls[number]
            result, events = execute_unrecorded(run, call)
            if self._ended:  # Hypothesis may turn the end of an example into an error
                break
            with _sigterm_held_back():  # keep a trace only together with its result
                if events:
                    run.recorder.write(call.id, events)
                self._keep(result)
            pipe.send((number, result))

    def _wind_up(self, run: Run) -> None:
        """Do nothing, because a running case ends with its process."""


@contextmanager
def _sigterm_held_back() -> Iterator[None]:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def heaviest_first(run: Run, calls: Iterable[Call]) -> list[Call]:
    """Sort the cases so that properties with many examples come first and none of them delays the
    end."""
    return sorted(calls, key=lambda call: 0 if call.case.over is None else -count(run, call))
