"""A complete load against a target, with its run folder: the common part of ``load`` and
``soak``."""

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from brokerproof.harness.load import plan_builder
from brokerproof.harness.load.conductor import Conductor, Drivers, LoadOutcome, Progress
from brokerproof.harness.load.plan import BadPlan
from brokerproof.harness.load.plan_builder import LoadOptions
from brokerproof.harness.model.time import NS_PER_S, Duration, Instant
from brokerproof.harness.results import run_folder
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.targets.target import TargetFacts

CASE = "load"
"""Every event of a load belongs to one case."""
SEGMENT_ROWS = 250_000
BACKLOG = 2 * 1024**3
"""If a driver's wire log exceeds this many bytes, about four million STOMP messages, its scribe
starts during the load."""
DRAIN: Duration = 5 * NS_PER_S


class Session:
    """One load. ``folder`` is the existing run folder; with ``record``, the traffic is recorded.
    ``backlog`` is the maximum number of bytes that may wait in a driver's wire log until the load
    is over. With 0, segments are read during the load and cover at most ``segment_s`` seconds."""

    def __init__(
        self,
        target: SocketTarget,
        wishes: LoadOptions,
        crew: Drivers,
        folder: Path,
        *,
        begin: Callable[[SocketTarget, Path], TargetFacts],
        record: bool = True,
        backlog: int = BACKLOG,
        segment_s: int = 2,
    ) -> None:
        self.target, self.wishes, self.folder = target, wishes, folder
        self._begin = begin
        self._crew, self._record, self._backlog, self._segment_s = crew, record, backlog, segment_s
        self._restart_at: Instant = 0
        self.restarts = 0

    def run(
        self, lasts: Duration | None, watch: Callable[[Progress], bool], *, drain: Duration = DRAIN
    ) -> LoadOutcome:
        """Start the target, drive it, and stop it. ``watch`` is called periodically and ends the
        load by returning True.

        Raises :class:`brokerproof.harness.targets.failure.SetUpFailed`,
        :class:`brokerproof.harness.load.plan.BadPlan` and
        :class:`brokerproof.harness.load.conductor.LoadFailed`."""
        with ExitStack() as stack:
            stack.callback(self.target.stop)
            facts = self._begin(self.target, self.folder / "logs")
            run_folder.add_target(self.folder, self.target, facts)
            run_folder.write_header_field(
                self.folder, "load", {"plan": dataclasses.asdict(self.wishes)}
            )
            whole = plan_builder.plan(self.target, self.wishes, self.folder.resolve().name)
            restarts = [fault.every for fault in self.wishes.faults if fault.kind == "restart"]
            if restarts and self.target.identity.kind == "address":
                raise BadPlan(
                    f"target {self.target.identity.name} cannot be restarted here; omit the"
                    " fault restart"
                )
            terms = plan_builder.terms(self.target, whole.acceptor, self._about_the_record())
            conductor = stack.enter_context(
                Conductor(whole.parts(self.wishes.drivers), terms, self._crew)
            )
            conductor.begin()
            self._restart_at = conductor.progress.since + restarts[0] if restarts else 0

            def watching(progress: Progress) -> bool:
                if progress.producing and restarts and conductor.world.now() >= self._restart_at:
                    self._start_anew(conductor, whole.acceptor)
                    self._restart_at = conductor.world.now() + restarts[0]
                return watch(progress)

            conductor.run(lasts, watching)
            conductor.drain(drain, watch)
            return conductor.end(watch)

    def _about_the_record(self) -> Mapping[str, Any] | None:
        if not self._record:
            return None
        return {
            "folder": str(self.folder.resolve()),
            "run": self.folder.resolve().name,
            "target": self.target.identity.name,
            "case": CASE,
            "segment_rows": SEGMENT_ROWS,
            "segment_s": 0 if self._backlog else self._segment_s,
            "backlog": self._backlog,
        }

    def _start_anew(self, conductor: Conductor, acceptor: str) -> None:
        """Restart the broker, which loses all data that it has not stored."""
        self.target.stop()
        self.target.start(self.folder / "logs")
        conductor.moved({acceptor: self.target.endpoints[acceptor]})
        self.restarts += 1
