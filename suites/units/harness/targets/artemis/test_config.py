"""broker.xml as the harness reads it: acceptors, their ports, and refusals."""

from pathlib import Path

import pytest

from brokerproof.harness.targets.artemis import broker
from brokerproof.harness.targets.artemis import config as artemis_config
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.suites.units.drivers import toml_tables

TABLES = toml_tables.beside(__file__)


def config(path: Path, *acceptors: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "\n".join(acceptors)
    path.write_text(
        '<configuration xmlns="urn:activemq">\n<core xmlns="urn:activemq:core">\n<acceptors>\n'
        f"{lines}\n</acceptors>\n</core>\n</configuration>\n"
    )
    return path


def test_acceptors_are_read_and_their_ports_rewritten(tmp_path: Path) -> None:
    path = config(
        tmp_path / "broker.xml",
        '<acceptor name="a">tcp://127.0.0.1:61613?protocols=STOMP;connectionTtl=5</acceptor>',
        '<acceptor name="b">tcp://localhost:5672?connectionTtl=5;protocols=AMQP,STOMP</acceptor>',
        '<acceptor name="c">tcp://127.0.0.1:0</acceptor>',
    )
    found = artemis_config.acceptors(path)
    assert [
        (acceptor.name, acceptor.host, acceptor.port, acceptor.protocols)
        for acceptor in found.values()
    ] == [
        ("a", "127.0.0.1", 61613, ("STOMP",)),
        ("b", "localhost", 5672, ("AMQP", "STOMP")),
        ("c", "127.0.0.1", 0, ()),
    ]
    again = tmp_path / "again.xml"
    again.write_bytes(artemis_config.with_ports(path, {"a": 1, "c": 3}))
    assert [acceptor.port for acceptor in artemis_config.acceptors(again).values()] == [1, 5672, 3]
    assert "127.0.0.1:1?protocols=STOMP;connectionTtl=5" in again.read_text()


@pytest.mark.parametrize(("acceptor", "sentence"), TABLES["refused"])
def test_acceptors_that_cannot_be_used_are_refused(
    tmp_path: Path, acceptor: str, sentence: str
) -> None:
    with pytest.raises(SetUpFailed, match=sentence):
        artemis_config.acceptors(config(tmp_path / "broker.xml", acceptor))


def test_a_missing_configuration_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        SetUpFailed, match=r"none\.xml: cannot be read \(No such file .*\); name a broker"
    ):
        artemis_config.acceptors(tmp_path / "none.xml")


@pytest.mark.parametrize(
    "name", ["broker.xml", "override.xml", "history-1.xml", "history-2.xml", "history-2.21.xml"]
)
def test_our_own_files_name_loopback_acceptors_with_ports_of_their_own(name: str) -> None:
    found = artemis_config.acceptors(broker.RELEASES.our_files / name)
    assert "stomp" in found
    assert len({acceptor.port for acceptor in found.values()}) == len(found)
    spoken = {"amqp": "AMQP", "core": "CORE"}
    assert all(
        acceptor.protocols == (spoken.get(acceptor.name.split("-")[0], "STOMP"),)
        for acceptor in found.values()
    )
