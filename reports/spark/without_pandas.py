"""Prevents needless imports of pandas, which take longer than judging a small recording.

Like pyarrow (``harness/trace/without_pandas.py``), py4j imports pandas to check whether a value is
a pandas object: PySpark's converters of NumPy values do so for the first argument of a call to the
JVM. These converters also import PySpark's tests. No setting prevents this.
``suites/units/reports/spark/test_without_pandas.py`` fails if a release imports pandas in another
way.
"""

import sys

from py4j import protocol
from pyspark.sql import types

from brokerproof.harness.trace import without_pandas


def leave_pandas_out() -> None:
    """From now on, keep pyarrow and py4j from importing pandas in this process and from accepting
    pandas objects. ``import pandas`` still works, and so does pyarrow's support if it was already
    loaded."""
    if "pandas" in sys.modules:
        return
    without_pandas.leave_pandas_out()
    of_numpy = (types.NumpyScalarConverter, types.NumpyArrayConverter)
    protocol.INPUT_CONVERTER[:] = [
        converter for converter in protocol.INPUT_CONVERTER if not isinstance(converter, of_numpy)
    ]
