"""Handles a broker that dies during a run: finds the case that kills it, and continues the run. If
the broker's process ends, its port closes, or it refuses every connection, all running cases see
closed connections, which decide no verdict. Once the broker serves again, after a restart by its
supervisor or by ``--restart``, the suspects run again one by one, starting with the case that sent
the last frame. A case after which the broker dies twice more, with no other case running, is the
culprit and gets a verdict; its variants run alone too. All other cases then run concurrently as
before. If the broker stays down, the run ends."""

import dataclasses
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from brokerproof.harness.cases.execution import Call, Run, died_of, try_once
from brokerproof.harness.model.time import NS_PER_S, Duration, seconds
from brokerproof.harness.results.records import Result
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.worlds.bounds import BrokerDied, RunStopped
from brokerproof.harness.worlds.host_clock import HOST_CLOCK

RETURNS_WITHIN: Duration = seconds(20)
"""The time for a broker to serve again; three times as long if a command restarts it."""
LOOK_EVERY: Duration = NS_PER_S // 5
MOST_UNEXPLAINED = 3
"""After this many consecutive deaths that no case causes when run alone, the run ends. Otherwise it
might never end."""
MOST_SUSPECTS = 8
MOST_NAMED = 3


class BrokerDeaths:
    """Judges the cases of ``run`` that kill its broker. ``restart`` is the command line that
    restarts the broker (empty: none), and ``logs`` is the folder for its output."""

    def __init__(self, run: Run, restart: str, logs: Path, keep: Callable[[Result], None]) -> None:
        assert run.health is not None
        assert isinstance(run.target, SocketTarget)
        self._run, self._target, self._health = run, run.target, run.health
        self._restart, self._logs, self._keep = restart, logs, keep
        self._number = self._unexplained = 0
        self._tag = run.target.identity.tag

    def explain(self, death: BrokerDied, suspects: Sequence[Call]) -> list[Result]:
        """Return the results of those ``suspects`` that kill the broker, once it serves again.
        Raises :class:`RunStopped` if it does not."""
        self._return_from(death, suspects)
        for number, call in enumerate(suspects[:MOST_SUSPECTS]):
            if result := self._judge_alone(call, death):
                self._unexplained = 0
                name = call.case.name
                variants = [other for other in suspects[number + 1 :] if other.case.name == name]
                others = [self._judge_alone(other, death) for other in variants]
                return [result, *(other for other in others if other is not None)]
        self._unexplained += 1
        if self._unexplained == MOST_UNEXPLAINED:
            times = MOST_UNEXPLAINED
            raise RunStopped(f"{death}; {times} deaths in a row that no single case caused")
        return []

    def _judge_alone(self, call: Call, death: BrokerDied) -> Result | None:
        """Return the result of ``call`` if it kills the broker twice without any other running
        case."""
        for last in (False, True):
            record = try_once(self._run, call)
            frames = self._target.bounds.unanswered()
            how = self._health.death()
            if not how:
                return None
            if last:
                result, events = died_of(self._run, call, record, frames, how)
                self._run.recorder.write(call.id, events)
                self._keep(result)
            self._return_from(death, [call])
        return result

    def _return_from(self, death: BrokerDied, suspects: Sequence[Call]) -> None:
        """Wait until the broker serves again, else raise :class:`RunStopped`."""
        if self._target.identity.started_here:
            self._target.kill()
            self._target.stop()
            try:
                self._target.start(self._logs)
            except SetUpFailed as problem:
                raise RunStopped(f"{death}; it cannot be restarted: {problem}") from None
        elif self._restart:
            with (self._logs / "restart.log").open("ab") as log:
                subprocess.run(  # the command may keep running, and is not a child of this process
                    f"{{ {self._restart}\n}} &",
                    shell=True,
                    check=False,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        deadline = HOST_CLOCK.now() + RETURNS_WITHIN * (3 if self._restart else 1)
        assert self._run.health is not None
        while True:
            self._target.watch_again()
            self._number += 1
            self._health = self._run.health.in_fork(f"d{self._number}")
            if self._health.serves:
                # The broker may have kept messages of interrupted cases in queues of these names.
                self._target.identity = dataclasses.replace(
                    self._target.identity, tag=f"{self._tag}-{self._number}"
                )
                return
            if HOST_CLOCK.now() > deadline:
                raise RunStopped(f"{death}; it did not return{self._hint(suspects)}")
            self._target.bounds.pause(LOOK_EVERY)

    def _hint(self, suspects: Sequence[Call]) -> str:
        named = ", ".join(call.id for call in suspects[:MOST_NAMED])
        how = (
            "" if self._restart else "; with --restart COMMAND the run names the case and continues"
        )
        return f"; running cases, the latest frame first: {named}{how}" if named else how
