"""The start of a target beside something else, such as the collection of its cases."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from pathlib import Path

from brokerproof.harness.cases.hypothesis_constants_patch import by_seed_alone
from brokerproof.harness.targets.target import Target, TargetFacts


class TargetStart:
    """Starts ``target`` in a thread of its own; what it prints goes into the folder ``logs``."""

    def __init__(self, target: Target, logs: Path) -> None:
        self._target, self._logs = target, logs
        self._facts: Future[TargetFacts] = Future()
        by_seed_alone()  # or Hypothesis fails where the thread imports a module
        # Daemonic: the end of this process need not wait until a broker is downloaded.
        threading.Thread(target=self._start, name="start", daemon=True).start()

    def _start(self) -> None:
        try:
            self._facts.set_result(self._target.start(self._logs))
        except BaseException as problem:  # whatever it is, somebody waits for an answer
            self._facts.set_exception(problem)

    def facts(self) -> TargetFacts:
        """Wait until the target has started. Raises
        :class:`brokerproof.harness.targets.failure.SetUpFailed`."""
        return self._facts.result()

    def end(self, within_s: float) -> None:
        """Stop the target, in the middle of its start if that takes longer than ``within_s``
        seconds from now."""
        wait([self._facts], within_s)
        self._target.stop()
