"""Starts a target in parallel with other work, such as the collection of cases."""

import threading
from concurrent.futures import Future, wait
from pathlib import Path

from brokerproof.harness.cases.hypothesis_constants_patch import by_seed_alone
from brokerproof.harness.targets.target import Target, TargetFacts


class TargetStart:
    """Starts ``target`` in a separate thread; the target's output goes into the folder ``logs``."""

    def __init__(self, target: Target, logs: Path) -> None:
        self._target, self._logs = target, logs
        self._facts: Future[TargetFacts] = Future()
        by_seed_alone()  # or Hypothesis fails if the thread imports a module
        # A daemon thread: this process can end without waiting for a broker's download.
        threading.Thread(target=self._start, name="start", daemon=True).start()

    def _start(self) -> None:
        try:
            self._facts.set_result(self._target.start(self._logs))
        except BaseException as problem:  # whatever the error, somebody waits for an answer
            self._facts.set_exception(problem)

    def facts(self) -> TargetFacts:
        """Wait until the target has started. Raises
        :class:`brokerproof.harness.targets.failure.SetUpFailed`."""
        return self._facts.result()

    def end(self, within_s: float) -> None:
        """Stop the target. If the target is still starting after ``within_s`` seconds, interrupt
        the start."""
        wait([self._facts], within_s)
        self._target.stop()
