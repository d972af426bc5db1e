"""Proton's example brokers as targets: the process of
:mod:`brokerproof.harness.targets.proton.examples` with its only acceptor."""

from pathlib import Path

from brokerproof.harness.targets.proton.examples import ProtonProcess
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.targets.target import Identity, TargetFacts


class ProtonTarget(SocketTarget):
    """Fetches and builds (once), starts and stops the example broker ``name`` of ``version`` (None:
    any version)."""

    is_local = True  # Proton sets TCP_NODELAY

    def __init__(self, identity: Identity, name: str, version: str | None = None) -> None:
        super().__init__(identity)
        self._name, self._version = name, version
        self._process: ProtonProcess | None = None

    def start(self, folder: Path) -> TargetFacts:
        self._process = ProtonProcess(self._name, folder / self.identity.name, self._version)
        running = self._process.start()
        self.endpoints = {name: (running.host, port) for name, port in running.ports.items()}
        self.watch_the_host(running.pid)
        return TargetFacts(
            broker=(
                "Apache Qpid Proton's example broker in"
                f" {'C' if self._name == 'proton-c' else 'Python'}"
            ),
            version=running.version,
            configuration="none: it has no configuration",
            endpoint=f"{running.host}:{running.ports[self.identity.default_amqp_acceptor]}",
        )

    def stop(self) -> None:
        super().stop()
        if self._process is not None:
            self._process.stop()
            self._process = None
