"""Ten million events contain one lost message, one duplicate, one out of order, one that exceeds a
window by one byte, and one early close. The judges find each and name its witness. See ``tox -e
judge-scale``; it needs 300 MB of disk and some minutes."""

import os
from pathlib import Path

import numpy as np
import pytest

from brokerproof.harness.catalogue.profiles import load
from brokerproof.harness.catalogue.requirements import load as requirements
from brokerproof.harness.oracles.expectations import expectations_of
from brokerproof.reports.judging.conclusion import conclude
from brokerproof.reports.judging.judge import find_anomalies
from brokerproof.reports.model.requirements import Requirements
from brokerproof.reports.sources.segments import local
from brokerproof.reports.spark.session import session
from brokerproof.suites.scale.load_trace import (
    MESSAGE_AFTER,
    PRODUCERS,
    SILENT,
    Anomalies,
    consumer_of,
    write,
)

EVENTS = int(float(os.environ.get("BROKERPROOF_SCALE_EVENTS", "1e7")))


@pytest.fixture(scope="module")
def messages() -> int:
    return EVENTS // 4


def test_each_anomaly_is_found_once_and_named_with_its_witness(
    tmp_path: Path, messages: int
) -> None:
    put_in = Anomalies.all(messages)
    write(tmp_path, EVENTS, put_in)
    with session("local[2]", heap="4g", brief=True) as spark:
        judgement = find_anomalies(
            spark, local([str(tmp_path)], 2), expectations_of("artemis", load("artemis").parameters)
        )
        conclusion = conclude(judgement, Requirements(requirements().values()).level)
    step = 60 * 10**9 // messages
    by_kind = {row["kind"]: row for row in conclusion.listed}
    assert {anomaly.kind: anomaly.count for anomaly in conclusion.wrong} == dict.fromkeys(
        by_kind, 1
    )
    assert sorted(by_kind) == ["closed early", "disordered", "lost", "overrun", "shared"]

    def named(message: int) -> str:
        return f"message {message // PRODUCERS} of producer {message % PRODUCERS} "

    def at(kind: str) -> list[int]:
        return [row["at_ns"] for row in by_kind[kind]["witness"]]

    assert by_kind["lost"]["what"].startswith(named(put_in.lost))
    assert at("lost") == [put_in.lost * step]
    assert by_kind["shared"]["what"].startswith(named(put_in.doubled))
    delivered = (put_in.doubled + MESSAGE_AFTER) * step
    assert at("shared") == [delivered, delivered + 1]
    assert by_kind["disordered"]["what"].startswith(named(put_in.late))
    assert "of 16384 bytes were held" in by_kind["overrun"]["what"]
    assert by_kind["overrun"]["conn"] == 1 + PRODUCERS + int(
        consumer_of(np.array([put_in.filling]))[0]
    )
    assert by_kind["closed early"]["conn"] == 1 + PRODUCERS + 32 + SILENT // 2
