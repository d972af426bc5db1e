"""Keeps pandas from being imported where nothing uses it: its import takes longer than the
judgement of a small recording.

Besides pyarrow (``harness/trace/without_pandas.py``) py4j imports it, to ask whether a value is one
of its objects: through PySpark's converters of NumPy's values, for the first argument of a call to
the JVM. They also import PySpark's tests. There is no setting for that. Should a release find
another way, ``suites/units/reports/spark/test_without_pandas.py`` tells.
"""

from __future__ import annotations

import sys

from py4j import protocol
from pyspark.sql import types

from brokerproof.harness.trace import without_pandas


def leave_pandas_out() -> None:
    """From now on nothing of pyarrow's and py4j's imports pandas in this process, and neither
    accepts its objects. ``import pandas`` works as before, and so does pyarrow's support where it
    was loaded already."""
    if "pandas" in sys.modules:
        return
    without_pandas.leave_pandas_out()
    of_numpy = (types.NumpyScalarConverter, types.NumpyArrayConverter)
    protocol.INPUT_CONVERTER[:] = [
        converter for converter in protocol.INPUT_CONVERTER if not isinstance(converter, of_numpy)
    ]
