"""Captures as a source for Spark: each connection is in one part, and the verdicts are those of the
oracles."""

from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from brokerproof.harness.oracles import recorded_anomalies
from brokerproof.harness.trace.columns import SCHEMA
from brokerproof.harness.trace.read import UnreadableTrace, event
from brokerproof.reports.assembly.recording_judgement import source_of
from brokerproof.reports.judging.judge import find_anomalies
from brokerproof.reports.sources.capture_data_source import Captures
from brokerproof.reports.sources.captures import Opening, holds_captures, local
from brokerproof.reports.spark.schema import trace_schema
from brokerproof.suites.units.drivers.captured_packets import (
    GROUND,
    Plan,
    events_of,
    renumbered,
    session,
    without,
    written,
)

FIXTURES = Path(str(files("brokerproof.fixtures"))) / "captures"


def test_a_folder_of_captures_is_a_data_frame_of_the_trace(spark: SparkSession) -> None:
    spark.dataSource.register(Captures)
    frame = spark.read.format("brokerproof.pcap").option("parts", 3).load(str(FIXTURES))
    assert frame.schema == trace_schema()
    assert frame.rdd.getNumPartitions() == 3
    rows = frame.select("kind", "target", "conn").collect()
    expected = Counter(
        type(event).__name__ for event in events_of(*sorted(FIXTURES.glob("*.pcap")))
    )
    assert Counter(row.kind for row in rows) == expected
    of = Counter((row.conn, row.target) for row in rows)
    assert len(of) == len({conn for conn, _ in of}), "a connection's number is given once"


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_every_part_has_whole_connections_in_order(tmp_path: Path, parts: int) -> None:
    segments = session(Plan()).segments
    path = written(tmp_path / "x.pcap", segments)
    opening = Opening((str(path),), parts, False)
    found, numbers = [], set()
    for part in range(parts):
        batches = list(opening.batches(part))
        assert all(batch.schema == SCHEMA for batch in batches)
        rows = [row for batch in batches for row in batch.to_pylist()]
        found += [event(row) for row in rows]
        numbers |= {row["seq"] for row in rows}
        assert {row["target"] for row in rows} <= {"10.0.0.1:61613"}
    assert len(numbers) == len(found)
    by_kind = [(type(event).__name__, event.at_ns) for event in found]
    assert sorted(by_kind) == sorted(
        (type(event).__name__, event.at_ns) for event in events_of(path)
    )


def test_spark_judges_a_capture_as_the_oracles_do(spark: SparkSession, tmp_path: Path) -> None:
    segments = session(Plan(count=6, lose=1, double=3)).segments
    (lost,) = [at for at, segment in enumerate(segments) if b"ACK\nid:4-0" in segment.data]
    path = written(tmp_path / "x.pcap", without(renumbered(segments, 2**32 - 3000), {lost}))
    judgement = find_anomalies(spark, source_of(spark, [str(tmp_path)]), GROUND)
    found = Counter((row.kind, row.uncertain) for row in judgement.anomalies.collect())
    judgement.release()
    assert found == Counter(
        (anomaly.kind, anomaly.uncertain)
        for anomaly in recorded_anomalies.find_anomalies(events_of(path), GROUND, whole=False)
    )
    assert set(found) >= {("revived", False), ("lost", True)}


def test_captures_are_told_from_recordings(tmp_path: Path) -> None:
    path = written(tmp_path / "x.cap", session(Plan(count=1)).segments)
    assert holds_captures(str(path))
    assert holds_captures(str(tmp_path))
    assert holds_captures(str(tmp_path / "*.cap"))
    (tmp_path / "part-0-00000.parquet").write_bytes(b"PAR1")
    assert not holds_captures(str(tmp_path))
    assert not holds_captures(str(tmp_path / "none"))
    with pytest.raises(UnreadableTrace, match="not a capture"):
        local([str(tmp_path / "none")])
