"""Run folders: reading them, and the messages for other folders."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from brokerproof.reports.sources.runs import UnreadableRun, check_data, open_run, open_runs
from brokerproof.suites.units.drivers.synthetic_run import full_run, header, write_header


def test_a_whole_run_is_opened(tmp_path: Path) -> None:
    run = open_run(full_run(tmp_path / "2026-11-21T12-00-00"))
    assert run.name == "2026-11-21T12-00-00"
    assert [target["name"] for target in run.targets] == ["reference", "artemis"]
    assert run.footer is not None
    assert not run.torn
    assert len(run.segments()) == 2
    assert run.cases["stomp.frames.trailing_eols"].doc == "EOLs between frames are ignored."


def test_a_run_without_a_footer_was_cut_off(tmp_path: Path) -> None:
    write_header(tmp_path, header("r", finished=False))
    assert open_run(tmp_path).footer is None


def test_runs_of_one_name_get_names_of_their_own(tmp_path: Path) -> None:
    for parent in ("a", "b", "c"):
        write_header(tmp_path / parent / "out", header("out"))
    folders = [tmp_path / parent / "out" for parent in ("a", "b", "c")]
    assert [run.name for run in open_runs(folders)] == ["out", "out (2)", "out (3)"]


def test_one_folder_twice_is_refused(tmp_path: Path) -> None:
    write_header(tmp_path, header("r"))
    with pytest.raises(UnreadableRun, match="was given twice"):
        open_runs([tmp_path, tmp_path / ".." / tmp_path.name])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "is not a run folder: it has no run.json"),
        ("{", "run.json: is not readable JSON"),
        ("[" * 100_000, "run.json: is not readable JSON"),
        ("[]", "run.json: holds a list; it must be a JSON object"),
        (
            '{"format": 1, "brokerproof": "0.1.0"}',
            "run.json: has format 1 but this version reads format 2; read it with brokerproof"
            " 0.1.0, or run again",
        ),
        ('{"format": 2}', "run.json: run is None; it should be the name of the run"),
        (
            '{"format": 2, "run": "r", "fingerprint": "other", "brokerproof": "0.0.9"}',
            "report it with brokerproof 0.0.9",
        ),
    ],
)
def test_what_is_no_run_is_refused_in_one_sentence(
    tmp_path: Path, content: str | None, sentence: str
) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(UnreadableRun, match=sentence) as refused:
        open_run(tmp_path)
    assert "\n" not in str(refused.value)


def test_strange_values_in_a_header_do_no_harm(tmp_path: Path) -> None:
    write_header(
        tmp_path, header("r") | {"targets": 7, "host": "here", "footer": "no", "command": None}
    )
    run = open_run(tmp_path)
    assert run.targets == ()
    assert run.footer is None


def test_cases_that_are_no_object_are_refused(tmp_path: Path) -> None:
    write_header(tmp_path, header("r"))
    (tmp_path / "cases.json").write_text(json.dumps({"c1": "a docstring"}))
    with pytest.raises(UnreadableRun, match=r"cases\.json: c1 holds a str"):
        open_run(tmp_path)


def test_a_segment_without_a_footer_is_named(tmp_path: Path) -> None:
    run = full_run(tmp_path / "r")
    segment = next(run.glob("trace/target=artemis/part-*.parquet"))
    segment.write_bytes(segment.read_bytes()[:-9])
    with pytest.raises(
        UnreadableRun, match=r"target=artemis/part-0-00000\.parquet: is not a readable Parquet"
    ):
        open_run(run)


def test_a_segment_of_another_table_is_named(tmp_path: Path) -> None:
    run = full_run(tmp_path / "r")
    segment = next(run.glob("trace/target=artemis/part-*.parquet"))
    pq.write_table(pa.table({"run": ["r"]}), segment)
    with pytest.raises(UnreadableRun, match="columns differ from those of this version"):
        open_run(run)


def test_damage_between_whole_ends_is_found_by_reading(tmp_path: Path) -> None:
    run = open_run(full_run(tmp_path / "r"))
    check_data([run])
    segment = run.segments()[1]
    data = bytearray(segment.read_bytes())
    data[4:2000] = bytes(1996)
    segment.write_bytes(data)
    opened = open_run(run.folder)  # its footer is intact
    with pytest.raises(
        UnreadableRun, match=r"part-0-00000\.parquet: is not a readable Parquet segment"
    ):
        check_data([opened])
