"""Runs a Java broker: chooses ports, lays out files, starts the broker, and waits until every port
accepts connections."""

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from brokerproof.harness.targets import accelerated_clock, java_runtime
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.java_releases import JavaReleases
from brokerproof.harness.targets.local_process import NativeProcess, free_ports, taken
from brokerproof.harness.targets.managed_broker import ManagedBroker, RunningBroker

START_S = 60
"""Seconds until a broker must accept connections; 2 to 3 s are usual."""
TRIES = 3
"""The most attempts with other free ports if another program takes one too early."""
SMALL = ("-Xms256M", "-Xmx1024M", "-XX:+UseSerialGC")
"""The broker shares a small machine with its clients, so it gets neither gigabytes of heap nor
threads for garbage collection."""
BRIEF = "-XX:TieredStopAtLevel=1"
"""For a broker that runs for only a few minutes. Otherwise half of its processor time would go into
optimising code that does not run often enough to repay the effort."""


class JavaBroker(ManagedBroker):
    """One broker of ``version`` (None: the family's default), as a context manager that starts and
    stops it. ``folder`` becomes the broker's folder: it is emptied at the start, and keeps the
    configuration and the logs. ``ports="free"`` replaces every port in the file with a free one;
    ``"file"`` keeps them. With ``free``, the broker keeps running when the harness ends."""

    name: ClassVar[str]
    releases: ClassVar[JavaReleases]
    stop_s: ClassVar[float]
    """Seconds until a stopping broker is killed."""
    bind_failed: ClassVar[str]
    """The words in the broker's log that show that a port is already in use."""
    reasons: ClassVar[Sequence[re.Pattern[str]]]
    """Patterns in the logs for the reason of a failed start. The first match is used, with its
    groups ``text`` and ``line``."""
    java_options: Sequence[str] = ()
    """JVM options in addition to :data:`SMALL`."""

    def __init__(
        self,
        config: Path,
        version: str | None,
        folder: Path,
        *,
        ports: str = "free",
        free: bool = False,
    ) -> None:
        if ports not in {"free", "file"}:
            raise ValueError(f"ports must be 'free' or 'file', not {ports!r}")
        self._config = config.absolute()
        self._version = version or self.releases.default_version
        self._folder = folder.absolute()
        self._free_ports, self._free = ports == "free", free

    def start(self) -> RunningBroker:
        """Install what is missing, start the broker and wait until every port accepts
        connections.

        Raises :class:`SetUpFailed`, leaving nothing running.
        """
        if self._process is not None:
            raise SetUpFailed(
                f"{self._folder}: this broker has been started already; stop it first"
            )
        listening = self._wanted()
        login, passcode = self._user()
        home, minimum = self._installed()
        try:
            runtime = java_runtime.find_java(minimum)
        except java_runtime.NoJava as problem:
            raise SetUpFailed(f"{self.name} {self._version}: {problem}") from None
        for attempt in range(1, TRIES + 1):
            ports = listening
            if self._free_ports:
                ports = dict(zip(listening, free_ports(len(listening)), strict=True))
            elif busy := taken(ports.values()):
                names = ", ".join(
                    f"{name} ({port})" for name, port in ports.items() if port in busy
                )
                raise SetUpFailed(
                    f"{self._config}: another program listens on the ports of {names}; use free"
                    " ports"
                )
            try:
                self._prepare(home, ports)
            except OSError as problem:
                raise SetUpFailed(
                    f"{problem.filename}: cannot be written ({problem.strerror}); use another"
                    " folder"
                ) from None
            try:
                pid = self._launch(self._command(runtime, home), ports)
            except SetUpFailed as problem:
                if attempt < TRIES and self._free_ports and self.bind_failed in str(problem):
                    continue
                raise
            return RunningBroker(
                self._version, "127.0.0.1", ports, pid, self._folder, self.log, login, passcode
            )
        raise AssertionError("the last try returns or raises")

    @property
    @abstractmethod
    def log(self) -> Path:
        """The broker's own log. The JVM's output is next to it, in ``console.log``."""

    @abstractmethod
    def _wanted(self) -> dict[str, int]:
        """Return the ports in the configuration file, by acceptor. Raises :class:`SetUpFailed`."""

    @abstractmethod
    def _user(self) -> tuple[str, str]:
        """Return a login and its passcode. Raises :class:`SetUpFailed`."""

    @abstractmethod
    def _installed(self) -> tuple[Path, int]:
        """Return the release's folder, downloaded if necessary, and the oldest Java version that
        runs it. Raises :class:`SetUpFailed`."""

    @abstractmethod
    def _prepare(self, home: Path, ports: Mapping[str, int]) -> None:
        """Write the folder. Raises :class:`SetUpFailed` or ``OSError``."""

    @abstractmethod
    def _command(self, runtime: Path, home: Path) -> list[str | Path]: ...

    @abstractmethod
    def _has_started(self, log: str) -> bool:
        """Return True if the broker's log says that it is ready."""

    @property
    def _console(self) -> Path:
        return self.log.with_name("console.log")

    def why(self) -> str:
        """Return the reason for a failure in one line, as found in the logs; empty if none is."""
        for pattern in self.reasons:
            for path in (self.log, self._console):
                if path.is_file() and (
                    match := pattern.search(path.read_text("utf-8", errors="replace"))
                ):
                    line = match.groupdict().get("line")
                    return (f"{self._config.name}, line {line}: " if line else "") + match[
                        "text"
                    ].strip()[:240]
        return ""

    def _launch(self, command: list[str | Path], ports: Mapping[str, int]) -> int:
        self._process = NativeProcess(
            [*accelerated_clock.prefix(self.clock_rate), *command],
            folder=self._folder,
            console=self._console,
            grace_s=self.stop_s,
            free=self._free,
        )
        try:
            pid = self._process.start()
            ready = self._ready(self.log, self._has_started, ports.values())
            self._process.wait_until_ready(ready, within_s=START_S, reason=self.why)
        except SetUpFailed as problem:
            self._process = None
            raise SetUpFailed(
                f"{self.name} {self._version}: {problem} (logs: {self.log.parent})"
            ) from None
        except BaseException:
            self.stop()
            raise
        return pid
