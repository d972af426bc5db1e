"""A Java broker's releases: those in its ``versions.toml`` and those in the cache."""

import re
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from brokerproof.harness.targets.cache import cache_folder
from brokerproof.harness.targets.failure import SetUpFailed

_VERSION = re.compile(r"\d+\.\d+\.\d+")


@dataclass(frozen=True)
class JavaReleases:
    """Releases of the broker ``name``; ``family`` and ``prefix`` name their folders."""

    name: str
    family: str
    prefix: str

    @property
    def our_files(self) -> Path:
        """The folder with the configuration files that we ship."""
        return Path(str(files("brokerproof.fixtures"))) / "brokers" / self.family

    @property
    def table(self) -> dict[str, Any]:
        return tomllib.loads((self.our_files / "versions.toml").read_text("utf-8"))

    @property
    def default_version(self) -> str:
        """The release that is used if none is named."""
        return str(self.table["default"])

    def java_minimum(self, version: str) -> int:
        """Return the oldest Java version that runs release ``version``."""
        known = self.table["java"]
        fitting = (entry for entry in known if version_key(version) >= version_key(entry["from"]))
        return int(next(fitting, known[-1])["minimum"])

    def checked(self, version: str | None) -> str:
        """Return ``version``, or the default release if it is None. Raises :class:`SetUpFailed` if
        it is not a release number."""
        version = self.default_version if version is None else version
        if not _VERSION.fullmatch(version):
            raise SetUpFailed(
                f"{self.name} {version}: is not a release; name one like {self.default_version}"
            )
        return version

    def home_of(self, version: str) -> Path:
        return cache_folder() / self.family / f"{self.prefix}{version}"

    def installed(self) -> dict[str, Path]:
        homes = (cache_folder() / self.family).glob(f"{self.prefix}*")
        return dict(sorted((home.name.removeprefix(self.prefix), home) for home in homes))


def version_key(version: str) -> tuple[int, ...]:
    """Return ``version`` in a form that sorts in the order of releases."""
    return tuple(int(part) for part in version.split("."))
