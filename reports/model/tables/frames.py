"""The traffic: one flat row per frame, heartbeat, or sequence of other bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.reports.model.redaction import blanked, blanked_bytes
from brokerproof.reports.spark.on_demand import F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BODY_BYTES = 256
"""The maximum number of bytes of a body that are kept, as text. A dot replaces everything but
printable ASCII."""

_OUT = ("FrameSent", "HeartBeatSent", "OctetsSent")
_IN = ("FrameReceived", "HeartBeatReceived", "OctetsRefused")


def frames(trace: DataFrame) -> DataFrame:
    """``run, target, case, part, position, conn, at_ns, direction, protocol, command, headers,
    body, body_size, size``.

    ``direction`` is ``sent`` or ``received`` as the harness saw it; ``headers`` has one
    ``name:value`` per line, in the order of the wire; ``command`` is ``(heart-beat)`` or
    ``(octets)`` for rows that are not a frame."""
    kind = F.col("kind")
    return trace.where(kind.isin(*_OUT, *_IN)).select(
        "run",
        "target",
        "case",
        "part",
        "position",
        "conn",
        "at_ns",
        F.when(kind.isin(*_OUT), "sent").otherwise("received").alias("direction"),
        "protocol",
        F.when(kind.like("HeartBeat%"), "(heart-beat)")
        .when(kind.like("Octets%"), "(octets)")
        .otherwise(F.col("command"))
        .alias("command"),
        F.array_join(
            F.transform(
                "headers",
                lambda header: F.concat(
                    header["name"], F.lit(":"), blanked(header["name"], header["value"])
                ),
            ),
            "\n",
        ).alias("headers"),
        printable(F.coalesce("body", "data"), BODY_BYTES).alias("body"),
        F.coalesce("body_size", F.octet_length("data")).cast("long").alias("body_size"),
        "size",
    )


def printable(data: Column, most: int) -> Column:
    """Return the first ``most`` bytes as text; anything but printable ASCII becomes a dot, and
    secrets are blanked."""
    return F.regexp_replace(blanked_bytes(data, most), "[^\\x20-\\x7e]", ".")
