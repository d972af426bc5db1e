"""The recordings that benchmarks create: independent segments, written once."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from brokerproof.suites.scale import load_trace
from brokerproof.suites.scale.load_trace import Anomalies, write


def sequence(folder: Path) -> list[int]:
    parts = sorted(folder.glob("part-*.parquet"))
    return [number for part in parts for number in pq.read_table(part)["seq"].to_pylist()]


@pytest.mark.parametrize("segment", [1_000, 4_000, 100_000])
def test_events_of_all_segments_are_numbered_without_gaps(
    segment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_trace, "SEGMENT", segment)
    total = write(tmp_path, 12_000, Anomalies.all(3_000))
    assert sequence(tmp_path) == list(range(total))


def test_two_processes_write_what_one_writes(tmp_path: Path) -> None:
    events = [
        write(tmp_path / f"{processes}", 12_000, Anomalies.all(3_000), processes=processes)
        for processes in (1, 2)
    ]
    assert events[0] == events[1]
    parts = sorted((tmp_path / "1").iterdir())
    assert len(parts) == 3
    for part in parts:
        assert pq.read_table(part).equals(pq.read_table(tmp_path / "2" / part.name))


def test_an_interrupted_call_is_finished_by_the_next(tmp_path: Path) -> None:
    total = write(tmp_path, 12_000)
    before = {part: part.stat().st_mtime_ns for part in tmp_path.iterdir()}
    gone = tmp_path / "part-0-00001.parquet"
    gone.unlink()
    assert write(tmp_path, 12_000) == total
    assert sequence(tmp_path) == list(range(total))
    after = {part: part.stat().st_mtime_ns for part in tmp_path.iterdir()}
    assert {part for part in before if before[part] != after[part]} == {gone}
