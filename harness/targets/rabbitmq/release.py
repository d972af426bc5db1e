"""Finds releases of RabbitMQ: the one that the user named, the one in this machine's package, or
one in our Debian chroots."""

import os
import re
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from brokerproof.harness.targets import debian
from brokerproof.harness.targets.failure import SetUpFailed

PACKAGE = "rabbitmq-server"
PACKAGED = Path("/usr/lib/rabbitmq/lib")
"""The folder of releases in Debian's package."""

_INSTALL = f"install it with: apt-get install --no-install-recommends {PACKAGE}"
_NAME = re.compile(r"rabbitmq_server-(\d+(?:\.\d+)+)")
_VERSION = re.compile(r"\d+(\.\d+)*")


@dataclass(frozen=True, slots=True)
class Release:
    version: str
    home: Path
    """The release's folder as the running broker sees it."""
    root: Path | None = None
    """The Debian chroot that contains the release; None for this machine's own system."""

    @property
    def folder(self) -> Path:
        return self.home if self.root is None else self.root / self.home.relative_to("/")

    @property
    def plugins(self) -> set[str]:
        return {
            path.name.rpartition("-")[0] or path.name
            for path in (self.folder / "plugins").iterdir()
        }


def our_files() -> Path:
    return Path(str(files("brokerproof.fixtures"))) / "brokers" / "rabbitmq"


def default_version() -> str:
    """The release that is used if none is named."""
    return str(_known()["default"])


def find(version: str | None = None) -> Release:
    """Return the release of that version, which may be abbreviated to its leading numbers (None:
    this machine's). The order is: the release that ``BROKERPROOF_RABBITMQ`` names, the newest that
    this machine's package installed, the Debian chroots, and finally a new chroot. Raises
    :class:`SetUpFailed`."""
    for release in (*_named(), *_packaged()):
        if version is None or _is(release, version):
            return release
    if version is None:
        raise SetUpFailed(f"RabbitMQ is not installed (looked in {PACKAGED}); {_INSTALL}")
    suites = {str(entry["version"]): str(entry["suite"]) for entry in _known()["release"]}
    for known, suite in suites.items():
        if f"{version}.".startswith(f"{known}."):
            installed_release = _in_root(debian.install(suite, PACKAGE))
            if installed_release is not None and _is(installed_release, version):
                return installed_release
            has = "none" if installed_release is None else installed_release.version
            raise SetUpFailed(
                f"RabbitMQ {version}: Debian {suite} has {has}; name the release {known}"
            )
    if not _VERSION.fullmatch(version):
        raise SetUpFailed(
            f"RabbitMQ {version}: is not a release number; name one like {default_version()}"
        )
    raise SetUpFailed(
        f"RabbitMQ {version}: is available neither from this machine's package nor from a Debian"
        f" release; known releases: {', '.join(suites)}, and BROKERPROOF_RABBITMQ may name the"
        " folder of any release"
    )


def installed() -> Iterator[Release]:
    """Return every release that can start without installing anything."""
    yield from _named()
    yield from _packaged()
    for entry in _known()["release"]:
        home = debian.home_of(str(entry["suite"]), PACKAGE)
        if home.is_dir() and (release := _in_root(home)) is not None:
            yield release


def version_of(home: Path) -> str:
    """Return the release number in ``home``. Raises :class:`SetUpFailed` if it is unknown."""
    for name in (
        home.name,
        *(f"rabbitmq_server-{path.name[7:]}" for path in (home / "plugins").glob("rabbit-*")),
    ):
        if match := _NAME.match(name):
            return match[1]
    raise SetUpFailed(
        f"{home}: is not a RabbitMQ release: it has no plugins/rabbit-VERSION; {_INSTALL}"
    )


def _known() -> dict[str, list[dict[str, str]]]:
    return tomllib.loads((our_files() / "versions.toml").read_text("utf-8"))


def _named() -> Iterator[Release]:
    if named := os.environ.get("BROKERPROOF_RABBITMQ"):
        home = Path(named).absolute()
        if not (home / "sbin" / "rabbitmq-server").is_file():
            raise SetUpFailed(
                f"BROKERPROOF_RABBITMQ: {home} has no sbin/rabbitmq-server; name a release's folder"
            )
        yield Release(version_of(home), home)


def _packaged() -> Iterator[Release]:
    yield from (Release(version_of(home), home) for home in _homes(PACKAGED))


def _in_root(root: Path) -> Release | None:
    for home in _homes(root / PACKAGED.relative_to("/")):
        return Release(version_of(home), PACKAGED / home.name, root)
    return None


def _homes(folder: Path) -> list[Path]:
    """Return the releases in a folder, newest first."""
    folders = [
        path
        for path in folder.glob("rabbitmq_server-*")
        if (path / "sbin" / "rabbitmq-server").is_file()
    ]
    return sorted(
        folders,
        key=lambda folder: [int(part) for part in re.findall(r"\d+", folder.name)],
        reverse=True,
    )


def _is(release: Release, version: str) -> bool:
    return f"{release.version}.".startswith(f"{version}.")


def can_run(release: Release) -> None:
    """Raise :class:`SetUpFailed` if this machine lacks something that the release needs to run."""
    if release.root is not None:
        debian.can_enter(f"RabbitMQ {release.version}")
        return
    for tool, advice in (("erl", _INSTALL), ("epmd", _INSTALL), ("setpriv", "install util-linux")):
        if shutil.which(tool) is None:
            raise SetUpFailed(f"RabbitMQ {release.version}: {tool} is not on the PATH; {advice}")
