"""The judges on Spark: a recording in segments, judged piece by piece, gives the oracles' results
with the same witnesses."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from brokerproof.harness.model.enums import Clock
from brokerproof.harness.oracles import connection_lifetimes, recorded_anomalies
from brokerproof.harness.oracles.expectations import Expectations
from brokerproof.harness.trace import events as ev
from brokerproof.harness.trace import read
from brokerproof.harness.trace.recorder import Recorder
from brokerproof.reports import judge_command
from brokerproof.reports.assembly import recording_judgement
from brokerproof.reports.judging import recheck
from brokerproof.reports.judging.amqp import connection_anomalies
from brokerproof.reports.judging.judge import find_anomalies
from brokerproof.reports.sources import Piece
from brokerproof.reports.sources.segments import elsewhere, local, read_files
from brokerproof.reports.spark import session as spark_session
from brokerproof.suites.scale.load_trace import Anomalies, write
from brokerproof.suites.units.drivers import model_recordings_amqp091, model_recordings_core
from brokerproof.suites.units.drivers.model_recordings import FAULTS
from brokerproof.suites.units.drivers.model_recordings import recording as played

GROUND = Expectations("artemis", {"consumer-window-size": "octets"}, 10_240, 2.0, 2000, queues=True)
READ_WHOLLY = ("AMQP091", "CORE")
Found = list[tuple[str, str, str, int, tuple[tuple[int, int], ...], bool]]


def record(folder: Path, recordings: Sequence[list[ev.Event]]) -> None:
    """Record a case for each recording, in three segments that each have a third of every case."""
    recorder = Recorder(folder, "r", "t", Clock.VIRTUAL)
    batches = [recorder._batch(f"c{number}", events) for number, events in enumerate(recordings)]
    for third in range(3):
        edges = [(len(batch) * third // 3, len(batch) * (third + 1) // 3) for batch in batches]
        recorder._batches = [
            batch.slice(low, high - low) for batch, (low, high) in zip(batches, edges, strict=True)
        ]
        recorder._rows = 1
        recorder.flush()


def by_oracles(events: list[ev.Event], case: str) -> Found:
    wrong = recorded_anomalies.find_anomalies(events, GROUND)
    found = [
        (case, anomaly.kind, anomaly.queue, anomaly.conn, anomaly.witness, anomaly.uncertain)
        for anomaly in wrong
    ]
    for life in connection_lifetimes.lifetimes(events).values():
        alone = [*connection_lifetimes.find_anomalies(life, GROUND)]
        if any(getattr(event, "protocol", "") in READ_WHOLLY for event in events):
            own = [event for event in events if event.conn == life.conn]
            alone += [wrong for wrong, _ in connection_anomalies(own, life.conn)]
        found += [
            (
                case,
                anomaly.kind,
                "",
                anomaly.conn,
                tuple((at, -1) for at, _ in anomaly.witness),
                anomaly.uncertain,
            )
            for anomaly in alone
        ]
    return sorted(found)


def by_spark(spark: SparkSession, folder: Path) -> Found:
    judgement = find_anomalies(spark, local([str(folder)], parallel=2), GROUND)
    rows = judgement.anomalies.collect()
    judgement.release()
    return sorted(
        (
            row.case,
            row.kind,
            row.queue,
            row.conn,
            tuple((event.at_ns, -1 if event.seq is None else event.seq) for event in row.witness),
            row.uncertain,
        )
        for row in rows
    )


@pytest.mark.parametrize("few", [True, False], ids=["in process", "on Spark"])
def test_what_the_oracles_find_is_found_with_the_same_witnesses(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: bool
) -> None:
    monkeypatch.setattr(recheck, "MOST_IN_PROCESS", recheck.MOST_IN_PROCESS if few else 0)
    recordings = [played(seed, fault, 120) for seed, fault in enumerate(FAULTS)]
    recordings += [
        model_recordings_amqp091.recording(seed, fault, 90)
        for seed, fault in enumerate(model_recordings_amqp091.FAULTS)
    ]
    recordings += [
        model_recordings_core.recording(seed, fault, 90)
        for seed, fault in enumerate(["lose", "overtake", "mark"])
    ]
    recordings = recordings if few else recordings[1::2]
    record(tmp_path, recordings)
    expected = sorted(
        oracle
        for number, events in enumerate(recordings)
        for oracle in by_oracles(events, f"c{number}")
    )
    assert len({kind for _, kind, *_ in expected}) >= (11 if few else 9)
    assert by_spark(spark, tmp_path) == expected


@pytest.mark.parametrize("few", [True, False], ids=["in process", "on Spark"])
def test_a_recheck_reads_the_recording_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: bool
) -> None:
    monkeypatch.setattr(recheck, "MOST_IN_PROCESS", recheck.MOST_IN_PROCESS if few else 0)
    opened = tmp_path / "opened"
    opened.mkdir()

    def counted(piece: Piece, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        (opened / uuid4().hex).touch()
        yield from read_files(piece, columns)

    write(tmp_path / "trace", 12_000, Anomalies(lost=600))
    source = replace(local([str(tmp_path / "trace")], parallel=2), open=counted)
    judgement = find_anomalies(spark, source, GROUND)
    assert [row.kind for row in judgement.anomalies.collect()] == ["lost"]
    judgement.release()
    assert len(list(opened.iterdir())) == 2 * len(source.pieces), "summarised, and rechecked"


@pytest.mark.parametrize("small", [True, False])
def test_five_anomalies_among_many_events_are_found_by_the_command(
    small: bool, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 12_000, Anomalies.all(3_000))
    started = []

    @contextmanager
    def shared(*_: object, **__: object) -> Iterator[SparkSession]:
        started.append("session")
        yield spark

    monkeypatch.setattr(spark_session, "session", shared)
    if not small:
        monkeypatch.setattr(recording_judgement, "SMALL_SEGMENTS", 0)
    told = CliRunner().invoke(
        judge_command.judge,
        [str(tmp_path), "--profile", "artemis", "--json"],
        standalone_mode=False,
    )
    assert told.exit_code == 0
    assert told.return_value == 1
    assert started == ([] if small else ["session"])
    found = json.loads(told.stdout)
    expected = {"closed early": 1, "disordered": 1, "lost": 1, "overrun": 1, "shared": 1}
    assert {row["kind"]: row["count"] for row in found["wrong"]} == expected
    assert found["verdict"] == "FAIL"
    named = {row["kind"]: row for row in found["irregularities"]}
    lost = [read.event(row) for path in sorted(tmp_path.iterdir()) for row in read.rows(path)][
        named["lost"]["witness"][0]["seq"]
    ]
    assert isinstance(lost, ev.FrameSent)
    assert lost.body.endswith(b"%012d;" % (600 // 64))
    assert "message 9 of producer 24" in named["lost"]["what"]


def test_a_folder_that_spark_reads_by_a_uri_is_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path / "x", 4_000)
    source = elsewhere(spark, [(tmp_path / "x").as_uri()])
    counts = source.events(spark).groupBy("kind").count().collect()
    assert sum(row["count"] for row in counts) == sum(
        len(list(read.rows(path))) for path in sorted((tmp_path / "x").iterdir())
    )


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nothing", "contains no segments"),
        ("other.parquet", "is not a readable Parquet segment"),
        ("notes.txt", r"is neither a segment .* nor a capture"),
    ],
)
def test_what_is_no_trace_is_refused_in_a_sentence(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "other.parquet").write_bytes(b"PAR1 no")
    (tmp_path / "notes.txt").write_text("what I saw")
    told = CliRunner().invoke(judge_command.judge, [], standalone_mode=False)
    assert "name at least one trace" in str(told.exception)
    with pytest.raises(read.UnreadableTrace, match=says):
        local([str(tmp_path / name)])
