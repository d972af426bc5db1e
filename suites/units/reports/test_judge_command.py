"""``brokerproof judge`` on a segment with an intact footer but damaged data."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from brokerproof.harness.trace.read import UnreadableTrace, row_count
from brokerproof.reports.assembly.failures import in_one_sentence
from brokerproof.reports.assembly.recording_judgement import ground_of, source_of
from brokerproof.reports.assembly.refusals import OurError, Refusal
from brokerproof.reports.judging.judge import find_anomalies
from brokerproof.reports.sources import segments
from brokerproof.suites.units.drivers.synthetic_run import full_run


def damaged(tmp_path: Path) -> Path:
    """Return a segment whose first column is overwritten."""
    segment = next(full_run(tmp_path / "r").glob("trace/target=artemis/part-*.parquet"))
    column = pq.ParquetFile(segment).metadata.row_group(0).column(0)
    data = bytearray(segment.read_bytes())
    begin = column.dictionary_page_offset or column.data_page_offset
    data[begin : begin + column.total_compressed_size] = bytes(column.total_compressed_size)
    segment.write_bytes(data)
    assert row_count(segment) > 0
    return segment


@pytest.mark.parametrize("as_bytes", [False, True])
def test_data_that_cannot_be_read_are_one_sentence(tmp_path: Path, as_bytes: bool) -> None:
    segment = damaged(tmp_path)
    column = pq.ParquetFile(segment).schema_arrow.names[0]
    source = segment.read_bytes() if as_bytes else str(segment)
    with pytest.raises(UnreadableTrace, match="is not a readable Parquet segment"):
        list(segments.read_file(source, [column]))


def test_a_worker_that_cannot_read_a_segment_is_a_refusal(
    tmp_path: Path, spark: SparkSession
) -> None:
    segment = damaged(tmp_path)
    source = source_of(spark, [str(segment)])
    with (
        pytest.raises(Refusal, match=f"{segment.name}: is not a readable Parquet") as refusal,
        in_one_sentence(),
    ):
        find_anomalies(spark, source, ground_of("stomp", guessed=True)).anomalies.collect()
    assert refusal.value.exit_code == 4


def test_anything_else_that_spark_meets_is_ours() -> None:
    with pytest.raises(OurError, match="Spark failed: first line"), in_one_sentence():
        raise PySparkException("first line\n  at java.lang.Thread")
