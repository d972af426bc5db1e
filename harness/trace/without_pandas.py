"""Keeps pandas from being imported where nothing uses it: its import takes about a second.

pyarrow imports it when it makes the first array of a list, to ask whether a value is one of its
objects. There is no setting for that.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder

import pyarrow as pa


class _NotFound(MetaPathFinder):
    """Finds no pandas."""

    def find_spec(self, fullname: str, *_: object) -> None:
        """Raise ``ImportError`` for pandas; leave other modules to the finders behind this one."""
        if fullname == "pandas":
            raise ImportError("pandas is left out")


def leave_pandas_out() -> None:
    """From now on pyarrow neither imports pandas in this process nor accepts its objects. ``import
    pandas`` works as before, and so does pyarrow's support where it was loaded already."""
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NotFound())
    try:
        pa.array([""])  # pyarrow tries the import once
    finally:
        del sys.meta_path[0]
