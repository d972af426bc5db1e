"""The releases in an atlas: ``fixtures/releases.toml`` or a similar file."""

import json
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from brokerproof.harness.catalogue.tables import Key, entries, read

_REQUIRED = {"name": str, "origin": str, "target": str, "releases": list}
_KEYS = {key: Key(kind) for key, kind in _REQUIRED.items()} | {
    "arguments": Key(list, required=False),
    "unfit": Key(str, required=False),
}


@dataclass(frozen=True, slots=True)
class Release:
    broker: str
    version: str
    origin: str
    target: str
    arguments: tuple[str, ...]
    unfit: str

    @property
    def name(self) -> str:
        return f"{self.broker} {self.version}"

    @property
    def slug(self) -> str:
        return re.sub(r"[^a-z0-9.]+", "-", self.name.lower())

    def outcome(self, atlas: Path) -> dict[str, Any]:
        """Return what ``atlas run`` reported about the release; empty if it reported nothing."""
        try:
            return dict(json.loads((atlas / "runs" / f"{self.slug}.json").read_text("utf-8")))
        except (OSError, ValueError):
            return {}


def load(path: Path | None = None) -> list[Release]:
    """Return the releases in ``path`` (default: the shipped list). Raises ``BadData``."""
    path = path or Path(str(files("brokerproof.fixtures"))) / "releases.toml"
    found = []
    for entry in entries(path, "broker", _KEYS, *read(path)):
        name, origin, target, unfit = map(entry.text, ("name", "origin", "target", "unfit"))
        arguments = tuple(entry.values.get("arguments", ()))
        for version in entry.values["releases"]:
            target_of = target.replace("{}", version)
            found.append(Release(name, version, origin, target_of, arguments, unfit))
    return found
