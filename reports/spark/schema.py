"""Spark's view of the trace table, derived from the recorder's Arrow schema: there is no second
list of columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from brokerproof.harness.trace.columns import SCHEMA

_SIMPLE: dict[pa.DataType, DataType] = {
    pa.string(): StringType(),
    pa.int64(): LongType(),
    pa.binary(): BinaryType(),
    pa.float64(): DoubleType(),
    pa.bool_(): BooleanType(),
}


def spark_type(arrow: pa.DataType) -> DataType:
    """Spark's type for ``arrow``; raises ``TypeError`` for one that none of our columns has."""
    if pa.types.is_struct(arrow):
        return StructType([spark_field(arrow.field(index)) for index in range(arrow.num_fields)])
    if pa.types.is_list(arrow):
        return ArrayType(spark_type(arrow.value_type), arrow.value_field.nullable)
    if arrow not in _SIMPLE:
        raise TypeError(f"no Spark type is agreed for Arrow's {arrow}")
    return _SIMPLE[arrow]


def spark_field(field: pa.Field) -> StructField:
    """Spark's field for an Arrow field."""
    return StructField(field.name, spark_type(field.type), field.nullable)


def spark_schema(schema: pa.Schema) -> StructType:
    """Spark's schema for an Arrow schema."""
    return StructType([spark_field(field) for field in schema])


ROWS_AT_ONCE = 5_000


def in_batches(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows as Arrow batches of bounded size."""
    remaining = iter(rows)
    while chunk := list(islice(remaining, ROWS_AT_ONCE)):
        yield pa.RecordBatch.from_pylist(chunk, schema=schema)


TRACE = spark_schema(SCHEMA)
"""Schema of a recorded segment."""
