"""Brokers without a fixture, judged by HOST:PORT: coilmq, Vert.x STOMP, go-stomp, HornetQ.

``strangers.toml`` lists the requirements that each of them breaks. Each violation was examined
(``docs/explanation/strangers.md``), so a difference is a fault of brokerproof or due to another
release. These tests need the package coilmq, Maven, a JDK and Go, so they are not collected by
default: name the file, or run ``tox -e strangers``.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from brokerproof.harness.catalogue import tables
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import records
from brokerproof.harness.targets import strangers

RELEASES = {"coilmq": "1.1.0", "go-stomp": "3.1.3", "vertx": "4.5.10", "hornetq": "2.4.7.Final"}
# go-stomp's server never confirms a SUBSCRIBE, so most cases would wait in vain
CHOSEN = {"go-stomp": ("--case", "a_send_without_a_destination")}
KEPT, _ = tables.read(Path(__file__).with_name("strangers.toml"))
DIALECTS, ACCUSED = KEPT["dialects"], KEPT["accused"]


@pytest.mark.parametrize("name", DIALECTS)
def test_a_broker_is_judged_by_its_address_alone(name: str, tmp_path: Path) -> None:
    out, target = tmp_path / "run", f"{strangers.WORD}{name}@{RELEASES[name]}"
    with strangers.options_for(target, tmp_path / "broker.log") as options:
        words = (*options, *CHOSEN.get(name, ()), "--effort", "smoke", "--seed", "3")
        cli = [sys.executable, "-m", "brokerproof.harness.commands.cli", "run", *words]
        ran = subprocess.run([*cli, "--no-report", "--out", str(out)], check=False)
    assert ran.returncode == 1
    header = json.loads((out / "run.json").read_text("utf-8"))
    assert header["targets"][0]["dialect"] == DIALECTS[name]
    results = list(records.read(out))
    assert not [result.case for result in results if result.verdict is Verdict.ERROR]
    accused = {
        finding.requirement
        for result in results
        for finding in result.findings
        if finding.verdict is Verdict.FAIL
    }
    assert accused ^ set(ACCUSED[name]) <= set(KEPT["sometimes"].get(name, ()))
