"""The target files that come with brokerproof; listing them imports no broker and no client."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from brokerproof.harness.catalogue import tables

SUFFIX = ".target.toml"


def families() -> Path:
    """Return the folder with a folder for each family of brokers."""
    return Path(str(files("brokerproof.fixtures"))) / "brokers"


def paths() -> dict[str, Path]:
    """Return the target files by name."""
    return {
        path.name.removesuffix(SUFFIX): path for path in sorted(families().glob(f"*/*{SUFFIX}"))
    }


def facts(path: Path) -> dict[str, str]:
    """Return the ``description``, ``kind`` and ``profile`` of a shipped target file."""
    values, _ = tables.read(path)
    return {name: str(values[name]) for name in ("description", "kind", "profile")}
