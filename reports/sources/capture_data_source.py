"""Captured packets as a Spark data source::

spark.dataSource.register(Captures)
spark.read.format("brokerproof.pcap").load("captures/")
"""

import json
import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from brokerproof.harness.trace.columns import SCHEMA
from brokerproof.harness.trace.read import UnreadableTrace
from brokerproof.reports.sources.captures import Opening, divided, files
from brokerproof.reports.spark.schema import trace_schema


class Captures(DataSource):
    """``brokerproof.pcap``: the events of captured packets, with the columns of the trace.

    Options: ``parts``, the number of parts that the connections are divided into (by default two
    for each processor of this machine; one if the captures are small); ``whole``, whether the files
    hold every connection of one broker (by default ``false``).
    """

    @classmethod
    def name(cls) -> str:
        return "brokerproof.pcap"

    def schema(self) -> StructType:
        return trace_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        listed = self.options.get("paths")
        names = (
            json.loads(listed)
            if listed
            else [self.options["path"]]
            if "path" in self.options
            else []
        )
        if not names:
            raise UnreadableTrace("brokerproof.pcap: load() needs a path")
        whole = self.options.get("whole", "false").lower() == "true"
        paths = tuple(str(path.resolve()) for path in files(names))
        parts = int(self.options.get("parts", "0")) or divided(paths, os.cpu_count() or 1)
        return _Reader(Opening(paths, parts, whole))


class _Reader(DataSourceReader):
    def __init__(self, opening: Opening) -> None:
        self._opening = opening

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(part) for part in range(self._opening.parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for recorded in self._opening.batches(partition.value):
            yield pa.RecordBatch.from_arrays(recorded.columns, schema=SCHEMA)
