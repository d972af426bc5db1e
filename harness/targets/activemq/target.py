"""A real Apache ActiveMQ Classic as a target: the process of
:mod:`brokerproof.harness.targets.activemq.broker` with its connectors."""

from pathlib import Path

from brokerproof.harness.targets import parameters
from brokerproof.harness.targets.activemq.broker import ActivemqProcess
from brokerproof.harness.targets.java_broker import BRIEF
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.targets.target import Identity, TargetFacts


class ActivemqTarget(SocketTarget):
    """An ActiveMQ of ``version`` (None: our default) with ``config``, which is installed once, then
    started and stopped."""

    def __init__(self, identity: Identity, config: Path, version: str | None = None) -> None:
        super().__init__(identity, config)
        self._path, self._version = config, version
        self._process: ActivemqProcess | None = None

    def start(self, folder: Path) -> TargetFacts:
        self._process = ActivemqProcess(self._path, self._version, folder / self.identity.name)
        self._process.java_options = (BRIEF,) * self.brief
        self._process.clock_rate = self.identity.clock_rate
        running = self._process.start()
        self.endpoints = {name: (running.host, port) for name, port in running.ports.items()}
        self.watch_the_host(running.pid)
        return TargetFacts(
            broker="Apache ActiveMQ Classic",
            version=running.version,
            configuration=parameters.describe(self._path),
            endpoint=f"{running.host}:{running.ports[self.identity.default_acceptor]}",
        )

    def stop(self) -> None:
        super().stop()
        if self._process is not None:
            self._process.stop()
            self._process = None
