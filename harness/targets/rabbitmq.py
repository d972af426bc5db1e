"""RabbitMQ as a native process: a private node of the installed release, with a folder, ports and an epmd of its own.

It is not downloaded: the release is the one that the system has (Debian's package), or the one that
``BROKERPROOF_RABBITMQ`` names. The launcher in the release's own ``sbin`` is used, not the wrappers of the package: these
want to become the user ``rabbitmq``. Nothing of the system's node is read or written, and nothing listens on anything but
127.0.0.1. See ``docs/brokers.md``.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from types import TracebackType

from harness.targets.artemis import RunningBroker
from harness.targets.failure import SetUpFailed
from harness.targets.native import NativeProcess, free_ports, listens

START_S = 90
"""How long a broker may take to accept connections. Seconds; about 4 are usual."""
STOP_S = 20
"""How long it may take to end before it is killed. Seconds; 1 to 6 are usual."""
TRIES = 3
"""How often other free ports are tried when one was taken between choosing and listening."""
PLUGINS = ("rabbitmq_stomp", "rabbitmq_amqp1_0", "rabbitmq_management")
"""What is enabled unless something else is asked for."""
PACKAGED = Path("/usr/lib/rabbitmq/lib")
"""Where Debian's package puts releases."""

_INSTALL = "install it with: apt-get install --no-install-recommends rabbitmq-server"
_NAME = re.compile(r"rabbitmq_server-(\d+(?:\.\d+)+)")
_STARTED = "Server startup complete"
_IN_USE = re.compile(r"eaddrinuse|epmd ended|could not bind")
_SETTING = re.compile(r"\s*(?P<key>[^\s#=]+)\s*=\s*(?P<value>.*?)\s*$")
_LISTENER = re.compile(r"(?:\w+\.)?listeners\.|management\.(?:tcp|ssl|listener)\.")
_REASONS = (
    re.compile(r"(?P<text>Failed to start Ranch listener \S+) in .* for reason (?P<more>.*)"),
    re.compile(r"\[error\] <[^>]*> (?P<text>(?:You've tried|ERROR:).*)"),
    re.compile(r"\[error\] <[^>]*> +- (?P<text>.*)(?:\n.*\[error\] <[^>]*> +- (?P<more>.*))?"),
    re.compile(r"^ERROR: (?P<text>.+)$", re.MULTILINE),
    re.compile(r"\[error\] (?:<[^>]*> )?(?P<text>\S.{8,})"),
)


def our_files() -> Path:
    """The folder with the configuration that we ship for RabbitMQ."""
    return Path(str(files("fixtures"))) / "brokers" / "rabbitmq"


def find_home() -> Path:
    """The release's folder: what ``BROKERPROOF_RABBITMQ`` names, else the newest that the system's package installed.

    Raises :class:`SetUpFailed` when there is none.
    """
    if named := os.environ.get("BROKERPROOF_RABBITMQ"):
        home = Path(named).absolute()
        if not (home / "sbin" / "rabbitmq-server").is_file():
            raise SetUpFailed(f"BROKERPROOF_RABBITMQ: {home} has no sbin/rabbitmq-server; name a release's folder")
        return home
    found = [each for each in PACKAGED.glob("rabbitmq_server-*") if (each / "sbin" / "rabbitmq-server").is_file()]
    if not found:
        raise SetUpFailed(f"RabbitMQ: is not installed here (looked in {PACKAGED}); {_INSTALL}")
    return max(found, key=lambda each: [int(part) for part in re.findall(r"\d+", each.name)])


def version_of(home: Path) -> str:
    """The release in ``home``. Raises :class:`SetUpFailed` when neither its name nor its plugins tell."""
    for name in (home.name, *(f"rabbitmq_server-{each.name[7:]}" for each in (home / "plugins").glob("rabbit-*"))):
        if found := _NAME.match(name):
            return found[1]
    raise SetUpFailed(f"{home}: is no RabbitMQ release, for it has no plugins/rabbit-VERSION; {_INSTALL}")


def settings(config: Path) -> dict[str, str]:
    """The settings of a ``rabbitmq.conf``.

    Raises :class:`SetUpFailed` for a file that cannot be read, a line that is no setting, and a setting of a listener:
    those are the harness's business.
    """
    try:
        lines = config.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise SetUpFailed(f"{config}: cannot be read; name a rabbitmq.conf") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _SETTING.match(line)
        if match is None:
            raise SetUpFailed(f"{config}, line {number}: is not KEY = VALUE")
        if _LISTENER.match(match["key"]):
            raise SetUpFailed(f"{config}, line {number}: {match['key']} is set by the harness; leave it out")
        found[match["key"]] = match["value"]
    return found


class RabbitmqProcess:
    """One RabbitMQ node, from its configuration file to its end. A context manager that starts and stops it.

    ``folder`` becomes the node's: configuration, logs, data, Erlang cookie; it is emptied of what an earlier run left.
    ``config`` is a ``rabbitmq.conf`` without listeners (None: ours). ``plugins`` are enabled in addition to what they
    need. ``home`` is the release's folder (None: :func:`find_home`). The running broker's ports are ``amqp``, and
    ``stomp`` and ``management`` when their plugins are enabled.
    """

    def __init__(
        self, folder: Path, *, config: Path | None = None, plugins: Iterable[str] = PLUGINS, home: Path | None = None
    ) -> None:
        self._folder = folder.absolute()
        self._config = (our_files() / "rabbitmq.conf" if config is None else config).absolute()
        self._plugins = tuple(plugins)
        self._home = home
        self._epmd: NativeProcess | None = None
        self._process: NativeProcess | None = None

    def start(self) -> RunningBroker:
        """Starts the node and waits until it has started whole and every port accepts connections.

        Raises :class:`SetUpFailed`; nothing is left running then.
        """
        if self._process is not None:
            raise SetUpFailed(f"{self._folder}: this broker has been started already; stop it first")
        given = settings(self._config)
        home = find_home() if self._home is None else self._home
        version = version_of(home)
        known = {each.name.rpartition("-")[0] or each.name for each in (home / "plugins").iterdir()}
        if unknown := sorted(set(self._plugins) - known):
            raise SetUpFailed(f"RabbitMQ {version}: has no plugin {unknown[0]}; {home / 'plugins'} lists those it has")
        epmd = shutil.which("epmd")
        if epmd is None or shutil.which("erl") is None:
            raise SetUpFailed(f"RabbitMQ {version}: Erlang's erl and epmd are not on the PATH; {_INSTALL}")
        for attempt in range(1, TRIES + 1):
            names = ["amqp", *(each for each in ("stomp", "management") if f"rabbitmq_{each}" in self._plugins)]
            found = free_ports(len(names) + 2)
            ports = dict(zip(names, found, strict=False))
            environment = self._prepare(ports, distribution=found[-1], epmd=found[-2])
            try:
                pid = self._launch(version, home, Path(epmd), environment, ports)
            except SetUpFailed as problem:
                if attempt < TRIES and _IN_USE.search(str(problem)):
                    continue
                raise
            login, passcode = given.get("default_user", "guest"), given.get("default_pass", "guest")
            return RunningBroker(version, "127.0.0.1", ports, pid, self._folder, self.log, login, passcode)
        raise AssertionError("the last try returns or raises")

    @property
    def log(self) -> Path:
        """The node's own log. What it prints is in ``console.log`` beside it."""
        return self._folder / "log" / "rabbitmq.log"

    @property
    def _console(self) -> Path:
        return self.log.with_name("console.log")

    @property
    def _epmd_log(self) -> Path:
        return self.log.with_name("epmd.log")

    def ended(self, within_s: float = 0) -> bool:
        """Whether the node is not running; waits up to ``within_s`` seconds for its end."""
        return self._process is None or self._process.ended(within_s)

    def why(self) -> str:
        """What the logs give as the reason of a failure, in one line; empty when they give none."""
        for pattern in _REASONS:
            for path in (self._console, self.log, self._epmd_log):
                if path.is_file() and (found := pattern.search(path.read_text("utf-8", errors="replace"))):
                    return ": ".join(each.strip() for each in found.groups() if each)[:240]
        return ""

    def stop(self) -> None:
        """Ends the node and its epmd, and waits until both are gone. The folder stays."""
        for each in (self._process, self._epmd):
            if each is not None:
                each.stop()
        self._process = self._epmd = None

    def __enter__(self) -> RunningBroker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _prepare(self, ports: Mapping[str, int], *, distribution: int, epmd: int) -> dict[str, str]:
        """Writes the node's folder; returns the environment of its processes."""
        folder = self._folder
        listeners = [f"listeners.tcp.1 = 127.0.0.1:{ports['amqp']}"]
        if "stomp" in ports:
            listeners.append(f"stomp.listeners.tcp.1 = 127.0.0.1:{ports['stomp']}")
        if "management" in ports:
            listeners += ["management.tcp.ip = 127.0.0.1", f"management.tcp.port = {ports['management']}"]
        try:
            for name in ("etc", "log", "data", "home"):
                shutil.rmtree(folder / name, ignore_errors=True)
                (folder / name).mkdir(parents=True)
            text = self._config.read_text("utf-8").rstrip()
            (folder / "etc" / "rabbitmq.conf").write_text("\n".join([text, "", *listeners, ""]), "utf-8")
            (folder / "etc" / "enabled_plugins").write_text(f"[{','.join(self._plugins)}].\n", "utf-8")
            (folder / "etc" / "rabbitmq-env.conf").write_text("", "utf-8")
        except OSError as problem:
            raise SetUpFailed(
                f"{problem.filename}: cannot be written ({problem.strerror}); use another folder"
            ) from None
        loopback = "-kernel inet_dist_use_interface {127,0,0,1}"
        ours = {
            "RABBITMQ_NODENAME": f"brokerproof-{ports['amqp']}@localhost",
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/etc/rabbitmq-env.conf",
            "RABBITMQ_CONFIG_FILE": f"{folder}/etc/rabbitmq.conf",
            "RABBITMQ_CONFIG_FILES": f"{folder}/etc/conf.d",
            "RABBITMQ_ADVANCED_CONFIG_FILE": f"{folder}/etc/advanced.config",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/etc/enabled_plugins",
            "RABBITMQ_MNESIA_BASE": f"{folder}/data",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_LOGS": str(self.log),
            "RABBITMQ_PID_FILE": f"{folder}/data/pid",
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": loopback,
            "RABBITMQ_CTL_ERL_ARGS": loopback,
            # The launcher then becomes the node instead of waiting for it, so the process that we end is the node.
            "RUNNING_UNDER_SYSTEMD": "true",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(epmd),
            "HOME": f"{folder}/home",
            "LANG": "C.UTF-8",
        }
        theirs = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RABBITMQ_", "ERL_")) and name not in {"NOTIFY_SOCKET", "LC_ALL"}
        }
        return theirs | ours

    def _launch(
        self, version: str, home: Path, epmd: Path, environment: Mapping[str, str], ports: Mapping[str, int]
    ) -> int:
        # An epmd that the node starts by itself would outlive it, and us.
        port = environment["ERL_EPMD_PORT"]
        command: list[str | Path] = [epmd, "-address", "127.0.0.1", "-port", port]
        names = self._epmd = NativeProcess(
            command, folder=self._folder, console=self._epmd_log, environment=environment, grace_s=2
        )
        self._process = NativeProcess(
            [home / "sbin" / "rabbitmq-server"],
            folder=self._folder,
            console=self._console,
            environment=environment,
            grace_s=STOP_S,
        )
        waiting = list(ports.values())

        def ready() -> bool:
            if not self.log.is_file() or _STARTED not in self.log.read_text("utf-8", errors="replace"):
                return False
            waiting[:] = [port for port in waiting if not listens("127.0.0.1", port)]
            return not waiting

        try:
            names.start()
            names.wait_until_ready(
                # What listens there may be something else, and epmd about to end because of it.
                lambda: listens("127.0.0.1", int(port)) and not names.ended(0.1),
                within_s=10,
                reason=self.why,
            )
            pid = self._process.start()
            self._process.wait_until_ready(ready, within_s=START_S, reason=self.why)
        except SetUpFailed as problem:
            self.stop()
            raise SetUpFailed(f"RabbitMQ {version}: {problem} (logs: {self.log.parent})") from None
        except BaseException:
            self.stop()
            raise
        return pid
