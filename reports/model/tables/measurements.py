"""Every measured quantity, compared with its interval."""

from typing import TYPE_CHECKING

from brokerproof.reports.spark.on_demand import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def measurements(trace: "DataFrame") -> "DataFrame":
    """``run, target, case, part, requirement, label, unit, value, lo, hi, margin, distance, lies``.

    ``distance`` is how far the value is from its nearest bound, in ``unit``: positive inside,
    negative outside, null if there are no bounds. ``lies`` is ``inside``, ``margin`` (outside, but
    by no more than the margin) or ``outside``."""
    above = F.col("value") - F.col("lo")
    below = F.col("hi") - F.col("value")
    distance = F.least(above, below)  # least() skips a missing bound
    lies = (
        F.when(distance.isNull() | (distance >= 0), "inside")
        .when(distance >= -F.col("margin"), "margin")
        .otherwise("outside")
    )
    return trace.where(F.col("kind") == "Measured").select(
        "run",
        "target",
        "case",
        "part",
        "requirement",
        "label",
        "unit",
        "value",
        "lo",
        "hi",
        "margin",
        distance.alias("distance"),
        lies.alias("lies"),
    )
