"""The process that writes a run's report waits until it is asked to."""

import sys
from pathlib import Path

import click
import pytest

from brokerproof.harness.commands import report_process
from brokerproof.harness.commands.report_process import ReportProcess

WAITING = """
import sys
from pathlib import Path
Path(sys.argv[1]).touch()
asked = sys.stdin.readline()
print("a step", file=sys.stderr, flush=True)
Path(sys.argv[1]).write_text("asked" if asked else "not asked")
sys.exit(int(sys.argv[2]))
"""


def waiting(marker: Path, code: int = 0) -> ReportProcess:
    """Return a process that writes the request into ``marker`` and ends with this exit code."""
    return ReportProcess([sys.executable, "-c", WAITING, str(marker), str(code)])


def test_a_report_is_written_when_it_is_asked_for_and_its_steps_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with waiting(tmp_path / "marker") as report:
        report.start()
        report.start()  # a second time has no effect
        report.write()
    assert (tmp_path / "marker").read_text() == "asked"
    assert capsys.readouterr() == ("", "a step\n")


def test_a_report_that_was_not_started_early_is_written_too(tmp_path: Path) -> None:
    with waiting(tmp_path / "marker") as report:
        report.write()
    assert (tmp_path / "marker").read_text() == "asked"


def test_the_exit_code_of_a_failed_report_is_that_of_the_run(tmp_path: Path) -> None:
    with waiting(tmp_path / "marker", 3) as report, pytest.raises(click.exceptions.Exit) as raised:
        report.write()
    assert raised.value.exit_code == 3


def test_a_process_that_ends_early_is_no_broken_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with ReportProcess([sys.executable, "-c", "import sys; sys.exit('no report')"]) as report:
        report.start()
        assert report._process is not None
        report._process.wait()
        with pytest.raises(click.exceptions.Exit) as raised:
            report.write()
    assert raised.value.exit_code == 1
    assert capsys.readouterr().err == "no report\n"


def test_no_process_outlives_a_run_that_ends_without_a_report(tmp_path: Path) -> None:
    with waiting(tmp_path / "marker") as report:
        report.start()
        process = report._process
        assert process is not None
    assert process.returncode is not None
    assert not (tmp_path / "marker").exists() or (tmp_path / "marker").read_text() == ""


def test_without_a_part_that_writes_reports_nothing_is_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = report_process.command(tmp_path, quiet=True)
    assert command is not None
    assert command[-5:] == [str(tmp_path), "--out", str(tmp_path / "report"), "--early", "--quiet"]
    monkeypatch.setattr(report_process, "entry_points", lambda **_: ())
    assert report_process.command(tmp_path, quiet=True) is None
    with ReportProcess(None) as report:
        report.start()
        report.write()
