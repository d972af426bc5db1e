"""Small recordings get the same judgement as from the queries for recordings of any size."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import cycle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.verdicts import Level
from brokerproof.harness.oracles.expectations import NOTHING, Expectations
from brokerproof.harness.trace.recorder import Recorder
from brokerproof.reports.assembly.recording_judgement import (
    SMALL_CAPTURE,
    SMALL_SEGMENTS,
    small_source,
)
from brokerproof.reports.judging import small_recordings
from brokerproof.reports.judging.capture_gaps import missing_in
from brokerproof.reports.judging.conclusion import conclude, conclude_small
from brokerproof.reports.judging.judge import find_anomalies
from brokerproof.reports.sources import Piece, Source, captures
from brokerproof.suites.units.drivers import (
    model_recordings,
    model_recordings_amqp091,
    model_recordings_core,
)
from brokerproof.suites.units.drivers.captured_packets import Plan, session, written
from brokerproof.suites.units.drivers.synthetic_run import full_run
from brokerproof.suites.units.reports.judging.test_segment_summary import GROUND

FIXTURES = Path(str(files("brokerproof.fixtures"))) / "captures"
PIECES = 3


def must(_: str) -> Level:
    return Level.MUST


def both_agree(
    spark: SparkSession, source: Source, ground: Expectations, *, wrong: bool = True
) -> None:
    of_any_size = find_anomalies(spark, source, ground)
    small = small_recordings.find_anomalies(source, ground)
    expected, found = conclude(of_any_size, must), conclude_small(small, must)
    assert bool(expected.wrong) is wrong
    assert list(found.wrong) == list(expected.wrong)
    assert found.groups == expected.groups
    assert found.verdict == expected.verdict

    def rows(listed: Sequence[Mapping[str, Any]]) -> list[str]:
        return sorted(str(sorted(row.items())) for row in listed)

    assert rows(found.listed) == rows(expected.listed)
    assert list(small.missing) == missing_in(of_any_size.merged)
    of_any_size.release()


def model_source() -> Source:
    """A case for each fault of each protocol's model broker, all of them cut into pieces."""
    recorder = Recorder(None, "r", "t", Clock.VIRTUAL)
    pieces: list[list[pa.RecordBatch]] = [[] for _ in range(PIECES)]
    for play in (model_recordings, model_recordings_amqp091, model_recordings_core):
        for fault in ("", *play.FAULTS) if hasattr(play, "FAULTS") else ("", "double"):
            events = play.recording(1, fault, 70)
            name = f"{play.__name__.rpartition('.')[2]}.{fault or 'none'}"
            third = len(events) // PIECES + 1
            for piece, begin in zip(cycle(pieces), range(0, len(events), third), strict=False):
                piece.append(recorder._batch(name, events[begin : begin + third]))

    def opened(piece: Piece, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in pieces[piece["place"]]:
            yield batch.select(list(columns))

    return Source([{"place": place} for place in range(PIECES)], opened)


@pytest.mark.parametrize("whole", [True, False])
def test_every_fault_of_the_models_is_judged_alike(whole: bool, spark: SparkSession) -> None:
    both_agree(spark, replace(model_source(), whole=whole), GROUND)


@pytest.mark.parametrize(
    ("plan", "snap"),
    [(Plan(lose=2, double=3), 65535), (Plan(overrun=True), 65535), (Plan(lose=2), 120)],
)
def test_captures_with_gaps_are_judged_alike(
    plan: Plan, snap: int, tmp_path: Path, spark: SparkSession
) -> None:
    path = written(tmp_path / "x.pcap", session(plan).segments, snap=snap)
    source = captures.local([str(path)])
    both_agree(spark, source, GROUND, wrong=snap == 65535)


def test_the_captures_of_four_clients_are_judged_alike(spark: SparkSession) -> None:
    both_agree(spark, captures.local([str(FIXTURES)]), NOTHING, wrong=False)


def grown(path: Path, size: int) -> Path:
    with path.open("ab") as file:
        file.truncate(size + 1)
    return path


@pytest.mark.parametrize("as_capture", [True, False])
def test_what_is_large_or_elsewhere_is_not_small(as_capture: bool, tmp_path: Path) -> None:
    if as_capture:
        path, most = written(tmp_path / "x.pcap", session(Plan()).segments), SMALL_CAPTURE
    else:
        path, most = next(full_run(tmp_path / "r").glob("trace/*/part-*.parquet")), SMALL_SEGMENTS
    assert small_source([str(path)]) is not None
    assert small_source([str(grown(path, most))]) is None
    assert small_source(["hdfs://there/trace"]) is None
