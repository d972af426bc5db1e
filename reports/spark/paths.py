"""Local paths in the form that Spark needs. Spark's file systems do not decode URIs, and they treat
every path as a pattern."""

import re
from pathlib import Path


def written(path: Path) -> str:
    return f"file://{path.resolve()}"


def read(path: Path) -> str:
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", written(path))
