"""A client in virtual time, which is sans-I/O like the reference broker and contains its driver.

A broker's world drives the client. Connection 1 carries the line protocol of drivers. A report
``{"saw": "dials"}`` on that connection is not for the case: the world then opens a connection to
the scripted server, whose bytes the client receives on connection 2, and so on.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from brokerproof.harness.model.enums import Clock, CloseHow, RoutingType
from brokerproof.harness.model.time import Instant
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.target import Identity, Overrides, Parameters, TargetFacts
from brokerproof.harness.trace.events import Observed
from brokerproof.harness.worlds.begun_trial import BegunTrial
from brokerproof.harness.worlds.real import Accepted
from brokerproof.harness.worlds.virtual import SansIoBroker, VirtualWorld
from brokerproof.harness.worlds.world import Receiver, World

DRIVER, WIRE = "driver", "wire"


class VirtualClientTarget:
    """``make`` returns a fresh client for each world."""

    clock = Clock.VIRTUAL

    def __init__(self, identity: Identity, make: Callable[[], SansIoBroker]) -> None:
        self.identity, self._make = identity, make

    def start(self, folder: Path) -> TargetFacts:
        return TargetFacts(self.identity.name, "1", "none", "virtual time")

    def stop(self) -> None:
        """Do nothing, because a client ends with its world."""

    def acceptors(self, overrides: Overrides | None = None) -> Mapping[str, Parameters]:
        return {}

    def provide(self, name: str, routing: RoutingType) -> None:
        """Do nothing, because a client has no addresses."""

    def raise_alarm(self, world: World, resource: str, node: str = "") -> None:
        raise SetUpFailed("a client has no alarms")

    clear_alarm = raise_alarm

    def set_limits(self, world: World, limits: object) -> None:
        raise SetUpFailed("a client has no limits")

    def shipped_configuration(self) -> str:
        raise SetUpFailed("a client has no configuration")

    def world(
        self, seed: int, overrides: Overrides | None, observed: Callable[[Observed], None]
    ) -> VirtualWorld:
        return VirtualWorld(self._make(), {DRIVER: {}, WIRE: {}}, seed=seed, observed=observed)

    def begin_trial(self, world: World, driver: Receiver, accepted: Accepted) -> BegunTrial:
        channel = world.open(DRIVER, _Dialling(world, driver, accepted))
        return BegunTrial(channel, "server.example", 61613, lambda: None)


class _Dialling:
    """Passes reports on to ``driver``, and connects the client when it dials."""

    def __init__(self, world: World, driver: Receiver, accepted: Accepted) -> None:
        self._world, self._driver, self._accepted = world, driver, accepted

    def bytes_arrived(self, at: Instant, data: bytes) -> None:
        for line in data.splitlines(keepends=True):
            if json.loads(line)["saw"] == "dials":
                receiver, use = self._accepted()
                use(self._world.open(WIRE, receiver))
            else:
                self._driver.bytes_arrived(at, line)

    def channel_closed(self, at: Instant, how: CloseHow) -> None:
        self._driver.channel_closed(at, how)
