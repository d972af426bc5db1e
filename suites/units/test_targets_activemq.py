"""ActiveMQ as a target: what is read and changed of its configuration, and what is put together of its jars."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from lxml import etree

from harness.targets import activemq, activemq_config, brokers, maven, target_file
from harness.targets.activemq_target import ActivemqTarget
from harness.targets.failure import SetUpFailed

SHIPPED = activemq.our_files() / "activemq.xml"


def test_connectors_are_known_by_name_and_get_other_ports() -> None:
    ports = activemq_config.connectors(SHIPPED)
    assert ports["stomp"] == 61613
    assert ports["amqp"] == 5672
    root = etree.fromstring(activemq_config.with_ports(SHIPPED, {"stomp-grace": 1234}))
    uris = {each.get("name"): each.get("uri") for each in root.iter("{*}transportConnector")}
    assert uris["stomp-grace"] == "stomp://127.0.0.1:1234?transport.hbGracePeriodMultiplier=1.5"
    assert uris["stomp"] == "stomp://127.0.0.1:61613"
    assert activemq_config.user(SHIPPED) == ("brokerproof", "brokerproof")


CONNECTOR = '<transportConnector name="stomp" uri="stomp://127.0.0.1:61613"/>'


@pytest.mark.parametrize(
    ("connectors", "sentence"),
    [
        ("", "has no <transportConnector>"),
        (CONNECTOR * 2, "line 1: a second transportConnector is called stomp"),
        (CONNECTOR.replace(' name="stomp"', ""), "line 1: the transportConnector has no name"),
        (CONNECTOR.replace("127.0.0.1", "0.0.0.0"), "listens on 0.0.0.0; only 127.0.0.1"),
        (CONNECTOR.replace(":61613", ""), "has the uri 'stomp://127.0.0.1', not SCHEME://HOST:PORT"),
        ("<", "line 1: is no XML"),
    ],
)
def test_a_wrong_configuration_is_one_sentence(tmp_path: Path, connectors: str, sentence: str) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text(f'<beans><broker xmlns="http://activemq.apache.org/schema/core">{connectors}</broker></beans>')
    with pytest.raises(SetUpFailed, match=sentence) as caught:
        activemq_config.connectors(path)
    assert str(path) in str(caught.value)
    with pytest.raises(SetUpFailed, match=r"cannot be read; name an activemq\.xml"):
        activemq_config.connectors(tmp_path / "none.xml")


def test_the_shipped_target_and_its_releases() -> None:
    target = target_file.load("activemq@5.18.3")
    assert isinstance(target, ActivemqTarget)
    assert target.identity.profile.name == "activemq"
    assert "activemq" in brokers.NAMES
    assert [activemq.java_minimum(each) for each in ("6.3.1", "5.18.3", "5.16.6")] == [17, 11, 8]
    with pytest.raises(SetUpFailed, match="ActiveMQ latest: is no release number"):
        activemq.install("latest")


def _mvn(folder: Path, script: str) -> dict[str, str]:
    path = folder / "bin" / "mvn"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{path.parent}{os.pathsep}{os.environ['PATH']}"}


def test_jars_are_put_together_once(tmp_path: Path) -> None:
    count = tmp_path / "calls"
    environment = _mvn(tmp_path, f"echo x >> {count}; grep -q marker pom.xml && mkdir lib && touch lib/a.jar")
    for _ in range(2):
        folder = maven.collect("<project>marker</project>", "A", tmp_path / "cache" / "a", environment)
    assert [each.name for each in folder.iterdir()] == ["a.jar"]
    assert count.read_text() == "x\n"


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("echo '[ERROR] no such release'; exit 1", "A: cannot be downloaded .mvn said: no such release"),
        ("true", "A: cannot be downloaded .mvn brought no jar"),
    ],
)
def test_jars_that_cannot_be_had_are_one_sentence(tmp_path: Path, script: str, sentence: str) -> None:
    with pytest.raises(SetUpFailed, match=sentence):
        maven.collect("<project/>", "A", tmp_path / "cache" / "a", _mvn(tmp_path, script))
    assert not (tmp_path / "cache" / "a").exists()
    with pytest.raises(SetUpFailed, match="A: cannot be put together without mvn on the PATH"):
        maven.collect("<project/>", "A", tmp_path / "cache" / "a", {"PATH": ""})
