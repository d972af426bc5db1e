"""Stored captures of real sessions: they are read and judged like the live recordings."""

import json
from importlib.resources import files
from pathlib import Path

import pytest

from brokerproof.harness.catalogue import profiles
from brokerproof.harness.oracles.expectations import NOTHING, expectations_of
from brokerproof.suites.scale.tcpdump import events, told

FOLDER = Path(str(files("brokerproof.fixtures"))) / "captures"
CAPTURES = sorted(FOLDER.glob("*.pcap"))


def test_there_are_captures() -> None:
    assert len(CAPTURES) >= 4


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_a_capture_tells_what_was_recorded_live(path: Path) -> None:
    live = json.loads(path.with_suffix(".json").read_text("utf-8"))
    named = live["profile"]
    against = expectations_of(named, profiles.load(named).parameters) if named else NOTHING
    assert told(events(path), against) == live
    assert live["frames"], "frames crossed the wire"
