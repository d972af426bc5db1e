"""Runs Apache Artemis as a native process: downloads it, makes its instance folder, and starts and
stops it.

``artemis create`` is not used: the instance is a folder with our files in ``etc/`` and the Java
command line that the launcher of a created instance would build. This saves one run of a JVM, and
keeps us independent of what a release generates.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from brokerproof.harness.targets import certificates, java_runtime, maven
from brokerproof.harness.targets.artemis import config as artemis_config
from brokerproof.harness.targets.cache import cache_folder, unpacked
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.java_broker import BRIEF, SMALL, JavaBroker
from brokerproof.harness.targets.java_releases import JavaReleases, version_key

STOP_S = 10
"""Seconds until a stopping broker is killed; 0.3 s is usual."""

CREATE_S = 60
"""Seconds for ``artemis create``; 2 to 7 s are usual."""

_ACTIVE = "AMQ221007"  # "Server is now active"
RELEASES = JavaReleases("Artemis", "artemis", "apache-artemis-")
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
    re.compile(
        r"SAXParseException; (?:lineNumber: (?P<line>\d+);)?(?:[^;]*columnNumber: \d+;)?"
        r" ?(?P<text>.*)"
    ),
    re.compile(r"(?P<text>AMQ229\d+: .*)"),
    re.compile(r"(?P<text>AMQ339\d+: .*)"),
    re.compile(r"(?P<text>AMQ224\d+: .*)"),
    re.compile(r"(?P<text>[\w.]+(?:Exception|Error): .*)"),
)


def absent_jars(version: str) -> list[Path]:
    """Return the jars, downloaded once, that contain what release ``version`` expects of the JDK
    but newer JDKs lack.

    Raises :class:`SetUpFailed`.
    """
    absent = RELEASES.table["absent"]
    if version_key(version) >= version_key(absent["before"]):
        return []
    coordinates = [maven.Coordinates(*text.split(":")) for text in absent["artifacts"]]
    return [maven.download([artifact], cache_folder() / "dl") for artifact in coordinates]


def install(version: str | None = None) -> Path:
    """Download and unpack a release, unless that has been done already; return its folder. Raises
    :class:`SetUpFailed`."""
    version = RELEASES.checked(version)
    home = RELEASES.home_of(version)
    if home.exists():
        return home
    data = RELEASES.table
    candidates = [
        maven.Coordinates(group, str(data["artifact"]), version, "tar.gz", "bin")
        for group in data["groups"]
    ]
    return unpacked(maven.download(candidates, cache_folder() / "dl"), home)


class ArtemisProcess(JavaBroker):
    """One Artemis broker; see :class:`JavaBroker`.

    ``config`` is a ``broker.xml``; the instance's other files are taken from its folder or, if that
    lacks them, from ours. ``version`` is a release (None: the default release).
    """

    name = "Artemis"
    releases = RELEASES
    stop_s = STOP_S
    bind_failed = "Failed to bind acceptor"
    reasons = _REASONS

    @property
    def log(self) -> Path:
        return self._folder / "log" / "artemis.log"

    def shipped_configuration(self) -> str:
        """Return the broker.xml that the running release's ``artemis create`` writes if it gets no
        options. Raises :class:`SetUpFailed`."""
        home, minimum = self._installed()
        created = self._folder / "created"
        shutil.rmtree(created, ignore_errors=True)
        login, passcode = self._user()
        command: list[str | Path] = [
            java_runtime.find_java(minimum),
            *(*SMALL, BRIEF),
            f"-Dartemis.home={home}",
            *("-classpath", os.pathsep.join(map(str, self._boot_jars(home)))),
            *("org.apache.activemq.artemis.boot.Artemis", "create"),
            *("--silent", "--no-autotune", "--require-login"),
            *("--user", login, "--password", passcode),
            created,
        ]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=CREATE_S)
            return (created / "etc" / "broker.xml").read_text("utf-8")
        except (OSError, subprocess.SubprocessError) as problem:
            raise SetUpFailed(f"artemis create of {self._version} failed ({problem})") from None

    @property
    def pages(self) -> Path:
        """The paging folder that applies if the configuration names none (ARTEMIS-PAGING-2)."""
        return self._folder / "data" / "paging"

    @property
    def certificates(self) -> Path:
        """The folder of the throw-away certificates made for this run of the broker."""
        return self._folder / "etc" / "certificates"

    def stop(self) -> None:
        """Stop the broker and wait until it ends. The folder stays, but not the certificates."""
        if self._process is not None:
            super().stop()
            shutil.rmtree(self.certificates, ignore_errors=True)

    def _wanted(self) -> dict[str, int]:
        return {
            name: acceptor.port for name, acceptor in artemis_config.acceptors(self._config).items()
        }

    def _installed(self) -> tuple[Path, int]:
        home = install(self._version)
        self._absent = absent_jars(self._version)
        return home, RELEASES.java_minimum(self._version)

    def _file(self, name: str) -> Path:
        beside = self._config.with_name(name)
        return beside if beside.is_file() else RELEASES.our_files / name

    def _user(self) -> tuple[str, str]:
        path = self._file("artemis-users.properties")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if not line.strip() or line.lstrip().startswith(("#", "!")):
                continue
            login, equals, passcode = (part.strip() for part in line.partition("="))
            if not (login and equals and passcode) or passcode.startswith("ENC("):
                raise SetUpFailed(
                    f"{path}, line {number}: should be LOGIN = PASSCODE with a plain-text passcode"
                )
            return login, passcode
        raise SetUpFailed(f"{path}: no user; add one as LOGIN = PASSCODE")

    def _prepare(self, home: Path, ports: Mapping[str, int]) -> None:
        self._make(*(self._folder / name for name in ("etc", "log", "data", "tmp")))
        for name in _ETC:
            shutil.copyfile(self._file(name), self._folder / "etc" / name)
        for name in ("bootstrap.xml", "management.xml"):
            path = self._folder / "etc" / name
            path.write_bytes(artemis_config.as_of(home, path))
        (self._folder / "etc" / "broker.xml").write_bytes(
            artemis_config.with_ports(self._config, ports)
        )
        certificates.make(self.certificates)

    def _command(self, runtime: Path, home: Path) -> list[str | Path]:
        instance = self._folder
        jars = self._boot_jars(home)
        return [
            runtime,
            *SMALL,
            *self.java_options,
            *("--add-opens", "java.base/jdk.internal.misc=ALL-UNNAMED")
            * (RELEASES.java_minimum(self._version) > 8),
            "-Dlog4j2.disableJmx=true",
            # Otherwise the JAXB of releases before 2.17 writes classes in a way that newer Java
            # versions forbid.
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
            *("-classpath", os.pathsep.join(map(str, jars))),
            *("org.apache.activemq.artemis.boot.Artemis", "run"),
        ]

    def _boot_jars(self, home: Path) -> list[Path]:
        return [home / "lib" / "artemis-boot.jar", *self._absent]

    def _has_started(self, log: str) -> bool:
        return _ACTIVE in log
