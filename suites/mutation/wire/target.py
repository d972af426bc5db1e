"""A wire mutant as a target: ``--target wire:NAME@TARGET`` judges TARGET through a rewriting
link."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.target import Overrides, Target, TargetFacts
from brokerproof.harness.trace.events import Observed
from brokerproof.suites.mutation.mutant import Reached
from brokerproof.suites.mutation.wire import amqp_rules, stomp_rules  # noqa: F401  (they register themselves)
from brokerproof.suites.mutation.wire.mutant import WIRE_MUTANTS, Tampering, WireMutant
from brokerproof.suites.mutation.wire.tampering import TamperingWorld

OWN_SOCKETS = frozenset({"sockets"})
"""Capabilities by which cases bring clients with their own sockets, which bypass the rewriting
link."""


class WireTarget:
    """``inner`` behind a rewriting link. ``reached`` is the count over all its connections."""

    def __init__(self, mutant: WireMutant, inner: Target) -> None:
        self.mutant, self.inner, self.reached = mutant, inner, Reached()
        self.identity = replace(
            inner.identity,
            name=f"wire-{mutant.name}-{inner.identity.name}",
            capabilities=inner.identity.capabilities - OWN_SOCKETS,
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def start(self, folder: Path) -> TargetFacts:
        return self.inner.start(folder)

    def acceptors(self, overrides: Overrides | None = None) -> Mapping[str, Any]:
        return self.inner.acceptors(overrides)

    def world(
        self, seed: int, overrides: Overrides | None, observed: Callable[[Observed], None]
    ) -> TamperingWorld:
        dice = random.Random(seed)

        def rule() -> Tampering:
            return self.mutant.build(self.reached, dice)

        return TamperingWorld(self.inner.world(seed, overrides, observed), rule)


def named(name: str) -> WireMutant:
    """Return the wire mutant of this name. Raises ``ValueError`` if there is none."""
    if name not in WIRE_MUTANTS:
        raise ValueError(f"there is no wire mutant {name!r}; there are {', '.join(WIRE_MUTANTS)}")
    return WIRE_MUTANTS[name]


def load(text: str) -> WireTarget:
    """Load ``NAME@TARGET``. Raises ``ValueError`` with one sentence."""
    name, at, inner = text.partition("@")
    if not at or not inner:
        raise ValueError("name the target whose traffic the mutant rewrites: wire:NAME@TARGET")
    try:
        return WireTarget(named(name), target_file.load(inner))
    except target_file.BadTarget as problem:
        raise ValueError(str(problem)) from None
