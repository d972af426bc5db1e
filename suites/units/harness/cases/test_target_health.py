"""The sentence about a target that serves one protocol no longer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerproof.harness.cases.plain_message_probe import Fault, PlainMessageProbe, ProbeFailure
from brokerproof.harness.cases.target_health import TargetHealth
from brokerproof.harness.targets import target_file
from brokerproof.harness.worlds.bounds import RunStopped


@pytest.fixture
def health(tmp_path: Path) -> Iterator[TargetHealth]:
    target = target_file.load("reference")
    target.start(tmp_path)
    yield TargetHealth(target, 7)
    target.stop()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault.SILENT, "stopped answering AMQP 1.0 and still answers STOMP"),
        (Fault.FLOODS, "floods its clients over AMQP 1.0 and answers STOMP"),
    ],
)
def test_a_protocol_that_is_not_answered_any_more_is_named(
    fault: Fault, words: str, health: TargetHealth, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failure(probe: object, name: str, *, login_only: bool = False) -> ProbeFailure | None:
        if name == "stomp":
            return None
        return ProbeFailure(name, fault, "begin was not answered in 10 s")

    monkeypatch.setattr(PlainMessageProbe, "failure", failure)
    with pytest.raises(RunStopped) as stopped:
        health.examine("amqp10.sessions.a_case", "nothing arrived")
    assert str(stopped.value) == (
        f"reference {words}: 3 of 3 plain messages failed, the last one over AMQP 1.0: begin was"
        " not answered in 10 s; noticed in case amqp10.sessions.a_case: nothing arrived"
    )


def test_a_target_that_answers_no_protocol_is_named_as_a_whole(
    health: TargetHealth, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = ProbeFailure("stomp", Fault.SILENT, "CONNECT was not answered in 10 s")
    monkeypatch.setattr(PlainMessageProbe, "failure", lambda probe, name, **options: silent)
    with pytest.raises(RunStopped, match=r"^reference is silent: 3 of 3 plain messages failed, "):
        health.examine("stomp.ack.a_case", "nothing arrived")
