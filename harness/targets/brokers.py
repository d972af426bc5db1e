"""Real brokers that stay running between commands: install, start, stop, list.

What runs is kept as one small JSON file per broker in the cache folder, with the process id and the moment it was
started, so that a later process of the same number is never taken for the broker.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.targets import artemis
from harness.targets.artemis import ArtemisProcess, RunningBroker
from harness.targets.cache import cache_folder, locked, remove
from harness.targets.failure import SetUpFailed
from harness.targets.native import end, started_at

NAMES = ("artemis",)
"""The brokers that can be installed and started here."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A release that is installed, and how it runs (None: it does not)."""

    name: str
    version: str
    home: Path
    running: RunningBroker | None


def install(name: str, version: str | None = None) -> Path:
    """Downloads and unpacks a release unless that was done; returns its folder. Raises :class:`SetUpFailed`."""
    _known(name)
    return artemis.install(version)


def start(
    name: str,
    version: str | None = None,
    *,
    config: Path | None = None,
    ports: str = "free",
    folder: Path | None = None,
) -> RunningBroker:
    """Starts a broker that goes on when this process ends.

    ``config`` is its configuration file (None: ours), ``ports`` is "free" or "file", ``folder`` the instance's (None:
    one in the cache). Raises :class:`SetUpFailed`, also when that release is running already.
    """
    _known(name)
    version = artemis.default_version() if version is None else version
    state = _state(name, version)
    with locked(state):
        if (running := _running(state)) is not None:
            raise SetUpFailed(f"{name} {version}: runs already as process {running.pid}; stop it first")
        config = artemis.our_files() / "broker.xml" if config is None else config
        folder = cache_folder() / "instances" / f"{name}-{version}" if folder is None else folder
        broker = ArtemisProcess(config, version, folder, ports=ports, free=True).start()
        values = dataclasses.asdict(broker) | {"ports": dict(broker.ports), "started_at": started_at(broker.pid)}
        state.write_text(json.dumps(values, default=str, indent=1) + "\n", "utf-8")
        state.chmod(0o600)
    return broker


def stop(name: str, version: str | None = None) -> list[RunningBroker]:
    """Ends the broker of that name and release (None: every release) and says which ones ran."""
    _known(name)
    ended = []
    for state in sorted(_folder().glob(f"{name}-{version or '*'}.json")):
        with locked(state):
            running = _running(state)
            if running is not None:
                end(running.pid, artemis.STOP_S)
                ended.append(running)
            remove(state)
    return ended


def listing() -> list[Listed]:
    """Every installed release, and whether :func:`start` left it running."""
    homes = (cache_folder() / "artemis").glob("apache-artemis-*")
    versions = {each.name.removeprefix("apache-artemis-"): each for each in homes}
    return [
        Listed("artemis", version, home, _running(_state("artemis", version)))
        for version, home in sorted(versions.items())
    ]


def _known(name: str) -> None:
    if name not in NAMES:
        raise SetUpFailed(f"{name}: is no broker that can be installed here; known are {', '.join(NAMES)}")


def _folder() -> Path:
    return cache_folder() / "running"


def _state(name: str, version: str) -> Path:
    return _folder() / f"{name}-{version}.json"


def _running(state: Path) -> RunningBroker | None:
    """The broker that a state file tells of, if it still runs."""
    try:
        values: dict[str, Any] = json.loads(state.read_text("utf-8"))
        moment = values.pop("started_at")
        values["folder"], values["log"] = Path(values["folder"]), Path(values["log"])
        broker = RunningBroker(**values)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise SetUpFailed(f"{state}: is not what brokers start wrote ({problem}); delete it") from None
    return broker if moment is not None and started_at(broker.pid) == moment else None
