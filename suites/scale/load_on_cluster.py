"""A load whose drivers are tasks on a real standalone Spark cluster of two workers on this machine;
see ``tox -e cluster``."""

import json
from pathlib import Path

from click.testing import CliRunner

from brokerproof.harness.commands.load import load
from brokerproof.harness.oracles import recorded_anomalies
from brokerproof.harness.trace import read
from brokerproof.reports.soak.command import soak
from brokerproof.suites.scale.cluster import WORKERS, master  # noqa: F401  (a fixture)


def test_two_executors_drive_one_load(master: str, tmp_path: Path) -> None:  # noqa: F811
    folder = tmp_path / "run"
    options = [
        "--target",
        "reference-real",
        "--master",
        master,
        "--drivers",
        str(WORKERS),
        "--messages",
        "500",
    ]
    done = CliRunner().invoke(
        load,
        [*options, "--out", str(folder), "--json"],
        standalone_mode=False,
        catch_exceptions=False,
    )
    report = json.loads(done.stdout)
    assert report["sent"] == report["confirmed"] == report["received"] == 500
    assert {segment.name.split("-")[1] for segment in read.segments(folder, "reference-real")} == {
        "0",
        "1",
    }
    events = sorted(read.case(folder, "reference-real", "load"), key=lambda event: event.at_ns)
    assert not recorded_anomalies.find_anomalies(events)
    clocks = json.loads((folder / "run.json").read_text())["load"]["clocks"]
    assert len(clocks) == WORKERS
    assert all(clock["uncertainty_ns"] > 0 for clock in clocks)


def test_the_cluster_that_drives_a_soak_judges_it_meanwhile(master: str, tmp_path: Path) -> None:  # noqa: F811
    """One of the two cores drives, and the other one judges."""
    options = [
        "--target",
        "reference-real",
        "--master",
        master,
        "--drivers",
        "1",
        "--rate",
        "200",
        "--for",
        "20s",
    ]
    done = CliRunner().invoke(
        soak,
        [*options, "--out", str(tmp_path / "run"), "--json"],
        standalone_mode=False,
        catch_exceptions=False,
    )
    report = json.loads(done.stdout)
    assert done.return_value == 0
    assert report["sent"] == report["received"] > 3000
    assert report["judged"]["verdict"] == "PASS"
    assert report["judges"]["segments"] >= 3, "judged while it lasted"
    assert report["judges"]["longest_batch_s"] > 0
