"""A real Artemis whose JVM contains the mutation agent. Cases run one after the other."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from brokerproof.harness.cases.example_runs import Call, Run
from brokerproof.harness.cases.execution import execute
from brokerproof.harness.catalogue import deviations, requirements
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results.records import Result
from brokerproof.harness.results.verdict import never_reached
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.artemis.broker import RELEASES, install
from brokerproof.harness.targets.artemis.target import ArtemisTarget
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.trace.recorder import Recorder
from brokerproof.harness.worlds.bounds import RunStopped
from brokerproof.suites.mutation.bytecode import agent
from brokerproof.suites.mutation.bytecode.agent import AREAS, Agent, BytecodeMutant


class MutableBroker:
    """One Artemis at a time, restarted whenever it may have been harmed."""

    def __init__(self, target: str, folder: Path, seed: int) -> None:
        self._target_name = target
        self._folder = folder
        self._seed = seed
        self._catalogue = requirements.load()
        self._target: ArtemisTarget | None = None
        self._run: Run | None = None
        self._executed = 0
        self.agent = Agent(folder / "agent")

    def start(self, scope: Iterable[str] = (), mutant: BytecodeMutant | None = None) -> None:
        """Start a broker once the previous one has ended. Raises :class:`SetUpFailed`."""
        self.stop()
        target = target_file.load(self._target_name)
        if not isinstance(target, ArtemisTarget):
            raise SetUpFailed(f"{self._target_name}: is not an Artemis that brokerproof starts")
        target.java_options = (self.agent.prepare(scope, mutant),)
        self._target = target
        facts = target.start(self._folder)
        listed = target.identity.deviations
        known = () if listed is None else tuple(deviations.load(listed, target.identity.name))
        recorder = Recorder(None, run="", target=target.identity.name, clock=target.clock)
        # Only one attempt, because a case whose control a mutant breaks would wait for it three
        # times.
        self._run = Run(
            target,
            facts,
            self._catalogue,
            known,
            recorder,
            "smoke",
            self._seed,
            shrink=False,
            attempts=1,
        )

    @property
    def has_ended(self) -> bool:
        return self._target is None or self._target.ended

    def execute(self, call: Call) -> Result:
        """Run one case.

        If the broker serves no client, the verdict is ERROR. Each run has its own seed, so that the
        case's addresses hold no messages left by another run.
        """
        assert self._run is not None, "call start() first"
        self._executed += 1
        try:
            return execute(replace(self._run, seed=self._seed + self._executed), call)
        except RunStopped as problem:
            return Result(
                case=call.id,
                target=self._target_name,
                requirements=call.cited,
                verdict=Verdict.ERROR,
                detail=str(problem),
                findings=never_reached(call.cited, Verdict.ERROR, str(problem)),
            )

    def stop(self) -> None:
        self.agent.close()
        if self._target is not None:
            self._target.stop()
            self._target = None


def sample(name: str, seed: int) -> list[BytecodeMutant]:
    """Return all mutants of the target's release, in the order determined by the seed."""
    target = target_file.load(name)
    if not isinstance(target, ArtemisTarget):
        raise SetUpFailed(f"{name}: is not an Artemis that brokerproof starts")
    home = install(target.version or RELEASES.default_version)
    prefixes = [prefix for names in AREAS.values() for prefix in names]
    return agent.sampled(agent.population(home / "lib", prefixes), seed)
