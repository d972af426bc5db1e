"""ActiveMQ releases: the Java that they need, and their jars."""

import os
import stat
from pathlib import Path

import pytest

from brokerproof.harness.targets import maven, standing_brokers, target_file
from brokerproof.harness.targets.activemq import broker
from brokerproof.harness.targets.activemq.target import ActivemqTarget
from brokerproof.harness.targets.failure import SetUpFailed


def test_the_shipped_target_and_its_releases() -> None:
    target = target_file.load("activemq@5.18.3")
    assert isinstance(target, ActivemqTarget)
    assert target.identity.profile.name == "activemq"
    assert "activemq" in standing_brokers.NAMES
    assert [broker.RELEASES.java_minimum(version) for version in ("6.3.1", "5.18.3", "5.16.6")] == [
        17,
        11,
        8,
    ]
    with pytest.raises(SetUpFailed, match="ActiveMQ latest: is not a release"):
        broker.install("latest")


def _mvn(folder: Path, script: str) -> dict[str, str]:
    path = folder / "bin" / "mvn"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{path.parent}{os.pathsep}{os.environ['PATH']}"}


def test_jars_are_put_together_once(tmp_path: Path) -> None:
    count = tmp_path / "calls"
    environment = _mvn(
        tmp_path, f"echo x >> {count}; grep -q marker pom.xml && mkdir lib && touch lib/a.jar"
    )
    for _ in range(2):
        folder = maven.collect(
            "<project>marker</project>", "A", tmp_path / "cache" / "a", environment
        )
    assert [path.name for path in folder.iterdir()] == ["a.jar"]
    assert count.read_text() == "x\n"


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (
            "echo '[ERROR] no such release'; exit 1",
            "A: cannot be downloaded .mvn said: no such release",
        ),
        ("true", "A: cannot be downloaded .mvn downloaded no jar"),
    ],
)
def test_jars_that_cannot_be_had_are_one_sentence(
    tmp_path: Path, script: str, sentence: str
) -> None:
    with pytest.raises(SetUpFailed, match=sentence):
        maven.collect("<project/>", "A", tmp_path / "cache" / "a", _mvn(tmp_path, script))
    assert not (tmp_path / "cache" / "a").exists()
    with pytest.raises(SetUpFailed, match="A: cannot be assembled without mvn on the PATH"):
        maven.collect("<project/>", "A", tmp_path / "cache" / "a", {"PATH": ""})
