"""A mutant as a target: ``--target mutant:NAME`` judges one like any broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from brokerproof.harness.model.time import Instant
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.reference.target import Made, VirtualTarget
from brokerproof.reference_broker.assembly import STANDARD
from brokerproof.suites.mutation.mutant import Mutant, Reached


class MutantTarget(VirtualTarget):
    """The reference broker in virtual time with the fault of ``mutant``; ``reached`` counts for all
    its brokers."""

    def __init__(self, mutant: Mutant) -> None:
        original = target_file.load(mutant.original)
        assert isinstance(original, VirtualTarget)
        self.mutant, self.reached = mutant, Reached()
        self._original = original.maker()
        identity = replace(
            original.identity, name=f"mutant-{mutant.name}", kind="mutant", deviations=None
        )
        super().__init__(identity, self._made, original.config)

    def _made(self, config: str, overrides: Mapping[str, Any], *, start: Instant) -> Made:
        return self._original(
            config, overrides, start=start, parts=self.mutant.build(STANDARD, self.reached)
        )


def load(name: str) -> MutantTarget:
    """The mutant ``name`` as a target. Raises ``ValueError`` when there is none."""
    from brokerproof.suites.mutation import groups

    return MutantTarget(groups.named(name))
