"""A real Apache Artemis as a target: the process of
:mod:`brokerproof.harness.targets.artemis.broker`, with its acceptors as endpoints."""

from pathlib import Path

from brokerproof.harness.targets import parameters
from brokerproof.harness.targets.artemis.broker import ArtemisProcess
from brokerproof.harness.targets.java_broker import BRIEF
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.targets.target import Identity, TargetFacts


class ArtemisTarget(SocketTarget):
    """Downloads (once), configures, starts and stops an Artemis of ``version`` (None: our default)
    with ``config``."""

    is_local = True  # tcpNoDelay is true unless an acceptor says otherwise

    def __init__(self, identity: Identity, config: Path, version: str | None = None) -> None:
        super().__init__(identity, config)
        self._path = config
        self.version = version
        self._process: ArtemisProcess | None = None
        self.java_options: tuple[str, ...] = ()
        """Options for the broker's JVM, in addition to ours."""

    def start(self, folder: Path) -> TargetFacts:
        self._process = ArtemisProcess(self._path, self.version, folder / self.identity.name)
        self._process.java_options = (*self.java_options, *(BRIEF,) * self.brief)
        self._process.clock_rate = self.identity.clock_rate
        running = self._process.start()
        self.endpoints = {name: (running.host, port) for name, port in running.ports.items()}
        self.trust(self._process.certificates)
        self.pages = self._process.pages
        self.watch_the_host(running.pid)
        return TargetFacts(
            broker="Apache Artemis",
            version=running.version,
            configuration=parameters.describe(self._path),
            addresses=parameters.address_settings(self._path),
            endpoint=f"{running.host}:{running.ports[self.identity.default_acceptor]}",
        )

    @property
    def ended(self) -> bool:
        """True if the broker is not running."""
        return self._process is None or self._process.ended()

    def shipped_configuration(self) -> str:
        assert self._process is not None, "call start() first"
        return self._process.shipped_configuration()

    def stop(self) -> None:
        super().stop()
        if self._process is not None:
            self._process.stop()
            self._process = None
