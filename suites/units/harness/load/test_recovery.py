"""From the tape to segments: afterwards, with several scribes, and after a scribe was killed
halfway."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from brokerproof.harness.commands.load import recover_
from brokerproof.harness.load import protocols
from brokerproof.harness.load.recovery import NotRecovered, recover, wire_logs
from brokerproof.harness.load.segment_backlog import SegmentBacklog
from brokerproof.harness.load.trace_writer import CLOSING, LogHeader, TraceWriter
from brokerproof.harness.load.wire_log import SENT, WireLog
from brokerproof.harness.oracles import recorded_anomalies
from brokerproof.harness.protocols.stomp import codec
from brokerproof.harness.trace import read
from brokerproof.harness.trace.events import ConnectionOpened
from brokerproof.harness.trace.stamp import stamp
from brokerproof.suites.units.drivers.commands import command

STOMP = protocols.NUMBERS["stomp"]
LOOKS = 300


def about(
    run: Path, *, segment_rows: int = 100_000, segment_s: int = 0, offset_ns: int = 0
) -> LogHeader:
    return LogHeader(str(run), "run", "t", "load", "4", offset_ns, segment_rows, segment_s)


def frame(number: int) -> bytes:
    return codec.encode("SEND", {"destination": "q"}, stamp(0, number))[:-1]


def rows(run: Path) -> list[dict[str, object]]:
    return [row for segment in read.segments(run, "t") for row in read.rows(segment)]


def taped(run: Path, of: LogHeader, *, files: int, each: int) -> list[Path]:
    of.write()
    written: list[Path] = []
    tape = WireLog(of.tape, written.append)
    tape.event(ConnectionOpened(at_ns=0, conn=1, protocol="STOMP", acceptor="stomp"))
    for at in range(files * each):
        tape.frames(STOMP, SENT, at, 1, [frame(at)])
        if at % each == each - 1:
            tape.hand_over(whole=True)
    tape.close()
    assert len(written) == files
    return written


def test_one_case_goes_on_over_segments_that_end_where_files_do(tmp_path: Path) -> None:
    of = about(tmp_path, segment_rows=40, offset_ns=1000)
    scribe = TraceWriter(of)
    for path in taped(tmp_path, of, files=5, each=30):
        scribe.file(path)
    scribe.close()
    assert scribe.segments == len(read.segments(tmp_path, "t")) == 3
    found = rows(tmp_path)
    assert [row["seq"] for row in found] == list(range(151)) == list(range(scribe.rows))
    assert {row["case"] for row in found} == {"load"}
    assert (found[0]["kind"], found[0]["at_ns"]) == ("ConnectionOpened", 1000)
    assert not [path for path in of.tape.iterdir() if path.name.isdecimal()]


def test_somebody_who_reads_along_has_segments_of_so_many_seconds(tmp_path: Path) -> None:
    of = about(tmp_path, segment_s=1)
    of.write()
    tape = WireLog(of.tape, (scribe := TraceWriter(of)).file, read_along=True)
    for second in range(4):
        tape.frames(STOMP, SENT, second * 10**9, 1, [frame(second)])
        tape.hand_over()
    tape.close()
    assert (scribe.segments, scribe.rows) == (2, 4)


def test_the_backlog_calls_its_scribe_when_the_load_is_over(tmp_path: Path) -> None:
    backlog = SegmentBacklog(about(tmp_path), 10**9)
    for at in range(2000):
        backlog.tape.frames(STOMP, SENT, at, 1, [frame(at)])
    backlog.tape.close()
    assert not (tmp_path / "trace").exists(), "nobody works beside the load"
    told = backlog.finish()
    assert told["events"] == len(rows(tmp_path)) == 2000
    assert told["left_octets"] == told["tape_octets"] > 100_000
    assert not (tmp_path / "tape").exists()


def test_the_backlog_calls_its_scribe_when_more_waits_than_may(tmp_path: Path) -> None:
    backlog = SegmentBacklog(about(tmp_path), 1)
    for at in range(100):
        backlog.tape.frames(STOMP, SENT, at, 1, [frame(at)])
        backlog.tape.hand_over(whole=True)
    backlog.tape.close()
    assert backlog._scribe is not None
    assert backlog.finish()["events"] == len(rows(tmp_path)) == 100


def test_a_tape_that_ends_in_the_midst_of_a_block_is_read_up_to_it(tmp_path: Path) -> None:
    first, second = taped(tmp_path, about(tmp_path), files=2, each=20)
    second.write_bytes(second.read_bytes() + first.read_bytes()[:-1])
    (tape,) = wire_logs(tmp_path)
    found = recover(tmp_path, tape)
    assert found.events == 41 + 1, "both files, and the event before the block that is torn"
    assert [row["seq"] for row in rows(tmp_path)] == list(range(42))
    assert not tape.exists()


@pytest.mark.parametrize("renamed", [True, False], ids=["behind", "before"])
def test_a_scribe_that_was_killed_loses_nothing_and_doubles_nothing(
    tmp_path: Path, renamed: bool
) -> None:
    """The scribe is killed between the two steps that end a segment: the segment's file exists, and
    so do the tape's files."""
    of = about(tmp_path)
    files = taped(tmp_path, of, files=3, each=20)
    data = files[0].read_bytes()
    scribe = TraceWriter(of)
    scribe.file(files[0])
    scribe.close()
    files[0].write_bytes(data)
    (written,) = read.segments(tmp_path, "t")
    closing = {"segment": written.name, "files": [files[0].name]}
    assert json.loads((of.tape / CLOSING).read_text()) == closing
    if not renamed:
        written.rename(written.with_name(f".{written.name}.partial"))
    recover(tmp_path, of.tape)
    found = rows(tmp_path)
    assert [row["seq"] for row in found] == list(range(61))
    assert [row["at_ns"] for row in found if row["kind"] == "FrameSent"] == list(range(60))
    assert not list((tmp_path / "trace").rglob(".*"))


def test_a_tape_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    backlog = SegmentBacklog(about(tmp_path), 10**9)
    (tape,) = wire_logs(tmp_path)
    with pytest.raises(
        NotRecovered, match="the load, or writing its segments, is still in progress"
    ):
        recover(tmp_path, tape)
    backlog.tape.close()
    backlog.finish()


def test_what_a_killed_driver_recorded_is_recovered(tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = f"--target reference-real --rate 400 --duration 10m --out {run} --seed 1"
    with subprocess.Popen(command(f"load {options}"), stderr=subprocess.PIPE) as load:
        written = run / "tape" / "0" / "00000000"
        for _ in range(LOOKS):
            if written.exists() and written.stat().st_size > 100_000:
                break
            with pytest.raises(subprocess.TimeoutExpired):
                load.wait(0.2)
        for pid in drivers(load.pid):
            os.kill(pid, signal.SIGKILL)
        _, said = load.communicate(timeout=60)
    assert load.returncode == 3, said
    assert "brokerproof load recover" in said.decode()
    done = CliRunner().invoke(
        recover_, [str(run), "--json"], standalone_mode=False, catch_exceptions=False
    )
    (told,) = json.loads(done.stdout)
    events = read.case(run, "reference-real", "load")
    assert len(events) == told["events"] > 400
    assert not (run / "tape").exists()
    assert {anomaly.kind for anomaly in recorded_anomalies.find_anomalies(events)} <= {"lost"}, (
        "what was under way was never seen to come"
    )
    again = CliRunner().invoke(recover_, [str(run)], standalone_mode=False, catch_exceptions=False)
    assert "needs no recovery" in again.stdout


def drivers(pid: int) -> list[int]:
    found = []
    for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if b"brokerproof.harness.load.worker" in Path(f"/proc/{word}/cmdline").read_bytes():
            found.append(int(word))
    return found
