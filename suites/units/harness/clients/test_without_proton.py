"""Without python-qpid-proton its cases are skipped, and the reason says how to install it."""

import json
from pathlib import Path

import pytest

from brokerproof.suites.units.drivers.light_python import Light


@pytest.mark.parametrize(
    ("target", "case"),
    [("reference", "proton_connects_and_closes"), ("reference-real", "proton_sockets")],
)
def test_cases_of_proton_are_skipped(light: Light, tmp_path: Path, target: str, case: str) -> None:
    run = tmp_path / "run"
    ran = light("run", "--target", target, "--case", case, "--no-report", "--out", run)
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in (run / "results.ndjson").read_text().splitlines()]
    assert lines
    for line in lines:
        assert line["verdict"] == "SKIP"
        assert "proton is not installed: pip install 'brokerproof[proton]'" in line["detail"]
