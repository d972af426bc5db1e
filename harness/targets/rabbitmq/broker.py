"""Runs RabbitMQ as a native process: a private node, with its own folder, ports and epmd. The
launcher in the release's own ``sbin`` is used, because the package's wrappers switch to the
``rabbitmq`` user. The node neither reads nor writes data of the system's node, and listens only on
127.0.0.1. :mod:`brokerproof.harness.targets.rabbitmq.release` finds the release, on this machine or
in a Debian root. See ``docs/explanation/brokers.md``."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from brokerproof.harness.targets import accelerated_clock, debian
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.local_process import NativeProcess, free_ports
from brokerproof.harness.targets.managed_broker import ManagedBroker, RunningBroker
from brokerproof.harness.targets.rabbitmq import erlang_config
from brokerproof.harness.targets.rabbitmq import release as rabbitmq_release
from brokerproof.harness.targets.rabbitmq.release import Release, our_files

START_S = 90
"""Seconds until a broker must accept connections; about 4 s is usual."""
STOP_S = 20
"""Seconds until a stopping broker is killed; 1 to 6 s are usual."""
CONTROL_S = 60
"""Seconds that a call of rabbitmqctl may take; about 2 s is usual."""
TRIES = 3
"""The most attempts with other free ports if another program takes one too early."""

_STARTED = "Server startup complete"
_IN_USE = re.compile(r"eaddrinuse|epmd does not answer|could not bind")
_SETTING = re.compile(r"\s*(?P<key>[^\s#=]+)\s*=\s*(?P<value>.*?)\s*$")
_LISTENER = re.compile(r"(?:\w+\.)?listeners\.|(?:management|web_stomp)\.(?:tcp|ssl|listener)\.")
_CLASSIC_LISTENERS = {"tcp_listeners", "ssl_listeners", "listener", "tcp_config", "ssl_config"}
_REASONS = (
    re.compile(r"^(?P<text>epmd does not answer.*)$", re.MULTILINE),
    re.compile(r"(?P<text>Failed to start Ranch listener \S+) in .* for reason (?P<more>.*)"),
    re.compile(r"\[error\] <[^>]*> (?P<text>(?:You've tried|ERROR:).*)"),
    re.compile(r"\[error\] <[^>]*> +- (?P<text>.*)(?:\n.*\[error\] <[^>]*> +- (?P<more>.*))?"),
    re.compile(r"^ERROR: (?P<text>.+)$", re.MULTILINE),
    re.compile(r"\[error\] (?:<[^>]*> )?(?P<text>\S.{8,})"),
)
# An epmd started by the node would be a daemon and would outlive the node and us. This epmd ends
# with the node, whose process replaces the shell. The node looks for epmd immediately, so epmd must
# answer first.
_WITH_EPMD = (
    'setpriv --pdeathsig KILL epmd -address 127.0.0.1 -port "$ERL_EPMD_PORT" & tries=0; until epmd'
    ' -names >/dev/null 2>&1; do tries=$((tries + 1)); [ "$tries" -lt 300 ] || { echo "epmd does'
    ' not answer on port $ERL_EPMD_PORT"; exit 71; }; done; exec $CLOCK "$0"'
)
_WITHOUT = 'exec $CLOCK "$0"'


def default_plugins(version: str) -> tuple[str, ...]:
    """Return the plugins that are enabled by default. AMQP 1.0 was a plugin before 4.0."""
    before = ("rabbitmq_amqp1_0",) if int(version.partition(".")[0]) < 4 else ()
    return ("rabbitmq_stomp", "rabbitmq_web_stomp", "rabbitmq_management", *before)


def settings(config: Path) -> dict[str, str]:
    """Return the settings of a ``rabbitmq.conf`` or of a classic ``rabbitmq.config`` (their names
    do not include the application).

    Raises :class:`SetUpFailed` for a file that cannot be read, a line that is not a setting, and a
    setting of a listener, because the harness chooses the listeners.
    """
    if config.suffix == erlang_config.SUFFIX:
        return _classic(config)
    try:
        lines = config.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise SetUpFailed(
            f"{config}: cannot be read; it should be a rabbitmq.conf in UTF-8"
        ) from None
    values: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _SETTING.match(line)
        if match is None:
            raise SetUpFailed(f"{config}, line {number}: is not KEY = VALUE")
        if _LISTENER.match(match["key"]):
            raise SetUpFailed(
                f"{config}, line {number}: {match['key']} is set by the harness; omit it"
            )
        values[match["key"]] = match["value"]
    return values


def _classic(config: Path) -> dict[str, str]:
    values = {}
    for setting in erlang_config.settings(config):
        if setting.key in _CLASSIC_LISTENERS:
            where = f"{config}, line {setting.line}: {setting.application}.{setting.key}"
            raise SetUpFailed(f"{where} is set by the harness; omit it")
        values[setting.key] = str(setting.value)
    return values


class RabbitmqProcess(ManagedBroker):
    """One RabbitMQ node, as a context manager that starts and stops it. ``folder`` becomes the
    node's folder (configuration, logs, data, Erlang cookie), and is emptied at the start.
    ``config`` is a ``rabbitmq.conf`` or a classic ``rabbitmq.config`` without listeners (None:
    ours). ``plugins`` are enabled together with the plugins that they need (None:
    :func:`default_plugins`). ``release`` is the release to start (None: this machine's). If
    ``free``, the broker keeps running when the harness ends. ``beside`` is a running node that
    forms a cluster with this node and stops after it. The running broker's ports are ``amqp``, and
    ``stomp``, ``web_stomp`` and ``management`` if their plugins are enabled."""

    def __init__(
        self,
        folder: Path,
        *,
        config: Path | None = None,
        plugins: Iterable[str] | None = None,
        release: Release | None = None,
        free: bool = False,
        beside: Self | None = None,
    ) -> None:
        self._folder = folder.absolute()
        self._config = (our_files() / "rabbitmq.conf" if config is None else config).absolute()
        self._plugins = None if plugins is None else tuple(plugins)
        self._release, self._free, self._beside = release, free, beside
        self._running: tuple[Release, dict[str, str]] | None = None
        self._ports: list[int] = []

    def start(self) -> RunningBroker:
        """Start the node and wait until it has started completely and every port accepts
        connections.

        Raises :class:`SetUpFailed`, leaving nothing running.
        """
        if self._process is not None:
            raise SetUpFailed(
                f"{self._folder}: this broker has been started already; stop it first"
            )
        given = settings(self._config)
        release = rabbitmq_release.find() if self._release is None else self._release
        plugins = default_plugins(release.version) if self._plugins is None else self._plugins
        if unknown := sorted(set(plugins) - release.plugins):
            where = release.folder / "plugins"
            raise SetUpFailed(
                f"RabbitMQ {release.version}: has no plugin {unknown[0]}; {where} lists those"
                " it has"
            )
        rabbitmq_release.can_run(release)
        names = [
            "amqp",
            *(
                plugin
                for plugin in ("stomp", "web_stomp", "management")
                if f"rabbitmq_{plugin}" in plugins
            ),
        ]
        for attempt in range(1, TRIES + 1):
            if not self.keeps_data or not self._ports:  # the data belongs to a node of that name
                self._ports = free_ports(len(names) + 2)
            numbers = self._ports
            ports = dict(zip(names, numbers, strict=False))
            epmd = numbers[-2] if self._beside is None else self._beside.epmd
            environment = self._prepare(
                release, plugins, ports, distribution=numbers[-1], epmd=epmd
            )
            try:
                pid = self._launch(release, environment, ports)
            except SetUpFailed as problem:
                if attempt < TRIES and _IN_USE.search(str(problem)):
                    continue
                raise
            self._running = release, environment
            login, passcode = given.get("default_user", "guest"), given.get("default_pass", "guest")
            return RunningBroker(
                release.version, "127.0.0.1", ports, pid, self._folder, self.log, login, passcode
            )
        raise AssertionError("the last try returns or raises")

    def control(self, *arguments: str) -> None:
        """Run a command of the release's rabbitmqctl on the running node; this takes seconds.
        Raises :class:`SetUpFailed`."""
        assert self._running is not None, "call start() first"
        release, environment = self._running
        entering = [] if release.root is None else debian.entering(release.root, self._folder)
        command = [*map(str, entering), str(release.home / "sbin" / "rabbitmqctl"), *arguments]
        try:
            done = subprocess.run(
                command,
                env=environment,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=CONTROL_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SetUpFailed(
                f"rabbitmqctl {' '.join(arguments)}: did not end within {CONTROL_S} s"
            ) from None
        if done.returncode:
            output = (
                (done.stderr or done.stdout).decode("utf-8", "replace").strip().replace("\n", "; ")
            )
            raise SetUpFailed(
                f"rabbitmqctl {' '.join(arguments)}: ended with {done.returncode} ({output[:300]})"
            )

    @property
    def epmd(self) -> int:
        """The port of this node's epmd, Erlang's port mapper."""
        assert self._running is not None, "call start() first"
        return int(self._running[1]["ERL_EPMD_PORT"])

    @property
    def name(self) -> str:
        """The node's name in Erlang."""
        assert self._running is not None, "call start() first"
        return self._running[1]["RABBITMQ_NODENAME"]

    @property
    def log(self) -> Path:
        """The node's own log. The node's output is next to it, in ``console.log``."""
        return self._folder / "log" / "rabbitmq.log"

    @property
    def cookie(self) -> Path:
        """The secret that the node's neighbours must know; it exists once the node runs."""
        return self._folder / "home" / ".erlang.cookie"

    @property
    def _console(self) -> Path:
        return self.log.with_name("console.log")

    def why(self) -> str:
        """Return the reason for a failure in one line, as found in the logs; empty if none is."""
        for pattern in _REASONS:
            for path in (self._console, self.log):
                if path.is_file() and (
                    match := pattern.search(path.read_text("utf-8", errors="replace"))
                ):
                    return ": ".join(group.strip() for group in match.groups() if group)[:240]
        return ""

    def _prepare(
        self,
        release: Release,
        plugins: Iterable[str],
        ports: Mapping[str, int],
        *,
        distribution: int,
        epmd: int,
    ) -> dict[str, str]:
        """Write the node's folder; return the environment of its processes."""
        folder, node = self._folder, f"brokerproof-{ports['amqp']}@localhost"
        listeners = [f"listeners.tcp.1 = 127.0.0.1:{ports['amqp']}"]
        if "stomp" in ports:
            listeners.append(f"stomp.listeners.tcp.1 = 127.0.0.1:{ports['stomp']}")
        for name in ("web_stomp", "management"):
            if name in ports:
                listeners += [f"{name}.tcp.ip = 127.0.0.1", f"{name}.tcp.port = {ports[name]}"]
        if self._beside is not None:
            listeners.append("cluster_formation.peer_discovery_backend = classic_config")
            for number, peer in enumerate((self._beside.name, node), 1):
                listeners.append(f"cluster_formation.classic_config.nodes.{number} = {peer}")
        try:
            self._make(*(folder / name for name in ("etc", "log", "data", "home")))
            # Whatever the file's format, RabbitMQ also reads the files in this folder, in the newer
            # format.
            (folder / "etc" / "conf.d").mkdir()
            (folder / "etc" / "conf.d" / "harness.conf").write_text(
                "\n".join([*listeners, ""]), "utf-8"
            )
            main = folder / "etc" / f"rabbitmq{self._config.suffix}"
            main.write_text(self._config.read_text("utf-8"), "utf-8")
            if self._beside is not None:
                shutil.copy(self._beside.cookie, folder / "home")
            (folder / "etc" / "enabled_plugins").write_text(f"[{','.join(plugins)}].\n", "utf-8")
            (folder / "etc" / "rabbitmq-env.conf").write_text("", "utf-8")
        except OSError as problem:
            raise SetUpFailed(
                f"{problem.filename}: cannot be written ({problem.strerror}); use another folder"
            ) from None
        return self._environment(release, node, distribution, epmd)

    def _environment(
        self, release: Release, node: str, distribution: int, epmd: int
    ) -> dict[str, str]:
        folder = self._folder
        folder_inside = folder if release.root is None else debian.FOLDER
        clock = accelerated_clock.prefix_inside(self.clock_rate, folder, folder_inside)
        loopback = "-kernel inet_dist_use_interface {127,0,0,1}"
        ours = {
            "RABBITMQ_NODENAME": node,
            "RABBITMQ_CONF_ENV_FILE": f"{folder_inside}/etc/rabbitmq-env.conf",
            "RABBITMQ_CONFIG_FILE": f"{folder_inside}/etc/rabbitmq{self._config.suffix}",
            "RABBITMQ_CONFIG_FILES": f"{folder_inside}/etc/conf.d",
            "RABBITMQ_ADVANCED_CONFIG_FILE": f"{folder_inside}/etc/advanced.config",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder_inside}/etc/enabled_plugins",
            "RABBITMQ_PLUGINS_DIR": f"{release.home}/plugins",
            "RABBITMQ_MNESIA_BASE": f"{folder_inside}/data",
            "RABBITMQ_LOG_BASE": f"{folder_inside}/log",
            "RABBITMQ_LOGS": f"{folder_inside}/log/{self.log.name}",
            "RABBITMQ_PID_FILE": f"{folder_inside}/data/pid",
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": loopback,
            "RABBITMQ_CTL_ERL_ARGS": loopback,
            # The launcher then becomes the node instead of waiting for it, so we end the node
            # itself.
            "RUNNING_UNDER_SYSTEMD": "true",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(epmd),
            "HOME": f"{folder_inside}/home",
            "CLOCK": " ".join(clock),
            "LANG": "C.UTF-8",
            **({} if release.root is None else {"PATH": debian.PATH}),
        }
        theirs = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RABBITMQ_", "ERL_"))
            and name not in {"NOTIFY_SOCKET", "LC_ALL"}
        }
        return theirs | ours

    def _launch(
        self, release: Release, environment: Mapping[str, str], ports: Mapping[str, int]
    ) -> int:
        self._process = NativeProcess(
            [
                *([] if release.root is None else debian.entering(release.root, self._folder)),
                *(
                    "sh",
                    "-c",
                    _WITH_EPMD if self._beside is None else _WITHOUT,
                    release.home / "sbin" / "rabbitmq-server",
                ),
            ],
            folder=self._folder,
            console=self._console,
            environment=environment,
            grace_s=STOP_S,
            free=self._free,
        )
        try:
            pid = self._process.start()
            ready = self._ready(self.log, lambda output: _STARTED in output, ports.values())
            self._process.wait_until_ready(ready, within_s=START_S, reason=self.why)
        except SetUpFailed as problem:
            self.stop()
            reason = str(problem).partition(" ")[2]
            raise SetUpFailed(
                f"RabbitMQ {release.version}: {reason} (logs: {self.log.parent})"
            ) from None
        except BaseException:
            self.stop()
            raise
        return pid
