"""A run continues when a broker that died serves again."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from brokerproof.harness.cases.execution import Run
from brokerproof.harness.session.broker_deaths import BrokerDeaths
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.worlds.bounds import BrokerDied


def test_cases_use_new_names_once_a_broker_that_died_serves_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = target_file.load("reference-real")
    assert isinstance(target, SocketTarget)
    target.identity = replace(target.identity, kind="address")
    monkeypatch.setattr(target, "watch_again", lambda: None)
    health = SimpleNamespace(in_fork=lambda label: SimpleNamespace(serves=True))
    run = cast(Run, SimpleNamespace(target=target, health=health))
    deaths = BrokerDeaths(run, "", tmp_path, lambda result: None)
    tags = [target.identity.tag]
    for _ in range(2):
        assert not deaths.explain(BrokerDied("it is gone"), [])
        tags.append(target.identity.tag)
    assert len({*tags}) == 3, tags
