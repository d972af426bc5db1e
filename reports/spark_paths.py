"""Files of this machine as Spark wants to be told of them: its file systems decode no URI, and what
they read is a pattern."""

from __future__ import annotations

import re
from pathlib import Path


def written(path: Path) -> str:
    """``path`` for what Spark writes, whatever its default file system is."""
    return f"file://{path.resolve()}"


def read(path: Path) -> str:
    """``path`` for what Spark reads: characters that it would take for a pattern are escaped."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", written(path))
