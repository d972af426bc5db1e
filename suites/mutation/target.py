"""A mutant as a target: ``--target mutant:NAME`` judges the mutant like any broker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from brokerproof.harness.model.broker_io import Effect, Input
from brokerproof.harness.model.time import Instant
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.reference.target import Made, VirtualTarget
from brokerproof.harness.worlds.virtual import SansIoBroker
from brokerproof.suites.mutation.mutant import Mutant, Patch, Reached


@dataclass(frozen=True, slots=True)
class MutatedBroker:
    """A broker whose code contains the fault of ``patch`` only while it handles an input."""

    broker: SansIoBroker
    patch: Patch

    def handle(self, now: Instant, event: Input) -> Sequence[Effect]:
        with self.patch:
            return self.broker.handle(now, event)

    def next_deadline(self) -> Instant | None:
        with self.patch:
            return self.broker.next_deadline()


class MutantTarget(VirtualTarget):
    """The reference broker in virtual time with the fault of ``mutant``; ``reached`` is the count
    for all of its brokers."""

    def __init__(self, mutant: Mutant) -> None:
        original = target_file.load(mutant.original)
        assert isinstance(original, VirtualTarget)
        self.mutant = mutant
        self.reached = Reached()
        self._original = original.maker()
        identity = replace(
            original.identity, name=f"mutant-{mutant.name}", kind="mutant", deviations=None
        )
        super().__init__(identity, self._made, original.config)

    def _made(self, config: str, overrides: Mapping[str, Any], *, start: Instant) -> Made:
        patch = self.mutant.patch(self.reached)
        with patch:
            made: Any = self._original(config, overrides, start=start)
        return replace(made, broker=MutatedBroker(made.broker, patch))  # type: ignore[no-any-return]


def load(name: str) -> MutantTarget:
    """Return the mutant ``name`` as a target. Raises ``ValueError`` if there is none."""
    from brokerproof.suites.mutation import all_mutants

    return MutantTarget(all_mutants.named(name))
