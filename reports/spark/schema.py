"""Spark's schema of the trace table, derived from the recorder's Arrow schema, so that columns are
listed only once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brokerproof.harness.trace.columns import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField, StructType

_SIMPLE = {
    pa.string(): "StringType",
    pa.int64(): "LongType",
    pa.binary(): "BinaryType",
    pa.float64(): "DoubleType",
    pa.bool_(): "BooleanType",
}


def spark_type(arrow: pa.DataType) -> DataType:
    """Return Spark's type for ``arrow``. Raises ``TypeError`` for a type that our columns do not
    use."""
    from pyspark.sql import types

    if pa.types.is_struct(arrow):
        fields = [arrow.field(index) for index in range(arrow.num_fields)]
        return types.StructType(list(map(spark_field, fields)))
    if pa.types.is_list(arrow):
        return types.ArrayType(spark_type(arrow.value_type), arrow.value_field.nullable)
    if arrow not in _SIMPLE:
        raise TypeError(f"no Spark type is defined for Arrow's {arrow}")
    simple: DataType = getattr(types, _SIMPLE[arrow])()
    return simple


def spark_field(field: pa.Field) -> StructField:
    from pyspark.sql.types import StructField

    return StructField(field.name, spark_type(field.type), field.nullable)


def spark_schema(schema: pa.Schema) -> StructType:
    from pyspark.sql.types import StructType

    return StructType([spark_field(field) for field in schema])


ROWS_AT_ONCE = 5_000


def in_batches(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows as Arrow batches of bounded size."""
    remaining = iter(rows)
    while chunk := list(islice(remaining, ROWS_AT_ONCE)):
        yield pa.RecordBatch.from_pylist(chunk, schema=schema)


def trace_schema() -> StructType:
    return spark_schema(SCHEMA)
