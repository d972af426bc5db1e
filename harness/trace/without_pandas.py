"""Keeps pyarrow from importing pandas when nothing uses it, since the import takes about a second.
pyarrow imports pandas for the first array made from a list, to check for pandas objects. No setting
prevents that."""

import sys
from importlib.abc import MetaPathFinder

import pyarrow as pa


class _NotFound(MetaPathFinder):
    """An import finder that does not find pandas."""

    def find_spec(self, fullname: str, *_: object) -> None:
        """Raise ``ImportError`` for pandas; leave other modules to the next finders."""
        if fullname == "pandas":
            raise ImportError("pandas is deliberately not imported")


def leave_pandas_out() -> None:
    """Stop pyarrow in this process from importing pandas or accepting its objects. ``import
    pandas`` still works, and so does pyarrow's support if it was already loaded."""
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NotFound())
    try:
        pa.array([""])  # pyarrow tries this only once
    finally:
        del sys.meta_path[0]
