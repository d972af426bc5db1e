"""The reduce step: the summaries of a group are merged in the order of their pieces.

One row per group and piece travels between machines, never an event."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brokerproof.reports.judging.channels import ChannelSummary
from brokerproof.reports.judging.connection_lifetimes import ConnectionSummary
from brokerproof.reports.judging.delivery_bitmaps import DeliveryBitmap
from brokerproof.reports.judging.order import OrderSummary
from brokerproof.reports.judging.summary import (
    CHANNELS,
    CONNECTION,
    DELIVERIES,
    GROUP,
    ORACLE_JUDGED,
    ORDER,
    QUEUE_USE,
    SCOPE_PROTOCOLS,
    SUMMARIES,
    WINDOWS,
    OracleJudged,
    QueueUse,
    ScopeProtocols,
    Summary,
)
from brokerproof.reports.judging.windows import WindowLedger
from brokerproof.reports.spark.schema import in_batches, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EMPTY: Mapping[str, Callable[[], Summary[Any]]] = {
    DELIVERIES: DeliveryBitmap,
    ORDER: OrderSummary,
    WINDOWS: WindowLedger,
    CONNECTION: ConnectionSummary,
    CHANNELS: ChannelSummary,
    QUEUE_USE: QueueUse,
    SCOPE_PROTOCOLS: ScopeProtocols,
    ORACLE_JUDGED: OracleJudged,
}
"""The function that makes an empty summary, by kind of record."""

MERGED = pa.schema(
    [
        *(SUMMARIES.field(name) for name in GROUP),
        ("needs_recheck", pa.bool_()),
        ("delivered", pa.int64()),
        ("summary", pa.binary()),
    ]
)
"""A row for each group. ``delivered`` is :meth:`Summary.highest_delivered`. ``summary`` is empty if
no later step needs it."""


def merge(summaries: "DataFrame") -> "DataFrame":
    def merge_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        groups = groupby(rows, key=lambda row: tuple(row[name] for name in GROUP))
        yield from in_batches((merged_row(group, rows) for group, rows in groups), MERGED)

    together = summaries.repartition(*GROUP).sortWithinPartitions(*GROUP, "place")
    return together.mapInArrow(merge_groups, spark_schema(MERGED))


def merged_row(group: tuple[Any, ...], rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the rows of one group into a row of :data:`MERGED`."""
    named = dict(zip(GROUP, group, strict=True))
    summary = EMPTY[named["kind"]]()
    for row in rows:
        summary = summary.merge(pickle.loads(row["summary"]))  # written by our own workers
    return {
        **named,
        "needs_recheck": summary.needs_recheck,
        "delivered": summary.highest_delivered(named["block"]),
        "summary": pickle.dumps(summary) if summary.always_kept or summary.needs_recheck else b"",
    }
