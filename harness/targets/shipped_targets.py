"""The target files shipped with brokerproof. Listing them imports no broker and no client."""

from importlib.resources import files
from pathlib import Path

from brokerproof.harness.catalogue import tables

SUFFIX = ".target.toml"
CLIENT_SUFFIX = ".client.toml"


def families() -> Path:
    """Return the folder that contains a folder for each broker family."""
    return Path(str(files("brokerproof.fixtures"))) / "brokers"


def paths() -> dict[str, Path]:
    return {
        path.name.removesuffix(SUFFIX): path for path in sorted(families().glob(f"*/*{SUFFIX}"))
    }


def clients() -> dict[str, Path]:
    """Return the target files of client libraries, by the library's name."""
    folder = Path(str(files("brokerproof.fixtures"))) / "clients"
    return {
        path.name.removesuffix(CLIENT_SUFFIX): path
        for path in sorted(folder.glob(f"*{CLIENT_SUFFIX}"))
    }


def facts(path: Path) -> dict[str, str]:
    """Return the ``description``, ``kind`` and ``profile`` of a shipped target file."""
    values, _ = tables.read(path)
    return {name: str(values[name]) for name in ("description", "kind", "profile")}
