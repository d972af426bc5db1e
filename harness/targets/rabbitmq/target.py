"""A real RabbitMQ as a target: the node of :mod:`brokerproof.harness.targets.rabbitmq.broker`, with
its listeners as endpoints."""

from pathlib import Path

from brokerproof.harness.model.broker_io import LimitsSet
from brokerproof.harness.model.cost_limits import Limits
from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.targets import parameters
from brokerproof.harness.targets.rabbitmq import release as rabbitmq_release
from brokerproof.harness.targets.rabbitmq.alarms import CLEAR_ALARM, RAISE_ALARM, limit_commands
from brokerproof.harness.targets.rabbitmq.broker import RabbitmqProcess
from brokerproof.harness.targets.rabbitmq.management import Management
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.targets.target import Identity, TargetFacts
from brokerproof.harness.worlds.world import World

NATIVE_AMQP = 4
"""From this major release on, AMQP 1.0 is native, and attaching to an address no longer creates its
queue."""


class RabbitmqTarget(SocketTarget):
    """Finds or installs, configures, starts and stops a RabbitMQ of ``version`` with ``config``, a
    ``rabbitmq.conf``. ``queue_type`` is the type of queues declared for AMQP 1.0: "quorum" or
    "classic" (the broker's default)."""

    is_local = True  # nodelay is true unless a configuration says otherwise

    def __init__(
        self,
        identity: Identity,
        config: Path,
        version: str | None = None,
        queue_type: str = "classic",
    ) -> None:
        super().__init__(identity)  # acceptors have no parameters of their own
        self._path, self._version, self._queue_type = config, version, queue_type
        self._process: RabbitmqProcess | None = None
        self._management: Management | None = None

    def start(self, folder: Path) -> TargetFacts:
        release = rabbitmq_release.find(self._version or rabbitmq_release.default_version())
        self._process = RabbitmqProcess(
            folder / self.identity.name, config=self._path, release=release
        )
        self._process.clock_rate = self.identity.clock_rate
        running = self._process.start()
        self.endpoints = {name: (running.host, port) for name, port in running.ports.items()}
        if int(running.version.partition(".")[0]) >= NATIVE_AMQP:
            port = running.ports["management"]
            self._management = Management(running.host, port, running.login, running.passcode)
        self.watch_the_host(running.pid)
        return TargetFacts(
            broker="RabbitMQ",
            version=running.version,
            configuration=parameters.describe(self._path),
            endpoint=f"{running.host}:{running.ports[self.identity.default_acceptor]}",
        )

    def continue_in_fork(self, limits: Limits) -> None:
        super().continue_in_fork(limits)
        if self._management is not None:
            self._management = self._management.in_fork()

    def provide(self, name: str, routing: RoutingType) -> None:
        """Declare the queue ``name`` if AMQP 1.0 requires it to exist. Topics are routing keys, so
        they need no declaration."""
        if self._management is not None and routing is RoutingType.ANYCAST:
            self._management.declare_queue(name, self._queue_type)

    def raise_alarm(self, world: World, resource: str, node: str = "") -> None:
        """Raise the alarm for the whole node, by rabbitmqctl: it also blocks concurrent cases."""
        self._node(node).control(*RAISE_ALARM[resource])

    def clear_alarm(self, world: World, resource: str, node: str = "") -> None:
        self._node(node).control(*CLEAR_ALARM[resource])

    def _node(self, name: str) -> RabbitmqProcess:
        assert self._process is not None, "call start() first"
        return self._process

    def set_limits(self, world: World, limits: LimitsSet) -> None:
        assert self._process is not None, "call start() first"
        for arguments in limit_commands(limits):
            self._process.control(*arguments)

    def stop(self) -> None:
        super().stop()
        if self._management is not None:
            self._management.close()
            self._management = None
        if self._process is not None:
            self._process.stop()
            self._process = None
