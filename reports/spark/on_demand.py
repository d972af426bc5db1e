"""PySpark where something of it is used, and not before: reports and small recordings do without.

Modules that judge recordings of any size take :data:`F` from here, and name Spark's classes in
annotations only.
"""

from __future__ import annotations

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
    """PySpark is missing, and what it is needed for."""


def installed() -> bool:
    return find_spec("pyspark") is not None


def require(purpose: str) -> None:
    """Raise :class:`NoSpark` without PySpark, which ``purpose`` needs."""
    if not installed():
        raise NoSpark(f"{purpose} needs Spark: {install('spark')}")


def problems() -> tuple[type[Exception], ...]:
    """Return the exceptions of Spark and of its gateway; none before either was imported."""
    if sys.modules.get("pyspark") is None:
        return ()
    errors, protocol = import_module("pyspark.errors"), import_module("py4j.protocol")
    return errors.PySparkException, protocol.Py4JError
