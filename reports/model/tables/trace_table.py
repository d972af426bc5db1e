"""The tables that grow with the recording, written only on request."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from brokerproof.reports.model.tables.addresses import addresses
from brokerproof.reports.model.tables.deliveries import deliveries
from brokerproof.reports.model.tables.frames import frames
from brokerproof.reports.model.tables.latencies import latencies
from brokerproof.reports.model.tables.liveness import liveness
from brokerproof.reports.model.tables.measurements import measurements
from brokerproof.reports.model.tables.stalls import stalls
from brokerproof.reports.model.tables.unsettled import credit, held
from brokerproof.reports.spark import paths as places

AT_ONCE = 4


def tables(events: DataFrame, delivered: DataFrame) -> dict[str, DataFrame]:
    """Return every table of the trace by name, not yet computed; ``delivered`` is the table of
    deliveries."""
    return {
        "frames": frames(events),
        "measurements": measurements(events),
        "liveness": liveness(events),
        "deliveries": delivered,
        "held": held(delivered),
        "credit": credit(events),
        "stalls": stalls(events),
        "addresses": addresses(events),
        # These tables have few rows. With coalesce, a single task would compute them.
        "latencies": latencies(events).repartition(1),
    }


def write(events: DataFrame, folder: Path) -> None:
    """Write each table as a folder ``NAME.parquet`` of part files."""
    events.persist(StorageLevel.MEMORY_AND_DISK)
    delivered = deliveries(events).persist(StorageLevel.MEMORY_AND_DISK)
    named: Mapping[str, DataFrame] = tables(events, delivered)

    def write_one(name: str) -> None:
        path = places.written(folder / f"{name}.parquet")
        named[name].write.mode("overwrite").parquet(path)

    at_once = min(AT_ONCE, events.sparkSession.sparkContext.defaultParallelism)
    try:
        with ThreadPoolExecutor(at_once, thread_name_prefix="table") as pool:
            list(pool.map(write_one, named))
    finally:
        delivered.unpersist()
        events.unpersist()
