"""A Java broker that is only judged gets the fast compiler; one under load the optimising
compiler."""

from pathlib import Path

import pytest

from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.java_broker import BRIEF, JavaBroker
from brokerproof.harness.targets.managed_broker import RunningBroker
from brokerproof.harness.targets.sockets import SocketTarget


@pytest.mark.parametrize("name", ["artemis", "activemq"])
@pytest.mark.parametrize("brief", [False, True])
def test_only_a_brief_broker_is_compiled_quickly(
    name: str, brief: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str | Path]] = []

    def start(broker: JavaBroker) -> RunningBroker:
        monkeypatch.setattr(broker, "_absent", [], raising=False)  # nothing was installed
        commands.append(broker._command(Path("java"), tmp_path))
        raise SetUpFailed("it is not started")

    monkeypatch.setattr(JavaBroker, "start", start)
    target = target_file.load(name)
    assert isinstance(target, SocketTarget)
    target.brief = brief
    with pytest.raises(SetUpFailed):
        target.start(tmp_path)
    ((java, *options),) = commands
    assert java == Path("java")
    assert (BRIEF in options) is brief
