"""Two ways to run the recheck's steps: in this process over lists, or on Spark over DataFrames.

A step is a function from an iterator of rows to an iterator of rows. An executor groups and orders
the rows before a step receives them. For few rows this process is faster: a single Spark shuffle
takes longer than the work itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from brokerproof.reports.spark.on_demand import F
from brokerproof.reports.spark.schema import in_batches, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row: TypeAlias = Mapping[str, Any]
Step: TypeAlias = Callable[[Iterator[Row]], Iterable[Row]]
Rows = TypeVar("Rows")


class Executor(Protocol[Rows]):
    def run(
        self,
        step: Step,
        rows: Rows,
        schema: pa.Schema,
        by: Sequence[str] = (),
        order: Sequence[str] = (),
    ) -> Rows:
        """Return the rows that ``step`` yields, of ``schema``. The step receives rows with equal
        values of ``by`` together, ordered by ``by`` and ``order``; if ``by`` is empty, the order is
        arbitrary."""
        ...

    def where(self, rows: Rows, column: str, *values: str) -> Rows: ...

    def join(self, rows: Rows, table: Rows, on: Sequence[str], *columns: str) -> Rows:
        """Return every row, extended by these columns of the row of ``table`` that has the same
        values of ``on`` (null if there is none)."""
        ...

    def union(self, *parts: Rows) -> Rows: ...

    def keep(self, rows: Rows) -> Rows:
        """Return the same rows. They are computed only once, even if they are read repeatedly."""
        ...


class InProcess:
    """Runs steps over lists of rows."""

    def run(
        self,
        step: Step,
        rows: list[Row],
        schema: pa.Schema,
        by: Sequence[str] = (),
        order: Sequence[str] = (),
    ) -> list[Row]:
        """Sort the rows, then run the step once."""
        columns = (*by, *order)
        if columns:
            rows = sorted(rows, key=lambda row: [comparable(row[column]) for column in columns])
        empty = dict.fromkeys(schema.names)
        return [{**empty, **row} for row in step(iter(rows))]

    def where(self, rows: list[Row], column: str, *values: str) -> list[Row]:
        return [row for row in rows if row[column] in values]

    def join(
        self, rows: list[Row], table: list[Row], on: Sequence[str], *columns: str
    ) -> list[Row]:
        """Look up the key of each row."""
        missing = dict.fromkeys(columns)
        known = {
            tuple(row[name] for name in on): {column: row[column] for column in columns}
            for row in table
        }
        return [{**row, **known.get(tuple(row[name] for name in on), missing)} for row in rows]

    def union(self, *parts: list[Row]) -> list[Row]:
        return list(chain(*parts))

    def keep(self, rows: list[Row]) -> list[Row]:
        return rows


class OnSpark:
    """Runs steps across the cluster. Each step sorts on disk and keeps at most one group in
    memory."""

    def run(
        self,
        step: Step,
        rows: DataFrame,
        schema: pa.Schema,
        by: Sequence[str] = (),
        order: Sequence[str] = (),
    ) -> DataFrame:
        """Bring groups together, sort within partitions, then run the step once per partition."""

        def run_step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = (row for batch in batches for row in batch.to_pylist())
            yield from in_batches(step(rows), schema)

        if by:
            rows = rows.repartition(*by).sortWithinPartitions(*by, *order)
        return rows.mapInArrow(run_step, spark_schema(schema))

    def where(self, rows: DataFrame, column: str, *values: str) -> DataFrame:
        return rows.where(F.col(column).isin(*values))

    def join(
        self, rows: DataFrame, table: DataFrame, on: Sequence[str], *columns: str
    ) -> DataFrame:
        return rows.join(table.select(*on, *columns), list(on), "left")

    def union(self, *parts: DataFrame) -> DataFrame:
        return reduce(lambda above, below: above.unionByName(below), parts)

    def keep(self, rows: DataFrame) -> DataFrame:
        from pyspark import StorageLevel

        return rows.persist(StorageLevel.DISK_ONLY)


def comparable(value: Any) -> Any:
    """Return a value that compares as in Spark: structs and arrays field by field, null first."""
    if isinstance(value, Mapping):
        return tuple(map(comparable, value.values()))
    if isinstance(value, list):
        return [comparable(element) for element in value]
    return (value is not None, value)
