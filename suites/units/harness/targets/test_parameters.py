"""Protocols of acceptors, as the harness reads them from a configuration, and their defaults."""

from pathlib import Path

import pytest

from brokerproof.harness.targets import parameters, target_file
from brokerproof.harness.targets.sockets import SocketTarget

CONFIG = (
    '<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><acceptors>\n<acceptor'
    ' name="stomp">tcp://127.0.0.1:1?protocols=STOMP</acceptor>\n<acceptor'
    ' name="both">tcp://127.0.0.1:2?protocols=AMQP,'
    " STOMP;amqpCredits=7;amqpLowCredits=2</acceptor>\n<acceptor"
    ' name="amqp">tcp://127.0.0.1:3?amqpIdleTimeout=0;protocols=AMQP;maxFrameSize=1024</acceptor>\n<acceptor'
    ' name="any">tcp://127.0.0.1:4</acceptor>\n</acceptors></core></configuration>'
)


@pytest.mark.parametrize(
    ("protocol", "names"),
    [("STOMP", ["any", "both", "stomp"]), ("AMQP", ["amqp", "any", "both"]), ("CORE", ["any"])],
)
def test_acceptors_are_chosen_by_what_they_speak(
    tmp_path: Path, protocol: str, names: list[str]
) -> None:
    path = tmp_path / "broker.xml"
    path.write_text(CONFIG)
    known = parameters.from_broker_xml(path, {})
    assert sorted(parameters.speaking(known, protocol)) == names


def test_amqp_parameters_of_an_acceptor_are_read(tmp_path: Path) -> None:
    path = tmp_path / "broker.xml"
    path.write_text(CONFIG)
    known = parameters.from_broker_xml(path, {"amqp_credits": 1})
    assert known["both"]["amqp_credits"] == 7
    assert known["both"]["amqp_low_credits"] == 2
    assert known["amqp"]["amqp_credits"] == 1
    assert known["amqp"]["amqp_idle_timeout_ms"] == 0
    assert known["amqp"]["amqp_max_frame_size"] == 1024


def test_without_a_configuration_the_name_says_what_is_spoken() -> None:
    target = SocketTarget(target_file.load("stomp://127.0.0.1:1").identity)
    target.endpoints = {"stomp": ("127.0.0.1", 1), "amqp": ("127.0.0.1", 2)}
    assert list(parameters.speaking(target.acceptors(), "AMQP")) == ["amqp"]
    assert list(parameters.speaking(target.acceptors(), "STOMP")) == ["stomp"]
