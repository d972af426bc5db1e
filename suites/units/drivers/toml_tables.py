"""Tables of a test module, in the TOML file beside it: a row of parameters to a line."""

import tomllib
from pathlib import Path
from typing import Any


def beside(module: str) -> dict[str, list[Any]]:
    return tomllib.loads(Path(module).with_suffix(".toml").read_text("utf-8"))
