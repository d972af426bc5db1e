"""Keeps pandas from being imported where nothing uses it: its import takes longer than the
judgement of a small recording.

Two libraries import it to ask whether a value is one of its objects. pyarrow does so when it makes
the first array of a list. py4j does so through PySpark's converters of NumPy's values, for the
first argument of a call to the JVM; they also import PySpark's tests. There is no setting for
either. Should a release of one find another way, ``suites/units/reports/test_without_pandas.py``
tells.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder

import pyarrow as pa
from py4j import protocol
from pyspark.sql import types


class _NotFound(MetaPathFinder):
    """Finds no pandas."""

    def find_spec(self, fullname: str, *_: object) -> None:
        """Raise ``ImportError`` for pandas; leave other modules to the finders behind this one."""
        if fullname == "pandas":
            raise ImportError("pandas is left out")


def leave_pandas_out() -> None:
    """From now on nothing of pyarrow's and py4j's imports pandas in this process, and neither
    accepts its objects. ``import pandas`` works as before, and so does pyarrow's support where it
    was loaded already."""
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NotFound())
    try:
        pa.array([""])  # pyarrow tries the import once
    finally:
        del sys.meta_path[0]
    of_numpy = (types.NumpyScalarConverter, types.NumpyArrayConverter)
    protocol.INPUT_CONVERTER[:] = [
        converter for converter in protocol.INPUT_CONVERTER if not isinstance(converter, of_numpy)
    ]
