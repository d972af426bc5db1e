"""Runs Apache ActiveMQ Classic as a native process: collects its jars, prepares its folder, and
starts and stops it."""

import re
from collections.abc import Mapping
from pathlib import Path
from string import Template

from brokerproof.harness.targets import maven
from brokerproof.harness.targets.activemq import config as activemq_config
from brokerproof.harness.targets.java_broker import SMALL, JavaBroker
from brokerproof.harness.targets.java_releases import JavaReleases

STOP_S = 15
"""Seconds until a stopping broker is killed; 0.5 s is usual."""

_STARTED = re.compile(r"Apache ActiveMQ .* started$", re.MULTILINE)
RELEASES = JavaReleases("ActiveMQ", "activemq", "activemq-")
_REASONS = (
    re.compile(
        r"SAXParseException; (?:lineNumber: (?P<line>\d+);)?(?:[^;]*columnNumber: \d+;)?"
        r" ?(?P<text>.*)"
    ),
    re.compile(r"(?P<text>Failed to bind to server socket: .*)"),
    # Of nested causes, the innermost is informative.
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


def install(version: str | None = None) -> Path:
    """Collect the jars of a release, unless that has been done already; return their folder. Raises
    :class:`SetUpFailed`."""
    version = RELEASES.checked(version)
    data = RELEASES.table
    group = data["group"]
    ours = [f"{group}:{artifact}:{version}" for artifact in data["artifacts"]]
    pom = _POM.substitute(
        parent=_dependency(
            f"{group}:{data['parent']}:{version}", "<type>pom</type><scope>import</scope>"
        ),
        dependencies="".join(
            _dependency(artifact) for artifact in (*ours, *data["managed"], *data["others"])
        ),
    )
    return maven.collect(pom, f"ActiveMQ {version}", RELEASES.home_of(version))


def _dependency(coordinates: str, more: str = "") -> str:
    names = ("groupId", "artifactId", "version")
    parts = "".join(
        f"<{name}>{part}</{name}>"
        for name, part in zip(names, coordinates.split(":"), strict=False)
    )
    return f"<dependency>{parts}{more}</dependency>"


class ActivemqProcess(JavaBroker):
    """One ActiveMQ broker; see :class:`JavaBroker`.

    ``config`` is an ``activemq.xml``, in which ``${brokerproof.data}`` is a folder of this run.
    ``version`` is a release (None: the default release).
    """

    name = "ActiveMQ"
    releases = RELEASES
    stop_s = STOP_S
    bind_failed = "Failed to bind to server socket"
    reasons = _REASONS

    @property
    def log(self) -> Path:
        return self._folder / "log" / "activemq.log"

    def _wanted(self) -> dict[str, int]:
        return activemq_config.connectors(self._config)

    def _user(self) -> tuple[str, str]:
        return activemq_config.user(self._config)

    def _installed(self) -> tuple[Path, int]:
        return install(self._version), RELEASES.java_minimum(self._version)

    def _prepare(self, home: Path, ports: Mapping[str, int]) -> None:
        self._make(*(self._folder / name for name in ("conf", "log", "data", "tmp")))
        (self._folder / "conf" / "activemq.xml").write_bytes(
            activemq_config.with_ports(self._config, ports)
        )
        logging = (
            (RELEASES.our_files / "logging.properties")
            .read_text("utf-8")
            .replace("@log@", str(self.log))
        )
        (self._folder / "conf" / "logging.properties").write_text(logging, "utf-8")

    def _command(self, runtime: Path, home: Path) -> list[str | Path]:
        own = self._folder
        return [
            runtime,
            *SMALL,
            *self.java_options,
            f"-Djava.util.logging.config.file={own}/conf/logging.properties",
            f"-Dactivemq.conf={own}/conf",
            f"-Dbrokerproof.data={own}/data",
            f"-Djava.io.tmpdir={own}/tmp",
            *("-classpath", f"{home}/*"),
            *(
                "org.apache.activemq.console.command.ShellCommand",
                "start",
                f"xbean:file:{own}/conf/activemq.xml",
            ),
        ]

    def _has_started(self, log: str) -> bool:
        return _STARTED.search(log) is not None
