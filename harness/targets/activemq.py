"""Apache ActiveMQ Classic as a native process: its jars put together, given a folder of its own, started, stopped."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from harness import java
from harness.targets import activemq_config, maven
from harness.targets.cache import cache_folder
from harness.targets.failure import SetUpFailed
from harness.targets.native import NativeProcess, free_ports, listens, taken
from harness.targets.running import OwnBroker, RunningBroker

START_S = 60
"""How long a broker may take to accept connections. Seconds; about 2 are usual."""
STOP_S = 15
"""How long it may take to end before it is killed. Seconds; about 0.5 are usual."""
TRIES = 3
"""How often other free ports are tried when one was taken between choosing and listening."""

_STARTED = re.compile(r"Apache ActiveMQ .* \(brokerproof|Apache ActiveMQ .* started$", re.MULTILINE)
_BIND_FAILED = "Failed to bind to server socket"
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_REASONS = (
    re.compile(r"SAXParseException; (?:lineNumber: (?P<line>\d+);)?(?:[^;]*columnNumber: \d+;)? ?(?P<text>.*)"),
    re.compile(r"(?P<text>Failed to bind to server socket: .*)"),
    # Of causes that have causes the last one tells something.
    re.compile(r"(?s:.*)Caused by: (?P<text>.*)"),
    re.compile(r"ERROR: (?P<text>.*)"),
)
_POM = Template("""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>brokerproof</groupId><artifactId>activemq</artifactId><version>1</version><packaging>pom</packaging>
<dependencyManagement><dependencies>$parent</dependencies></dependencyManagement>
<dependencies>$dependencies</dependencies>
</project>
""")


def our_files() -> Path:
    """The folder with the configuration that we ship for ActiveMQ."""
    return Path(str(files("fixtures"))) / "brokers" / "activemq"


def releases() -> dict[str, Any]:
    """What ``versions.toml`` says."""
    return tomllib.loads((our_files() / "versions.toml").read_text("utf-8"))


def default_version() -> str:
    """The release that is used when none is named."""
    return str(releases()["default"])


def java_minimum(version: str) -> int:
    """The oldest Java that runs release ``version``."""
    known = releases()["java"]
    return int(next((each for each in known if _key(version) >= _key(each["from"])), known[-1])["minimum"])


def home_of(version: str) -> Path:
    """Where the release's jars are, or would be."""
    return cache_folder() / "activemq" / f"activemq-{version}"


def install(version: str | None = None) -> Path:
    """Puts the jars of a release together unless that was done; returns their folder. Raises :class:`SetUpFailed`."""
    version = default_version() if version is None else version
    if not _VERSION.fullmatch(version):
        raise SetUpFailed(f"ActiveMQ {version}: is no release number; name one like {default_version()}")
    data = releases()
    group = data["group"]
    ours = [f"{group}:{each}:{version}" for each in data["artifacts"]]
    pom = _POM.substitute(
        parent=_dependency(f"{group}:{data['parent']}:{version}", "<type>pom</type><scope>import</scope>"),
        dependencies="".join(_dependency(each) for each in (*ours, *data["managed"], *data["others"])),
    )
    return maven.collect(pom, f"ActiveMQ {version}", home_of(version))


def installed() -> dict[str, Path]:
    """Every release that was put together, with its folder."""
    homes = (cache_folder() / "activemq").glob("activemq-*")
    return dict(sorted((each.name.removeprefix("activemq-"), each) for each in homes))


def _dependency(coordinates: str, more: str = "") -> str:
    names = ("groupId", "artifactId", "version")
    parts = "".join(f"<{name}>{part}</{name}>" for name, part in zip(names, coordinates.split(":"), strict=False))
    return f"<dependency>{parts}{more}</dependency>"


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in version.split("."))


class ActivemqProcess(OwnBroker):
    """One ActiveMQ broker, from its configuration file to its end. A context manager that starts and stops it.

    ``config`` is an ``activemq.xml``; in it ``${brokerproof.data}`` is a folder of this run. ``version`` is a release
    (None: the default one). ``folder`` becomes the broker's: it keeps the configuration that was used and the logs, and is
    emptied of what an earlier run left. With ``ports="free"`` every connector gets a free port, with ``"file"`` the one
    that the file names. ``free`` leaves the broker running when the harness ends.
    """

    def __init__(
        self, config: Path, version: str | None, folder: Path, *, ports: str = "free", free: bool = False
    ) -> None:
        if ports not in {"free", "file"}:
            raise ValueError(f"ports is 'free' or 'file', not {ports!r}")
        self._config = config.absolute()
        self._version = default_version() if version is None else version
        self._folder = folder.absolute()
        self._free_ports, self._free = ports == "free", free

    def start(self) -> RunningBroker:
        """Installs what is missing, starts the broker and waits until every connector accepts connections.

        Raises :class:`SetUpFailed`; nothing is left running then.
        """
        if self._process is not None:
            raise SetUpFailed(f"{self._folder}: this broker has been started already; stop it first")
        wanted = activemq_config.connectors(self._config)
        login, passcode = activemq_config.user(self._config)
        home = install(self._version)
        try:
            runtime = java.find_java(java_minimum(self._version))
        except java.NoJava as problem:
            raise SetUpFailed(f"ActiveMQ {self._version}: {problem}") from None
        for attempt in range(1, TRIES + 1):
            ports = wanted
            if self._free_ports:
                ports = dict(zip(wanted, free_ports(len(wanted)), strict=True))
            elif busy := taken(ports.values()):
                names = ", ".join(f"{name} ({port})" for name, port in ports.items() if port in busy)
                raise SetUpFailed(f"{self._config}: something else listens on the ports of {names}; use free ports")
            self._prepare(ports)
            try:
                pid = self._launch(runtime, home, ports)
            except SetUpFailed as problem:
                if attempt < TRIES and self._free_ports and _BIND_FAILED in str(problem):
                    continue
                raise
            return RunningBroker(self._version, "127.0.0.1", ports, pid, self._folder, self.log, login, passcode)
        raise AssertionError("the last try returns or raises")

    @property
    def log(self) -> Path:
        """The broker's own log. What the JVM prints is in ``console.log`` beside it."""
        return self._folder / "log" / "activemq.log"

    @property
    def _console(self) -> Path:
        return self.log.with_name("console.log")

    def why(self) -> str:
        """What the logs give as the reason of a failure, in one line; empty when they give none."""
        for pattern in _REASONS:
            for path in (self.log, self._console):
                if path.is_file() and (found := pattern.search(path.read_text("utf-8", errors="replace"))):
                    line = found.groupdict().get("line")
                    return (f"activemq.xml, line {line}: " if line else "") + found["text"].strip()[:240]
        return ""

    def _prepare(self, ports: Mapping[str, int]) -> None:
        try:
            for name in ("conf", "log", "data", "tmp"):
                shutil.rmtree(self._folder / name, ignore_errors=True)
                (self._folder / name).mkdir(parents=True)
            (self._folder / "conf" / "activemq.xml").write_bytes(activemq_config.with_ports(self._config, ports))
            logging = (our_files() / "logging.properties").read_text("utf-8").replace("@log@", str(self.log))
            (self._folder / "conf" / "logging.properties").write_text(logging, "utf-8")
        except OSError as problem:
            raise SetUpFailed(
                f"{problem.filename}: cannot be written ({problem.strerror}); use another folder"
            ) from None

    def _launch(self, runtime: Path, home: Path, ports: Mapping[str, int]) -> int:
        own = self._folder
        command: list[str | Path] = [
            runtime,
            # The broker shares a small machine with its clients: no heap of gigabytes, no threads for collecting it.
            *("-Xms256M", "-Xmx1024M", "-XX:+UseSerialGC"),
            f"-Djava.util.logging.config.file={own}/conf/logging.properties",
            f"-Dactivemq.conf={own}/conf",
            f"-Dbrokerproof.data={own}/data",
            f"-Djava.io.tmpdir={own}/tmp",
            *("-classpath", f"{home}/*"),
            *("org.apache.activemq.console.command.ShellCommand", "start", f"xbean:file:{own}/conf/activemq.xml"),
        ]
        self._process = NativeProcess(command, folder=own, console=self._console, grace_s=STOP_S, free=self._free)
        waiting = list(ports.values())

        def ready() -> bool:
            # The log first: a connection attempt to a port on which nothing listens yet can meet itself.
            if not self.log.is_file() or not _STARTED.search(self.log.read_text("utf-8", errors="replace")):
                return False
            waiting[:] = [port for port in waiting if not listens("127.0.0.1", port)]
            return not waiting

        try:
            pid = self._process.start()
            self._process.wait_until_ready(ready, within_s=START_S, reason=self.why)
        except SetUpFailed as problem:
            self._process = None
            raise SetUpFailed(f"ActiveMQ {self._version}: {problem} (logs: {self.log.parent})") from None
        except BaseException:
            self.stop()
            raise
        return pid
