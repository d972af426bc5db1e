"""A broker in a container as a target: RabbitMQ, Artemis or ActiveMQ, with the native files."""

import dataclasses
import shutil
from pathlib import Path

from brokerproof.harness.model.broker_io import LimitsSet
from brokerproof.harness.model.cost_limits import Limits
from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.targets import parameters
from brokerproof.harness.targets.container.engine import Container, published_host
from brokerproof.harness.targets.container.recipes import CERTIFICATES, RECIPES
from brokerproof.harness.targets.rabbitmq.alarms import CLEAR_ALARM, RAISE_ALARM, limit_commands
from brokerproof.harness.targets.rabbitmq.management import Management
from brokerproof.harness.targets.rabbitmq.target import NATIVE_AMQP
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.targets.target import Identity, TargetFacts
from brokerproof.harness.worlds.world import World

SENDS_AT_ONCE = frozenset({"rabbitmq", "artemis"})
"""Brokers whose images leave TCP_NODELAY on, as the native targets do."""


class ContainerTarget(SocketTarget):
    """A ``broker`` (one of :data:`RECIPES`) of ``version`` (None: our default) with ``config``, in
    a container. ``image`` replaces the official image; ``queue_type`` is the type of RabbitMQ's
    queues for AMQP 1.0."""

    def __init__(
        self,
        identity: Identity,
        broker: str,
        config: Path,
        version: str | None = None,
        image: str | None = None,
        queue_type: str = "classic",
    ) -> None:
        super().__init__(identity, None if broker == "rabbitmq" else config)
        self._broker, self._path, self._version, self._image = broker, config, version, image
        self._queue_type = queue_type
        self._container: Container | None = None
        self._management: Management | None = None
        self._certificates: Path | None = None

    def start(self, folder: Path) -> TargetFacts:
        recipe = RECIPES[self._broker](self._path, self._version, published_host())
        if self._image is not None:
            recipe = dataclasses.replace(recipe, image=self._image)
        where = folder / self.identity.name
        self._container = Container(recipe, where)
        self.endpoints = self._container.start()
        process = self._container.process()
        made = where / CERTIFICATES.lstrip("/")
        if made.is_dir():
            self.trust(made)
            self._certificates = made
        elif process is not None and (direct := self._container.direct_endpoints()):
            # Certificates are made before the container has an address.
            self.endpoints = direct
            self.is_local = self._broker in SENDS_AT_ONCE
        if self._broker == "rabbitmq" and int(recipe.version.partition(".")[0]) >= NATIVE_AMQP:
            host, port = self.endpoints["management"]
            self._management = Management(
                host, port, self.identity.login or "", self.identity.passcode or ""
            )
        self.watch_the_host(process)
        host, port = self.endpoints[self.identity.default_acceptor]
        return TargetFacts(
            broker=f"{recipe.broker} in a container",
            version=recipe.version,
            configuration=f"{parameters.describe(self._path)}, {recipe.image}",
            addresses=parameters.address_settings(self._path) if self._broker == "artemis" else [],
            endpoint=f"{host}:{port}",
        )

    def continue_in_fork(self, limits: Limits) -> None:
        super().continue_in_fork(limits)
        if self._management is not None:
            self._management = self._management.in_fork()

    def provide(self, name: str, routing: RoutingType) -> None:
        """Declare the queue ``name`` if AMQP 1.0 requires it to exist."""
        if self._management is not None and routing is RoutingType.ANYCAST:
            self._management.declare_queue(name, self._queue_type)

    def raise_alarm(self, world: World, resource: str, node: str = "") -> None:
        """Raise the alarm with the rabbitmqctl in the container."""
        if self._broker != "rabbitmq":
            super().raise_alarm(world, resource, node)
        self._rabbitmqctl(*RAISE_ALARM[resource])

    def clear_alarm(self, world: World, resource: str, node: str = "") -> None:
        self._rabbitmqctl(*CLEAR_ALARM[resource])

    def set_limits(self, world: World, limits: LimitsSet) -> None:
        if self._broker != "rabbitmq":
            super().set_limits(world, limits)
        for arguments in limit_commands(limits):
            self._rabbitmqctl(*arguments)

    def process_end(self) -> str:
        return "" if self._container is None or self.is_forked else self._container.end()

    def _rabbitmqctl(self, *arguments: str) -> None:
        assert self._container is not None, "call start() first"
        self._container.control("rabbitmqctl", *arguments)

    def stop(self) -> None:
        super().stop()
        if self._management is not None:
            self._management.close()
            self._management = None
        if self._container is not None:
            self._container.stop()
            self._container = None
        if self._certificates is not None:
            shutil.rmtree(self._certificates)
            self._certificates = None
