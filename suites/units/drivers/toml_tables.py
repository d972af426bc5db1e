"""A test module's tables, in the TOML file next to it: one row of parameters per line."""

import tomllib
from pathlib import Path
from typing import Any


def beside(module: str) -> dict[str, list[Any]]:
    return tomllib.loads(Path(module).with_suffix(".toml").read_text("utf-8"))
