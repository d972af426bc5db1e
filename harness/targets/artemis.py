"""Apache Artemis as a native process: downloaded, given an instance folder of its own, started, stopped.

No ``artemis create``: the instance is a folder with our files in ``etc/`` and the same Java command line that the
launcher of a created instance would build: one run of a JVM less, and nothing that a release generates its own way.
"""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from harness import java
from harness.targets import artemis_config, certificates, maven
from harness.targets.cache import cache_folder, unpacked
from harness.targets.failure import SetUpFailed
from harness.targets.native import NativeProcess, free_ports, listens, taken
from harness.targets.running import OwnBroker, RunningBroker

START_S = 60
"""How long a broker may take to accept connections. Seconds; about 2 are usual."""
STOP_S = 10
"""How long it may take to end before it is killed. Seconds; about 0.3 are usual."""
TRIES = 3
"""How often other free ports are tried when one was taken between choosing and listening."""

_ACTIVE = "AMQ221007"  # "Server is now active"
_BIND_FAILED = "Failed to bind acceptor"
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_ETC = (
    "bootstrap.xml",
    "login.config",
    "artemis-users.properties",
    "artemis-roles.properties",
    "cert-users.properties",
    "cert-roles.properties",
    "log4j2.properties",
    "logging.properties",  # releases before 2.27
    "management.xml",
)

_REASONS = (
    re.compile(r"SAXParseException; (?:lineNumber: (?P<line>\d+);)?(?:[^;]*columnNumber: \d+;)? ?(?P<text>.*)"),
    re.compile(r"(?P<text>AMQ229\d+: .*)"),
    re.compile(r"(?P<text>AMQ339\d+: .*)"),
    re.compile(r"(?P<text>AMQ224\d+: .*)"),
    re.compile(r"(?P<text>[\w.]+(?:Exception|Error): .*)"),
)


def our_files() -> Path:
    """The folder with the configuration that we ship for Artemis."""
    return Path(str(files("fixtures"))) / "brokers" / "artemis"


def releases() -> dict[str, object]:
    """What ``versions.toml`` says."""
    return tomllib.loads((our_files() / "versions.toml").read_text("utf-8"))


def default_version() -> str:
    """The release that is used when none is named."""
    return str(releases()["default"])


def java_minimum(version: str) -> int:
    """The oldest Java that runs release ``version``."""
    known = releases()["java"]
    assert isinstance(known, list)
    for each in known:
        if _key(version) >= _key(each["from"]):
            return int(each["minimum"])
    return int(known[-1]["minimum"])


def absent_jars(version: str) -> list[Path]:
    """The jars that stand in for what release ``version`` expects of the JDK and newer ones lack, downloaded once.

    Raises :class:`SetUpFailed`.
    """
    absent = releases()["absent"]
    assert isinstance(absent, dict)
    if _key(version) >= _key(absent["before"]):
        return []
    wanted = [maven.Coordinates(*text.split(":")) for text in absent["artifacts"]]
    return [maven.download([each], cache_folder() / "dl") for each in wanted]


def home_of(version: str) -> Path:
    """Where the unpacked release is, or would be."""
    return cache_folder() / "artemis" / f"apache-artemis-{version}"


def install(version: str | None = None) -> Path:
    """Downloads and unpacks a release unless that was done; returns its folder. Raises :class:`SetUpFailed`."""
    version = default_version() if version is None else version
    if not _VERSION.fullmatch(version):
        raise SetUpFailed(f"Artemis {version}: is no release number; name one like {default_version()}")
    home = home_of(version)
    if home.exists():
        return home
    data = releases()
    groups = data["groups"]
    assert isinstance(groups, list)
    candidates = [maven.Coordinates(group, str(data["artifact"]), version, "tar.gz", "bin") for group in groups]
    return unpacked(maven.download(candidates, cache_folder() / "dl"), home)


def installed() -> dict[str, Path]:
    """Every unpacked release with its folder."""
    homes = (cache_folder() / "artemis").glob("apache-artemis-*")
    return dict(sorted((each.name.removeprefix("apache-artemis-"), each) for each in homes))


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in version.split("."))


class ArtemisProcess(OwnBroker):
    """One Artemis broker, from its configuration file to its end. A context manager that starts and stops it.

    ``config`` is a ``broker.xml``; the other files of an instance are taken from the folder it is in, and from ours
    where that folder has none. ``version`` is a release (None: the default one). ``folder`` becomes the instance: it
    keeps the configuration that was used and the logs, and is emptied of what an earlier run left. With
    ``ports="free"`` every acceptor gets a free port, with ``"file"`` the one that the file names. ``free`` leaves the
    broker running when the harness ends.
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
        """Installs what is missing, starts the broker and waits until every acceptor accepts connections.

        Raises :class:`SetUpFailed`; nothing is left running then.
        """
        if self._process is not None:
            raise SetUpFailed(f"{self._folder}: this broker has been started already; stop it first")
        acceptors = artemis_config.acceptors(self._config)
        login, passcode = self._user()
        home, absent = install(self._version), absent_jars(self._version)
        try:
            runtime = java.find_java(java_minimum(self._version))
        except java.NoJava as problem:
            raise SetUpFailed(f"Artemis {self._version}: {problem}") from None
        for attempt in range(1, TRIES + 1):
            ports = {name: each.port for name, each in acceptors.items()}
            if self._free_ports:
                ports = dict(zip(acceptors, free_ports(len(acceptors)), strict=True))
            elif busy := taken(ports.values()):
                names = ", ".join(f"{name} ({port})" for name, port in ports.items() if port in busy)
                raise SetUpFailed(f"{self._config}: something else listens on the ports of {names}; use free ports")
            self._prepare(home, ports)
            try:
                pid = self._launch(runtime, home, absent, ports)
            except SetUpFailed as problem:
                if attempt < TRIES and self._free_ports and _BIND_FAILED in str(problem):
                    continue
                raise
            return RunningBroker(self._version, "127.0.0.1", ports, pid, self._folder, self.log, login, passcode)
        raise AssertionError("the last try returns or raises")

    @property
    def log(self) -> Path:
        """The broker's own log. What the JVM prints is in ``console.log`` beside it."""
        return self._folder / "log" / "artemis.log"

    @property
    def certificates(self) -> Path:
        """The folder of throw-away certificates that were made for this run of the broker."""
        return self._folder / "etc" / "certificates"

    @property
    def _console(self) -> Path:
        return self.log.with_name("console.log")

    def why(self) -> str:
        """What the logs give as the reason of a failure, in one line; empty when they give none."""
        for pattern in _REASONS:
            for path in (self.log, self._console):
                if path.is_file() and (found := pattern.search(path.read_text("utf-8", errors="replace"))):
                    line = found.groupdict().get("line")
                    return (f"broker.xml, line {line}: " if line else "") + found["text"].strip()[:240]
        return ""

    def stop(self) -> None:
        """Ends the broker, and waits until it is gone. The folder stays, but for the certificates."""
        if self._process is not None:
            super().stop()
            shutil.rmtree(self.certificates, ignore_errors=True)

    def _file(self, name: str) -> Path:
        beside = self._config.with_name(name)
        return beside if beside.is_file() else our_files() / name

    def _user(self) -> tuple[str, str]:
        """The first user of the users file."""
        path = self._file("artemis-users.properties")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if not line.strip() or line.lstrip().startswith(("#", "!")):
                continue
            login, equals, passcode = (part.strip() for part in line.partition("="))
            if not (login and equals and passcode) or passcode.startswith("ENC("):
                raise SetUpFailed(f"{path}, line {number}: is not LOGIN = PASSCODE with a plain passcode")
            return login, passcode
        raise SetUpFailed(f"{path}: names no user; write one as LOGIN = PASSCODE")

    def _prepare(self, home: Path, ports: Mapping[str, int]) -> None:
        try:
            for name in ("etc", "log", "data", "tmp"):
                shutil.rmtree(self._folder / name, ignore_errors=True)
                (self._folder / name).mkdir(parents=True)
            for name in _ETC:
                shutil.copyfile(self._file(name), self._folder / "etc" / name)
            for name in ("bootstrap.xml", "management.xml"):
                path = self._folder / "etc" / name
                path.write_bytes(artemis_config.as_of(home, path))
            (self._folder / "etc" / "broker.xml").write_bytes(artemis_config.with_ports(self._config, ports))
            certificates.make(self.certificates)
        except OSError as problem:
            raise SetUpFailed(
                f"{problem.filename}: cannot be written ({problem.strerror}); use another folder"
            ) from None

    def _launch(self, runtime: Path, home: Path, absent: Sequence[Path], ports: Mapping[str, int]) -> int:
        instance = self._folder
        command: list[str | Path] = [
            runtime,
            # The broker shares a small machine with its clients: no heap of gigabytes, no threads for collecting it.
            *("-Xms256M", "-Xmx1024M", "-XX:+UseSerialGC"),
            *("--add-opens", "java.base/jdk.internal.misc=ALL-UNNAMED") * (java_minimum(self._version) > 8),
            "-Dlog4j2.disableJmx=true",
            # The JAXB of releases before 2.17 else writes classes in a way that newer Javas forbid.
            "-Dcom.sun.xml.bind.v2.bytecode.ClassTailor.noOptimize=true",
            f"-Djava.util.logging.config.file={instance}/etc/logging.properties",
            f"-Djava.security.auth.login.config={instance}/etc/login.config",
            f"-Dartemis.home={home}",
            f"-Dartemis.instance={instance}",
            f"-Dartemis.URI.instance={instance.as_uri()}",
            f"-Dartemis.instance.etc={instance}/etc",
            f"-Ddata.dir={instance}/data",
            f"-Djava.io.tmpdir={instance}/tmp",
            f"-D{certificates.FOLDER}={self.certificates}",
            *("-classpath", os.pathsep.join(map(str, [home / "lib" / "artemis-boot.jar", *absent]))),
            *("org.apache.activemq.artemis.boot.Artemis", "run"),
        ]
        self._process = NativeProcess(command, folder=instance, console=self._console, grace_s=STOP_S, free=self._free)
        waiting = list(ports.values())

        def ready() -> bool:
            # The log first: a connection attempt to a port on which nothing listens yet can meet itself.
            if not self.log.is_file() or _ACTIVE not in self.log.read_text("utf-8", errors="replace"):
                return False
            waiting[:] = [port for port in waiting if not listens("127.0.0.1", port)]
            return not waiting

        try:
            pid = self._process.start()
            self._process.wait_until_ready(ready, within_s=START_S, reason=self.why)
        except SetUpFailed as problem:
            self._process = None
            raise SetUpFailed(f"Artemis {self._version}: {problem} (logs: {self.log.parent})") from None
        except BaseException:
            self.stop()
            raise
        return pid
