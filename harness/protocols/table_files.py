"""A protocol's messages as TOML tables: numbers, and fields by name."""

import tomllib
from collections.abc import Mapping
from pathlib import Path


def tables(module: str) -> Mapping[str, Mapping[str, list[str]]]:
    """Return the tables of the TOML file next to ``module``. ``{NAME}`` in an entry stands for that
    text in the ``shared`` table."""
    data = tomllib.loads(Path(module).with_suffix(".toml").read_text("utf-8"))
    shared: dict[str, str] = {}
    for name, text in data.pop("shared", {}).items():
        shared[name] = text.format_map(shared)
    return {
        table: {name: text.format_map(shared).split() for name, text in entries.items()}
        for table, entries in data.items()
    }
