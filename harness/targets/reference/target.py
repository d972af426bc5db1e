"""A sans-I/O broker in virtual time, found by a dotted name. Each world gets its own broker."""

import functools
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from brokerproof.harness.model.broker_io import AtNode, LimitsSet, ResourcesRead
from brokerproof.harness.model.enums import Clock, RoutingType
from brokerproof.harness.targets import parameters
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.target import Identity, Overrides, Parameters, TargetFacts, Value
from brokerproof.harness.trace.events import Observed
from brokerproof.harness.worlds.virtual import SansIoBroker, SansIoDisk, VirtualWorld
from brokerproof.harness.worlds.world import World

_USED, _TOTAL, _FREE = 100_000_000, 8_000_000_000, 100_000_000_000
"""Memory and disk space of the machine of a virtual broker, in bytes."""
_SHORT = {"memory": LimitsSet(memory=0), "disk": LimitsSet(disk=_FREE + 1)}
_ENOUGH = {"memory": LimitsSet(memory=_TOTAL), "disk": LimitsSet(disk=0)}


class Made(Protocol):
    broker: SansIoBroker
    acceptors: Mapping[str, Mapping[str, object]]
    version: str
    disk: SansIoDisk | None


class VirtualTarget:
    """``factory`` has the signature ``(config, overrides, *, start) -> Made``, or names such a
    function: ``package.module:function``."""

    clock = Clock.VIRTUAL

    def __init__(
        self, identity: Identity, factory: str | Callable[..., Made], config: Path
    ) -> None:
        self.identity, self._factory, self.config = identity, factory, config
        self._make: Callable[..., Made] | None = None

    def start(self, folder: Path) -> TargetFacts:
        self._make = make = self.maker()
        try:
            made = make(str(self.config), {}, start=0)
        except Exception as problem:
            raise SetUpFailed(f"target {self.identity.name}: {problem}") from None
        return TargetFacts(
            broker="brokerproof reference broker",
            version=made.version,
            configuration=parameters.describe(self.config),
            addresses=parameters.address_settings(self.config),
            endpoint="virtual time",
        )

    def maker(self) -> Callable[..., Made]:
        """The factory function. Raises :class:`SetUpFailed` if no function has that name."""
        if not isinstance(self._factory, str):
            return self._factory
        module, _, function = self._factory.partition(":")
        try:
            factory: Any = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError, ValueError) as problem:
            raise SetUpFailed(
                f"target {self.identity.name}: factory {self._factory!r} cannot be found"
                f" ({problem})"
            ) from None
        return factory  # type: ignore[no-any-return]

    def stop(self) -> None:
        self._make = None

    def acceptors(self, overrides: Overrides | None = None) -> Mapping[str, Parameters]:
        return parameters.overridden(self._known, overrides)

    @functools.cached_property
    def _known(self) -> dict[str, dict[str, Value]]:
        return parameters.from_file(self.config, self.identity.profile.parameters)

    def provide(self, name: str, routing: RoutingType) -> None:
        """Do nothing, because the broker creates addresses on use."""

    def raise_alarm(self, world: World, resource: str, node: str = "") -> None:
        """Set a limit for that resource that the machine's constant readings exceed."""
        _feed_limits(world, _SHORT[resource], node)

    def clear_alarm(self, world: World, resource: str, node: str = "") -> None:
        """Set a limit for that resource that the machine's constant readings do not reach."""
        _feed_limits(world, _ENOUGH[resource], node)

    def set_limits(self, world: World, limits: LimitsSet) -> None:
        assert isinstance(world, VirtualWorld)
        world.feed(limits)

    def shipped_configuration(self) -> str:
        """Raise :class:`SetUpFailed`, because every world has our configuration."""
        raise SetUpFailed(f"target {self.identity.name}: the reference ships no configuration")

    def world(
        self, seed: int, overrides: Overrides | None, observed: Callable[[Observed], None]
    ) -> VirtualWorld:
        assert self._make is not None, "call start() first"
        made = self._make(str(self.config), overrides or {}, start=0)
        return VirtualWorld(
            made.broker, made.acceptors, seed=seed, observed=observed, disk=made.disk
        )


def _feed_limits(world: World, limits: LimitsSet, node: str) -> None:
    assert isinstance(world, VirtualWorld)
    reading = ResourcesRead(memory_used=_USED, memory_total=_TOTAL, disk_free=_FREE)
    for event in (reading, limits):
        world.feed(AtNode(node, event) if node else event)
