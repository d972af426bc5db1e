"""Real brokers that stay running between commands: install, start, stop, list.

Each running broker is recorded in a small JSON file in the cache folder, with its process id and
start time, so that a later process with the same id is never mistaken for the broker.
"""

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokerproof.harness.targets.activemq import broker as activemq_broker
from brokerproof.harness.targets.activemq.broker import ActivemqProcess
from brokerproof.harness.targets.artemis import broker as artemis_broker
from brokerproof.harness.targets.artemis.broker import ArtemisProcess
from brokerproof.harness.targets.cache import cache_folder, locked, remove
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.local_process import end, started_at
from brokerproof.harness.targets.managed_broker import RunningBroker
from brokerproof.harness.targets.proton import examples
from brokerproof.harness.targets.proton.examples import ProtonProcess
from brokerproof.harness.targets.rabbitmq import broker as rabbitmq_broker
from brokerproof.harness.targets.rabbitmq import release as rabbitmq_release
from brokerproof.harness.targets.rabbitmq.broker import RabbitmqProcess


@dataclass(frozen=True, slots=True)
class _Kind:
    """How to install brokers of one name. ``stop_s``: seconds until a stopping broker is killed."""

    install: Callable[[str | None], Path]
    installed: Callable[[], Mapping[str, Path]]
    """The folder of each release."""
    release: Callable[[str | None], str]
    """Returns the release that starts if this release, or none, is named."""
    start: Callable[[str, Path, Path | None, str], RunningBroker]
    """Starts the broker, given release, folder, configuration file and choice of ports."""
    stop_s: float


def _start_artemis(version: str, folder: Path, config: Path | None, ports: str) -> RunningBroker:
    config = artemis_broker.RELEASES.our_files / "broker.xml" if config is None else config
    return ArtemisProcess(config, version, folder, ports=ports, free=True).start()


def _start_activemq(version: str, folder: Path, config: Path | None, ports: str) -> RunningBroker:
    config = activemq_broker.RELEASES.our_files / "activemq.xml" if config is None else config
    return ActivemqProcess(config, version, folder, ports=ports, free=True).start()


def _start_rabbitmq(version: str, folder: Path, config: Path | None, ports: str) -> RunningBroker:
    if ports != "free":
        raise SetUpFailed("rabbitmq: the harness chooses its listeners; omit the ports")
    release = rabbitmq_release.find(version)
    return RabbitmqProcess(folder, config=config, release=release, free=True).start()


def _rabbitmq(version: str | None) -> rabbitmq_release.Release:
    return rabbitmq_release.find(version or rabbitmq_release.default_version())


def _start_proton(
    name: str, version: str, folder: Path, config: Path | None, ports: str
) -> RunningBroker:
    if config is not None or ports != "free":
        raise SetUpFailed(f"{name}: has no configuration file and no configurable ports; omit them")
    return ProtonProcess(name, folder, version, free=True).start()


def _proton(name: str) -> _Kind:
    return _Kind(
        install=functools.partial(examples.install, name),
        installed=functools.partial(examples.installed, name),
        release=lambda version: examples.install(name, version).name,
        start=functools.partial(_start_proton, name),
        stop_s=examples.STOP_S,
    )


_KINDS: Mapping[str, _Kind] = {
    "artemis": _Kind(
        install=artemis_broker.install,
        installed=artemis_broker.RELEASES.installed,
        release=lambda version: version or artemis_broker.RELEASES.default_version,
        start=_start_artemis,
        stop_s=artemis_broker.STOP_S,
    ),
    "activemq": _Kind(
        install=activemq_broker.install,
        installed=activemq_broker.RELEASES.installed,
        release=lambda version: version or activemq_broker.RELEASES.default_version,
        start=_start_activemq,
        stop_s=activemq_broker.STOP_S,
    ),
    "rabbitmq": _Kind(
        install=lambda version: _rabbitmq(version).folder,
        installed=lambda: {
            release.version: release.folder for release in rabbitmq_release.installed()
        },
        release=lambda version: _rabbitmq(version).version,
        start=_start_rabbitmq,
        stop_s=rabbitmq_broker.STOP_S,
    ),
    **{name: _proton(name) for name in examples.NAMES},
}
NAMES = tuple(_KINDS)
"""The brokers that can be installed and started here."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An installed release, and its running broker (None if none is running)."""

    name: str
    version: str
    home: Path
    running: RunningBroker | None


def install(name: str, version: str | None = None) -> Path:
    """Download and unpack a release, unless that has been done already; return its folder. Raises
    :class:`SetUpFailed`."""
    return _known(name).install(version)


def start(
    name: str,
    version: str | None = None,
    *,
    config: Path | None = None,
    ports: str = "free",
    folder: Path | None = None,
) -> RunningBroker:
    """Start a broker that continues after this process ends.

    ``config`` is the configuration file (None: ours), ``ports`` is "free" or "file", and ``folder``
    is the instance's folder (None: one in the cache). Raises :class:`SetUpFailed`, also if that
    release is already running.
    """
    kind = _known(name)
    version = kind.release(version)
    state = _state(name, version)
    with locked(state):
        if (running := _running(state)) is not None:
            raise SetUpFailed(
                f"{name} {version}: already runs as process {running.pid}; stop it first"
            )
        folder = cache_folder() / "instances" / f"{name}-{version}" if folder is None else folder
        broker = kind.start(version, folder, config, ports)
        values = dataclasses.asdict(broker) | {
            "ports": dict(broker.ports),
            "started_at": started_at(broker.pid),
        }
        state.write_text(json.dumps(values, default=str, indent=1) + "\n", "utf-8")
        state.chmod(0o600)
    return broker


def stop(name: str, version: str | None = None) -> list[RunningBroker]:
    """Stop the broker with that name and release (None: every release); return those that ran."""
    kind = _known(name)
    ended = []
    for state in sorted(_folder().glob(f"{name}-{version or '*'}.json")):
        with locked(state):
            running = _running(state)
            if running is not None:
                end(running.pid, kind.stop_s)
                ended.append(running)
            remove(state)
    return ended


def listing() -> list[Listed]:
    """Return every installed release and whether :func:`start` left it running."""
    return [
        Listed(name, version, home, _running(_state(name, version)))
        for name, kind in _KINDS.items()
        for version, home in kind.installed().items()
    ]


def _known(name: str) -> _Kind:
    if name not in _KINDS:
        raise SetUpFailed(f"{name}: cannot be installed here; these can be: {', '.join(NAMES)}")
    return _KINDS[name]


def _folder() -> Path:
    return cache_folder() / "running"


def _state(name: str, version: str) -> Path:
    return _folder() / f"{name}-{version}.json"


def _running(state: Path) -> RunningBroker | None:
    """Return the broker described in a state file if it is still running."""
    try:
        values: dict[str, Any] = json.loads(state.read_text("utf-8"))
        moment = values.pop("started_at")
        values["folder"], values["log"] = Path(values["folder"]), Path(values["log"])
        broker = RunningBroker(**values)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise SetUpFailed(
            f"{state}: was not written by `brokers start` ({problem}); delete it"
        ) from None
    return broker if moment is not None and started_at(broker.pid) == moment else None
