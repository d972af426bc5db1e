"""Imports PySpark on first use, because reports and small recordings do not need it.

Modules that judge recordings of any size import :data:`F` from here, and use Spark's classes only
in annotations.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from brokerproof.harness.model.extras import install

if TYPE_CHECKING:
    from pyspark.sql import functions as F
else:

    class _OnDemand:
        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("pyspark.sql.functions"), name)

    F = _OnDemand()

__all__ = ["F", "installed", "problems"]


class NoSpark(Exception):
    """PySpark is missing. The message says what needs PySpark."""


def installed() -> bool:
    return find_spec("pyspark") is not None


def require(purpose: str) -> None:
    """Raise :class:`NoSpark` if PySpark, which ``purpose`` needs, is missing."""
    if not installed():
        raise NoSpark(f"{purpose} needs Spark: {install('spark')}")


def problems() -> tuple[type[Exception], ...]:
    """Return the exceptions of Spark and its gateway; none until one of them has been imported."""
    if sys.modules.get("pyspark") is None:
        return ()
    errors, protocol = import_module("pyspark.errors"), import_module("py4j.protocol")
    return errors.PySparkException, protocol.Py4JError
