"""A load whose drivers are tasks on a real standalone Spark cluster of two workers on this machine; see ``tox -e cluster``."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from harness.commands.load import load
from harness.oracles import recording
from harness.trace import read
from suites.scale.cluster import WORKERS, master  # noqa: F401  (a fixture)


def test_two_executors_drive_one_load(master: str, tmp_path: Path) -> None:  # noqa: F811
    folder = tmp_path / "run"
    options = ["--target", "reference-real", "--master", master, "--drivers", str(WORKERS), "--messages", "500"]
    done = CliRunner().invoke(
        load, [*options, "--out", str(folder), "--json"], standalone_mode=False, catch_exceptions=False
    )
    told = json.loads(done.stdout)
    assert told["sent"] == told["confirmed"] == told["received"] == 500
    assert {each.name.split("-")[1] for each in read.segments(folder, "reference-real")} == {"0", "1"}
    events = sorted(read.case(folder, "reference-real", "load"), key=lambda event: event.at_ns)
    assert not recording.judge(events)
    clocks = json.loads((folder / "run.json").read_text())["load"]["clocks"]
    assert len(clocks) == WORKERS
    assert all(each["uncertainty_ns"] > 0 for each in clocks)
